//! The receive path compared with analytical results.

use wattline_study::receive::{
    Buffers, Data, Delivery, FRAME_LINES, Phase, ReceivePath, Step, Streams,
};

const PACKETS: u64 = 6_000;

fn plain() -> ReceivePath {
    ReceivePath { streams: Streams::OFF, next_line: false, ..ReceivePath::default() }
}

/// Without prefetcher, every line of payload comes from memory once, since DMA invalidated it.
#[test]
fn each_received_line_is_written_and_read_once() {
    let outcome = plain().run(PACKETS).unwrap();
    let payload = outcome.memory(Data::Payload);
    let lines = f64::from(FRAME_LINES);
    assert_eq!(outcome.per_packet(payload.dma_writes), lines);
    // The number of waiting packets differs between the start and the end of the run.
    assert!((outcome.per_packet(payload.reads) - lines).abs() < 0.05, "{payload:?}");
    // Two lines of headers are written for each chain of 30.
    assert!(outcome.per_packet(payload.write_backs) < 2.0 / 29.0, "{payload:?}");
    assert_eq!(outcome.steps, Step::ALL);
}

/// Four descriptors share a line, which each DMA write invalidates.
#[test]
fn descriptors_miss_once_in_four() {
    let outcome = plain().run(PACKETS).unwrap();
    assert!((outcome.misses(Phase::Conversion, Data::Descriptor) - 0.25).abs() < 1e-3);
}

/// A cache that holds all buffers never misses on them; a cache that holds none always misses.
#[test]
fn misses_on_buffers_are_bounded_by_their_footprint() {
    // Each object misses once, when the allocator first hands it out. A run three times as long has
    // hardly more of these misses.
    let small = ReceivePath { ring: 64, ..plain() };
    let misses = |packets: u64| small.run(packets).unwrap().management_misses() * packets as f64;
    let (short, long) = (misses(PACKETS), misses(3 * PACKETS));
    let steady = (long - short) / (2 * PACKETS) as f64;
    assert!(steady < 0.01, "{steady} in the long run; {short} and {long} in all");
    let tiny = ReceivePath { llc_bytes: 64 << 10, ..plain() };
    let misses = tiny.run(PACKETS).unwrap().misses(Phase::Conversion, Data::Skb);
    assert!((misses - 4.0).abs() < 0.01, "four lines of an SKB: {misses}");
}

/// Level 1 misses at least as often as the last level, which is accessed at each such miss.
#[test]
fn levels_are_accessed_in_order_and_the_seed_determines_the_run() {
    let outcome = ReceivePath::default().run(PACKETS).unwrap();
    for phase in Phase::ALL {
        for data in Data::ALL {
            let counts = outcome.counts(phase, data);
            assert!(counts.touches >= counts.l1_misses, "{phase:?} {data:?}");
            assert!(counts.l1_misses >= counts.llc_misses, "{phase:?} {data:?}");
            assert!(counts.touches >= counts.llc_misses + counts.late, "{phase:?} {data:?}");
        }
    }
    assert_eq!(outcome, ReceivePath::default().run(PACKETS).unwrap());
    assert_ne!(outcome, ReceivePath { seed: 2, ..ReceivePath::default() }.run(PACKETS).unwrap());
}

/// The switches have their intended effect.
#[test]
fn invalidation_removes_payload_traffic_and_an_engine_core_accesses() {
    // A prefetcher would read behind the end of a frame, and a small cache would evict some lines
    // before they are copied.
    let cached = ReceivePath { delivery: Delivery::Cache, llc_bytes: 16 << 20, ..plain() };
    let invalidated = ReceivePath { invalidate: true, ..cached }.run(PACKETS).unwrap();
    assert_eq!(invalidated.memory(Data::Payload).total(), 0);
    let engine = ReceivePath { copy_engine: true, ..cached }.run(PACKETS).unwrap();
    assert_eq!(engine.counts(Phase::Copy, Data::Payload).touches, 0);
    let contiguous = ReceivePath { buffers: Buffers::Contiguous, ..ReceivePath::default() };
    let contiguous = contiguous.run(PACKETS).unwrap();
    assert_eq!(contiguous.counts(Phase::Release, Data::Page).touches, 0);
}

/// Packets left in the sockets are not read, and a chain is released as a whole.
#[test]
fn windows_wait_and_chains_are_released_whole() {
    let of = |path: ReceivePath| path.run(PACKETS).unwrap();
    let full = of(plain());
    let empty = of(ReceivePath { window_bytes: 0, ..plain() });
    let lookups = |outcome: &wattline_study::receive::Outcome| {
        outcome.per_packet(outcome.counts(Phase::Release, Data::Page).touches)
    };
    // A line for the page of the buffer and a line for the page of the SKB; more only if objects
    // return to their slabs. The number of packets in the sockets differs between start and end.
    for outcome in [&full, &empty] {
        assert!((1.9..2.2).contains(&lookups(outcome)), "{}", lookups(outcome));
    }
    let both =
        of(ReceivePath { page_struct: wattline_study::receive::PageStruct::BothLines, ..plain() });
    assert_eq!(lookups(&both), 2.0 * lookups(&full));
    // TCP/IP sees the first packet of each chain: two lines of headers.
    let seen = |outcome: &wattline_study::receive::Outcome| {
        outcome.per_packet(outcome.counts(Phase::Protocol, Data::Payload).touches)
    };
    assert_eq!(seen(&of(ReceivePath { chain: 1, ..plain() })), 2.0);
    assert!((seen(&full) - 2.0 / 30.0).abs() < 0.02, "{}", seen(&full));
}

/// With the level-1 prefetcher no load of payload starts a fetch, but some wait.
#[test]
fn prefetched_line_is_hidden_or_awaited() {
    let path = ReceivePath { next_line: true, ..plain() };
    let outcome = path.run(PACKETS).unwrap();
    let copy = outcome.counts(Phase::Copy, Data::Payload);
    let (hidden, late) = (outcome.per_packet(copy.hidden_misses), outcome.per_packet(copy.late));
    // All lines but the first two, which were fetched for the headers, and one behind the end.
    assert!((hidden - 23.0).abs() < 0.5, "{hidden}");
    // A line requested while the previous load waits has arrived when it is read, so every second
    // load waits.
    assert!((10.0..12.0).contains(&late) && copy.waited_cycles <= copy.late * 270, "{late}");
}

#[test]
fn impossible_path_is_refused() {
    for (path, words) in [
        (ReceivePath { queues: 0, ..plain() }, "queues is 0"),
        (ReceivePath { ring: 4097, ..plain() }, "ring is 4097"),
        (ReceivePath { ring: 32, ..plain() }, "batch is 60"),
        (ReceivePath { io_bytes: 0, ..plain() }, "io_bytes is 0"),
        (ReceivePath { chain: 65, ..plain() }, "chain is 65"),
        (ReceivePath { window_bytes: 1 << 23, ..plain() }, "window_bytes is 8388608"),
        (ReceivePath { llc_bytes: 3 << 20, ..plain() }, "a power of two of sets"),
        (ReceivePath { queues: 64, ring: 4096, ..plain() }, "131071 or less"),
    ] {
        let error = path.run(1).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
