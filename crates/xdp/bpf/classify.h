/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Classification of frames.
 *
 *   Ethernet   to us?        no  -> kernel (ARP requests, ND, routing protocols, bridging)
 *   VLAN       routed here?  no  -> kernel
 *   IPv4/IPv6  transit?      no  -> kernel (local, options, TTL, multicast, link-local, DHCP replies,
 *                                   neighbour discovery)
 *                            yes -> kernel, where its prefix or route is left to that; else
 *                                   forwarded by the program itself, where it may (forward.h),
 *                                   else socket of the receive queue; kernel if there is none
 *   local      ESP, and a tunnel ends here? -> to the socket
 *
 * Frames in doubt go to the kernel, which knows more. The data plane or forward.h checks the headers of
 * transit packets (checksum, lengths).
 *
 * While the interface is guarded (policies decide about forwarded packets, and the kernel does not know
 * them), only frames pass that the kernel certainly does not forward: packets to an address of this machine
 * or to a group, and protocols of the link. All other frames to the interface's own station go to the socket,
 * regardless of addresses, options and TTL, and a worker applies the policies. Frames that no worker can see
 * are dropped and counted: without a socket, too long for it, to another station, group or VLAN, and
 * protocols that the kernel may unpack. An interface of the kernel on top of this one may route such a frame,
 * or pass it to a container or the other ports of a bridge, for which a TTL of 1 suffices.
 */
#pragma once

#include "frame.h"

/*
 * Checks that a packet is not too long for a socket: an interface's MTU may be larger, or have grown since
 * the sockets were opened. Longer packets are the kernel's (false). If the program forwards by itself, or the
 * interface is guarded, they are marked and classified further: packets for this machine still go to the
 * kernel.
 */
static __always_inline bool fits(struct frame *frame, __u32 length)
{
    if (length <= frame->longest)
        return true;
    frame->odd = IS_TOO_LONG;
    return frame->guarded || frame->forwards;
}

/* A packet on a guarded interface that may be forwarded: a worker's, if workers can see it. */
static __always_inline enum owner judged(const struct frame *frame, enum verdict *verdict)
{
    if (frame->unseen == VERDICT_LINK_MULTICAST)
        VERDICT(STATION);
    if (frame->unseen != VERDICT_REDIRECTED) {
        *verdict = frame->unseen;
        return OWNER_KNOWN;
    }
    if (frame->odd == IS_TOO_LONG)
        VERDICT(TOO_LONG_FOR_WORKERS);
    return OWNER_WORKER;
}

/*
 * A packet to an address of this machine, whose payload begins at `payload`: a worker's if it is ESP, or ESP
 * in UDP, and tunnels end at the address; otherwise the kernel's.
 */
static __always_inline enum owner local(const struct frame *frame, __u8 address, __u8 protocol,
                                        bool is_fragment, bool is_left, const void *payload,
                                        enum verdict *verdict)
{
    const struct esp_in_udp *datagram = payload;

    /* Its header may forward it from here (source routes). */
    if (frame->guarded && frame->odd == HAS_OPTIONS)
        return judged(frame, verdict);
    /* The kernel reassembles fragments; ESP packets should not come in fragments. */
    if (address != ENDS_TUNNELS || frame->odd != IS_PLAIN || is_fragment ||
        frame->unseen != VERDICT_REDIRECTED)
        VERDICT(LOCAL);
    /* A worker would forward the inner packet. */
    if (frame->guarded && is_left)
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

/* True if the kernel forwards nothing to an address of this kind. */
static __always_inline bool is_local(const struct frame *frame, __u8 address)
{
    return address != NOT_LOCAL && address != IS_PROXIED &&
           (address != IS_SHARED || !frame->guarded);
}

/* True if packets from or to this address are the kernel's. */
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

/*
 * A packet for another machine, by a route (BY_KERNEL and so on). On a guarded interface, packets of prefixes
 * that are left to the kernel are dropped: otherwise it would forward them unchecked as soon as forwarding is
 * enabled.
 */
static __always_inline enum owner transit(const struct frame *frame, bool is_left, __u16 route,
                                          enum owner transit, enum verdict *verdict)
{
    if (is_left && frame->guarded)
        VERDICT(FORWARDING_OFF);
    if (is_left)
        VERDICT(LEFT);
    if (frame->guarded)
        return judged(frame, verdict);
    if (route == BY_KERNEL)
        VERDICT(KERNEL_ROUTE);
    if (route == BY_VLAN + frame->vlan)
        VERDICT(SAME_INTERFACE);
    return transit;
}

/* The route to an address. */
static __always_inline __u16 route_v4(const struct frame *frame, __be32 address)
{
    struct prefix_v4 key = { .length = 32, .address = address };
    __u16 *route;

    if (frame->guarded || !(frame->leaves & LEAVES_ROUTES))
        return BY_FAST_PATH;
    route = bpf_map_lookup_elem(&wl_routes_v4, &key);
    return route ? *route : BY_FAST_PATH;
}

static __always_inline __u16 route_v6(const struct frame *frame, const __be32 *address)
{
    struct prefix_v6 key = { .length = 128 };
    __u16 *route;

    if (frame->guarded || !(frame->leaves & LEAVES_ROUTES))
        return BY_FAST_PATH;
    for (int word = 0; word < 4; word++)
        key.address[word] = address[word];
    route = bpf_map_lookup_elem(&wl_routes_v6, &key);
    return route ? *route : BY_FAST_PATH;
}

/*
 * True if a packet's checksum covers only its pseudo header, because the sender leaves it to hardware that a
 * virtual interface does not have. Also true for one in 65,536 other packets, which the kernel forwards
 * correctly. SCTP leaves 0. `pseudo` is the sum of the addresses.
 */
static __always_inline bool is_unfinished(const struct frame *frame, __u8 protocol, __u64 pseudo,
                                          __u16 length, const void *payload)
{
    __u32 field;

    if (!(frame->leaves & LEAVES_UNFINISHED) || !has(frame, payload, CHECKSUM_OF_UDP + 2))
        return false;
    if (protocol == PROTOCOL_SCTP)
        return has(frame, payload, CHECKSUM_OF_SCTP + 4) && word_at(payload + CHECKSUM_OF_SCTP) == 0;
    if (protocol != PROTOCOL_TCP && protocol != PROTOCOL_UDP)
        return false;
    field = half_at(payload + CHECKSUM_OF_UDP);
    /* Keeps both reads: without CAP_PERFMON, verifiers reject a pointer with a variable offset. */
    asm volatile("" : "+r"(field));
    if (protocol == PROTOCOL_TCP) {
        if (!has(frame, payload, CHECKSUM_OF_TCP + 2))
            return false;
        field = half_at(payload + CHECKSUM_OF_TCP);
    }
    pseudo += bpf_htons(protocol);
    pseudo += bpf_htons(length);
    return field == folded(pseudo);
}

/* True if a packet may begin a TCP connection. Behind extension headers of IPv6 a worker checks that. */
static __always_inline bool is_opening(const struct frame *frame, __u8 protocol,
                                       const void *payload)
{
    if (!(frame->leaves & LEAVES_OPENINGS))
        return false;
    switch (protocol) {
    case PROTOCOL_TCP:
        return has(frame, payload, FLAGS_OF_TCP + 1) && byte_at(payload, FLAGS_OF_TCP) & TCP_SYN;
    case PROTOCOL_ROUTING:
    case PROTOCOL_DESTINATION_OPTIONS:
    case PROTOCOL_FRAGMENT:
    case PROTOCOL_AUTHENTICATION:
        return true;
    default:
        return false;
    }
}

/*
 * True if a packet is a reply to a DHCP client: to an address that the client does not have yet, so that it
 * reads the frame itself (packet(7)).
 */
static __always_inline bool is_to_client(const struct frame *frame, const struct ipv4 *ip)
{
    const struct ports *ports = (const void *)(ip + 1);

    return ip->protocol == PROTOCOL_UDP && ip->version_words == IPV4_PLAIN &&
           !(bpf_ntohs(ip->fragment) & IPV4_IS_FRAGMENT) && has(frame, ports, sizeof(*ports)) &&
           bpf_ntohs(ports->from) == PORT_BOOTP_SERVER && bpf_ntohs(ports->to) == PORT_BOOTP_CLIENT;
}

/*
 * Passes a reply to a DHCP client of a guarded interface only to readers of raw frames: it sets an Ethernet
 * address that no interface has. False if it is for the client of another machine.
 */
static __always_inline bool bring_to_client(const struct frame *frame, const struct ipv4 *ip)
{
    const struct bootp *reply = (const void *)(ip + 1);
    struct ethernet *ethernet = (void *)(long)frame->context->data;
    __u32 first;
    __u16 last;

    if (frame->unseen != VERDICT_REDIRECTED && frame->unseen != VERDICT_LINK_MULTICAST)
        return false;
    if (!has(frame, reply, sizeof(*reply)) || !has(frame, ethernet, sizeof(*ethernet)))
        return false;
    first = word_at(reply->client);
    last = half_at(reply->client + 4);
    if (reply->operation != BOOTP_REPLY)
        return false;
    if ((first || last) && (first != word_at(station.mac) || last != half_at(station.mac + 4)))
        return false;
    *(__u32 *)&ethernet->to[0] = 0;
    *(__u16 *)&ethernet->to[4] = 0;
    return true;
}

/* The sum of the addresses of a packet, in words of four bytes. */
static __always_inline __u64 sum_of_addresses(const struct ipv6 *ip)
{
    __u64 sum = 0;

    for (int word = 0; word < 4; word++)
        sum += (__u64)ip->from[word] + ip->to[word];
    return sum;
}

/* True if a packet is a message of neighbour discovery. */
static __always_inline bool is_discovery(const struct frame *frame, const struct ipv6 *ip)
{
    const struct icmp *icmp = (const void *)(ip + 1);

    return ip->next_header == PROTOCOL_ICMPV6 && has(frame, icmp, 1) &&
           icmp->type >= ICMPV6_DISCOVERY_FIRST && icmp->type <= ICMPV6_DISCOVERY_LAST;
}

/* The first 16 bits of 169.254.0.0/16 (RFC 3927). */
#define IPV4_LINK_LOCAL 0xa9fe

/*
 * RFC 791; for addresses that are not forwarded: RFC 1812, section 5.3.7. The kernel forwards some of them
 * (0.0.0.0/8 since Linux 5.3, 240.0.0.0/4, 127.0.0.0/8 with route_localnet, link-local ones): on a guarded
 * interface only the destination decides, and workers drop the others.
 */
static __always_inline enum owner ipv4(struct frame *frame, enum verdict *verdict)
{
    const struct ipv4 *ip = frame->header;
    enum owner owner = OWNER_TRANSIT_V4;
    __u8 to, from, address;
    bool is_left;

    if (!has(frame, ip, sizeof(*ip))) {
        if (frame->guarded)
            return judged(frame, verdict);
        VERDICT(SHORT);
    }
    if (ip->version_words < IPV4_PLAIN || ip->version_words > 0x4f)
        VERDICT(MALFORMED);
    if (ip->version_words != IPV4_PLAIN) {
        if (!frame->guarded)
            VERDICT(OPTIONS);
        frame->odd = HAS_OPTIONS;
    }
    if (ip->time_to_live <= 1 && !frame->guarded)
        VERDICT(TIME_TO_LIVE);

    /* Groups are never forwarded here. 255.255.255.255 is this link. */
    to = byte_at(&ip->to, 0);
    if (to > 223 && (!frame->guarded || to <= 239 || ip->to == 0xffffffff))
        VERDICT(MULTICAST);
    from = byte_at(&ip->from, 0);
    if (!frame->guarded) {
        if (from > 223 || to == 0 || to == 127 || from == 0 || from == 127)
            VERDICT(MARTIAN);
        /* The kernel forwards these if a route does. */
        if (bpf_ntohs(half_at(&ip->to)) == IPV4_LINK_LOCAL ||
            bpf_ntohs(half_at(&ip->from)) == IPV4_LINK_LOCAL)
            VERDICT(LINK_LOCAL);
    }
    if (!fits(frame, bpf_ntohs(ip->length)))
        VERDICT(TOO_LONG);

    address = local_v4(&ip->to);
    /* Broadcast in a network: frames for a group are not forwarded. */
    if (address != NOT_LOCAL && frame->unseen == VERDICT_LINK_MULTICAST)
        VERDICT(LOCAL);
    is_left = frame->leaves & LEAVES_PREFIXES && (is_left_v4(ip->from) || is_left_v4(ip->to));
    if (is_local(frame, address))
        return local(frame, address, ip->protocol,
                     bpf_ntohs(ip->fragment) & IPV4_IS_FRAGMENT, is_left, ip + 1, verdict);
    if (is_to_client(frame, ip) && (!frame->guarded || bring_to_client(frame, ip)))
        VERDICT(CLIENT);
    if (ip->protocol == PROTOCOL_TCP && !(bpf_ntohs(ip->fragment) & IPV4_FRAGMENT_OFFSET) &&
        is_opening(frame, PROTOCOL_TCP, ip + 1))
        owner = OWNER_WORKER;
    else if (!frame->guarded && !(bpf_ntohs(ip->fragment) & IPV4_IS_FRAGMENT) &&
             is_unfinished(frame, ip->protocol, (__u64)ip->from + ip->to,
                           bpf_ntohs(ip->length) - sizeof(*ip), ip + 1))
        VERDICT(UNFINISHED);
    return transit(frame, is_left, route_v4(frame, ip->to), owner, verdict);
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

/*
 * True if a routing header may be among the first headers of a packet. Headers behind an authentication
 * header come from a neighbour that the kernel trusts.
 */
static __always_inline bool may_be_routed(const struct frame *frame, const struct ipv6 *ip)
{
    const struct fragment *fragment = (const void *)(ip + 1);
    __u8 next = ip->next_header;

    if (next == PROTOCOL_FRAGMENT) {
        if (!has(frame, fragment, sizeof(*fragment)))
            return true;
        /* The kernel uses the headers of the first fragment. */
        if (bpf_ntohs(fragment->offset_flags) & IPV6_FRAGMENT_OFFSET)
            return false;
        next = fragment->next_header;
    }
    return next == PROTOCOL_HOP_BY_HOP || next == PROTOCOL_ROUTING ||
           next == PROTOCOL_DESTINATION_OPTIONS || next == PROTOCOL_FRAGMENT;
}

/*
 * RFC 8200; for addresses that are not forwarded: RFC 4291, sections 2.5 and 2.7. The kernel forwards some of
 * them, above all back to their own link: on a guarded interface only the destination decides.
 */
static __always_inline enum owner ipv6(struct frame *frame, enum verdict *verdict)
{
    const struct ipv6 *ip = frame->header;
    enum owner owner = OWNER_TRANSIT_V6;
    __u8 address;
    bool is_left;

    if (!has(frame, ip, sizeof(*ip))) {
        if (frame->guarded)
            return judged(frame, verdict);
        VERDICT(SHORT);
    }
    if ((byte_at(ip, 0) & 0xf0) != 0x60)
        VERDICT(MALFORMED);
    if (ip->next_header == PROTOCOL_HOP_BY_HOP && !frame->guarded)
        VERDICT(OPTIONS);
    if (ip->hop_limit <= 1 && !frame->guarded)
        VERDICT(TIME_TO_LIVE);
    if (byte_at(ip->to, 0) == 0xff)
        VERDICT(MULTICAST);
    if (!frame->guarded) {
        if (byte_at(ip->from, 0) == 0xff)
            VERDICT(MARTIAN);
        if (is_link_local(ip->to) || is_link_local(ip->from))
            VERDICT(LINK_LOCAL);
        if (is_unspecified_or_loopback(ip->to) || is_unspecified_or_loopback(ip->from))
            VERDICT(MARTIAN);
    }
    if (!fits(frame, sizeof(*ip) + bpf_ntohs(ip->payload)))
        VERDICT(TOO_LONG);

    address = local_v6(ip->to);
    is_left = frame->leaves & LEAVES_PREFIXES && (is_left_v6(ip->from) || is_left_v6(ip->to));
    if (is_local(frame, address)) {
        if (frame->guarded && may_be_routed(frame, ip))
            return judged(frame, verdict);
        return local(frame, address, ip->next_header, false, is_left, ip + 1, verdict);
    }
    /* The kernel or another program may answer for machines behind this one (RFC 4389). */
    if (is_discovery(frame, ip) &&
        (!frame->guarded || (address == IS_PROXIED && ip->hop_limit == DISCOVERY_HOP_LIMIT &&
                             !frame->tagged && frame->unseen == VERDICT_REDIRECTED)))
        VERDICT(NEIGHBOUR_DISCOVERY);
    if (is_opening(frame, ip->next_header, ip + 1))
        owner = OWNER_WORKER;
    else if (!frame->guarded && is_unfinished(frame, ip->next_header, sum_of_addresses(ip),
                                              bpf_ntohs(ip->payload), ip + 1))
        VERDICT(UNFINISHED);
    return transit(frame, is_left, route_v6(frame, ip->to), owner, verdict);
}

/* True if frames of this VLAN are routed here. */
static __always_inline bool is_routed(__u32 vlan)
{
    __u32 *routed = bpf_map_lookup_elem(&wl_vlans, &vlan);

    return routed && *routed;
}

/*
 * True if an EtherType, or an IEEE 802.3 length, belongs to a protocol between neighbours, which the kernel
 * neither forwards nor unpacks. `wattline_packet::ethernet` has the same list.
 */
static __always_inline bool is_of_link(__u16 type)
{
    switch (type) {
    case ETHERTYPE_ARP:
    case 0x0842: /* Wake-on-LAN */
    case 0x22ea: /* MSRP */
    case 0x8035: /* RARP */
    case 0x8809: /* slow protocols: LACP, OAM */
    case 0x8863: /* PPPoE discovery */
    case 0x888e: /* EAPOL */
    case 0x893a: /* IEEE 1905.1 */
    case 0x88c7: /* EAPOL before a station changes its access point */
    case 0x88cc: /* LLDP */
    case 0x88f5: /* MVRP */
    case 0x88f6: /* MMRP */
    case 0x88f7: /* PTP */
    case 0x8902: /* CFM */
    case 0x9000: /* loopback test */
        return true;
    }
    /* Lengths: LLC, with spanning tree and IS-IS behind it. */
    return type < 0x0600;
}

static __always_inline bool is_tag(__u16 type)
{
    return type == ETHERTYPE_VLAN || type == ETHERTYPE_SERVICE_VLAN;
}

/* The packet behind the Ethernet header and its tags. */
static __always_inline enum owner payload(struct frame *frame, __u16 type, enum verdict *verdict)
{
    if (type != ETHERTYPE_IPV4 && type != ETHERTYPE_IPV6) {
        if (frame->guarded && !is_of_link(type))
            VERDICT(PROTOCOL);
        if (frame->unseen == VERDICT_LINK_MULTICAST)
            VERDICT(LINK_MULTICAST);
        /* An interface on top of this one needs ARP; a bridge would forward the others. */
        if (frame->unseen == VERDICT_STATION && type != ETHERTYPE_ARP)
            VERDICT(STATION);
        if (frame->unseen == VERDICT_STATION)
            VERDICT(OTHER_STATION);
        VERDICT(NOT_IP);
    }
    return type == ETHERTYPE_IPV4 ? ipv4(frame, verdict) : ipv6(frame, verdict);
}

/* Classifies a frame from its first byte on. */
static __always_inline enum owner classify(struct frame *frame, enum verdict *verdict)
{
    const struct ethernet *ethernet;
    __u16 type, vlan;

    measure(frame);
    ethernet = frame->header;
    if (!has(frame, ethernet, sizeof(*ethernet)))
        VERDICT(SHORT);
    frame->longest = station.longest;
    frame->guarded = station.guarded;
    frame->leaves = station.leaves;
    frame->tagged = false;
    frame->vlan = 0;
    frame->odd = IS_PLAIN;
    frame->unseen = VERDICT_REDIRECTED;

    if (ethernet->to[0] & 1) {
        if (!frame->guarded)
            VERDICT(LINK_MULTICAST);
        frame->unseen = VERDICT_LINK_MULTICAST;
    } else if (word_at(ethernet->to) != word_at(station.mac) ||
        half_at(ethernet->to + 4) != half_at(station.mac + 4)) {
        if (!frame->guarded)
            VERDICT(OTHER_STATION);
        frame->unseen = VERDICT_STATION;
    }

    type = bpf_ntohs(ethernet->type);
    frame->header += sizeof(*ethernet);
    if (is_tag(type)) {
        const struct tag *tag = frame->header;

        if (!has(frame, tag, sizeof(*tag)))
            VERDICT(SHORT);
        vlan = bpf_ntohs(tag->control) & TAG_VLAN;
        if (!frame->guarded) {
            if (type == ETHERTYPE_SERVICE_VLAN)
                VERDICT(NOT_IP);
            if (!is_routed(vlan))
                VERDICT(VLAN);
        } else if (vlan != 0 && (type == ETHERTYPE_SERVICE_VLAN || !is_routed(vlan))) {
            frame->unseen = VERDICT_TAGS;
        }
        frame->vlan = vlan;
        type = bpf_ntohs(tag->type);
        frame->tagged = true;
        frame->header += sizeof(*tag);
        /*
         * The kernel removes tags of number 0, one after the other, and forwards the packet behind them.
         * Behind another number it may have an interface for the second tag.
         */
        if (is_tag(type) && frame->guarded) {
            if (vlan == 0)
                VERDICT(TAGS);
            tag = frame->header;
            if (!has(frame, tag, sizeof(*tag)))
                VERDICT(SHORT);
            frame->unseen = VERDICT_TAGS;
            type = bpf_ntohs(tag->type);
            frame->header += sizeof(*tag);
            if (is_tag(type))
                VERDICT(TAGS);
        }
    }
    return payload(frame, type, verdict);
}
