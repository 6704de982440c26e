/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Forwards the established flows of an nftables flowtable and leaves everything else to the kernel, whose
 * rules decide.
 */
#include "flow.h"
#include "licence.h"

SEC("xdp.frags")
int wattline(struct xdp_md *context)
{
    /* A virtual interface's sender, also behind a bridge, may leave checksums unfinished. */
    struct frame frame = { .context = context, .leaves = LEAVES_UNFINISHED };
    enum verdict verdict = VERDICT_LEFT;

    measure(&frame);
    if (forward_flow(&frame, &verdict) != OWNER_KNOWN)
        verdict = VERDICT_LEFT;
    count_verdict(verdict);
    return action_of(verdict);
}
