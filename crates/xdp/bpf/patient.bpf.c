/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sends each copy of a frame when it is due.
 *
 * A separate program because of its loop: without CAP_PERFMON, the verifier also follows speculative
 * execution, and gives up.
 */
#include "generator.h"

/* Readings of the clock, some 20 ns each. */
#define LOOKS 200

SEC("xdp.frags")
int wl_patient(struct xdp_md *context)
{
    return send(context, LOOKS);
}
