/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Common to the programs that send and receive a measured load (measured_send, measured_receive).
 */
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "licence.h"
#include "stamp.h"

#define UDP_BYTES 8
