/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Copies of forwarded packets, for captures and traces.
 *
 * While none runs, a program reads one word. Otherwise it writes a copy of each sent packet to a ring: the
 * frame as received, the headers as sent, and the decision. Space is reserved before the frame is changed,
 * and submitted once the decision is final, so that a copy is complete or missing. A full ring loses copies,
 * which are counted, but no packets.
 */
#pragma once

#include "egress.h"
#include "frame.h"

/* Bytes of the sent headers, which include everything that a program changes. */
#define HEAD_BYTES 64

/* As in `src/copies.rs`. */
struct copy {
    /* Time at which it was received, of the monotonic clock. */
    __u64 nanos;
    /* Slot of the port that received it. */
    __u32 in;
    /* Slot of the port that sends it. */
    __u32 out;
    __u32 verdict;
    /* Bytes of the frame as received. */
    __u32 received;
    /* Bytes of the frame as sent; 0 if it was not. */
    __u32 sent;
    /* Bytes of the received frame in this copy. */
    __u32 bytes;
    /* The next hop and its family. */
    __u32 family;
    __be32 next_hop[4];
    __u32 unused;
    /* The beginning of the frame as sent. */
    __u8 head[HEAD_BYTES];
    /* The frame as received. */
    __u8 frame[];
};

/* Sizes of reservations, which the verifier has to know; powers of two for `WITHIN`. */
#define BYTES_SMALL 128
#define BYTES_MEDIUM 2048
#define BYTES_LARGE 16384
#define BYTES_MOST 65536

/*
 * A length of 1 to `most`, unchanged, for the verifier: some kernels do not conclude from comparisons that it
 * is not 0, and the compiler must not optimize the operation away.
 */
#define WITHIN(length, most)                                                                       \
    ({                                                                                             \
        __u64 within = (length);                                                                   \
        asm volatile("" : "+r"(within));                                                           \
        ((within - 1) & ((most) - 1)) + 1;                                                         \
    })

struct copying {
    /* Most bytes of a frame that are copied; 0 while no capture or trace runs. */
    __u32 snap;
};

struct copying copying SEC(".data.copying");

/* 0 if the verifier refuses copies, which are then removed from the program. */
const volatile __u32 may_copy = 1;

/* The ring, while captures or traces run. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __type(key, __u32);
    __uint(max_entries, 1);
    __array(values, struct {
        __uint(type, BPF_MAP_TYPE_RINGBUF);
        /* For any page size; replaced by a ring of another size. */
        __uint(max_entries, 65536);
    });
} wl_copy_rings SEC(".maps");

/* Packets for whose copy the ring had no room. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, __u32);
    __type(value, __u64);
    __uint(max_entries, 1);
} wl_uncopied SEC(".maps");

static __always_inline void count_uncopied(void)
{
    __u32 key = 0;
    __u64 *packets = bpf_map_lookup_elem(&wl_uncopied, &key);

    if (packets)
        *packets += 1;
}

/* Reserves space of this size and copies the frame's first bytes to it. */
#define COPY_IN(most)                                                                              \
    do {                                                                                           \
        copy = bpf_ringbuf_reserve(ring, sizeof(*copy) + (most), 0);                               \
        if (copy && bpf_xdp_load_bytes(context, 0, copy->frame, WITHIN(bytes, most)) != 0) {       \
            bpf_ringbuf_discard(copy, BPF_RB_NO_WAKEUP);                                           \
            copy = NULL;                                                                           \
        }                                                                                          \
    } while (0)

/*
 * Begins the copy of a frame that is about to be forwarded; NULL without a capture or trace, or without room.
 */
static __always_inline struct copy *begin_copy(struct xdp_md *context)
{
    __u32 key = 0, ingress = context->ingress_ifindex;
    __u64 all, bytes = copying.snap;
    struct copy *copy;
    __u32 *member;
    void *ring;

    if (!may_copy || bytes == 0)
        return NULL;
    ring = bpf_map_lookup_elem(&wl_copy_rings, &key);
    if (!ring)
        return NULL;
    all = bpf_xdp_get_buff_len(context);
    if (bytes > all)
        bytes = all;
    if (bytes == 0 || bytes > BYTES_MOST)
        return NULL;
    if (bytes <= BYTES_SMALL)
        COPY_IN(BYTES_SMALL);
    else if (bytes <= BYTES_MEDIUM)
        COPY_IN(BYTES_MEDIUM);
    else if (bytes <= BYTES_LARGE)
        COPY_IN(BYTES_LARGE);
    else
        COPY_IN(BYTES_MOST);
    if (!copy) {
        count_uncopied();
        return NULL;
    }
    member = bpf_map_lookup_elem(&wl_members, &ingress);
    copy->nanos = bpf_ktime_get_ns();
    copy->in = member ? *member : FORWARD_PORTS_MAX;
    copy->received = all;
    copy->bytes = bytes;
    copy->unused = 0;
    return copy;
}

/* Discards a copy: the packet was not forwarded after all. */
static __always_inline void abandon_copy(struct copy *copy)
{
    if (copy)
        bpf_ringbuf_discard(copy, BPF_RB_NO_WAKEUP);
}

/* Submits a copy, with the program's decision. */
static __always_inline void end_copy(struct copy *copy, struct xdp_md *context,
                                     const struct bpf_fib_lookup *route, __u32 slot,
                                     enum verdict verdict)
{
    __u64 head;

    if (!copy)
        return;
    copy->out = slot;
    copy->verdict = verdict;
    copy->family = route->family;
    for (int word = 0; word < 4; word++)
        copy->next_hop[word] = route->ipv6_dst[word];
    copy->sent = 0;
    if (verdict == VERDICT_FORWARDED) {
        head = copy->sent = bpf_xdp_get_buff_len(context);
        if (head > HEAD_BYTES)
            head = HEAD_BYTES;
        if (head > 0)
            bpf_xdp_load_bytes(context, 0, copy->head, WITHIN(head, HEAD_BYTES));
    }
    bpf_ringbuf_submit(copy, BPF_RB_NO_WAKEUP);
}
