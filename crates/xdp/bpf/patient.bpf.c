/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sends each copy of a frame when it is due.
 *
 * A program of its own: the kernel follows a loop into what the processor may run ahead of a
 * decision, unless whoever loads it has CAP_PERFMON, and gives up there.
 */
#include "generator.h"

/* At the clock, some 20 ns each. */
#define LOOKS 200

SEC("xdp.frags")
int wl_patient(struct xdp_md *context)
{
    return send(context, LOOKS);
}
