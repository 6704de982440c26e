/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Counts every frame that an interface receives, and drops it (`src/load.rs`). */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include "licence.h"

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, __u32);
    __type(value, __u64);
    __uint(max_entries, 1);
} wl_frames SEC(".maps");

SEC("xdp.frags")
int wl_sink(struct xdp_md *context)
{
    __u32 key = 0;
    __u64 *frames = bpf_map_lookup_elem(&wl_frames, &key);

    if (frames)
        *frames += 1;
    return XDP_DROP;
}
