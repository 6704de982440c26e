/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Turns each copy of a frame (live frames, `src/measured/sender.rs`) into the next packet of a measured load:
 * headers of its flow, length, number, time, checksums. Sends it when it is due.
 *
 * The pages of the copies are reused without being reset, so everything that a router changes is rewritten.
 * The rest of the payload remains zero.
 *
 * One thread runs it at a time, so counters need no atomic operation.
 */
#include "measured.h"

/* Words of a flow's headers that hold Ethernet, IP and UDP. */
#define WORDS 8
#define ETHERNET_BYTES 14
/* Offsets from the frame's beginning. */
#define IPV4_LENGTH 16
#define IPV4_CHECKSUM 24
#define IPV4_UDP 34
#define IPV6_PAYLOAD 18
#define IPV6_UDP 54
/* Most readings of the clock until a packet is due, some 20 ns each. */
#define LOOKS 200
/* Fractional bits of the nanosecond in times within a segment. */
#define FRACTION 16

/* All of these are set when the program is loaded. */

/* The egress interface. */
const volatile __u32 out = 0;
/* True if packets are of IPv6. */
const volatile __u32 ipv6 = 0;
/* Bytes of the copied frame, which is the longest. */
const volatile __u32 longest = 0;
/* Number of lengths, which rotate. */
const volatile __u32 lengths = 1;
/* Number of flows, which rotate. */
const volatile __u64 flows = 1;
/* Magic, run and stream of the stamp, at their bit positions. */
const volatile __u64 stamped = 0;

struct flow {
    __u64 headers[WORDS];
    /* One's complement sum of the IPv4 header without length and checksum. */
    __u32 ip;
    /* The same for pseudo-header and UDP header, without lengths and checksum. */
    __u32 udp;
};

/* As in `src/measured/sender.rs`. */
/* Packets with the same time from one to the next. */
struct segment {
    /* Time at which the first is due, in nanoseconds from the start. */
    __u64 first;
    /* Time from one packet to the next, in 2^-FRACTION ns; 0 for as fast as possible. */
    __u64 gap;
    /* Packets that are later than this, in nanoseconds, are skipped. */
    __u64 patience;
    __u64 packets;
};

struct sender {
    /* Written before the program runs, in nanoseconds since the start of the machine. */

    /* Start of the load; 0 for the first run of the program, which writes it. */
    __u64 start;
    /* End of the load, even if packets are left; before the load has begun, its duration. */
    __u64 until;

    /* The present segment: the number of the next one, and the rest of this one. */

    __u64 next;
    __u64 origin;
    __u64 gap;
    __u64 patience;
    __u64 remaining;
    /* Time from `origin` to the next packet, in 2^-FRACTION ns. */
    __u64 offset;

    /* Counted by the program. */

    /* Packets sent, and the number of the next. */
    __u64 sequence;
    /* The flow of the next packet, and the number of complete rounds of all flows. */
    __u64 flow;
    __u64 round;
    /* Bytes sent. */
    __u64 bytes;
    /* Packets that were late, and not sent. */
    __u64 left_out;
    /* Time at which the last one was sent. */
    __u64 last;
    /* Longest time for which a due packet waited although the one before was sent. */
    __u64 stall;
};

struct sender sender SEC(".data.sender");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, struct segment);
    __uint(max_entries, 1);
} wl_segments SEC(".maps");

/* Not 0 to stop sending. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, __u64);
    __uint(max_entries, 1);
} wl_stop SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, struct flow);
    __uint(max_entries, 1);
} wl_flows SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, 1);
} wl_lengths SEC(".maps");

/* True if there is a packet to send, now or later. */
static __always_inline bool is_left(void)
{
    __u32 key = 0;
    __u64 *stop = bpf_map_lookup_elem(&wl_stop, &key);

    if (!stop || *stop != 0)
        return false;
    if (sender.remaining != 0)
        return true;
    key = sender.next;
    struct segment *segment = bpf_map_lookup_elem(&wl_segments, &key);
    if (!segment)
        return false;
    if (sender.start == 0) {
        sender.start = sender.last = bpf_ktime_get_ns();
        sender.until += sender.start;
    }
    sender.next += 1;
    sender.origin = sender.start + segment->first;
    sender.gap = segment->gap;
    sender.patience = segment->patience;
    sender.remaining = segment->packets;
    sender.offset = 0;
    return true;
}

/* Reads the clock until the next packet is due; 0 if it is not due after a while. */
static __always_inline __u64 wait(void)
{
    __u64 due = sender.origin + (sender.offset >> FRACTION);
    __u64 now;

    for (int look = 0; look < LOOKS; look++) {
        now = bpf_ktime_get_ns();
        if (now >= due)
            return now;
    }
    return 0;
}

/* Skips packets. */
static __always_inline void leave_out(__u64 packets)
{
    sender.remaining -= packets;
    sender.left_out += packets;
    sender.offset += packets * sender.gap;
}

/* Skips packets that are too late, and records the lateness of the next one; false if none is left. */
static __always_inline bool catch_up(__u64 now)
{
    __u64 due = sender.origin + (sender.offset >> FRACTION);
    __u64 since = due > sender.last ? due : sender.last;
    __u64 late = now - due;

    if (now >= sender.until) {
        /* In a segment at full speed no packet has a due time. */
        leave_out(sender.remaining);
        return false;
    }
    if (now > since && now - since > sender.stall)
        sender.stall = now - since;
    if (late <= sender.patience)
        return true;
    __u64 excess = sender.remaining;
    if (sender.gap != 0 && ((late - sender.patience) << FRACTION) / sender.gap < excess)
        excess = ((late - sender.patience) << FRACTION) / sender.gap;
    leave_out(excess);
    return sender.remaining != 0;
}

/* Adds the halves of a word to a sum. */
static __always_inline __u64 add(__u64 sum, __u64 word)
{
    return sum + (word >> 48) + (word >> 32 & 0xffff) + (word >> 16 & 0xffff) + (word & 0xffff);
}

/* Returns the complement of a sum with end-around carry. */
static __always_inline __u16 complement(__u64 sum)
{
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    return ~sum;
}

/* The length of the next frame in bytes. */
static __always_inline __u32 length(void)
{
    /* Depends on the round too, so that every flow has every length. */
    __u32 at = (sender.round + sender.flow) % lengths;
    __u32 *found = bpf_map_lookup_elem(&wl_lengths, &at);

    return found ? *found : longest;
}

SEC("xdp.frags")
int wl_measured_send(struct xdp_md *context)
{
    __u32 number = sender.flow;
    __u32 bytes = longest;
    const __u32 udp = ipv6 ? IPV6_UDP : IPV4_UDP;
    struct stamp stamp;
    __u16 checksum;

    if (!is_left())
        return XDP_DROP;
    __u64 now = wait();
    if (now == 0 || !catch_up(now))
        return XDP_DROP;
    struct flow *flow = bpf_map_lookup_elem(&wl_flows, &number);
    if (!flow)
        return XDP_ABORTED;
    if (lengths > 1) {
        bytes = length();
        if (bytes < longest && bpf_xdp_adjust_tail(context, (int)bytes - (int)longest) != 0)
            return XDP_ABORTED;
    }
    void *frame = (void *)(long)context->data;
    if (frame + udp + UDP_BYTES + STAMP_BYTES > (void *)(long)context->data_end)
        return XDP_ABORTED;

    /* Up to the UDP checksum, or a little before it. */
    __u64 *words = frame;
    for (int word = 0; word < (ipv6 ? 7 : 5); word++)
        words[word] = flow->headers[word];
    if (ipv6)
        *(__u32 *)(frame + 56) = flow->headers[7];
    __u32 datagram = bytes - udp;
    if (ipv6) {
        *(__be16 *)(frame + IPV6_PAYLOAD) = bpf_htons(datagram);
    } else {
        __u32 total = bytes - ETHERNET_BYTES;
        *(__be16 *)(frame + IPV4_LENGTH) = bpf_htons(total);
        *(__be16 *)(frame + IPV4_CHECKSUM) = bpf_htons(complement((__u64)flow->ip + total));
    }
    stamp.first = stamped | sender.sequence >> 8;
    stamp.second = sender.sequence << STAMP_TIME_BITS | (now << 8 >> 8);
    __u16 check = stamp_checksum(&stamp);
    /* The length counts twice (RFC 768): in pseudo-header and header. */
    __u64 sum = add(add((__u64)flow->udp + 2 * datagram + check, stamp.first), stamp.second);
    checksum = complement(sum);
    *(__be16 *)(frame + udp + 4) = bpf_htons(datagram);
    *(__be16 *)(frame + udp + 6) = bpf_htons(checksum ? checksum : 0xffff);
    *(__be64 *)(frame + udp + UDP_BYTES) = bpf_cpu_to_be64(stamp.first);
    *(__be64 *)(frame + udp + UDP_BYTES + 8) = bpf_cpu_to_be64(stamp.second);
    *(__be16 *)(frame + udp + UDP_BYTES + 16) = bpf_htons(check);

    sender.remaining -= 1;
    sender.offset += sender.gap;
    sender.sequence += 1;
    sender.flow += 1;
    if (sender.flow == flows) {
        sender.flow = 0;
        sender.round += 1;
    }
    sender.bytes += bytes;
    sender.last = now;
    return bpf_redirect(out, 0);
}
