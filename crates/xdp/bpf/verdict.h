/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The fate of a frame, and the reason. Each frame gets one verdict, which is counted and determines the
 * program's result.
 *
 * `src/verdict.rs` has the same list with descriptions; a test compares the two.
 */
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

enum verdict {
    VERDICT_REDIRECTED,
    VERDICT_FORWARDED,
    VERDICT_NO_EGRESS_PORT,
    VERDICT_NO_SOCKET,
    VERDICT_SHORT,
    VERDICT_LINK_MULTICAST,
    VERDICT_OTHER_STATION,
    VERDICT_VLAN,
    VERDICT_NOT_IP,
    VERDICT_MALFORMED,
    VERDICT_OPTIONS,
    VERDICT_TIME_TO_LIVE,
    VERDICT_MULTICAST,
    VERDICT_MARTIAN,
    VERDICT_LINK_LOCAL,
    VERDICT_TOO_LONG,
    VERDICT_LOCAL,
    VERDICT_NO_WORKER,
    VERDICT_TOO_LONG_FOR_WORKERS,
    VERDICT_TAGS,
    VERDICT_LEFT,
    VERDICT_STATION,
    VERDICT_PROTOCOL,
    VERDICT_FORWARDING_OFF,
    VERDICT_CLIENT,
    VERDICT_NEIGHBOUR_DISCOVERY,
    VERDICT_KERNEL_ROUTE,
    VERDICT_SAME_INTERFACE,
    VERDICT_UNFINISHED,
    /* Number of verdicts. */
    VERDICTS,
};

/* The frame is sent as prepared by bpf_redirect_map(). */
#define IS_SENT_ON (1U << VERDICT_REDIRECTED | 1U << VERDICT_FORWARDED)
#define IS_DROPPED                                                                                 \
    (1U << VERDICT_NO_EGRESS_PORT | 1U << VERDICT_NO_WORKER | 1U << VERDICT_TOO_LONG_FOR_WORKERS |     \
     1U << VERDICT_TAGS | 1U << VERDICT_STATION | 1U << VERDICT_PROTOCOL |                         \
     1U << VERDICT_FORWARDING_OFF)

/* The result of the program; all other frames are the kernel's. */
static __always_inline enum xdp_action action_of(enum verdict verdict)
{
    if (1U << verdict & IS_SENT_ON)
        return XDP_REDIRECT;
    if (1U << verdict & IS_DROPPED)
        return XDP_DROP;
    return XDP_PASS;
}

/* Frames by verdict. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, __u32);
    __type(value, __u64);
    __uint(max_entries, VERDICTS);
} wl_verdicts SEC(".maps");

static __always_inline void count_verdict(enum verdict verdict)
{
    __u32 key = verdict;
    __u64 *frames = bpf_map_lookup_elem(&wl_verdicts, &key);

    /* Each processor has its own value, and programs are not preempted by each other. */
    if (frames)
        *frames += 1;
}
