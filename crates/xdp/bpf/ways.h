/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The ports of a router between which its programs forward: maps that all of them share. */
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

/* As in `src/forward/mod.rs`. */
#define FORWARD_PORTS_MAX 256

/* An interface that takes frames from us now. */
struct out {
    __u32 slot;
    /* 1 where it also takes frames in fragments, else 0. */
    __u32 takes_fragments;
};

/* Such interfaces. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, __u32);
    __type(value, struct out);
    __uint(max_entries, FORWARD_PORTS_MAX);
} wl_outs SEC(".maps");

/* Places of `wl_near_outs`; a power of two. */
#define NEAR_OUTS 1024

/*
 * The same, at the place that their index modulo NEAR_OUTS gives, which needs no hash. Each is one word, which is read
 * and written at once: the interface, its slot from bit 32 on, and bit 63 where it takes fragments; 0 for none. An
 * interface whose place another has is in `wl_outs` alone.
 */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, __u64);
    __uint(max_entries, NEAR_OUTS);
} wl_near_outs SEC(".maps");

#define NEAR_TAKES_FRAGMENTS (1ULL << 63)

/* All interfaces that are ports, to their slot. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, FORWARD_PORTS_MAX);
} wl_members SEC(".maps");

/* Where frames are sent, by interface. */
struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, FORWARD_PORTS_MAX);
} wl_devices SEC(".maps");

/* Finds an interface that takes frames from us now; false where there is none. */
static __always_inline bool find_out(__u32 ifindex, struct out *out)
{
    __u32 place = ifindex & (NEAR_OUTS - 1);
    __u64 *near = bpf_map_lookup_elem(&wl_near_outs, &place);
    __u64 word = near ? *near : 0;
    struct out *found;

    if ((__u32)word == ifindex) {
        out->slot = (__u32)(word >> 32) & (FORWARD_PORTS_MAX - 1);
        out->takes_fragments = !!(word & NEAR_TAKES_FRAGMENTS);
        return true;
    }
    found = bpf_map_lookup_elem(&wl_outs, &ifindex);
    if (found)
        *out = *found;
    return found;
}

/* Frames that an interface did not take, by slot. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, __u32);
    __type(value, __u64);
    __uint(max_entries, FORWARD_PORTS_MAX);
} wl_refused SEC(".maps");

/* The error for which an interface was closed since it was last opened, by slot; 0 for none. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, FORWARD_PORTS_MAX);
} wl_causes SEC(".maps");
