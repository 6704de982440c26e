/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Headers on the wire.
 *
 * Numbers of more than one byte are big-endian there: `__be16` and `__be32` hold them unconverted;
 * bpf_ntohs() and bpf_ntohl() convert them.
 */
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>

/* EtherTypes. */
#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_IPV6 0x86dd
#define ETHERTYPE_ARP 0x0806
/* Of tags: IEEE 802.1Q, and 802.1ad, which comes before another tag. */
#define ETHERTYPE_VLAN 0x8100
#define ETHERTYPE_SERVICE_VLAN 0x88a8

/* Ethernet II. */
struct ethernet {
    __u8 to[6];
    __u8 from[6];
    __be16 type;
};

/* A tag behind its EtherType (IEEE 802.1Q). */
struct tag {
    /* Priority (4 bits) and VLAN (12 bits). */
    __be16 control;
    /* EtherType of the data behind the tag. */
    __be16 type;
};

/* The VLAN in `control` of a tag. */
#define TAG_VLAN 0x0fff

/* RFC 791, without options. */
struct ipv4 {
    /* 4 (4 bits), and the header's length in words of four bytes (4 bits). */
    __u8 version_words;
    __u8 service;
    /* Of the packet, with this header. */
    __be16 length;
    __be16 id;
    /* Flags (3 bits) and the fragment's offset (13 bits). */
    __be16 fragment;
    __u8 time_to_live;
    __u8 protocol;
    __be16 checksum;
    __be32 from;
    __be32 to;
};

/* Version and length of an IPv4 header without options. */
#define IPV4_PLAIN 0x45
/* In `fragment`: more fragments follow, and the offset. Both are 0 in a whole packet. */
#define IPV4_IS_FRAGMENT 0x3fff

/* RFC 8200. */
struct ipv6 {
    /* 6 (4 bits), traffic class (8 bits), flow label (20 bits). */
    __be32 version_class_label;
    /* Bytes behind this header. */
    __be16 payload;
    __u8 next_header;
    __u8 hop_limit;
    __be32 from[4];
    __be32 to[4];
};

/* Traffic class and flow label in `version_class_label`. */
#define IPV6_CLASS_LABEL 0x0fffffff

/* Flow label in `version_class_label`. */
#define IPV6_LABEL 0x000fffff

/* Protocols, and next headers of IPv6. */
#define PROTOCOL_HOP_BY_HOP 0
#define PROTOCOL_ICMP 1
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define PROTOCOL_DCCP 33
#define PROTOCOL_ROUTING 43
#define PROTOCOL_FRAGMENT 44
#define PROTOCOL_ESP 50
#define PROTOCOL_AUTHENTICATION 51
#define PROTOCOL_ICMPV6 58
#define PROTOCOL_DESTINATION_OPTIONS 60
#define PROTOCOL_SCTP 132
#define PROTOCOL_UDP_LITE 136

/* The fragment header of IPv6 (RFC 8200, section 4.5). */
struct fragment {
    __u8 next_header;
    __u8 reserved;
    __be16 offset_flags;
    __be32 id;
};

/* The offset in `offset_flags`. */
#define IPV6_FRAGMENT_OFFSET 0xfff8

/* The offset in `fragment` of an IPv4 header. */
#define IPV4_FRAGMENT_OFFSET 0x1fff

/* The first bytes of TCP and UDP alike. */
struct ports {
    __be16 from;
    __be16 to;
};

/*
 * RFC 792 and RFC 4443. An error's header is followed by the packet that it is about, from its IP header on.
 */
struct icmp {
    __u8 type;
    __u8 code;
    __be16 checksum;
    __be32 rest;
};

/* Neighbour discovery (RFC 4861): router solicitation to redirect. */
#define ICMPV6_DISCOVERY_FIRST 133
#define ICMPV6_DISCOVERY_LAST 137
/* The hop limit of such a message, which no router has forwarded. */
#define DISCOVERY_HOP_LIMIT 255

/* Types of ICMP for IPv4 that quote a packet, as bits. */
#define ICMP_ERRORS (1 << 3 | 1 << 4 | 1 << 5 | 1 << 11 | 1 << 12)
/* The last type of ICMP for IPv6 that is now an error. */
#define ICMPV6_LAST_ERROR 4

/* BOOTP and DHCP in UDP (RFC 951, RFC 2131), as far as it is read here. */
struct bootp {
    struct ports ports;
    __be16 length;
    __be16 checksum;
    __u8 operation;
    /* Hardware type and length, hops, transaction, seconds, flags, four addresses. */
    __u8 between[27];
    /* Hardware address of the client. */
    __u8 client[6];
};

#define PORT_BOOTP_SERVER 67
#define PORT_BOOTP_CLIENT 68
#define BOOTP_REPLY 2

/* Offsets of the checksum behind the IP header. */
#define CHECKSUM_OF_TCP 16
/* Offset of TCP's flags, and the bit of SYN. */
#define FLAGS_OF_TCP 13
#define TCP_SYN 0x02
#define CHECKSUM_OF_UDP 6
#define CHECKSUM_OF_SCTP 8

/* RFC 768, followed by the field that distinguishes ESP from IKE (RFC 3948). */
struct esp_in_udp {
    struct ports ports;
    __be16 length;
    __be16 checksum;
    /* The SPI of ESP, which is not 0; 0 before IKE. */
    __be32 spi;
};

/* The port of ESP in UDP, and of IKE behind NAT (RFC 3948). */
#define PORT_ESP 4500

/* The byte at an offset of anything. */
static __always_inline __u8 byte_at(const void *start, int offset)
{
    return ((const __u8 *)start)[offset];
}

/*
 * Four bytes at once, at any alignment: the supported processors read them in one step, and the verifier
 * knows that.
 */
static __always_inline __u32 word_at(const void *start)
{
    return *(const __u32 *)start;
}

/* Two bytes, likewise. */
static __always_inline __u16 half_at(const void *start)
{
    return *(const __u16 *)start;
}

/* A one's complement sum (RFC 1071) of a few words of four bytes, in words of two, which gives the same. */
static __always_inline __u32 folded(__u64 sum)
{
    sum = (__u32)sum + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    return sum > 0xffff ? sum - 0xffff : sum;
}
