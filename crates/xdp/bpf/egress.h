/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The ports of a router between which its programs forward: maps that all of them share. */
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

/* As in `src/egress.rs`. */
#define FORWARD_PORTS_MAX 256

/* An interface to which programs may send now. */
struct egress_port {
    __u32 slot;
    /* 1 if it also takes frames in fragments, otherwise 0. */
    __u32 takes_fragments;
};

/* These interfaces, by index. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, __u32);
    __type(value, struct egress_port);
    __uint(max_entries, FORWARD_PORTS_MAX);
} wl_egress SEC(".maps");

/* Places of `wl_near_egress`; a power of two. */
#define NEAR_EGRESS 1024

/*
 * The same in an array, at index modulo NEAR_EGRESS, which needs no hash. Each entry is one word, read and
 * written at once: the interface, its slot from bit 32 on, and bit 63 if it takes fragments; 0 for none. An
 * interface whose place is taken by another is only in `wl_egress`.
 */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, __u64);
    __uint(max_entries, NEAR_EGRESS);
} wl_near_egress SEC(".maps");

#define NEAR_TAKES_FRAGMENTS (1ULL << 63)

/* All interfaces that are ports, to their slot. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, FORWARD_PORTS_MAX);
} wl_members SEC(".maps");

/* Devices to which frames are sent, by interface. */
struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, FORWARD_PORTS_MAX);
} wl_devices SEC(".maps");

/* Finds an interface to which programs may send now; false if it is none. */
static __always_inline bool find_egress_port(__u32 ifindex, struct egress_port *port)
{
    __u32 place = ifindex & (NEAR_EGRESS - 1);
    __u64 *near = bpf_map_lookup_elem(&wl_near_egress, &place);
    __u64 word = near ? *near : 0;
    struct egress_port *found;

    if ((__u32)word == ifindex) {
        port->slot = (__u32)(word >> 32) & (FORWARD_PORTS_MAX - 1);
        port->takes_fragments = !!(word & NEAR_TAKES_FRAGMENTS);
        return true;
    }
    found = bpf_map_lookup_elem(&wl_egress, &ifindex);
    if (found)
        *port = *found;
    return found;
}

/* Frames that an interface refused, by slot. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, __u32);
    __type(value, __u64);
    __uint(max_entries, FORWARD_PORTS_MAX);
} wl_refused SEC(".maps");

/* The error that closed an interface since it was last opened, by slot; 0 for none. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, FORWARD_PORTS_MAX);
} wl_causes SEC(".maps");
