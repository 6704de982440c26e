/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The licence for the kernel: some helpers require a compatible one. */
#pragma once

#include <linux/types.h>
#include <bpf/bpf_helpers.h>

char licence[] SEC("license") = "Dual MIT/GPL";
