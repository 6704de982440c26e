/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Flows of an nftables flowtable (net/netfilter/nf_flow_table_ip.c).
 *
 * The kernel's function bpf_xdp_flow_lookup() (Linux 6.10) finds a flow and keeps it from timing out. Both
 * of its tuples lie one behind the other: that of a packet's direction, and that of the other direction,
 * which says what the packet's addresses and ports are translated to. A packet takes the route that the
 * flow has. Where the tables have another one by now, the packet is the kernel's, which ends the flow.
 */
#pragma once

#include "forward.h"
#include "kernel.h"

/* Where things are in the kernel's structures; set when the program is loaded (`src/flows.rs`). */
/* Bytes from the first tuple to the second, and back. */
const volatile __s64 tuple_step = 0, tuple_back = 0;
/* Bytes from the address that the function returns to the keys of the tuple. */
const volatile __u32 keys_at = 0;
/* Bytes within the keys. */
const volatile __u32 source_at = 0, target_at = 0, source_port_at = 0, target_port_at = 0;
/* Bytes from the keys to the rest of the tuple, a multiple of eight. */
const volatile __u32 rest_at = 0;
/* Bits within the rest: how the flow leaves, its direction and the number of its tags. */
const volatile __u32 transmit_bit = 0, direction_bit = 0, tags_bit = 0;
/* Bytes within the rest. */
const volatile __u32 mtu_at = 0, route_at = 0;

/* Bytes of the keys, and of the rest, that are read. */
#define KEYS_BYTES 40
#define REST_BYTES 24

/* FLOW_OFFLOAD_XMIT_NEIGH: by a route, to a neighbour. */
#define BY_NEIGHBOUR 1

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

/*
 * bpf_xdp_flow_lookup(). The loader puts the kernel's function in the place of this number, which no helper
 * has.
 */
#define FLOW_LOOKUP 0x57a11e01
static void *(*flow_lookup)(struct xdp_md *context, struct bpf_fib_lookup *tuple,
                            struct flow_options *options, __u32 size) = (void *)FLOW_LOOKUP;

/* What a packet becomes. */
struct translation {
    __be32 from;
    __be32 to;
    __be16 from_port;
    __be16 to_port;
};

/* Notes where the IP header is; false unless the frame is for this machine and carries whole IPv4. */
static __always_inline bool is_untagged_ipv4(struct frame *frame)
{
    const struct ethernet *ethernet = frame->header;

    if (!has(frame, ethernet, sizeof(*ethernet)))
        return false;
    if (word_at(ethernet->to) != word_at(station.mac) ||
        half_at(ethernet->to + 4) != half_at(station.mac + 4))
        return false;
    frame->header += sizeof(*ethernet);
    return ethernet->type == bpf_htons(ETHERTYPE_IPV4);
}

/* So many bits of what was read, from a bit of its first word on. */
static __always_inline __u32 bits_at(__u64 rest, __u32 bit, __u32 mask)
{
    return rest >> (bit & 63) & mask;
}

/* Reads what the packet becomes, and the route that the flow has; false where it is the kernel's. */
static __always_inline bool read_flow(void *found, __u32 length, struct translation *becomes,
                                      struct rtable **route)
{
    /* As aligned as the tuple itself. */
    __u64 rest_words[REST_BYTES / 8], keys_words[KEYS_BYTES / 8];
    const __u8 *rest = (const __u8 *)rest_words, *keys = (const __u8 *)keys_words;
    void *other;

    if (bpf_probe_read_kernel(rest_words, REST_BYTES, found + keys_at + rest_at))
        return false;
    if (bits_at(rest_words[0], transmit_bit, 7) != BY_NEIGHBOUR || bits_at(rest_words[0], tags_bit, 3) != 0)
        return false;
    if (mtu_at > REST_BYTES - 2 || route_at > REST_BYTES - 8)
        return false;
    if (length > *(__u16 *)&rest[mtu_at])
        return false;
    *route = *(struct rtable **)&rest[route_at];

    if (bits_at(rest_words[0], direction_bit, 3) == 0)
        other = found + tuple_step;
    else
        other = found + tuple_back;
    if (bpf_probe_read_kernel(keys_words, KEYS_BYTES, other + keys_at))
        return false;
    if (source_at > KEYS_BYTES - 4 || target_at > KEYS_BYTES - 4 ||
        source_port_at > KEYS_BYTES - 2 || target_port_at > KEYS_BYTES - 2)
        return false;
    becomes->from = *(__be32 *)&keys[target_at];
    becomes->to = *(__be32 *)&keys[source_at];
    becomes->from_port = *(__be16 *)&keys[target_port_at];
    becomes->to_port = *(__be16 *)&keys[source_port_at];
    return true;
}

/* Whether the way that was found is by the interface and the gateway of the flow's route. */
static __always_inline bool is_by(const struct way *way, struct rtable *route, __be32 to)
{
    if (BPF_CORE_READ(route, dst.dev, ifindex) != (int)way->route.ifindex ||
        way->route.family != AF_INET)
        return false;
    switch (BPF_CORE_READ(route, rt_gw_family)) {
    case 0:
        return way->route.ipv4_dst == to;
    case AF_INET:
        return way->route.ipv4_dst == BPF_CORE_READ(route, rt_gw4);
    }
    return false;
}

/* The checksum after the words of its packet have grown by `change` (RFC 1624). */
static __always_inline __be16 updated(__be16 checksum, __u64 change)
{
    return ~folded((__u16)~checksum + change);
}

/* By how much a sum grows when one word takes the place of another. */
static __always_inline __u64 grown_by(__u32 before, __u32 after)
{
    return (__u64)(__u32)~before + after;
}

static __always_inline __u64 grown_by_half(__u16 before, __u16 after)
{
    return (__u64)(__u16)~before + after;
}

/* Writes what the packet becomes into its headers, the last of which is complete. */
static __always_inline void translate(struct ipv4 *ip, bool is_tcp,
                                      const struct translation *becomes)
{
    struct ports *ports = (void *)(ip + 1);
    __be16 *checksum = is_tcp ? &((struct tcp *)ports)->checksum : &((struct udp *)ports)->checksum;
    __u16 life = half_at(&ip->time_to_live);
    __u64 change = grown_by(ip->from, becomes->from) + grown_by(ip->to, becomes->to);

    ip->time_to_live -= 1;
    ip->checksum =
        updated(ip->checksum, change + grown_by_half(life, half_at(&ip->time_to_live)));
    change += grown_by_half(ports->from, becomes->from_port) +
              grown_by_half(ports->to, becomes->to_port);
    ip->from = becomes->from;
    ip->to = becomes->to;
    ports->from = becomes->from_port;
    ports->to = becomes->to_port;
    /* A datagram may go without (RFC 768); one whose checksum is 0 has all ones in its place. */
    if (is_tcp) {
        *checksum = updated(*checksum, change);
    } else if (*checksum) {
        *checksum = updated(*checksum, change);
        if (*checksum == 0)
            *checksum = 0xffff;
    }
}

/* Forwards the packet at `header` if it is one of an established flow; else it is nobody's here. */
static __always_inline enum owner forward_flow_v4(struct frame *frame, enum verdict *verdict)
{
    struct ipv4 *ip = frame->header;
    struct bpf_fib_lookup tuple = {};
    struct flow_options options = {};
    struct translation becomes;
    struct way way = {};
    struct rtable *route;
    const struct ports *ports = (const void *)(ip + 1);
    bool is_tcp;
    __u32 length, bytes;
    void *found;

    if (!has(frame, ip, sizeof(*ip) + sizeof(struct udp)))
        return OWNER_WORKER;
    if (ip->version_words != IPV4_PLAIN || ip->time_to_live <= 1 ||
        bpf_ntohs(ip->fragment) & IPV4_IS_FRAGMENT || !is_checksum_right(ip))
        return OWNER_WORKER;
    if (ip->protocol != PROTOCOL_TCP && ip->protocol != PROTOCOL_UDP)
        return OWNER_WORKER;
    is_tcp = ip->protocol == PROTOCOL_TCP;
    bytes = sizeof(*ip) + (is_tcp ? sizeof(struct tcp) : sizeof(struct udp));
    length = bpf_ntohs(ip->length);
    if (length < bytes || !is_complete(frame, ip, length, &way))
        return OWNER_WORKER;
    if (is_tcp) {
        const struct tcp *tcp = (const void *)(ip + 1);

        /* Beginnings and ends of connections are the kernel's. */
        if (!has(frame, tcp, sizeof(*tcp)) || tcp->flags & TCP_FLAGS_OF_STATE)
            return OWNER_WORKER;
    }

    tuple.ifindex = frame->context->ingress_ifindex;
    tuple.family = AF_INET;
    tuple.l4_protocol = ip->protocol;
    tuple.sport = ports->from;
    tuple.dport = ports->to;
    tuple.ipv4_src = ip->from;
    tuple.ipv4_dst = ip->to;
    found = flow_lookup(frame->context, &tuple, &options, sizeof(options));
    if (!found || !read_flow(found, length, &becomes, &route))
        return OWNER_WORKER;

    way.route.family = AF_INET;
    way.route.tos = ip->service;
    /* The kernel translates the destination before it looks for a route, and the source behind that. */
    way.route.ipv4_src = ip->from;
    way.route.ipv4_dst = becomes.to;
    way.route.l4_protocol = ip->protocol;
    way.route.sport = ports->from;
    way.route.dport = becomes.to_port;
    if (!find_way(frame, &way) || !is_by(&way, route, becomes.to) || !prepare(frame, &way, sizeof(*ip)))
        return OWNER_WORKER;

    ip = frame->header;
    if (is_tcp) {
        if (!has(frame, ip, sizeof(*ip) + sizeof(struct tcp))) {
            abandon_copy(way.copy);
            return OWNER_WORKER;
        }
        translate(ip, true, &becomes);
    } else {
        if (!has(frame, ip, sizeof(*ip) + sizeof(struct udp))) {
            abandon_copy(way.copy);
            return OWNER_WORKER;
        }
        translate(ip, false, &becomes);
    }
    return send(frame, &way, verdict);
}
