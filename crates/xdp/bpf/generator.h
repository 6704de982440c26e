/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sends copies of a frame that the kernel generates (`src/load.rs`): paced, or as many as possible.
 *
 * The pages of the copies are reused without being reset, so the program rewrites every header: changes by a
 * router in the last round (MAC addresses, TTL, checksum) must not remain.
 */
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include "licence.h"

/* Bytes of each frame that are rewritten: Ethernet, IPv4 and UDP ports, rounded up. */
#define REWRITTEN 40
/*
 * Most time, in nanoseconds, that a paced generator makes up for after it had no processor: more would
 * overflow the veth.
 */
#define MADE_UP_FOR 256000

/* All of these are set when the program is loaded. */

/* The egress interface. */
const volatile __u32 out = 0;
/* Time between frames in nanoseconds; 0 for as fast as possible. */
const volatile __u64 gap = 0;
/* The first bytes of each frame. */
const volatile __u64 start[REWRITTEN / 8] = {};

struct generator {
    /* Frames sent. */
    __u64 sent;
    /* Time at which the next is due, in nanoseconds since the start of the machine. */
    __u64 due;
};

struct generator generator SEC(".data.generator");

/* Reads the clock until a frame is due, at most `looks` times; false if none is due. */
static __always_inline bool is_due(int looks)
{
    __u64 now;

    for (int look = 0; look < looks; look++) {
        now = bpf_ktime_get_ns();
        if (now < generator.due)
            continue;
        generator.due += gap;
        if (generator.due + MADE_UP_FOR < now)
            generator.due = now - MADE_UP_FOR;
        return true;
    }
    return false;
}

/* Rewrites the frame and sends it, if one is due. */
static __always_inline int send(struct xdp_md *context, int looks)
{
    __u64 *frame = (void *)(long)context->data;

    if ((void *)frame + REWRITTEN > (void *)(long)context->data_end)
        return XDP_DROP;
    if (gap != 0 && !is_due(looks))
        return XDP_DROP;
    for (int word = 0; word < REWRITTEN / 8; word++)
        frame[word] = start[word];
    generator.sent += 1;
    return bpf_redirect(out, 0);
}
