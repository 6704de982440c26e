/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Counts of frames that XDP programs redirect and interfaces refuse.
 *
 * A program's decision is final when it redirects a frame. If the interface refuses the frame later, in the
 * driver, only the kernel's tracepoints report the loss. Two programs on them (transmit.bpf.c,
 * redirect.bpf.c) count the losses of our ports, and close a port whose interface refuses all frames.
 *
 * A driver that reports an error has sent nothing and would not send the next batch either: its interface is
 * down, has no queue for such frames, or a veth's far end runs no NAPI. A driver that takes only a part of a
 * batch has a full ring, which may have room for the next one. Such losses are only counted; the
 * control thread acts if they persist.
 */
#pragma once

#include <stdbool.h>
#include "egress.h"

/* Finds the slot of a port; false if the interface is no port. */
static __always_inline bool find_slot(__u32 ifindex, __u32 *slot)
{
    __u32 *found = bpf_map_lookup_elem(&wl_members, &ifindex);

    if (!found)
        return false;
    *slot = *found;
    return true;
}

/* Counts frames that the interface at this slot refused. */
static __always_inline void count_refused(__u32 slot, __u64 frames)
{
    __u64 *refused = bpf_map_lookup_elem(&wl_refused, &slot);

    if (refused)
        *refused += frames;
}

/* Stops programs from sending to an interface, and stores the cause as a positive errno. */
static __always_inline void close_egress_port(__u32 ifindex, __u32 slot, int error)
{
    __u32 *cause = bpf_map_lookup_elem(&wl_causes, &slot), place = ifindex & (NEAR_EGRESS - 1);
    __u64 *near = bpf_map_lookup_elem(&wl_near_egress, &place);

    /* Stored first, so that the cause of a closed interface is always known. */
    if (!cause)
        return;
    *cause = -error;
    bpf_map_delete_elem(&wl_egress, &ifindex);
    if (near && (__u32)*near == ifindex)
        *near = 0;
}
