//! Histories: after every change, packets leave Wattline as they leave the kernel alone.
//!
//! A history is a sequence of commands that run in a router with Wattline and in its twin with the kernel
//! alone. After each, probes to addresses at the ends of all prefixes are sent through both, and all that
//! comes out is compared: by which link, as which bytes, and which ICMP errors. A difference is shrunk to
//! the shortest sequence that shows it. `WATTLINE_SEED` selects other histories, `WATTLINE_HISTORIES` their
//! number in the long tests.

#[path = "../../../crates/rib/tests/histories/generator.rs"]
mod generator;
#[path = "../../../crates/rib/tests/histories/search.rs"]
mod search;
mod twins;
mod wires;

use crate::harness::quiet;
use search::number;
use twins::{Counts, Twins};

/// Plays random histories and fails with the shortest form of the differences.
fn compare(by_xdp: bool, histories: u64, default_seed: u64) {
    let mut twins = Twins::start(by_xdp);
    let mut counts = Counts::default();
    let differences = search::differences(histories, default_seed, 5, |steps, is_shorter| {
        let mut aside = Counts::default();
        twins.play(steps, if is_shorter { &mut aside } else { &mut counts })
    });
    let totals = twins.stop();
    println!("{counts:?} {totals:?}");
    assert!(differences.is_empty(), "{differences:#?}");
    assert!(totals.balance(), "{totals:?}");
    assert_eq!(totals.xdp_forwarded > 0, by_xdp, "{totals:?}");
    // Wattline does not leave the work to the kernel.
    assert!(totals.forwarded * 4 > counts.packets, "{counts:?} {totals:?}");
}

#[test]
fn random_histories_end_in_the_kernels_packets_with_workers() {
    quiet("random_histories_end_in_the_kernels_packets_with_workers", || compare(false, 3, 1));
}

#[test]
fn random_histories_end_in_the_kernels_packets_with_xdp_programs() {
    quiet("random_histories_end_in_the_kernels_packets_with_xdp_programs", || compare(true, 3, 1));
}

#[test]
#[ignore = "takes some seconds per history: `make test-long`"]
fn many_random_histories_end_in_the_kernels_packets_with_workers() {
    quiet("many_random_histories_end_in_the_kernels_packets_with_workers", || {
        compare(false, number("WATTLINE_HISTORIES", 200), 2);
    });
}

#[test]
#[ignore = "takes some seconds per history: `make test-long`"]
fn many_random_histories_end_in_the_kernels_packets_with_xdp_programs() {
    quiet("many_random_histories_end_in_the_kernels_packets_with_xdp_programs", || {
        compare(true, number("WATTLINE_HISTORIES", 200), 2);
    });
}
