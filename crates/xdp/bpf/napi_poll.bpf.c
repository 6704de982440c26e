/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * napi:napi_poll: an instance was polled. Counts polls and packets by instance and processor, and
 * streaks by PowerSave's estimator.
 *
 * The estimator is that of `QueueEstimator` in the crate `policy`, from which its rules come; a test of the
 * crate `napi` replays the same samples through both. The end of a streak goes to a ring, which wakes
 * its reader.
 */
#include "kernel.h"
#include "licence.h"
#include "polls.h"

/* CPUs that a rule can name. */
#define CPUS_MAX 1024

/* True in tests: the first argument is the number of an instance, the fourth is the time. */
const volatile __u32 rehearsal = 0;

/* The arguments of the tracepoint, and the time in tests. */
enum { NAPI, WORK, BUDGET, TIME };

/* As in `src/polls.rs`. */
struct rule {
    /* Time at which it begins, of the monotonic clock. */
    __u64 since;
    __u64 look;
    __u64 silence;
    __u32 above_packets;
    __u32 above_samples;
    __u32 below_packets;
    __u32 below_samples;
    /* Ends of streaks that are reported. */
    __u32 at_above;
    __u32 at_below;
    /* Most batches that a sample is worth. */
    __u32 above_worth;
    __u32 below_worth;
    /* Whether an event starts the counters of its own queue alone anew. */
    __u32 own;
    __u32 unused;
    /* A bit for each CPU that counts. */
    __u64 cpus[CPUS_MAX / 64];
};

/* Instances without a number are told apart by interface, as far as they have one. */
struct key {
    __u32 napi;
    __u32 ifindex;
};

struct instance {
    __u64 polls;
    __u64 packets;
    /* Polls that used up the budget. */
    __u64 full;
    /* Polls outside soft interrupts: by a thread of the instance, or by a process that waits for packets. */
    __u64 outside;
    /* Samples in a row above and below the levels. */
    __u64 high;
    __u64 low;
    /* Polls since the last sample, and when the next sample is due. */
    __u64 batches;
    __u64 due;
    /* Starts of all counters of this processor that this instance has followed. */
    __u32 silences;
    __u32 events;
    /* The rule under which `counts` was found: whether its streaks are counted. */
    __u32 generation;
    __u32 counts;
    /* The interface and its network namespace; 0 except on the processor that saw the instance first. */
    __u32 ifindex;
    __u32 namespace;
};

struct event {
    __u64 time;
    struct key key;
    __u32 cpu;
    __u32 above;
    __u32 generation;
    __u32 unused;
};

/* The rule in force: 0 for none. Odd and even generations have a place each, so that none is half written. */
struct state {
    __u32 generation;
};

struct state state SEC(".data.polls");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, struct rule);
    __uint(max_entries, 2);
} wl_rules SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
    __type(key, struct key);
    __type(value, struct instance);
    __uint(max_entries, 1024);
} wl_instances SEC(".maps");

/* Instances whose streaks are counted. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, struct key);
    __type(value, __u32);
    __uint(max_entries, 1024);
} wl_counting SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 65536);
} wl_streaks SEC(".maps");

/* The counters of an instance on this processor; NULL where there is no room. */
static __always_inline struct instance *find(const struct key *key, const struct napi_struct *napi)
{
    struct instance *found = bpf_map_lookup_elem(&wl_instances, key), fresh = {};

    if (found)
        return found;
    if (!rehearsal) {
        const struct net_device *dev = BPF_CORE_READ(napi, dev);
        fresh.ifindex = BPF_CORE_READ(dev, ifindex);
        fresh.namespace = BPF_CORE_READ(dev, nd_net.net, ns.inum);
    }
    bpf_map_update_elem(&wl_instances, key, &fresh, BPF_NOEXIST);
    return bpf_map_lookup_elem(&wl_instances, key);
}

static __always_inline __u64 least(__u64 one, __u64 other)
{
    return one < other ? one : other;
}

/* Brings the counters up to the starts that the processor has made since the last sample. */
static __always_inline void follow(struct instance *of, const struct core *core)
{
    if (of->silences != core->silences) {
        of->silences = core->silences;
        of->batches = of->due = 0;
    } else if (of->events == core->events) {
        return;
    }
    of->events = core->events;
    of->high = of->low = 0;
}

/* Counts a sample; returns whether a streak has ended: above the upper level, or below the lower one. */
static __always_inline bool sample(struct instance *of, struct core *core, const struct rule *rule,
                                   __u32 fill, __u64 batches, bool *above)
{
    if (fill > rule->above_packets) {
        of->low = 0;
        of->high += least(batches, rule->above_worth);
        *above = true;
        if (of->high <= rule->above_samples)
            return false;
    } else if (fill < rule->below_packets) {
        of->high = 0;
        of->low += least(batches, rule->below_worth);
        *above = false;
        if (of->low <= rule->below_samples)
            return false;
    } else {
        of->high = of->low = 0;
        return false;
    }
    of->high = of->low = 0;
    if (!rule->own)
        of->events = ++core->events;
    return true;
}

/* Counts a poll that found `fill` packets. */
static __always_inline void estimate(const struct key *key, struct instance *of, struct core *core,
                                     __u32 fill, __u64 rehearsed)
{
    __u32 generation = state.generation, place = generation & 1;
    __u32 cpu = bpf_get_smp_processor_id();
    const struct rule *rule;
    struct event event = {};
    __u64 now = 0, batches = 1;
    bool above = false;

    if (generation == 0)
        return;
    if (of->generation != generation) {
        of->generation = generation;
        of->counts = bpf_map_lookup_elem(&wl_counting, key) != NULL;
    }
    if (!of->counts)
        return;
    rule = bpf_map_lookup_elem(&wl_rules, &place);
    if (!rule || cpu >= CPUS_MAX || !(rule->cpus[cpu / 64 % (CPUS_MAX / 64)] >> cpu % 64 & 1))
        return;
    if (core->generation != generation) {
        core->generation = generation;
        core->silences += 1;
        core->last = rule->since;
    }
    if (rule->silence || rule->look) {
        now = rehearsal ? rehearsed : bpf_ktime_get_ns();
        if (rule->silence && now >= core->last + rule->silence)
            core->silences += 1;
        core->last = now;
    }
    follow(of, core);
    if (rule->look) {
        of->batches += 1;
        if (now < of->due)
            return;
        of->due = now + rule->look;
        batches = of->batches;
        of->batches = 0;
    }
    if (!sample(of, core, rule, fill, batches, &above))
        return;
    if (above ? !rule->at_above : !rule->at_below)
        return;
    event.time = now ? now : bpf_ktime_get_ns();
    event.key = *key;
    event.cpu = cpu;
    event.above = above;
    event.generation = generation;
    if (bpf_ringbuf_output(&wl_streaks, &event, sizeof(event), 0) != 0)
        core->lost += 1;
}

SEC("raw_tp")
int wl_napi_poll(struct bpf_raw_tracepoint_args *context)
{
    const struct napi_struct *napi = (const void *)context->args[NAPI];
    int work = context->args[WORK], budget = context->args[BUDGET];
    struct core *core = this_core();
    struct instance *of;
    struct key key = {};

    if (!core)
        return 0;
    if (rehearsal) {
        key.napi = context->args[NAPI];
    } else {
        key.napi = BPF_CORE_READ(napi, napi_id);
        if (key.napi == 0)
            key.ifindex = BPF_CORE_READ(napi, dev, ifindex);
    }
    of = find(&key, napi);
    if (!of) {
        core->unlisted += 1;
        return 0;
    }
    of->polls += 1;
    of->outside += core->began == 0;
    if (work <= 0)
        return 0;
    of->packets += work;
    of->full += work >= budget;
    core->packets += work;
    estimate(&key, of, core, work, rehearsal ? context->args[TIME] : 0);
    return 0;
}
