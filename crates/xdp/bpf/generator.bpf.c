/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sends the copies of a frame that are due when they are generated, and drops the others. */
#include "generator.h"

SEC("xdp.frags")
int wl_generator(struct xdp_md *context)
{
    return send(context, 1);
}
