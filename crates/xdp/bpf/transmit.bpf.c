/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Counts frames of batches that drivers did not transmit. */
#include "kernel.h"
#include "licence.h"
#include "losses.h"

/* The network namespace of our ports; set when the program is loaded. */
const volatile __u32 namespace_number = 0;

/* The arguments of the tracepoint. */
enum { FROM_DEV, TO_DEV, SENT, DROPS, ERR };

/* xdp_devmap_xmit: a batch was handed to a driver. */
SEC("raw_tp")
int wl_transmit(struct bpf_raw_tracepoint_args *context)
{
    const struct net_device *from = (const void *)context->args[FROM_DEV];
    const struct net_device *to = (const void *)context->args[TO_DEV];
    int drops = context->args[DROPS];
    int error = context->args[ERR];
    __u32 slot;

    if (drops <= 0)
        return 0;
    if (BPF_CORE_READ(to, nd_net.net, ns.inum) != namespace_number)
        return 0;
    /* From one port to another. */
    if (!find_slot(BPF_CORE_READ(from, ifindex), &slot))
        return 0;
    if (!find_slot(BPF_CORE_READ(to, ifindex), &slot))
        return 0;
    count_refused(slot, drops);
    /* Without an error the ring is full. */
    if (error)
        close_egress_port(BPF_CORE_READ(to, ifindex), slot, error);
    return 0;
}
