/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* irq:softirq_exit: a processor has handled a soft interrupt. */
#include "licence.h"
#include "polls.h"

SEC("raw_tp")
int wl_softirq_exit(struct bpf_raw_tracepoint_args *context)
{
    struct core *core;
    __u64 spent;

    if ((__u32)context->args[0] != NET_RX_SOFTIRQ)
        return 0;
    core = this_core();
    /* The observer was attached within this one. */
    if (!core || core->began == 0)
        return 0;
    spent = bpf_ktime_get_ns() - core->began;
    core->began = 0;
    core->runs += 1;
    if (core->packets != core->packets_before)
        core->useful += spent;
    else
        core->empty += spent;
    return 0;
}
