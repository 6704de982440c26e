/*
 * DPDK's longest-prefix match, measured as `wattline bench fib --peer` measures ours.
 *
 * Usage: dpdk-fib DIRECTORY. The directory holds, as `wattline bench fib` writes them,
 *   ipv4.routes, ipv6.routes            a line per prefix: ADDRESS/LENGTH NEXT-HOP
 *   ipv4-*.addresses, ipv6-*.addresses  4 bytes each in host order, 16 in network order
 * Then each line of standard input, "FAMILY ADDRESSES VARIANT" (ipv4 random scalar), is
 * answered by a line of JSON. So the caller decides what runs when, and can interleave.
 *
 * Lookups are by rte_fib_lookup_bulk and rte_fib6_lookup_bulk, 32 addresses at a time.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_log.h>
#include <rte_memory.h>

#define BULK 32
#define IPV4_MAX_ROUTES 2000000
#define IPV4_TBL8 32767 /* as many as an entry of two bytes can number */
#define IPV6_MAX_ROUTES 1000000
#define IPV6_TBL8 400000 /* its accounting reserves far more groups than it fills */

static struct rte_fib *fib4;
static struct rte_fib6 *fib6;

static void fail(const char *what, const char *which)
{
	fprintf(stderr, "dpdk-fib: %s: %s\n", what, which);
	exit(1);
}

static double cpu_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

/* The same huge pages as our tables have: EAL without hugetlbfs would use small ones. */
static int advise_huge(const struct rte_memseg_list *list, const struct rte_memseg *segment,
		       void *unused)
{
	(void)list;
	(void)unused;
	madvise(segment->addr, segment->len, MADV_HUGEPAGE);
	return 0;
}

/* EAL on one core that may run on any of those given to this process. */
static void start_eal(char *program)
{
	char prefix[48], cores[16 + CPU_SETSIZE * 5] = "--lcores=0@(";
	const char *separator = "";
	cpu_set_t allowed;

	snprintf(prefix, sizeof(prefix), "--file-prefix=dpdk-fib-%d", (int)getpid());
	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		fail("sched_getaffinity", "failed");
	for (int core = 0; core < CPU_SETSIZE; core++)
		if (CPU_ISSET(core, &allowed)) {
			sprintf(cores + strlen(cores), "%s%d", separator, core);
			separator = ",";
		}
	strcat(cores, ")");

	/* DPDK leaves AVX-512 alone unless it is told, also where the processor has it. */
	char *arguments[] = { program, "--no-huge", "--no-pci", "--no-telemetry", "--no-shconf",
			      "--force-max-simd-bitwidth=512", "--log-level=error", "-m", "2048",
			      prefix, cores };
	int count = sizeof(arguments) / sizeof(*arguments);

	if (rte_eal_init(count, arguments) < 0)
		fail("rte_eal_init", rte_strerror(rte_errno));
	rte_memseg_walk(advise_huge, NULL);
}

static FILE *open_in(const char *directory, const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	FILE *file = fopen(path, "r");
	if (!file)
		fail("cannot open", path);
	return file;
}

/* Adds the prefixes of a file; says how long that took and how many were refused. */
static void load(const char *directory, int ipv6)
{
	FILE *file = open_in(directory, ipv6 ? "ipv6.routes" : "ipv4.routes");
	char address[64];
	unsigned int length, next_hop;
	long added = 0, refused = 0;
	double seconds = 0;

	while (fscanf(file, " %63[^/]/%u %u", address, &length, &next_hop) == 3) {
		uint8_t bytes[16];
		int status;

		if (inet_pton(ipv6 ? AF_INET6 : AF_INET, address, bytes) != 1)
			fail("not an address", address);
		double start = cpu_seconds();
		if (ipv6) {
			status = rte_fib6_add(fib6, bytes, length, next_hop);
		} else {
			uint32_t host;
			memcpy(&host, bytes, sizeof(host));
			status = rte_fib_add(fib4, ntohl(host), length, next_hop);
		}
		seconds += cpu_seconds() - start;
		if (status)
			refused++;
		else
			added++;
	}
	fclose(file);
	printf("\"%s\":{\"prefixes\":%ld,\"refused\":%ld,\"build_seconds\":%.6f}",
	       ipv6 ? "ipv6" : "ipv4", added, refused, seconds);
}

static int select_variant(int ipv6, int avx512)
{
	if (ipv6)
		return rte_fib6_select_lookup(fib6, avx512 ? RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512
							   : RTE_FIB6_LOOKUP_TRIE_SCALAR);
	return rte_fib_select_lookup(fib4, avx512 ? RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512
						  : RTE_FIB_LOOKUP_DIR24_8_SCALAR_MACRO);
}

static void look_up(int ipv6, uint8_t *addresses, size_t i, uint64_t *next_hops)
{
	if (ipv6)
		rte_fib6_lookup_bulk(fib6, (uint8_t(*)[16])(addresses + i * 16), next_hops, BULK);
	else
		rte_fib_lookup_bulk(fib4, (uint32_t *)addresses + i, next_hops, BULK);
}

/* Looks all addresses of a file up, and answers with the time of it. */
static void measure(const char *directory, const char *family, const char *kind,
		    const char *variant)
{
	static char loaded[128];
	static uint8_t *addresses;
	static size_t count;
	int ipv6 = !strcmp(family, "ipv6");
	size_t size = ipv6 ? 16 : 4;
	char name[128];
	uint64_t next_hops[BULK], checksum = 0;

	if (select_variant(ipv6, !strcmp(variant, "avx512"))) {
		puts("{\"available\":false}");
		return;
	}
	snprintf(name, sizeof(name), "%s-%s.addresses", family, kind);
	if (strcmp(name, loaded)) {
		FILE *file = open_in(directory, name);
		fseek(file, 0, SEEK_END);
		count = ftell(file) / size / BULK * BULK;
		rewind(file);
		free(addresses);
		addresses = malloc(count * size);
		if (!addresses || fread(addresses, size, count, file) != count)
			fail("cannot read", name);
		fclose(file);
		strcpy(loaded, name);
	}

	/* Untimed: it proves that both programs find the same, and warms the caches. */
	for (size_t i = 0; i < count; i += BULK) {
		look_up(ipv6, addresses, i, next_hops);
		for (int j = 0; j < BULK; j++)
			checksum += next_hops[j];
	}
	double start = cpu_seconds();
	for (size_t i = 0; i < count; i += BULK) {
		look_up(ipv6, addresses, i, next_hops);
		__asm__ volatile("" : : "r"(next_hops) : "memory");
	}
	printf("{\"available\":true,\"lookups\":%zu,\"seconds\":%.9f,\"checksum\":%lu}\n", count,
	       cpu_seconds() - start, checksum);
}

int main(int argc, char **argv)
{
	struct rte_fib_conf ipv4 = {
		.type = RTE_FIB_DIR24_8, .max_routes = IPV4_MAX_ROUTES,
		.dir24_8 = { .nh_sz = RTE_FIB_DIR24_8_2B, .num_tbl8 = IPV4_TBL8 },
	};
	struct rte_fib6_conf ipv6 = {
		.type = RTE_FIB6_TRIE, .max_routes = IPV6_MAX_ROUTES,
		.trie = { .nh_sz = RTE_FIB6_TRIE_4B, .num_tbl8 = IPV6_TBL8 },
	};
	char line[128], family[16], kind[32], variant[16];

	if (argc != 2)
		fail("usage", "dpdk-fib DIRECTORY");
	setvbuf(stdout, NULL, _IOLBF, 0);
	start_eal(argv[0]);
	fib4 = rte_fib_create("ipv4", SOCKET_ID_ANY, &ipv4);
	fib6 = rte_fib6_create("ipv6", SOCKET_ID_ANY, &ipv6);
	if (!fib4 || !fib6)
		fail("cannot create the tables", rte_strerror(rte_errno));
	printf("{");
	load(argv[1], 0);
	printf(",");
	load(argv[1], 1);
	puts("}");

	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "%15s %31s %15s", family, kind, variant) != 3)
			fail("not FAMILY ADDRESSES VARIANT", line);
		measure(argv[1], family, kind, variant);
	}
	/* The kernel takes the memory back; EAL's own clean-up warns without a runtime directory. */
	fflush(stdout);
	_exit(0);
}
