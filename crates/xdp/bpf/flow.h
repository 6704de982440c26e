/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Flows of an nftables flowtable (net/netfilter/nf_flow_table_ip.c).
 *
 * The kernel's function bpf_xdp_flow_lookup() (Linux 6.10) finds a flow and keeps it from timing out. Its two
 * tuples are adjacent in memory: one of the packet's direction, and one of the other direction, to whose
 * addresses and ports the packet's are translated. A packet takes the flow's route. If the tables have
 * another route by now, the packet is the kernel's, which ends the flow.
 */
#pragma once

#include "classify.h"
#include "forward.h"
#include "kernel.h"

/* Offsets in the kernel's structures; set when the program is loaded (`src/flows.rs`). */
/* Bytes from the first tuple to the second, and back. */
const volatile __s64 tuple_step = 0, tuple_back = 0;
/* Bytes from the address that the function returns to the keys of the tuple. */
const volatile __u32 keys_at = 0;
/* Bytes within the keys. */
const volatile __u32 source_at = 0, target_at = 0, source_port_at = 0, target_port_at = 0;
/* Bytes from the keys to the rest of the tuple, a multiple of eight. */
const volatile __u32 rest_at = 0;
/* Bits within the rest: the flow's kind of transmission, its direction and the number of its tags. */
const volatile __u32 transmit_bit = 0, direction_bit = 0, tags_bit = 0;
/* Bytes within the rest; the last three if the flow leaves by a port of a bridge. */
const volatile __u32 mtu_at = 0, route_at = 0, port_at = 0, port_from_at = 0, port_to_at = 0;

/*
 * Bytes that are read from the keys of the other direction's tuple, and from the rest of the packet's tuple.
 */
#define KEYS_BYTES 56
#define REST_BYTES 32

/* FLOW_OFFLOAD_XMIT_NEIGH: by a route, to a neighbour. */
#define BY_NEIGHBOUR 1
/* FLOW_OFFLOAD_XMIT_DIRECT: by a port of a bridge, with Ethernet addresses. */
#define BY_BRIDGE 3

/* Bits of a TCP header's byte of flags: FIN, SYN, RST. */
#define TCP_FLAGS_OF_STATE 0x07

struct tcp {
    struct ports ports;
    __be32 sequence;
    __be32 acknowledgement;
    __u8 offset;
    __u8 flags;
    __be16 window;
    __be16 checksum;
    __be16 urgent;
};

/* RFC 768. */
struct udp {
    struct ports ports;
    __be16 length;
    __be16 checksum;
};

struct flow_options {
    __s32 error;
};

/* bpf_xdp_flow_lookup(). The loader replaces this number, which no helper has, by the kernel's function. */
#define FLOW_LOOKUP 0x57a11e01
static void *(*flow_lookup)(struct xdp_md *context, struct bpf_fib_lookup *tuple,
                            struct flow_options *options, __u32 size) = (void *)FLOW_LOOKUP;

/* Translated addresses and ports of a packet. An IPv4 address is the first word. */
struct translation {
    __be32 from[4];
    __be32 to[4];
    __be16 from_port;
    __be16 to_port;
};

/* Returns bits of the rest of a tuple, from a bit of its first word on. */
static __always_inline __u32 bits_at(__u64 rest, __u32 bit, __u32 mask)
{
    return rest >> (bit & 63) & mask;
}

/* Reads the packet's translation and the rest of its tuple; false if the packet is the kernel's. */
static __always_inline bool read_flow(void *found, __u32 length, struct translation *becomes,
                                      __u64 *rest_words)
{
    /* As aligned as the tuple itself. */
    __u64 keys_words[KEYS_BYTES / 8];
    const __u8 *rest = (const __u8 *)rest_words, *keys = (const __u8 *)keys_words;
    void *other;

    if (bpf_probe_read_kernel(rest_words, REST_BYTES, found + keys_at + rest_at))
        return false;
    if (mtu_at > REST_BYTES - 2 || length > *(__u16 *)&rest[mtu_at])
        return false;

    if (bits_at(rest_words[0], direction_bit, 3) == 0)
        other = found + tuple_step;
    else
        other = found + tuple_back;
    if (bpf_probe_read_kernel(keys_words, KEYS_BYTES, other + keys_at) || rest_at > KEYS_BYTES - 8)
        return false;
    /* Tags that it arrived with, or that the kernel would add. */
    if (bits_at(rest_words[0], tags_bit, 3) != 0 ||
        bits_at(*(__u64 *)&keys[rest_at], tags_bit, 3) != 0)
        return false;
    if (source_at > KEYS_BYTES - 16 || target_at > KEYS_BYTES - 16 ||
        source_port_at > KEYS_BYTES - 2 || target_port_at > KEYS_BYTES - 2)
        return false;
    for (int word = 0; word < 4; word++) {
        becomes->from[word] = *(__be32 *)&keys[target_at + 4 * word];
        becomes->to[word] = *(__be32 *)&keys[source_at + 4 * word];
    }
    becomes->from_port = *(__be16 *)&keys[target_port_at];
    becomes->to_port = *(__be16 *)&keys[source_port_at];
    return true;
}

/* True if the next hop is the gateway of a route, or `to` if it has none. */
static __always_inline bool is_by_gateway_v4(const struct egress *egress, struct rtable *route,
                                             __be32 to)
{
    switch (BPF_CORE_READ(route, rt_gw_family)) {
    case 0:
        return egress->route.ipv4_dst == to;
    case AF_INET:
        return egress->route.ipv4_dst == BPF_CORE_READ(route, rt_gw4);
    }
    return false;
}

static __always_inline bool is_by_gateway_v6(const struct egress *egress, struct rt6_info *route,
                                             const __be32 *to)
{
    __be32 gateway[4], difference = 0;
    bool is_there;

    if (bpf_core_read(gateway, sizeof(gateway), &route->rt6i_gateway))
        return false;
    is_there = gateway[0] | gateway[1] | gateway[2] | gateway[3];
    for (int word = 0; word < 4; word++)
        difference |= egress->route.ipv6_dst[word] ^ (is_there ? gateway[word] : to[word]);
    return difference == 0;
}

/*
 * True if the egress found is the flow's: by the interface and gateway of its route, or by its Ethernet
 * addresses if the kernel has chosen the port of a bridge. That port then becomes the egress.
 */
static __always_inline bool is_by(struct egress *egress, __u8 family, const __u64 *rest_words,
                                  const __be32 *to)
{
    const __u8 *rest = (const __u8 *)rest_words;
    void *route;

    if (egress->route.family != family)
        return false;
    switch (bits_at(rest_words[0], transmit_bit, 7)) {
    case BY_NEIGHBOUR:
        if (route_at > REST_BYTES - 8)
            return false;
        route = *(void **)&rest[route_at];
        if (BPF_CORE_READ((struct dst_entry *)route, dev, ifindex) != (int)egress->route.ifindex)
            return false;
        if (family == AF_INET)
            return is_by_gateway_v4(egress, route, to[0]);
        return is_by_gateway_v6(egress, route, to);
    case BY_BRIDGE:
        if (port_at > REST_BYTES - 4 || port_from_at > REST_BYTES - 6 || port_to_at > REST_BYTES - 6)
            return false;
        for (int byte = 0; byte < 6; byte++)
            if (egress->route.smac[byte] != rest[port_from_at + byte] ||
                egress->route.dmac[byte] != rest[port_to_at + byte])
                return false;
        egress->route.ifindex = *(__u32 *)&rest[port_at];
        return true;
    }
    return false;
}

/*
 * Finds the translation of the packet that `egress` describes, and its egress; false unless that is its
 * flow's and takes frames. The kernel's flowtable sends no redirects either.
 */
static __always_inline bool find_flow(struct frame *frame, struct egress *egress,
                                      struct translation *becomes)
{
    struct bpf_fib_lookup *route = &egress->route;
    __u8 family = route->family;
    struct flow_options options = {};
    __u64 rest_words[REST_BYTES / 8];
    struct egress_port port;
    void *found;

    route->ifindex = frame->context->ingress_ifindex;
    found = flow_lookup(frame->context, route, &options, sizeof(options));
    if (!found || !read_flow(found, egress->length, becomes, rest_words))
        return false;
    /* The kernel translates the destination before its route look-up, and the source after it. */
    if (family == AF_INET)
        route->ipv4_dst = becomes->to[0];
    else
        for (int word = 0; word < 4; word++)
            route->ipv6_dst[word] = becomes->to[word];
    route->dport = becomes->to_port;
    if (bpf_fib_lookup(frame->context, route, sizeof(*route), 0) != BPF_FIB_LKUP_RET_SUCCESS)
        return false;
    if (!is_by(egress, family, rest_words, becomes->to) || !find_egress_port(route->ifindex, &port) ||
        (egress->in_fragments && !port.takes_fragments))
        return false;
    egress->slot = port.slot;
    return true;
}

/* The checksum after the words of its packet have grown by `change` (RFC 1624). */
static __always_inline __be16 updated(__be16 checksum, __u64 change)
{
    return ~folded((__u16)~checksum + change);
}

/* Returns the growth of a sum when one word replaces another. */
static __always_inline __u64 grown_by(__u32 before, __u32 after)
{
    return (__u64)(__u32)~before + after;
}

static __always_inline __u64 grown_by_half(__u16 before, __u16 after)
{
    return (__u64)(__u16)~before + after;
}

/*
 * True if a packet of `length` bytes with an IP header of `header` bytes has a whole header of TCP or UDP and
 * neither begins nor ends a connection, which is left to the kernel.
 */
static __always_inline bool is_of_flow(const struct frame *frame, __u8 protocol, const void *payload,
                                       __u32 length, __u32 header)
{
    const struct tcp *tcp = payload;

    if (protocol == PROTOCOL_UDP)
        return length >= header + sizeof(struct udp) && has(frame, payload, sizeof(struct udp));
    return protocol == PROTOCOL_TCP && length >= header + sizeof(*tcp) && has(frame, tcp, sizeof(*tcp)) &&
           !(tcp->flags & TCP_FLAGS_OF_STATE);
}

/*
 * Writes ports and checksum; the addresses change the latter by `change`. False if the header is not in the
 * first piece of the frame.
 */
static __always_inline bool translate(const struct frame *frame, void *payload, bool is_tcp,
                                      const struct translation *becomes, __u64 change)
{
    struct ports *ports = payload;
    __u32 checksum_at = is_tcp ? CHECKSUM_OF_TCP : CHECKSUM_OF_UDP;
    __be16 *checksum, before;

    /*
     * Keeps one pointer for both: the verifier does not know that a later test of `is_tcp` has the same
     * result.
     */
    asm volatile("" : "+r"(checksum_at));
    checksum = payload + checksum_at;
    if (!has(frame, ports, sizeof(*ports)) || !has(frame, checksum, sizeof(*checksum)))
        return false;
    change += grown_by_half(ports->from, becomes->from_port) +
              grown_by_half(ports->to, becomes->to_port);
    ports->from = becomes->from_port;
    ports->to = becomes->to_port;
    /* A datagram may have no checksum (RFC 768); a checksum of 0 is sent as all ones. */
    before = *checksum;
    if (is_tcp || before) {
        __be16 after = updated(before, change);

        *checksum = is_tcp || after ? after : 0xffff;
    }
    return true;
}

/* Forwards the packet at `header` if it belongs to an established flow; otherwise it is left. */
static __always_inline enum owner forward_flow_v4(struct frame *frame, enum verdict *verdict)
{
    struct ipv4 *ip = frame->header;
    struct translation becomes;
    struct egress egress = {};
    __u32 length;
    __u64 change;
    __u16 life;
    bool is_tcp;

    if (!has(frame, ip, sizeof(*ip)))
        return OWNER_WORKER;
    if (ip->version_words != IPV4_PLAIN || ip->time_to_live <= 1 ||
        bpf_ntohs(ip->fragment) & IPV4_IS_FRAGMENT || !is_checksum_right(ip))
        return OWNER_WORKER;
    length = bpf_ntohs(ip->length);
    if (!is_of_flow(frame, ip->protocol, ip + 1, length, sizeof(*ip)) ||
        !is_complete(frame, ip, length, &egress) ||
        is_unfinished(frame, ip->protocol, (__u64)ip->from + ip->to, length - sizeof(*ip), ip + 1))
        return OWNER_WORKER;
    is_tcp = ip->protocol == PROTOCOL_TCP;
    egress.route.family = AF_INET;
    egress.route.tos = ip->service;
    egress.route.ipv4_src = ip->from;
    egress.route.ipv4_dst = ip->to;
    egress.route.l4_protocol = ip->protocol;
    note_ports(frame, ip->protocol, (const void *)(ip + 1), &egress);
    if (!find_flow(frame, &egress, &becomes) || !prepare(frame, &egress, sizeof(*ip)))
        return OWNER_WORKER;

    ip = frame->header;
    if (!has(frame, ip, sizeof(*ip))) {
        abandon_copy(egress.copy);
        return OWNER_WORKER;
    }
    change = grown_by(ip->from, becomes.from[0]) + grown_by(ip->to, becomes.to[0]);
    if (!translate(frame, ip + 1, is_tcp, &becomes, change)) {
        abandon_copy(egress.copy);
        return OWNER_WORKER;
    }
    life = half_at(&ip->time_to_live);
    ip->time_to_live -= 1;
    ip->checksum = updated(ip->checksum, change + grown_by_half(life, half_at(&ip->time_to_live)));
    ip->from = becomes.from[0];
    ip->to = becomes.to[0];
    return send(frame, &egress, verdict);
}

/* The same for IPv6. Packets with extension headers are the kernel's. */
static __always_inline enum owner forward_flow_v6(struct frame *frame, enum verdict *verdict)
{
    struct ipv6 *ip = frame->header;
    struct translation becomes;
    struct egress egress = {};
    __u64 change = 0;
    __u32 length;
    bool is_tcp;

    if (!has(frame, ip, sizeof(*ip)))
        return OWNER_WORKER;
    if (byte_at(ip, 0) >> 4 != 6 || ip->hop_limit <= 1)
        return OWNER_WORKER;
    length = sizeof(*ip) + bpf_ntohs(ip->payload);
    if (!is_of_flow(frame, ip->next_header, ip + 1, length, sizeof(*ip)) ||
        !is_complete(frame, ip, length, &egress) ||
        is_unfinished(frame, ip->next_header, sum_of_addresses(ip), length - sizeof(*ip), ip + 1))
        return OWNER_WORKER;
    is_tcp = ip->next_header == PROTOCOL_TCP;
    egress.route.family = AF_INET6;
    egress.route.flowinfo = ip->version_class_label & bpf_htonl(IPV6_CLASS_LABEL);
    for (int word = 0; word < 4; word++) {
        egress.route.ipv6_src[word] = ip->from[word];
        egress.route.ipv6_dst[word] = ip->to[word];
    }
    egress.route.l4_protocol = ip->next_header;
    note_ports(frame, ip->next_header, (const void *)(ip + 1), &egress);
    if (!find_flow(frame, &egress, &becomes) || !prepare(frame, &egress, sizeof(*ip)))
        return OWNER_WORKER;

    ip = frame->header;
    if (!has(frame, ip, sizeof(*ip))) {
        abandon_copy(egress.copy);
        return OWNER_WORKER;
    }
    for (int word = 0; word < 4; word++)
        change += grown_by(ip->from[word], becomes.from[word]) + grown_by(ip->to[word], becomes.to[word]);
    if (!translate(frame, ip + 1, is_tcp, &becomes, change)) {
        abandon_copy(egress.copy);
        return OWNER_WORKER;
    }
    ip->hop_limit -= 1;
    for (int word = 0; word < 4; word++) {
        ip->from[word] = becomes.from[word];
        ip->to[word] = becomes.to[word];
    }
    return send(frame, &egress, verdict);
}

/* Forwards an untagged packet to this machine's station if it belongs to an established flow. */
static __always_inline enum owner forward_flow(struct frame *frame, enum verdict *verdict)
{
    const struct ethernet *ethernet = frame->header;

    if (!has(frame, ethernet, sizeof(*ethernet)))
        return OWNER_WORKER;
    if (word_at(ethernet->to) != word_at(station.mac) ||
        half_at(ethernet->to + 4) != half_at(station.mac + 4))
        return OWNER_WORKER;
    frame->header += sizeof(*ethernet);
    switch (ethernet->type) {
    case bpf_htons(ETHERTYPE_IPV4):
        return forward_flow_v4(frame, verdict);
    case bpf_htons(ETHERTYPE_IPV6):
        return forward_flow_v6(frame, verdict);
    }
    return OWNER_WORKER;
}
