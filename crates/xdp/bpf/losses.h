/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What interfaces refuse of the frames that XDP programs send.
 *
 * A program's word is final when it redirects a frame; whether the interface takes it is seen
 * later, in the driver, where only the kernel's tracepoints tell of a loss. Two programs on them
 * (transmit.bpf.c, redirect.bpf.c) count what concerns our ports, and close a port whose interface
 * refuses frames altogether.
 *
 * A driver that reports an error has sent nothing and would send nothing of the next batch either:
 * its interface is down, has no queue for such frames, or a veth's far end runs no NAPI. A driver
 * that takes a part of a batch only has a full ring, which may have room for the next one: that is
 * counted, and whether it ever ends is for the control thread to judge.
 */
#pragma once

#include <stdbool.h>
#include "ways.h"

/* Finds the slot of a port; false where the interface is none of ours. */
static __always_inline bool find_slot(__u32 ifindex, __u32 *slot)
{
    __u32 *found = bpf_map_lookup_elem(&wl_members, &ifindex);

    if (!found)
        return false;
    *slot = *found;
    return true;
}

/* Counts frames that the interface at this slot did not take. */
static __always_inline void count_refused(__u32 slot, __u64 frames)
{
    __u64 *refused = bpf_map_lookup_elem(&wl_refused, &slot);

    if (refused)
        *refused += frames;
}

/* Lets no program send to an interface any more, and says why: `error` as the kernel has it. */
static __always_inline void close_way(__u32 ifindex, __u32 slot, int error)
{
    __u32 *cause = bpf_map_lookup_elem(&wl_causes, &slot), place = ifindex & (NEAR_OUTS - 1);
    __u64 *near = bpf_map_lookup_elem(&wl_near_outs, &place);

    /* First: whoever finds it closed can ask for the cause. */
    if (!cause)
        return;
    *cause = -error;
    bpf_map_delete_elem(&wl_outs, &ifindex);
    if (near && (__u32)*near == ifindex)
        *near = 0;
}
