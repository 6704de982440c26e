/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the kernel is told: some helpers that programs call are for compatible licences only. */
#pragma once

#include <linux/types.h>
#include <bpf/bpf_helpers.h>

char licence[] SEC("license") = "Dual MIT/GPL";
