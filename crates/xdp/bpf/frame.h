/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A frame while the program looks at it. */
#pragma once

#include "port.h"
#include "verdict.h"
#include "wire.h"

/* Whose a frame is. */
enum owner {
    /* This verdict's, which is set. */
    OWNER_KNOWN,
    /* A worker's: it goes to the socket of its queue. */
    OWNER_WORKER,
    /* Transit: the packet is at `header`, which is complete, without options and not too long. */
    OWNER_TRANSIT_V4,
    OWNER_TRANSIT_V6,
};

/* Says the verdict. */
#define VERDICT(name)                                                                              \
    do {                                                                                           \
        *verdict = VERDICT_##name;                                                                 \
        return OWNER_KNOWN;                                                                        \
    } while (0)

/* What no worker forwards as it is, nor takes out of a tunnel. */
enum odd {
    IS_PLAIN,
    HAS_OPTIONS,
    IS_TOO_LONG,
};

struct frame {
    struct xdp_md *context;
    /* Where the IP header begins, once that is known. */
    void *header;
    void *end;
    /* As in `struct station`, which may change meanwhile. */
    __u16 longest;
    bool guarded;
    __u32 leaves;
    bool tagged;
    /* The VLAN that is routed here, 0 without a tag. */
    __u16 vlan;
    /*
     * On a guarded interface, the verdict for a packet that may be forwarded and that no worker sees, as
     * the frame is for another station or VLAN; VERDICT_LINK_MULTICAST for a group of the link;
     * VERDICT_REDIRECTED where workers see it.
     */
    enum verdict unseen;
    /* Whether it is the kernel's since it leaves by the interface that it came in by. */
    bool returns;
    /* Whether the program forwards by itself, also what is too long for sockets. */
    bool forwards;
    /*
     * Packets with options are this only while the interface is guarded, and those that are too long
     * only while it is or where the program forwards; else such packets are the kernel's.
     */
    enum odd odd;
};

/* Notes where the frame begins and ends now. */
static __always_inline void measure(struct frame *frame)
{
    frame->header = (void *)(long)frame->context->data;
    frame->end = (void *)(long)frame->context->data_end;
}

/* Whether so many bytes are there from `start` on. */
static __always_inline bool has(const struct frame *frame, const void *start, int bytes)
{
    return start + bytes <= frame->end;
}

/* To the socket of the frame's queue. */
static __always_inline enum verdict to_socket(const struct frame *frame)
{
    /* What is returned where there is no socket. */
    __u64 otherwise = frame->guarded ? XDP_DROP : XDP_PASS;

    if (bpf_redirect_map(&wl_sockets, frame->context->rx_queue_index, otherwise) == XDP_REDIRECT)
        return VERDICT_REDIRECTED;
    return frame->guarded ? VERDICT_NO_WORKER : VERDICT_NO_SOCKET;
}
