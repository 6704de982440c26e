/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Forwarding in the program itself.
 *
 * Header checks as required by RFC 1812, section 5.2.2, and RFC 8200; route, neighbour and MTU are the
 * kernel's (bpf_fib_lookup). All other packets (no neighbour yet, too long for the egress port, blackhole,
 * own address as source, truncated, wrong checksum) are left unchanged to the data plane behind the socket:
 * it answers, holds, fragments, drops and counts.
 */
#pragma once

#include "copies.h"
#include "egress.h"
#include "frame.h"

#define AF_INET 2
#define AF_INET6 10

/* Frames that this program has sent, by slot of the egress port. */
struct sent {
    __u64 packets;
    /* Of the frames, with their Ethernet headers. */
    __u64 bytes;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, __u32);
    __type(value, struct sent);
    __uint(max_entries, FORWARD_PORTS_MAX);
} wl_forwarded SEC(".maps");

/* The egress of a packet. */
struct egress {
    /* The question to the kernel, and its answer. */
    struct bpf_fib_lookup route;
    /* Slot of the egress port in the counters. */
    __u32 slot;
    /* Bytes of the packet, which the kernel's answer overwrites. */
    __u32 length;
    /* Bytes behind the packet: padding of a short frame. */
    __u32 padding;
    /* True if the frame is in several pieces, of which the program sees only the first. */
    bool in_fragments;
    /* Its copy, if a capture or trace runs. */
    struct copy *copy;
};

/* The one's complement sum of a correct header is all ones (RFC 1071). */
static __always_inline bool is_checksum_right(const struct ipv4 *ip)
{
    const __u32 *words = (const __u32 *)ip;

    return folded((__u64)words[0] + words[1] + words[2] + words[3] + words[4]) == 0xffff;
}

/* Notes the fields that determine the route of a packet of `length` bytes. */
static __always_inline void note_v4(struct bpf_fib_lookup *route, const struct ipv4 *ip, __u32 length)
{
    route->family = AF_INET;
    route->tot_len = length;
    route->tos = ip->service;
    route->ipv4_src = ip->from;
    route->ipv4_dst = ip->to;
    route->l4_protocol = ip->protocol;
}

/* Notes length and padding of the packet at `ip`; false if it is truncated. */
static __always_inline bool is_complete(const struct frame *frame, const void *ip, __u32 length,
                                        struct egress *egress)
{
    void *start = (void *)(long)frame->context->data;
    __u64 seen = frame->end - start, all = bpf_xdp_get_buff_len(frame->context);
    __u64 there = all - (ip - start);

    if (length > there)
        return false;
    egress->in_fragments = all != seen;
    egress->padding = there - length;
    egress->length = length;
    egress->route.tot_len = length;
    return true;
}

/* True if a packet has ports, or ESP's identifier, at the offset where the kernel hashes ports. */
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

/* Notes the ports, which may decide between routes of equal cost. */
static __always_inline void note_ports(const struct frame *frame, __u8 protocol,
                                       const struct ports *ports, struct egress *egress)
{
    if (!has_ports(protocol) || !has(frame, ports, sizeof(*ports)))
        return;
    egress->route.sport = ports->from;
    egress->route.dport = ports->to;
}

/* Notes the ports of a quoted packet, exchanged as in the other direction. */
static __always_inline void note_quoted_ports(const struct frame *frame, __u8 protocol,
                                              const struct ports *ports, struct egress *egress)
{
    if (!has_ports(protocol) || !has(frame, ports, sizeof(*ports)))
        return;
    egress->route.sport = ports->to;
    egress->route.dport = ports->from;
}

/*
 * Lets an ICMP error take the route of the flow that it quotes, in the direction of the error: among routes
 * of equal cost, the receiver's other packets take the same one.
 */
static __always_inline void note_quoted_v4(const struct frame *frame, const struct icmp *icmp,
                                           struct egress *egress)
{
    const struct ipv4 *quoted = (const void *)(icmp + 1);

    if (!has(frame, icmp, sizeof(*icmp) + sizeof(*quoted)))
        return;
    if (icmp->type > 12 || !(1 << icmp->type & ICMP_ERRORS) || quoted->from != egress->route.ipv4_dst)
        return;
    egress->route.ipv4_src = quoted->to;
    egress->route.l4_protocol = quoted->protocol;
    if (quoted->version_words == IPV4_PLAIN &&
        !(bpf_ntohs(quoted->fragment) & IPV4_FRAGMENT_OFFSET))
        note_quoted_ports(frame, quoted->protocol, (const void *)(quoted + 1), egress);
}

/* The same for IPv6. */
static __always_inline void note_quoted_v6(const struct frame *frame, const struct icmp *icmp,
                                           struct egress *egress)
{
    const struct ipv6 *quoted = (const void *)(icmp + 1);
    const __be32 label = bpf_htonl(IPV6_LABEL);

    if (!has(frame, icmp, sizeof(*icmp) + sizeof(*quoted)))
        return;
    if (icmp->type == 0 || icmp->type > ICMPV6_LAST_ERROR)
        return;
    for (int word = 0; word < 4; word++)
        if (quoted->from[word] != egress->route.ipv6_dst[word])
            return;
    for (int word = 0; word < 4; word++)
        egress->route.ipv6_src[word] = quoted->to[word];
    egress->route.flowinfo =
        (egress->route.flowinfo & ~label) | (quoted->version_class_label & label);
    egress->route.l4_protocol = quoted->next_header;
    note_quoted_ports(frame, quoted->next_header, (const void *)(quoted + 1), egress);
}

/*
 * True if a packet leaves by its ingress interface, so that the kernel may send a redirect to its sender (RFC
 * 1812, section 5.2.7.2; RFC 4861, section 8.2).
 */
static __always_inline bool is_same_interface(const struct frame *frame, const struct egress *egress,
                                              int answer)
{
    if (answer != BPF_FIB_LKUP_RET_SUCCESS && answer != BPF_FIB_LKUP_RET_NO_NEIGH)
        return false;
    if (egress->route.ifindex != frame->context->ingress_ifindex || frame->guarded)
        return false;
    return egress->route.family == AF_INET6 || frame->leaves & LEAVES_SAME_INTERFACE;
}

/* Asks the kernel for the egress; false unless it is an interface that takes frames. */
static __always_inline bool find_egress(struct frame *frame, struct egress *egress)
{
    struct bpf_fib_lookup *route = &egress->route;
    struct egress_port port;
    int answer;

    /* The ingress interface before the look-up, the egress interface after it. */
    route->ifindex = frame->context->ingress_ifindex;
    answer = bpf_fib_lookup(frame->context, route, sizeof(*route), 0);
    frame->returns = is_same_interface(frame, egress, answer);
    if (answer != BPF_FIB_LKUP_RET_SUCCESS || frame->returns)
        return false;
    if (!find_egress_port(route->ifindex, &port) || (egress->in_fragments && !port.takes_fragments))
        return false;
    egress->slot = port.slot;
    return true;
}

/*
 * Cuts off padding, as the kernel does; false if that fails. Afterwards `header` points to the packet, of
 * which at least `bytes` bytes can be read.
 */
static __always_inline bool trim(struct frame *frame, const struct egress *egress, int bytes)
{
    if (egress->padding == 0)
        return true;
    if (bpf_xdp_adjust_tail(frame->context, -(int)egress->padding) != 0)
        return false;
    measure(frame);
    frame->header += sizeof(struct ethernet);
    return has(frame, frame->header, bytes);
}

/* Copies the frame as received, if a capture or trace runs, and trims it. */
static __always_inline bool prepare(struct frame *frame, struct egress *egress, int bytes)
{
    egress->copy = begin_copy(frame->context);
    if (trim(frame, egress, bytes))
        return true;
    abandon_copy(egress->copy);
    return false;
}

/* Lowers the TTL. */
static __always_inline void pass_on_v4(struct ipv4 *ip)
{
    /* As the kernel's ip_decrease_ttl (RFC 1624): the checksum grows by the decrease of the TTL. */
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

/* Counts a frame that is sent by the egress port at this slot. */
static __always_inline void count_sent(__u32 slot, __u64 bytes)
{
    struct sent *sent = bpf_map_lookup_elem(&wl_forwarded, &slot);

    if (sent) {
        sent->packets += 1;
        sent->bytes += bytes;
    }
}

/* Addresses the frame to the next hop and sends it. */
static __always_inline enum owner send(const struct frame *frame, const struct egress *egress,
                                       enum verdict *verdict)
{
    const struct bpf_fib_lookup *route = &egress->route;

    address(frame->header - sizeof(struct ethernet), route);
    if (bpf_redirect_map(&wl_devices, route->ifindex, XDP_DROP) != XDP_REDIRECT) {
        end_copy(egress->copy, frame->context, route, egress->slot, VERDICT_NO_EGRESS_PORT);
        VERDICT(NO_EGRESS_PORT);
    }
    end_copy(egress->copy, frame->context, route, egress->slot, VERDICT_FORWARDED);
    count_sent(egress->slot, egress->length + sizeof(struct ethernet));
    VERDICT(FORWARDED);
}

/* Forwards the packet at `header`, without options and with a TTL of at least 2. */
static __always_inline enum owner forward_v4(struct frame *frame, enum verdict *verdict)
{
    struct ipv4 *ip = frame->header;
    struct egress egress = {};
    __u32 length;

    /* Packets with an own source address are dropped by workers, which count them. */
    if (local_v4(&ip->from) != NOT_LOCAL || !is_checksum_right(ip))
        return OWNER_WORKER;
    length = bpf_ntohs(ip->length);
    if (length < sizeof(*ip) || !is_complete(frame, ip, length, &egress))
        return OWNER_WORKER;
    note_v4(&egress.route, ip, length);
    if (!(bpf_ntohs(ip->fragment) & IPV4_IS_FRAGMENT)) {
        if (ip->protocol == PROTOCOL_ICMP)
            note_quoted_v4(frame, (const void *)(ip + 1), &egress);
        else
            note_ports(frame, ip->protocol, (const void *)(ip + 1), &egress);
    }
    if (!find_egress(frame, &egress) || !prepare(frame, &egress, sizeof(*ip)))
        return OWNER_WORKER;

    pass_on_v4(frame->header);
    return send(frame, &egress, verdict);
}

/*
 * Forwards the packet at `header`, without hop-by-hop options and with a hop limit of at least 2.
 */
static __always_inline enum owner forward_v6(struct frame *frame, enum verdict *verdict)
{
    struct ipv6 *ip = frame->header;
    struct egress egress = {};
    __u32 length;

    length = sizeof(*ip) + bpf_ntohs(ip->payload);
    /* Too long for the field, and longer than any interface's MTU. */
    if (length > 0xffff || !is_complete(frame, ip, length, &egress))
        return OWNER_WORKER;
    egress.route.family = AF_INET6;
    egress.route.flowinfo = ip->version_class_label & bpf_htonl(IPV6_CLASS_LABEL);
    for (int word = 0; word < 4; word++) {
        egress.route.ipv6_src[word] = ip->from[word];
        egress.route.ipv6_dst[word] = ip->to[word];
    }
    egress.route.l4_protocol = ip->next_header;
    if (ip->next_header == PROTOCOL_ICMPV6)
        note_quoted_v6(frame, (const void *)(ip + 1), &egress);
    else
        note_ports(frame, ip->next_header, (const void *)(ip + 1), &egress);
    if (!find_egress(frame, &egress) || !prepare(frame, &egress, sizeof(*ip)))
        return OWNER_WORKER;

    ip = frame->header;
    ip->hop_limit -= 1;
    return send(frame, &egress, verdict);
}
