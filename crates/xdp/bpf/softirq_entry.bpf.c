/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* irq:softirq_entry: a processor begins to handle a soft interrupt, in ksoftirqd or elsewhere. */
#include "licence.h"
#include "polls.h"

SEC("raw_tp")
int wl_softirq_entry(struct bpf_raw_tracepoint_args *context)
{
    struct core *core;

    if ((__u32)context->args[0] != NET_RX_SOFTIRQ)
        return 0;
    core = this_core();
    if (!core)
        return 0;
    core->packets_before = core->packets;
    core->began = bpf_ktime_get_ns();
    return 0;
}
