/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Common to the programs that observe how the kernel polls receive queues (napi_poll, softirq_entry,
 * softirq_exit; `src/polls.rs`).
 *
 * All counts are kept by processor, and a processor runs one of these programs at a time: polls and
 * soft interrupts run with soft interrupts disabled. Counters need no atomic operation.
 */
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

/* `include/linux/interrupt.h` */
#define NET_RX_SOFTIRQ 3

/* As in `src/polls.rs`. */
struct core {
    /* Soft interrupts for received packets: begin of the present one (0 for none), packets until then. */
    __u64 began;
    __u64 packets_before;
    /* Their time, in nanoseconds: with packets and without; their number. */
    __u64 useful;
    __u64 empty;
    __u64 runs;
    /* Packets of all polls. */
    __u64 packets;
    /* Time of the last sample. */
    __u64 last;
    /* Ends of streaks for which the ring had no room; polls of instances for which there was no room. */
    __u64 lost;
    __u64 unlisted;
    /* The rule that the counters follow, and starts of all counters: after silences, after events. */
    __u32 generation;
    __u32 silences;
    __u32 events;
    __u32 unused;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, __u32);
    __type(value, struct core);
    __uint(max_entries, 1);
} wl_cores SEC(".maps");

static __always_inline struct core *this_core(void)
{
    __u32 key = 0;

    return bpf_map_lookup_elem(&wl_cores, &key);
}
