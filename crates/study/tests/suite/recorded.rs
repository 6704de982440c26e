//! The receive path compared with the recorded counts of its second model (2026-11-24; see
//! docs/explanation/receive-path.md). Optimisations must not change a single count. The tests of
//! caches, order of use and prefetcher show that the counts are correct, by comparison with plain
//! lists.

use wattline_study::receive::{Buffers, Delivery, PageStruct, ReceivePath, Streams};

const PACKETS: u64 = 4_000;

/// Returns paths that cover every switch, and caches with other numbers of ways.
fn paths() -> Vec<ReceivePath> {
    let base = ReceivePath::default();
    // Few buffers, since a path first ages for two hundred rounds of its rings.
    let small = ReceivePath { queues: 4, ring: 64, llc_bytes: 256 << 10, ..base };
    vec![
        base,
        ReceivePath { seed: 7, header_prefetch: false, ..small },
        ReceivePath { cores: 4, queues: 8, connections: 16, ..small },
        ReceivePath { streams: Streams::OFF, ..small },
        ReceivePath { streams: Streams { pages: 40, ahead: 9, at_once: 3 }, ..small },
        ReceivePath { streams: Streams { pages: 3, ahead: 1, at_once: 1 }, llc_ways: 8, ..small },
        ReceivePath { llc_ways: 1, ..small },
        ReceivePath { llc_ways: 4, cores: 2, delivery: Delivery::Cache, ..small },
        ReceivePath { delivery: Delivery::CacheWithMetadata, copy_engine: true, ..small },
        ReceivePath { delivery: Delivery::Cache, invalidate: true, on_die: true, ..small },
        ReceivePath { buffers: Buffers::Contiguous, io_bytes: 100, ..small },
        ReceivePath { next_line: false, pairs: true, page_struct: PageStruct::Packed, ..small },
        ReceivePath { chain: 1, window_bytes: 0, page_struct: PageStruct::BothLines, ..small },
        ReceivePath { shared_array: false, connections: 3, ..small },
        ReceivePath { llc_ways: 12, llc_bytes: 3 << 17, copy_engine: true, cores: 3, ..small },
    ]
}

#[test]
fn every_count_is_as_recorded() {
    let paths = paths();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let lines: Vec<String> =
            paths.iter().map(|path| format!("{:?}\n", path.run(PACKETS).unwrap())).collect();
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/receive_path.recorded");
        std::fs::write(file, lines.concat()).unwrap();
        return;
    }
    let recorded: Vec<&str> = include_str!("receive_path.recorded").lines().collect();
    assert_eq!(recorded.len(), paths.len());
    for (path, recorded) in paths.iter().zip(recorded) {
        assert_eq!(format!("{:?}", path.run(PACKETS).unwrap()), recorded, "{path:?}");
    }
}
