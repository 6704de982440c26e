/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sends copies of a frame that the kernel makes (`src/load.rs`): at a pace, or as many as can be.
 *
 * The pages of the copies are used again without being reset, so the program writes every header
 * anew: what a router changed in the last round (MAC addresses, TTL, checksum) must not come back.
 */
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include "licence.h"

/* Bytes of each frame that are written anew: Ethernet, IPv4 and UDP ports, rounded up. */
#define REWRITTEN 40
/*
 * How much time, in nanoseconds, a paced generator makes up for after it was kept from its
 * processor: more would overflow the veth.
 */
#define MADE_UP_FOR 256000

/* All of these are set when the program is loaded. */

/* The interface to send to. */
const volatile __u32 out = 0;
/* How often, in nanoseconds; 0 for as often as can be. */
const volatile __u64 gap = 0;
/* How each frame begins. */
const volatile __u64 start[REWRITTEN / 8] = {};

struct generator {
    /* Frames sent. */
    __u64 sent;
    /* When the next is due, in nanoseconds since the start of the machine. */
    __u64 due;
};

struct generator generator SEC(".data.generator");

/* Looks at the clock until a frame is due, so often at most; false where none is due. */
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

/* Makes the frame one of ours and sends it, if one is due. */
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
