/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Counts frames that could not even be queued for an interface. */
#include "licence.h"
#include "losses.h"

/* The number of the map `wl_devices`; set when the program is loaded. */
const volatile __u32 devices_number = 0;

/* The arguments of the tracepoint. */
enum { DEV, PROGRAM, TARGET, ERR, MAP_TYPE, MAP_ID, INDEX };

/* xdp_redirect_err: the interface takes no frames of programs for now, so no more are sent there. */
SEC("raw_tp")
int wl_redirect(struct bpf_raw_tracepoint_args *context)
{
    int error = context->args[ERR];
    __u32 map = context->args[MAP_ID];
    /* The key in `wl_devices`, which is the interface. */
    __u32 ifindex = context->args[INDEX];
    __u32 slot;

    if (map != devices_number || !find_slot(ifindex, &slot))
        return 0;
    count_refused(slot, 1);
    close_egress_port(ifindex, slot, error);
    return 0;
}
