/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * napi:napi_poll: an instance was polled. Counts polls and packets by instance and processor, and
 * streaks by PowerSave's estimator.
 *
 * The estimator is the same as `QueueEstimator` in the crate `policy`, which sets its rules; a test of the
 * crate `napi` replays the same samples through both. The end of a streak goes to a ring, which wakes its
 * reader.
 *
 * The program runs at every poll, so it must be cheap. The counts of a processor are a value of an array,
 * whose look-up takes three instructions instead of a call as for a hash table or a per-CPU map, and the
 * kernel's structures are read directly (`tp_btf`). Polls run with soft interrupts disabled, so a processor
 * runs the program once at a time and counters need no atomic operation.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include "kernel.h"
#include "licence.h"

/* CPUs that a rule can name. */
#define CPUS_MAX 1024

/* 1 in tests: the first argument is the number of an instance, the fourth is the time. */
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
    /* 1 if an event restarts only the counters of its own queue. */
    __u32 own;
    __u32 unused;
    /* A bit for each CPU that counts. */
    __u64 cpus[CPUS_MAX / 64];
};

/* Instances without a number are distinguished by interface, if they have one. */
struct key {
    __u32 napi;
    __u32 ifindex;
};

struct instance {
    /* 0 for a free place. */
    __u64 polls;
    struct key key;
    __u64 packets;
    /* Polls that used up the budget. */
    __u64 full;
    /* Samples in a row above and below the levels. */
    __u64 high;
    __u64 low;
    /* Restarts of all counters of this processor that this instance has followed. */
    __u32 silences;
    __u32 events;
    /* Generation of the rule under which `counts` was set, which is 1 if its streaks are counted here. */
    __u32 generation;
    __u32 counts;
    /* Polls since the last sample, and when the next sample is due. */
    __u64 batches;
    __u64 due;
    /* The interface and its network namespace when it was first seen. */
    __u32 ifindex;
    __u32 namespace;
};

/* Instances that a processor polls, each at the place of its number or a few places behind. */
#define PLACES 512
#define TRIES 8
struct instances {
    struct instance at[PLACES];
};

struct core {
    /* Time of the last sample. */
    __u64 last;
    /* Ends of streaks for which the ring had no room; polls of instances for which there was no room. */
    __u64 lost;
    __u64 unlisted;
    /* The rule that the counters follow, and restarts of all counters: after silences, after events. */
    __u32 generation;
    __u32 silences;
    __u32 events;
    /* Padding to a cache line, so that processors do not share one. */
    __u32 unused[7];
};

struct event {
    __u64 time;
    struct key key;
    __u32 cpu;
    __u32 above;
    __u32 generation;
    __u32 unused;
};

/*
 * The rule in force: 0 for none. Odd and even generations have separate places, so that none is half written.
 */
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

/* A value for each processor; the number of entries is set when the maps are created. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, struct core);
    __uint(max_entries, 1);
} wl_cores SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, struct instances);
    __uint(max_entries, 1);
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

/*
 * Returns the counters of an instance on this processor; NULL without room. If all its places are taken, it
 * replaces the first instance whose streaks are not counted, since instances of removed interfaces remain.
 */
static __always_inline struct instance *find(struct instances *all, const struct key *key,
                                             const struct napi_struct *napi)
{
    struct instance *of, *free = NULL;

    for (__u32 try = 0; try < TRIES; try++) {
        of = &all->at[(key->napi + key->ifindex + try) % PLACES];
        if (of->polls == 0) {
            free = of;
            break;
        }
        if (of->key.napi == key->napi && of->key.ifindex == key->ifindex)
            return of;
        if (!free && (!of->counts || of->generation != state.generation))
            free = of;
    }
    if (!free)
        return NULL;
    __builtin_memset(free, 0, sizeof(*free));
    free->key = *key;
    if (!rehearsal) {
        free->ifindex = napi->dev->ifindex;
        free->namespace = napi->dev->nd_net.net->ns.inum;
    }
    return free;
}

static __always_inline __u64 least(__u64 one, __u64 other)
{
    return one < other ? one : other;
}

/* Applies restarts of the processor's counters since the last sample. */
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

/* Counts a sample; returns true if a streak has ended, above the upper level or below the lower one. */
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

/* True if streaks of an instance are counted on a processor under the rule in force. */
static __always_inline bool counts(const struct key *key, const struct rule *rule, __u32 cpu)
{
    __u32 word = cpu / 64;

    if (cpu >= CPUS_MAX)
        return false;
    /* Otherwise the compiler removes the bound that the verifier of Linux 6.1 needs. */
    barrier_var(word);
    return rule->cpus[word % (CPUS_MAX / 64)] >> cpu % 64 & 1 &&
           bpf_map_lookup_elem(&wl_counting, key);
}

/* Counts a poll that found `fill` packets. */
static __always_inline void estimate(struct instance *of, struct core *core, __u32 cpu, __u32 fill,
                                     __u64 rehearsed)
{
    __u32 generation = state.generation, place = generation & 1;
    const struct rule *rule;
    struct event event = {};
    __u64 now = 0, batches = 1;
    bool above = false;

    if (generation == 0)
        return;
    rule = bpf_map_lookup_elem(&wl_rules, &place);
    if (!rule)
        return;
    if (of->generation != generation) {
        of->generation = generation;
        of->counts = counts(&of->key, rule, cpu);
    }
    if (!of->counts)
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
    event.key = of->key;
    event.cpu = cpu;
    event.above = above;
    event.generation = generation;
    if (bpf_ringbuf_output(&wl_streaks, &event, sizeof(event), 0) != 0)
        core->lost += 1;
}

SEC("tp_btf")
int wl_napi_poll(__u64 *arguments)
{
    const struct napi_struct *napi = (const void *)arguments[NAPI];
    int work = arguments[WORK], budget = arguments[BUDGET];
    __u32 cpu = bpf_get_smp_processor_id();
    struct core *core = bpf_map_lookup_elem(&wl_cores, &cpu);
    struct instances *all = bpf_map_lookup_elem(&wl_instances, &cpu);
    struct instance *of;
    struct key key = {};

    if (!core || !all)
        return 0;
    if (rehearsal) {
        key.napi = arguments[NAPI];
    } else {
        key.napi = napi->napi_id;
        if (key.napi == 0)
            key.ifindex = napi->dev->ifindex;
    }
    of = find(all, &key, napi);
    if (!of) {
        core->unlisted += 1;
        return 0;
    }
    of->polls += 1;
    if (work <= 0)
        return 0;
    of->packets += work;
    of->full += work >= budget;
    estimate(of, core, cpu, work, rehearsal ? arguments[TIME] : 0);
    return 0;
}
