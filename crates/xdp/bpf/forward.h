/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Forwarding in the program itself.
 *
 * Header checks as RFC 1812, section 5.2.2, and RFC 8200 ask for; route, neighbour and MTU are the
 * kernel's (bpf_fib_lookup). Everything that is not plain (no neighbour yet, too long for the way
 * out, blackhole, own address as source, truncated, wrong checksum) is left to the data plane
 * behind the socket, untouched: it answers, holds, fragments, drops and counts.
 */
#pragma once

#include "copies.h"
#include "frame.h"
#include "ways.h"

#define AF_INET 2
#define AF_INET6 10

/* What this program has sent, by slot of the way out. */
struct sent {
    __u64 packets;
    /* Of frames, with their Ethernet header. */
    __u64 bytes;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, __u32);
    __type(value, struct sent);
    __uint(max_entries, FORWARD_PORTS_MAX);
} wl_forwarded SEC(".maps");

/* The way of a packet. */
struct way {
    /* What the kernel is asked, and what it answers. */
    struct bpf_fib_lookup route;
    /* The place of the way out in the counters. */
    __u32 slot;
    /* Bytes of the packet, which the kernel's answer overwrites. */
    __u32 length;
    /* Bytes behind the packet: padding of a short frame. */
    __u32 padding;
    /* Whether the frame is in several pieces, of which the program sees the first. */
    bool in_fragments;
    /* Its copy, if somebody looks. */
    struct copy *copy;
};

/* The one's complement sum of a right header is all ones (RFC 1071). */
static __always_inline bool is_checksum_right(const struct ipv4 *ip)
{
    const __u32 *words = (const __u32 *)ip;

    return folded((__u64)words[0] + words[1] + words[2] + words[3] + words[4]) == 0xffff;
}

/* Notes what decides the way of a packet of so many bytes. */
static __always_inline void note_v4(struct bpf_fib_lookup *route, const struct ipv4 *ip, __u32 length)
{
    route->family = AF_INET;
    route->tot_len = length;
    route->tos = ip->service;
    route->ipv4_src = ip->from;
    route->ipv4_dst = ip->to;
    route->l4_protocol = ip->protocol;
}

/* Notes length and padding of the packet at `ip`; false where it is cut short. */
static __always_inline bool is_complete(const struct frame *frame, const void *ip, __u32 length,
                                        struct way *way)
{
    void *start = (void *)(long)frame->context->data;
    __u64 seen = frame->end - start, all = bpf_xdp_get_buff_len(frame->context);
    __u64 there = all - (ip - start);

    if (length > there)
        return false;
    way->in_fragments = all != seen;
    way->padding = there - length;
    way->length = length;
    way->route.tot_len = length;
    return true;
}

/* Whether a packet has ports, or ESP's identifier, where the kernel hashes ports. */
static __always_inline bool has_ports(__u8 protocol)
{
    switch (protocol) {
    case PROTOCOL_TCP:
    case PROTOCOL_UDP:
    case PROTOCOL_UDP_LITE:
    case PROTOCOL_SCTP:
    case PROTOCOL_DCCP:
    case PROTOCOL_ESP:
        return true;
    default:
        return false;
    }
}

/* The ports, which may decide between routes of equal cost. */
static __always_inline void note_ports(const struct frame *frame, __u8 protocol,
                                       const struct ports *ports, struct way *way)
{
    if (!has_ports(protocol) || !has(frame, ports, sizeof(*ports)))
        return;
    way->route.sport = ports->from;
    way->route.dport = ports->to;
}

/* Those of a quoted packet, as a packet of the other direction has them. */
static __always_inline void note_quoted_ports(const struct frame *frame, __u8 protocol,
                                              const struct ports *ports, struct way *way)
{
    if (!has_ports(protocol) || !has(frame, ports, sizeof(*ports)))
        return;
    way->route.sport = ports->to;
    way->route.dport = ports->from;
}

/*
 * Lets an ICMP error take the way of the flow that it quotes, in the direction of the error: of routes
 * of equal cost, its receiver's other packets take that one.
 */
static __always_inline void note_quoted_v4(const struct frame *frame, const struct icmp *icmp,
                                           struct way *way)
{
    const struct ipv4 *quoted = (const void *)(icmp + 1);

    if (!has(frame, icmp, sizeof(*icmp) + sizeof(*quoted)))
        return;
    if (icmp->type > 12 || !(1 << icmp->type & ICMP_ERRORS) || quoted->from != way->route.ipv4_dst)
        return;
    way->route.ipv4_src = quoted->to;
    way->route.l4_protocol = quoted->protocol;
    if (quoted->version_words == IPV4_PLAIN &&
        !(bpf_ntohs(quoted->fragment) & IPV4_FRAGMENT_OFFSET))
        note_quoted_ports(frame, quoted->protocol, (const void *)(quoted + 1), way);
}

/* The same for IPv6. */
static __always_inline void note_quoted_v6(const struct frame *frame, const struct icmp *icmp,
                                           struct way *way)
{
    const struct ipv6 *quoted = (const void *)(icmp + 1);
    const __be32 label = bpf_htonl(IPV6_LABEL);

    if (!has(frame, icmp, sizeof(*icmp) + sizeof(*quoted)))
        return;
    if (icmp->type == 0 || icmp->type > ICMPV6_LAST_ERROR)
        return;
    for (int word = 0; word < 4; word++)
        if (quoted->from[word] != way->route.ipv6_dst[word])
            return;
    for (int word = 0; word < 4; word++)
        way->route.ipv6_src[word] = quoted->to[word];
    way->route.flowinfo =
        (way->route.flowinfo & ~label) | (quoted->version_class_label & label);
    way->route.l4_protocol = quoted->next_header;
    note_quoted_ports(frame, quoted->next_header, (const void *)(quoted + 1), way);
}

/*
 * Whether a packet leaves by the interface that it came in by, of which the kernel may inform its sender
 * (RFC 1812, section 5.2.7.2; RFC 4861, section 8.2).
 */
static __always_inline bool is_same_interface(const struct frame *frame, const struct way *way,
                                              int answer)
{
    if (answer != BPF_FIB_LKUP_RET_SUCCESS && answer != BPF_FIB_LKUP_RET_NO_NEIGH)
        return false;
    if (way->route.ifindex != frame->context->ingress_ifindex || frame->guarded)
        return false;
    return way->route.family == AF_INET6 || frame->leaves & LEAVES_SAME_INTERFACE;
}

/* Asks the kernel for the way; false unless it leads out of an interface that takes frames. */
static __always_inline bool find_way(struct frame *frame, struct way *way)
{
    struct bpf_fib_lookup *route = &way->route;
    struct out out;
    int answer;

    /* Before the lookup that of the way in, behind it that of the way out. */
    route->ifindex = frame->context->ingress_ifindex;
    answer = bpf_fib_lookup(frame->context, route, sizeof(*route), 0);
    frame->returns = is_same_interface(frame, way, answer);
    if (answer != BPF_FIB_LKUP_RET_SUCCESS || frame->returns)
        return false;
    if (!find_out(route->ifindex, &out) || (way->in_fragments && !out.takes_fragments))
        return false;
    way->slot = out.slot;
    return true;
}

/*
 * Cuts off what follows the packet, as the kernel does; false where that fails. Then `header` is
 * where the packet, `bytes` of it at least, is now.
 */
static __always_inline bool trim(struct frame *frame, const struct way *way, int bytes)
{
    if (way->padding == 0)
        return true;
    if (bpf_xdp_adjust_tail(frame->context, -(int)way->padding) != 0)
        return false;
    measure(frame);
    frame->header += sizeof(struct ethernet);
    return has(frame, frame->header, bytes);
}

/* Copies the frame as it was received, if somebody looks, and trims it. */
static __always_inline bool prepare(struct frame *frame, struct way *way, int bytes)
{
    way->copy = begin_copy(frame->context);
    if (trim(frame, way, bytes))
        return true;
    abandon_copy(way->copy);
    return false;
}

/* Lowers the TTL. */
static __always_inline void pass_on_v4(struct ipv4 *ip)
{
    /* As the kernel's ip_decrease_ttl (RFC 1624): the checksum grows by what the TTL lost. */
    __u32 sum = bpf_ntohs(ip->checksum) + 0x100;

    ip->time_to_live -= 1;
    ip->checksum = bpf_htons(sum + (sum >= 0xffff));
}

/* Addresses a frame to the next hop, in the largest pieces that are aligned within the kernel's answer. */
static __always_inline void address(struct ethernet *ethernet, const struct bpf_fib_lookup *route)
{
    *(__u16 *)&ethernet->to[0] = half_at(&route->dmac[0]);
    *(__u32 *)&ethernet->to[2] = word_at(&route->dmac[2]);
    *(__u32 *)&ethernet->from[0] = word_at(&route->smac[0]);
    *(__u16 *)&ethernet->from[4] = half_at(&route->smac[4]);
}

/* Counts a frame that is sent by the interface at this slot. */
static __always_inline void count_sent(__u32 slot, __u64 bytes)
{
    struct sent *sent = bpf_map_lookup_elem(&wl_forwarded, &slot);

    if (sent) {
        sent->packets += 1;
        sent->bytes += bytes;
    }
}

/* Addresses the frame to the next hop and sends it. */
static __always_inline enum owner send(const struct frame *frame, const struct way *way,
                                       enum verdict *verdict)
{
    const struct bpf_fib_lookup *route = &way->route;

    address(frame->header - sizeof(struct ethernet), route);
    if (bpf_redirect_map(&wl_devices, route->ifindex, XDP_DROP) != XDP_REDIRECT) {
        end_copy(way->copy, frame->context, route, way->slot, VERDICT_NO_EGRESS_PORT);
        VERDICT(NO_EGRESS_PORT);
    }
    end_copy(way->copy, frame->context, route, way->slot, VERDICT_FORWARDED);
    count_sent(way->slot, way->length + sizeof(struct ethernet));
    VERDICT(FORWARDED);
}

/* Forwards the packet at `header`, without options and with a TTL of at least 2. */
static __always_inline enum owner forward_v4(struct frame *frame, enum verdict *verdict)
{
    struct ipv4 *ip = frame->header;
    struct way way = {};
    __u32 length;

    /* What claims to be from us is dropped where it is counted. */
    if (local_v4(&ip->from) != NOT_LOCAL || !is_checksum_right(ip))
        return OWNER_WORKER;
    length = bpf_ntohs(ip->length);
    if (length < sizeof(*ip) || !is_complete(frame, ip, length, &way))
        return OWNER_WORKER;
    note_v4(&way.route, ip, length);
    if (!(bpf_ntohs(ip->fragment) & IPV4_IS_FRAGMENT)) {
        if (ip->protocol == PROTOCOL_ICMP)
            note_quoted_v4(frame, (const void *)(ip + 1), &way);
        else
            note_ports(frame, ip->protocol, (const void *)(ip + 1), &way);
    }
    if (!find_way(frame, &way) || !prepare(frame, &way, sizeof(*ip)))
        return OWNER_WORKER;

    pass_on_v4(frame->header);
    return send(frame, &way, verdict);
}

/*
 * Forwards the packet at `header`, without hop-by-hop options and with a hop limit of at least 2.
 */
static __always_inline enum owner forward_v6(struct frame *frame, enum verdict *verdict)
{
    struct ipv6 *ip = frame->header;
    struct way way = {};
    __u32 length;

    length = sizeof(*ip) + bpf_ntohs(ip->payload);
    /* Beyond what the field holds, and beyond any interface's MTU. */
    if (length > 0xffff || !is_complete(frame, ip, length, &way))
        return OWNER_WORKER;
    way.route.family = AF_INET6;
    way.route.flowinfo = ip->version_class_label & bpf_htonl(IPV6_CLASS_LABEL);
    for (int word = 0; word < 4; word++) {
        way.route.ipv6_src[word] = ip->from[word];
        way.route.ipv6_dst[word] = ip->to[word];
    }
    way.route.l4_protocol = ip->next_header;
    if (ip->next_header == PROTOCOL_ICMPV6)
        note_quoted_v6(frame, (const void *)(ip + 1), &way);
    else
        note_ports(frame, ip->next_header, (const void *)(ip + 1), &way);
    if (!find_way(frame, &way) || !prepare(frame, &way, sizeof(*ip)))
        return OWNER_WORKER;

    ip = frame->header;
    ip->hop_limit -= 1;
    return send(frame, &way, verdict);
}
