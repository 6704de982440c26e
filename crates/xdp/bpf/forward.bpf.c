/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The same as sockets.bpf.c, but the program forwards plain transit unicast itself, by the kernel's own table
 * and without a socket. Other transit goes to the socket of its queue, or to the kernel if it is too long for
 * that.
 */
#include "licence.h"
#include "plain.h"

SEC("xdp.frags")
int wattline(struct xdp_md *context)
{
    struct frame frame = { .context = context, .forwards = true };
    enum verdict verdict;
    enum owner owner;

    if (forward_plain_v4(context))
        return XDP_REDIRECT;
    owner = classify(&frame, &verdict);
    /* The kernel's look-up needs the VLAN's own interface, which the program does not know. */
    if (owner == OWNER_TRANSIT_V4 && !frame.tagged)
        owner = forward_v4(&frame, &verdict);
    else if (owner == OWNER_TRANSIT_V6 && !frame.tagged)
        owner = forward_v6(&frame, &verdict);
    if (owner != OWNER_KNOWN && frame.returns)
        verdict = VERDICT_SAME_INTERFACE;
    else if (owner != OWNER_KNOWN)
        verdict = frame.odd == IS_TOO_LONG ? VERDICT_TOO_LONG : to_socket(&frame);
    count_verdict(verdict);
    return action_of(verdict);
}
