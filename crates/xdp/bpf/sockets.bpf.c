/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The program of an interface: transit to the socket of its queue, everything else to the kernel. */
#include "classify.h"
#include "licence.h"

SEC("xdp.frags")
int wattline(struct xdp_md *context)
{
    struct frame frame = { .context = context };
    enum verdict verdict;

    if (classify(&frame, &verdict) != OWNER_KNOWN)
        verdict = to_socket(&frame);
    count_verdict(verdict);
    return action_of(verdict);
}
