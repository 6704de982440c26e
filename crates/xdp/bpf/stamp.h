/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The stamp that a measured packet carries as its UDP payload: which trial, stream and number it
 * has, and when it was sent.
 *
 * The generator's Rust code (crates/testbed/src/packets/stamp.rs) draws it, and a test there
 * compares both. Here it is two words and a checksum, as numbers.
 */
#pragma once

#include <linux/types.h>

#define STAMP_BYTES 18
#define STAMP_MAGIC 0x57a7
/* Times have so many bits. */
#define STAMP_TIME_BITS 56

struct stamp {
    /* Magic (16 bits), run (8), stream (8), upper part of the sequence number (32). */
    __u64 first;
    /* Lower part of the sequence number (8), time in nanoseconds (56). */
    __u64 second;
};

/* A mix of both words, of which any changed bit changes half the result's bits. */
static __always_inline __u16 stamp_checksum(const struct stamp *stamp)
{
    __u64 mixed = stamp->first ^ (stamp->second << 29 | stamp->second >> 35);

    mixed *= 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27 ^ stamp->second) * 0x94d049bb133111eb;
    return mixed >> 48;
}
