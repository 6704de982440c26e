/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the program of an interface is told by the control thread. */
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

/* As in `src/lib.rs`. */
#define QUEUES_MAX 256
#define LOCAL_ADDRESSES_MAX 16384
#define VLANS 4096

/* The interface. */
struct station {
    __u8 mac[6];
    /* The length in bytes of the longest IP packet that sockets take. */
    __u16 longest;
    /* 1 while policies say what may leave, else 0. */
    __u32 guarded;
};

struct station station SEC(".data.station");

/* AF_XDP sockets by receive queue. */
struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP);
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, QUEUES_MAX);
} wl_sockets SEC(".maps");

/* VLAN to 1 where it is routed here. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, VLANS);
} wl_vlans SEC(".maps");

/* The value of a local address. */
#define IS_LOCAL 1
/* The same where tunnels end. */
#define ENDS_TUNNELS 2

/* IPv4 addresses of this machine, as on the wire. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, __be32);
    __type(value, __u8);
    __uint(max_entries, LOCAL_ADDRESSES_MAX);
} wl_local_v4 SEC(".maps");

/* IPv6 addresses of this machine, likewise. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, __be32[4]);
    __type(value, __u8);
    __uint(max_entries, LOCAL_ADDRESSES_MAX);
} wl_local_v6 SEC(".maps");
