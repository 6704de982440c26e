/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Accounts for the packets of a measured load in the receiving driver, and drops them: received, duplicated,
 * reordered within a flow, damaged, and the latency of each (`src/measured/receiver.rs`).
 *
 * It uses no ring that could be full. Counters are separate by receive queue: the driver works on a queue on
 * one processor at a time, so that they need no atomic operation. Only the bits of received packets are
 * shared by all queues.
 */
#include "measured.h"
#include "wire.h"

/* Most bytes of an IPv4 header. */
#define IPV4_LONGEST 60
/*
 * Latencies are counted in classes, each at most a thousandth wide: below 2 ^ (CLASS_BITS + 1) ns one per
 * nanosecond, then 2 ^ CLASS_BITS for each power of two. As in `src/measured/receiver.rs`.
 */
#define CLASS_BITS 10
/* Above an hour. */
#define LONGEST_BITS 42
#define CLASSES ((LONGEST_BITS - CLASS_BITS + 1) << CLASS_BITS)

/* All of these are set when the program is loaded. */

/* Number of this trial, and its number of streams. */
const volatile __u32 run = 0;
const volatile __u32 streams = 1;
/* Flows of all streams, distributed over the streams in turn. */
const volatile __u32 flows = 1;
/* Words of 64 bits for the packets of each stream. */
const volatile __u32 words = 1;

/* As in `src/measured/receiver.rs`. */
struct total {
    __u64 received;
    __u64 duplicated;
    __u64 reordered;
    __u64 distance_max;
    __u64 corrupt;
    __u64 stale;
    __u64 foreign;
    __u64 bytes;
    __u64 last;
    __u64 longest_gap;
};

struct flow {
    /* Number of the expected next packet of this flow. */
    __u64 next;
    __u64 received;
    __u64 duplicated;
    __u64 reordered;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, struct total);
    __uint(max_entries, 1);
} wl_totals SEC(".maps");

/* By queue, then by flow. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, struct flow);
    __uint(max_entries, 1);
} wl_flows SEC(".maps");

/* Received packets, a bit each: by stream, then by number. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, __u64);
    __uint(max_entries, 1);
} wl_seen SEC(".maps");

/* By queue, then by class. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, __u64);
    __uint(max_entries, 1);
} wl_latencies SEC(".maps");

/* The class of a latency. */
static __always_inline __u32 class_of(__u64 nanos)
{
    __u32 shift = 0;

    if (nanos >> LONGEST_BITS)
        return CLASSES - 1;
    for (__u32 step = 16; step > 0; step /= 2) {
        if (nanos >> (shift + step + CLASS_BITS))
            shift += step;
    }
    return (shift << CLASS_BITS) + (nanos >> shift);
}

/* Returns the UDP payload of a frame, with room for a stamp; null if there is none. */
static __always_inline void *payload(void *frame, void *end)
{
    struct ethernet *ethernet = frame;
    void *packet = ethernet + 1;

    if (ethernet->type == bpf_htons(ETHERTYPE_IPV4)) {
        struct ipv4 *ip = packet;
        if ((void *)(ip + 1) > end || ip->protocol != PROTOCOL_UDP)
            return 0;
        __u32 header = (ip->version_words & 15) * 4;
        if (header > IPV4_LONGEST)
            return 0;
        packet += header;
    } else {
        struct ipv6 *ip = packet;
        if ((void *)(ip + 1) > end || ip->next_header != PROTOCOL_UDP)
            return 0;
        packet = ip + 1;
    }
    packet += UDP_BYTES;
    return packet + STAMP_BYTES > end ? 0 : packet;
}

/* Counts a packet that was received for the first time. */
static __always_inline void take(struct total *total, struct flow *flow, __u64 number, __u32 bytes,
                                 __u64 age, __u32 queue)
{
    total->received += 1;
    total->bytes += bytes;
    flow->received += 1;
    if (number < flow->next) {
        __u64 distance = flow->next - number;
        total->reordered += 1;
        flow->reordered += 1;
        if (distance > total->distance_max)
            total->distance_max = distance;
    } else {
        flow->next = number + 1;
    }
    __u32 class = queue * CLASSES + class_of(age);
    __u64 *latencies = bpf_map_lookup_elem(&wl_latencies, &class);
    if (latencies)
        *latencies += 1;
}

SEC("xdp.frags")
int wl_measured_receive(struct xdp_md *context)
{
    void *frame = (void *)(long)context->data, *end = (void *)(long)context->data_end;
    struct ethernet *ethernet = frame;
    __u32 queue = context->rx_queue_index;
    struct stamp stamp;

    if ((void *)(ethernet + 1) > end)
        return XDP_PASS;
    if (ethernet->type != bpf_htons(ETHERTYPE_IPV4) && ethernet->type != bpf_htons(ETHERTYPE_IPV6))
        return XDP_PASS;
    struct total *total = bpf_map_lookup_elem(&wl_totals, &queue);
    if (!total)
        return XDP_PASS;
    void *found = payload(frame, end);
    if (found) {
        stamp.first = bpf_be64_to_cpu(*(__be64 *)found);
        stamp.second = bpf_be64_to_cpu(*(__be64 *)(found + 8));
    }
    if (!found || stamp.first >> 48 != STAMP_MAGIC) {
        total->foreign += 1;
        return XDP_PASS;
    }
    if (*(__be16 *)(found + 16) != bpf_htons(stamp_checksum(&stamp))) {
        total->corrupt += 1;
        return XDP_DROP;
    }
    __u32 stream = stamp.first >> 32 & 0xff;
    __u64 sequence = stamp.first << 32 >> 24 | stamp.second >> STAMP_TIME_BITS;
    if ((stamp.first >> 40 & 0xff) != run || stream >= streams || sequence / 64 >= words) {
        total->stale += 1;
        return XDP_DROP;
    }
    __u64 of_stream = (flows - stream + streams - 1) / streams;
    __u64 number = sequence / of_stream;
    __u32 at = queue * flows + stream + (sequence - number * of_stream) * streams;
    struct flow *flow = bpf_map_lookup_elem(&wl_flows, &at);
    at = stream * words + sequence / 64;
    __u64 *seen = bpf_map_lookup_elem(&wl_seen, &at);
    if (!flow || !seen) {
        total->stale += 1;
        return XDP_DROP;
    }
    __u64 bit = 1ULL << (sequence % 64);
    if (__sync_fetch_and_or(seen, bit) & bit) {
        total->duplicated += 1;
        flow->duplicated += 1;
        return XDP_DROP;
    }
    __u64 now = bpf_ktime_get_ns();
    __u64 age = (now - stamp.second) << 8 >> 8;
    /* More than a year: the clock went back. As in the generator, no age is 0. */
    if (age >> (STAMP_TIME_BITS - 1) || age == 0)
        age = 1;
    if (total->last != 0 && now > total->last && now - total->last > total->longest_gap)
        total->longest_gap = now - total->last;
    total->last = now;
    take(total, flow, number, end - frame, age, queue);
    return XDP_DROP;
}
