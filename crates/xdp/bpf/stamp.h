/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The stamp in the UDP payload of a measured packet: trial, stream, number, and time of sending.
 *
 * The generator's Rust code (crates/testbed/src/packets/stamp.rs) documents the layout, and a test there
 * compares both. Here it is two words and a checksum, as numbers.
 */
#pragma once

#include <linux/types.h>

#define STAMP_BYTES 18
#define STAMP_MAGIC 0x57a7
/* Number of bits of times. */
#define STAMP_TIME_BITS 56

struct stamp {
    /* Magic (16 bits), run (8), stream (8), upper part of the sequence number (32). */
    __u64 first;
    /* Lower part of the sequence number (8), time in nanoseconds (56). */
    __u64 second;
};

/* A mix of both words: any changed bit changes half of the result's bits. */
static __always_inline __u16 stamp_checksum(const struct stamp *stamp)
{
    __u64 mixed = stamp->first ^ (stamp->second << 29 | stamp->second >> 35);

    mixed *= 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27 ^ stamp->second) * 0x94d049bb133111eb;
    return mixed >> 48;
}
