/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Settings of an interface's program, written by the control thread. */
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

/* As in `src/lib.rs`. */
#define QUEUES_MAX 256
#define LOCAL_ADDRESSES_MAX 16384
#define VLANS 4096
#define LEFT_PREFIXES_MAX 1024
#define ROUTED_PREFIXES_MAX 65536

/* The interface. */
struct station {
    __u8 mac[6];
    /* The length in bytes of the longest IP packet that sockets take. */
    __u16 longest;
    /* 1 while policies decide about forwarded packets, otherwise 0. */
    __u32 guarded;
    /* Bits LEAVES_... */
    __u32 leaves;
};

/* Packets of some prefixes are the kernel's. */
#define LEAVES_PREFIXES 1
/* Packets by some routes are the kernel's. */
#define LEAVES_ROUTES 2
/* IPv4 packets that leave by their ingress interface are the kernel's, which may send redirects. */
#define LEAVES_SAME_INTERFACE 4
/* Packets with an unfinished checksum are the kernel's: the interface is virtual. */
#define LEAVES_UNFINISHED 8
/* Packets that begin TCP connections are workers', which lower the size of their segments. */
#define LEAVES_OPENINGS 16

struct station station SEC(".data.station");

/* AF_XDP sockets by receive queue. */
struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP);
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, QUEUES_MAX);
} wl_sockets SEC(".maps");

/* 1 for each VLAN that is routed here. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, VLANS);
} wl_vlans SEC(".maps");

/* The value of addresses that are not local. */
#define NOT_LOCAL 0
/* The value of a local address. */
#define IS_LOCAL 1
/* The value of a local address at which tunnels end. */
#define ENDS_TUNNELS 2
/*
 * The value of a network's address or its broadcast address (RFC 1812, section 5.3.5): the kernel answers to
 * it, or forwards to it (the network's own address since Linux 5.14, the other with bc_forwarding).
 */
#define IS_SHARED 3
/* An address of another machine for which the kernel answers neighbour discovery here. */
#define IS_PROXIED 4

/* IPv4 addresses of this machine, as on the wire. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, __be32);
    __type(value, __u8);
    __uint(max_entries, LOCAL_ADDRESSES_MAX);
} wl_local_v4 SEC(".maps");

struct prefix_v4 {
    /* In bits. */
    __u32 length;
    __be32 address;
};

struct prefix_v6 {
    __u32 length;
    __be32 address[4];
};

/* Prefixes with whose packets (from or to them) the kernel does more than route. */
struct {
    __uint(type, BPF_MAP_TYPE_LPM_TRIE);
    __type(key, struct prefix_v4);
    __type(value, __u8);
    __uint(max_entries, LEFT_PREFIXES_MAX);
    __uint(map_flags, BPF_F_NO_PREALLOC);
} wl_left_v4 SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LPM_TRIE);
    __type(key, struct prefix_v6);
    __type(value, __u8);
    __uint(max_entries, LEFT_PREFIXES_MAX);
    __uint(map_flags, BPF_F_NO_PREALLOC);
} wl_left_v6 SEC(".maps");

/*
 * Routes by destination: BY_KERNEL, BY_FAST_PATH for a longer prefix inside such a prefix, or BY_VLAN plus
 * the VLAN of this interface by which the route leaves (0 without a tag) and from which the kernel redirects.
 */
#define BY_FAST_PATH 0
#define BY_KERNEL 1
#define BY_VLAN 2

struct {
    __uint(type, BPF_MAP_TYPE_LPM_TRIE);
    __type(key, struct prefix_v4);
    __type(value, __u16);
    __uint(max_entries, ROUTED_PREFIXES_MAX);
    __uint(map_flags, BPF_F_NO_PREALLOC);
} wl_routes_v4 SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LPM_TRIE);
    __type(key, struct prefix_v6);
    __type(value, __u16);
    __uint(max_entries, ROUTED_PREFIXES_MAX);
    __uint(map_flags, BPF_F_NO_PREALLOC);
} wl_routes_v6 SEC(".maps");

/* IPv6 addresses of this machine, likewise. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, __be32[4]);
    __type(value, __u8);
    __uint(max_entries, LOCAL_ADDRESSES_MAX);
} wl_local_v6 SEC(".maps");

/* A power of two. */
#define LOCAL_WORDS 64

/*
 * A filter of the two maps: the bit of each present address is set, and of some former ones. For most other
 * addresses one word shows that they are not in the maps.
 */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, __u64);
    __uint(max_entries, LOCAL_WORDS);
} wl_local_bits SEC(".maps");

/* True if an address, its words combined by exclusive or, may be in the maps; `src/local.rs` has the same. */
static __always_inline bool may_be_local(__u32 folded)
{
    __u32 bit = (folded * 0x9e3779b1) >> 20, word = bit / 64;
    __u64 *bits = bpf_map_lookup_elem(&wl_local_bits, &word);

    return bits && *bits >> (bit % 64) & 1;
}

/*
 * The value of an entry of the local addresses. Without CAP_PERFMON, the verifier of Linux 6.12 rejects a
 * pointer that is compared with NULL again later.
 */
static __always_inline __u8 local_kind(const __u8 *entry)
{
    return entry ? *entry : NOT_LOCAL;
}

static __always_inline __u8 local_v4(const __be32 *address)
{
    if (!may_be_local(*address))
        return NOT_LOCAL;
    return local_kind(bpf_map_lookup_elem(&wl_local_v4, address));
}

static __always_inline __u8 local_v6(const __be32 *address)
{
    if (!may_be_local(address[0] ^ address[1] ^ address[2] ^ address[3]))
        return NOT_LOCAL;
    return local_kind(bpf_map_lookup_elem(&wl_local_v6, address));
}
