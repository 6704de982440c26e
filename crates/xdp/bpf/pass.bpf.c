/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Leaves every frame to the kernel: a veth with a program runs NAPI (`src/load.rs`). */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "licence.h"

SEC("xdp.frags")
int wl_pass(struct xdp_md *context)
{
    return XDP_PASS;
}
