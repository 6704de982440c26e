//! Prints how much redundancy elimination saves and how fast it runs
//! (`cargo run --release -p wattline-bench --example redundancy -- [CAPTURE…]`).

use std::path::Path;
use wattline_bench::redundancy::{Payloads, capture_payloads, measure, synthetic, zstd_saves};
use wattline_redundancy::nodes::select::Selection;

const CACHE: usize = 64 << 20;
/// Bytes of each synthetic stream; less than the cache holds, so nothing is evicted.
const STREAM: usize = 48 << 20;
const REPEATS: usize = 5;

fn main() -> Result<(), wattline_testbed::Error> {
    println!(
        "{:24}{:>9}{:>12}{:>9}{:>13}{:>13}{:>9}",
        "stream", "packets", "selection", "saved %", "encode Gb/s", "decode Gb/s", "zstd %"
    );
    for percent in [0, 25, 50, 75, 95] {
        let (payloads, known) = synthetic(percent, STREAM);
        print(&format!("{known:.2} % comes again"), &payloads);
    }
    for path in std::env::args().skip(1) {
        let name = path.rsplit('/').next().unwrap_or_default();
        print(name, &capture_payloads(Path::new(&path))?);
    }
    Ok(())
}

fn print(name: &str, payloads: &Payloads) {
    let reference =
        zstd_saves(payloads).map_or("missing".to_owned(), |saved| format!("{saved:.2}"));
    for selection in Selection::ALL {
        let Some(outcome) = measure(selection, CACHE, payloads, REPEATS) else { continue };
        println!(
            "{name:24}{:>9}{:>12}{:>9.2}{:>13.2}{:>13.2}{reference:>9}",
            payloads.len(),
            selection.name(),
            outcome.saved_percent,
            outcome.encode_gbps.median,
            outcome.decode_gbps.median,
        );
    }
}
