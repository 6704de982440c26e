/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which frames are whose.
 *
 *   Ethernet   to us?        no  -> kernel (ARP requests, ND, routing protocols, bridging)
 *   VLAN       routed here?  no  -> kernel
 *   IPv4/IPv6  transit?      no  -> kernel (local, options, TTL, multicast, link-local)
 *                            yes -> kernel, where its prefix is left to that; else
 *                                   forwarded by the program itself, where it may (forward.h),
 *                                   else socket of the receive queue; kernel if there is none
 *   local      ESP, and a tunnel ends here? -> to the socket
 *
 * Whatever is in doubt goes to the kernel, which knows more. Header checks of transit packets
 * (checksum, lengths) are the data plane's, or those of forward.h.
 *
 * While the interface is guarded (policies say what may leave, and the kernel does not know them),
 * nothing passes that the kernel would forward: options, link-local and reserved IPv4 addresses and
 * what has a tag of number 0 go to the socket too, where a worker asks the policies; what no worker
 * can see (no socket, too long for one, a tag of number 0 before another) is dropped, and counted
 * as that.
 */
#pragma once

#include "frame.h"

/*
 * What is too long for a socket: an interface's MTU may be longer, or have grown since the sockets
 * were opened. It is the kernel's (false). Where the program forwards by itself, or the interface is
 * guarded, it is marked, and goes on: should it be for this machine, the kernel gets it all the same.
 */
static __always_inline bool fits(struct frame *frame, __u32 length)
{
    if (length <= frame->longest)
        return true;
    frame->odd = IS_TOO_LONG;
    return frame->guarded || frame->forwards;
}

/*
 * A packet to an address of this machine, whose payload begins at `payload`: a worker's where it is
 * ESP, or ESP in UDP, and tunnels end at the address; else the kernel's.
 */
static __always_inline enum owner local(const struct frame *frame, __u8 address, __u8 protocol,
                                        bool is_fragment, const void *payload,
                                        enum verdict *verdict)
{
    const struct esp_in_udp *datagram = payload;

    /* The kernel puts fragments together; no ESP packet should come in any. */
    if (address != ENDS_TUNNELS || frame->odd != IS_PLAIN || is_fragment)
        VERDICT(LOCAL);
    if (protocol == PROTOCOL_ESP)
        return OWNER_WORKER;
    /* A keepalive is shorter than that. */
    if (protocol != PROTOCOL_UDP || !has(frame, datagram, sizeof(*datagram)))
        VERDICT(LOCAL);
    if (bpf_ntohs(datagram->ports.to) != PORT_ESP || datagram->spi == 0)
        VERDICT(LOCAL);
    return OWNER_WORKER;
}

/* A complete packet that is for another machine. */
static __always_inline enum owner transit(const struct frame *frame, enum owner transit,
                                          enum verdict *verdict)
{
    if (frame->odd == IS_TOO_LONG && frame->guarded)
        VERDICT(TOO_LONG_FOR_WORKERS);
    return frame->odd == HAS_OPTIONS ? OWNER_WORKER : transit;
}

/* Whether packets from this address, or to it, are the kernel's. */
static __always_inline bool is_left_v4(__be32 address)
{
    struct prefix_v4 key = { .length = 32, .address = address };

    return bpf_map_lookup_elem(&wl_left_v4, &key);
}

static __always_inline bool is_left_v6(const __be32 *address)
{
    struct prefix_v6 key = { .length = 128 };

    for (int word = 0; word < 4; word++)
        key.address[word] = address[word];
    return bpf_map_lookup_elem(&wl_left_v6, &key);
}

/* The first 16 bits of 169.254.0.0/16 (RFC 3927). */
#define IPV4_LINK_LOCAL 0xa9fe

/* RFC 791; which addresses are not forwarded: RFC 1812, section 5.3.7. */
static __always_inline enum owner ipv4(struct frame *frame, enum verdict *verdict)
{
    const struct ipv4 *ip = frame->header;
    __u8 to, from, *address;

    if (!has(frame, ip, sizeof(*ip)))
        VERDICT(SHORT);
    if (ip->version_words < IPV4_PLAIN || ip->version_words > 0x4f)
        VERDICT(MALFORMED);
    if (ip->version_words != IPV4_PLAIN) {
        if (!frame->guarded)
            VERDICT(OPTIONS);
        frame->odd = HAS_OPTIONS;
    }
    if (ip->time_to_live <= 1)
        VERDICT(TIME_TO_LIVE);

    /*
     * Groups are never forwarded. Reserved addresses (240.0.0.0/4) the kernel forwards; workers
     * drop them. 255.255.255.255 is this link.
     */
    to = byte_at(&ip->to, 0);
    if (to > 223 && (!frame->guarded || to <= 239 || ip->to == 0xffffffff))
        VERDICT(MULTICAST);
    from = byte_at(&ip->from, 0);
    if (from > 223 && !frame->guarded)
        VERDICT(MARTIAN);
    if (to == 0 || to == 127 || from == 0 || from == 127)
        VERDICT(MARTIAN);
    /* The kernel forwards these where a route says so. */
    if (!frame->guarded && (bpf_ntohs(half_at(&ip->to)) == IPV4_LINK_LOCAL ||
                            bpf_ntohs(half_at(&ip->from)) == IPV4_LINK_LOCAL))
        VERDICT(LINK_LOCAL);
    if (!fits(frame, bpf_ntohs(ip->length)))
        VERDICT(TOO_LONG);

    address = bpf_map_lookup_elem(&wl_local_v4, &ip->to);
    if (address)
        return local(frame, *address, ip->protocol,
                     bpf_ntohs(ip->fragment) & IPV4_IS_FRAGMENT, ip + 1, verdict);
    if (frame->leaves && (is_left_v4(ip->from) || is_left_v4(ip->to)))
        VERDICT(LEFT);
    return transit(frame, OWNER_TRANSIT_V4, verdict);
}

/* fe80::/10 (RFC 4291, section 2.5.6). */
static __always_inline bool is_link_local(const __be32 *address)
{
    return (bpf_ntohs(half_at(address)) & 0xffc0) == 0xfe80;
}

/* ::/127, which is "unspecified" and loopback. */
static __always_inline bool is_unspecified_or_loopback(const __be32 *address)
{
    return (address[0] | address[1] | address[2]) == 0 && bpf_ntohl(address[3]) <= 1;
}

/* RFC 8200; which addresses are not forwarded: RFC 4291, sections 2.5 and 2.7. */
static __always_inline enum owner ipv6(struct frame *frame, enum verdict *verdict)
{
    const struct ipv6 *ip = frame->header;
    __u8 *address;

    if (!has(frame, ip, sizeof(*ip)))
        VERDICT(SHORT);
    if ((byte_at(ip, 0) & 0xf0) != 0x60)
        VERDICT(MALFORMED);
    if (ip->next_header == PROTOCOL_HOP_BY_HOP) {
        if (!frame->guarded)
            VERDICT(OPTIONS);
        frame->odd = HAS_OPTIONS;
    }
    if (ip->hop_limit <= 1)
        VERDICT(TIME_TO_LIVE);
    if (byte_at(ip->to, 0) == 0xff)
        VERDICT(MULTICAST);
    if (byte_at(ip->from, 0) == 0xff)
        VERDICT(MARTIAN);
    if (is_link_local(ip->to) || is_link_local(ip->from))
        VERDICT(LINK_LOCAL);
    if (is_unspecified_or_loopback(ip->to) || is_unspecified_or_loopback(ip->from))
        VERDICT(MARTIAN);
    if (!fits(frame, sizeof(*ip) + bpf_ntohs(ip->payload)))
        VERDICT(TOO_LONG);

    address = bpf_map_lookup_elem(&wl_local_v6, ip->to);
    if (address)
        return local(frame, *address, ip->next_header, false, ip + 1, verdict);
    if (frame->leaves && (is_left_v6(ip->from) || is_left_v6(ip->to)))
        VERDICT(LEFT);
    return transit(frame, OWNER_TRANSIT_V6, verdict);
}

/* Whether frames of this VLAN are routed here. */
static __always_inline bool is_routed(__u32 vlan)
{
    __u32 *routed = bpf_map_lookup_elem(&wl_vlans, &vlan);

    return routed && *routed;
}

/* Looks at a frame from its first byte on. */
static __always_inline enum owner classify(struct frame *frame, enum verdict *verdict)
{
    const struct ethernet *ethernet;
    __u16 type, vlan;

    measure(frame);
    ethernet = frame->header;
    if (!has(frame, ethernet, sizeof(*ethernet)))
        VERDICT(SHORT);
    if (ethernet->to[0] & 1)
        VERDICT(LINK_MULTICAST);
    if (word_at(ethernet->to) != word_at(station.mac) ||
        half_at(ethernet->to + 4) != half_at(station.mac + 4))
        VERDICT(OTHER_STATION);
    frame->longest = station.longest;
    frame->guarded = station.guarded;
    frame->leaves = station.leaves;
    frame->tagged = false;
    frame->odd = IS_PLAIN;

    type = bpf_ntohs(ethernet->type);
    frame->header += sizeof(*ethernet);
    if (type == ETHERTYPE_VLAN || type == ETHERTYPE_SERVICE_VLAN) {
        const struct tag *tag = frame->header;

        if (!has(frame, tag, sizeof(*tag)))
            VERDICT(SHORT);
        vlan = bpf_ntohs(tag->control) & TAG_VLAN;
        if (type == ETHERTYPE_SERVICE_VLAN) {
            if (vlan != 0 || !frame->guarded)
                VERDICT(NOT_IP);
        } else if (vlan == 0 ? !frame->guarded : !is_routed(vlan)) {
            VERDICT(VLAN);
        }
        type = bpf_ntohs(tag->type);
        /*
         * The kernel takes tags of number 0 off, one after the other, and forwards what is behind.
         * Behind another number a second tag is the kernel's, which routes none of them.
         */
        if (vlan == 0 && (type == ETHERTYPE_VLAN || type == ETHERTYPE_SERVICE_VLAN))
            VERDICT(TAGS);
        frame->tagged = true;
        frame->header += sizeof(*tag);
    }
    if (type == ETHERTYPE_IPV4)
        return ipv4(frame, verdict);
    if (type == ETHERTYPE_IPV6)
        return ipv6(frame, verdict);
    VERDICT(NOT_IP);
}
