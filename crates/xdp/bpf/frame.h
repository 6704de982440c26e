/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A frame during its classification. */
#pragma once

#include "port.h"
#include "verdict.h"
#include "wire.h"

/* Owner of a frame. */
enum owner {
    /* Decided: the verdict is set. */
    OWNER_KNOWN,
    /* A worker's: it goes to the socket of its queue. */
    OWNER_WORKER,
    /* Transit: the packet is at `header`, which is complete, without options and not too long. */
    OWNER_TRANSIT_V4,
    OWNER_TRANSIT_V6,
};

/* Sets the verdict and returns. */
#define VERDICT(name)                                                                              \
    do {                                                                                           \
        *verdict = VERDICT_##name;                                                                 \
        return OWNER_KNOWN;                                                                        \
    } while (0)

/* Properties of packets that workers do not forward unchanged, nor take out of a tunnel. */
enum odd {
    IS_PLAIN,
    HAS_OPTIONS,
    IS_TOO_LONG,
};

struct frame {
    struct xdp_md *context;
    /* Start of the IP header, once it is known. */
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
     * On a guarded interface, the verdict for a packet that may be forwarded and that no worker sees because
     * the frame is for another station or VLAN; VERDICT_LINK_MULTICAST for a group of the link;
     * VERDICT_REDIRECTED if workers see it.
     */
    enum verdict unseen;
    /* True if it is the kernel's because it leaves by its ingress interface. */
    bool returns;
    /* True if the program forwards by itself, also packets that are too long for sockets. */
    bool forwards;
    /*
     * HAS_OPTIONS only while the interface is guarded; IS_TOO_LONG only while it is or if the program
     * forwards. Otherwise such packets are the kernel's.
     */
    enum odd odd;
};

/* Notes the present start and end of the frame. */
static __always_inline void measure(struct frame *frame)
{
    frame->header = (void *)(long)frame->context->data;
    frame->end = (void *)(long)frame->context->data_end;
}

/* True if `bytes` bytes from `start` on are within the frame. */
static __always_inline bool has(const struct frame *frame, const void *start, int bytes)
{
    return start + bytes <= frame->end;
}

/* Sends the frame to the socket of its queue. */
static __always_inline enum verdict to_socket(const struct frame *frame)
{
    /* Action without a socket. */
    __u64 otherwise = frame->guarded ? XDP_DROP : XDP_PASS;

    if (bpf_redirect_map(&wl_sockets, frame->context->rx_queue_index, otherwise) == XDP_REDIRECT)
        return VERDICT_REDIRECTED;
    return frame->guarded ? VERDICT_NO_WORKER : VERDICT_NO_SOCKET;
}
