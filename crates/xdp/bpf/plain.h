/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The fast path of plain packets.
 *
 * Most packets are whole, untagged and without padding, and between addresses of no special use. Here they
 * pass every check of classify() and forward_v4() in a third of the steps, without guarded interfaces, tags,
 * options, errors and copies. A packet that fails any check, or has no egress, is unchanged: classify()
 * judges it.
 */
#pragma once

#include "classify.h"
#include "forward.h"

/* Packets that an interface leaves to the kernel or to workers, found only by look-ups. */
#define LEAVES_MORE (LEAVES_PREFIXES | LEAVES_ROUTES | LEAVES_OPENINGS)

/* True if some address with this first byte must not be forwarded. */
static __always_inline bool may_be_special(__u8 first)
{
    return (__u8)(first - 1) > 222 || first == 127 || first == IPV4_LINK_LOCAL >> 8;
}

/* Forwards a plain packet of IPv4; false if classify() has to judge it. */
static __always_inline bool forward_plain_v4(struct xdp_md *context)
{
    struct frame frame = { .context = context, .leaves = station.leaves };
    struct ethernet *ethernet = (void *)(long)context->data;
    struct ipv4 *ip = (void *)(ethernet + 1);
    const struct ports *ports = (const void *)(ip + 1);
    struct bpf_fib_lookup route = { .family = AF_INET };
    struct egress_port port;
    __u32 length;

    measure(&frame);
    if (!has(&frame, ports, sizeof(*ports)))
        return false;
    if (station.guarded || frame.leaves & LEAVES_MORE || copying.snap)
        return false;
    if (word_at(ethernet->to) != word_at(station.mac) ||
        half_at(ethernet->to + 4) != half_at(station.mac + 4))
        return false;
    if (ethernet->type != bpf_htons(ETHERTYPE_IPV4) || ip->version_words != IPV4_PLAIN ||
        ip->time_to_live <= 1 || ip->fragment & bpf_htons(IPV4_IS_FRAGMENT) ||
        ip->protocol == PROTOCOL_ICMP)
        return false;
    if (may_be_special(byte_at(&ip->to, 0)) || may_be_special(byte_at(&ip->from, 0)) ||
        may_be_local(ip->to) || may_be_local(ip->from))
        return false;
    length = bpf_ntohs(ip->length);
    if (bpf_xdp_get_buff_len(context) != length + sizeof(*ethernet) ||
        frame.end - (void *)ip != length || !is_checksum_right(ip))
        return false;
    /* If the protocol is UDP, this is a reply to a DHCP client. */
    if (word_at(ports) == bpf_htonl(PORT_BOOTP_SERVER << 16 | PORT_BOOTP_CLIENT))
        return false;
    if (is_unfinished(&frame, ip->protocol, (__u64)ip->from + ip->to, length - sizeof(*ip), ports))
        return false;

    note_v4(&route, ip, length);
    if (has_ports(ip->protocol)) {
        route.sport = ports->from;
        route.dport = ports->to;
    }
    route.ifindex = context->ingress_ifindex;
    if (bpf_fib_lookup(context, &route, sizeof(route), 0) != BPF_FIB_LKUP_RET_SUCCESS ||
        route.ifindex == context->ingress_ifindex || !find_egress_port(route.ifindex, &port) ||
        bpf_redirect_map(&wl_devices, route.ifindex, XDP_DROP) != XDP_REDIRECT)
        return false;
    pass_on_v4(ip);
    address(ethernet, &route);
    count_sent(port.slot, length + sizeof(*ethernet));
    count_verdict(VERDICT_FORWARDED);
    return true;
}
