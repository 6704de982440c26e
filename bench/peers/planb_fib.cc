/*
 * PlanB's longest-prefix match for IPv6 (NSDI 2026), by its free implementation planb-lpm, measured as
 * `wattline bench fib --peer` measures ours.
 *
 * Usage and answers are those of dpdk_fib.c. It knows IPv6 alone, of which it sees the first 64 bits, and the
 * variant that it was compiled for, avx512.
 */
#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <endian.h>
#include <lpm6.hpp>
#include <string>
#include <vector>

constexpr size_t BULK = 32;

static double cpu_seconds()
{
	timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

static FILE *open_in(const std::string &directory, const std::string &name)
{
	FILE *file = fopen((directory + "/" + name).c_str(), "r");

	if (!file) {
		fprintf(stderr, "planb-fib: cannot open %s/%s\n", directory.c_str(), name.c_str());
		exit(1);
	}
	return file;
}

static uint64_t upper_half(const uint8_t *bytes)
{
	uint64_t half;

	memcpy(&half, bytes, sizeof(half));
	return be64toh(half);
}

int main(int argc, char **argv)
{
	char address[64], line[128], family[16], kind[32], variant[16];
	std::vector<lpm6::Entry> entries;
	unsigned int length, next_hop;
	size_t refused = 0;
	lpm6::Tree tree;

	if (argc != 2)
		return 2;
	setvbuf(stdout, nullptr, _IOLBF, 0);
	FILE *routes = open_in(argv[1], "ipv6.routes");
	while (fscanf(routes, " %63[^/]/%u %u", address, &length, &next_hop) == 3) {
		uint8_t bytes[16];

		if (length > 64 || inet_pton(AF_INET6, address, bytes) != 1)
			refused++;
		else
			entries.push_back({ upper_half(bytes), (int)length, (int)next_hop });
	}
	fclose(routes);
	double start = cpu_seconds();
	tree.build(entries);
	printf("{\"name\":\"PlanB\",\"ipv4\":{\"prefixes\":0,\"refused\":0,\"build_seconds\":0},"
	       "\"ipv6\":{\"prefixes\":%zu,\"refused\":%zu,\"build_seconds\":%.6f}}\n",
	       entries.size(), refused, cpu_seconds() - start);

	while (fgets(line, sizeof(line), stdin)) {
		std::vector<uint64_t> addresses;
		uint64_t checksum = 0;
		int next_hops[BULK];
		uint8_t bytes[16];

		if (sscanf(line, "%15s %31s %15s", family, kind, variant) != 3)
			return 1;
		if (strcmp(family, "ipv6") || strcmp(variant, "avx512") || !LPM6_HAS_AVX512) {
			puts("{\"available\":false}");
			continue;
		}
		FILE *file = open_in(argv[1], std::string("ipv6-") + kind + ".addresses");
		while (fread(bytes, sizeof(bytes), 1, file) == 1)
			addresses.push_back(upper_half(bytes));
		fclose(file);
		addresses.resize(addresses.size() / BULK * BULK);

		/* Untimed: it proves that both programs find the same, and warms the caches. */
		for (size_t i = 0; i < addresses.size(); i += BULK) {
			tree.lookup_batch<BULK>(&addresses[i], next_hops);
			for (int found : next_hops)
				checksum += found;
		}
		start = cpu_seconds();
		for (size_t i = 0; i < addresses.size(); i += BULK) {
			tree.lookup_batch<BULK>(&addresses[i], next_hops);
			__asm__ volatile("" : : "r"(next_hops) : "memory");
		}
		printf("{\"available\":true,\"lookups\":%zu,\"seconds\":%.9f,\"checksum\":%lu}\n",
		       addresses.size(), cpu_seconds() - start, checksum);
	}
}
