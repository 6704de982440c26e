/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Chooses the transmit queue of a packet by its flow's hash, so that a veth pair acts as a card with
 * receive-side scaling (`src/steer.rs`).
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include "licence.h"

/* As in `src/steer.rs`; a power of two. */
#define TABLE_ENTRIES 128

/* Missing in the headers of older kernels: continue with other programs and the interface's queueing. */
#define TCX_NEXT_PROGRAM -1

/* The queue of each hash value modulo 128. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, TABLE_ENTRIES);
} wl_table SEC(".maps");

SEC("classifier")
int wl_steer(struct __sk_buff *packet)
{
    __u32 entry = bpf_get_hash_recalc(packet) % TABLE_ENTRIES;
    __u32 *queue = bpf_map_lookup_elem(&wl_table, &entry);

    /* The kernel counts from 1 here; 0 means that no queue was chosen. */
    if (queue)
        packet->queue_mapping = *queue + 1;
    return TCX_NEXT_PROGRAM;
}
