/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The ports of a router between which its programs forward: maps that all of them share. */
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
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
