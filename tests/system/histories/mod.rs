//! Histories: after every change, packets leave Wattline as they leave the kernel alone.
//!
//! A history is a sequence of commands that run in a router with Wattline and in its twin with the kernel
//! alone. After each, probes to addresses at the ends of all prefixes are sent through both, and all that
//! comes out is compared: by which link, as which bytes, and which ICMP errors. A difference is shrunk to
//! the shortest sequence that shows it. `WATTLINE_SEED` selects other histories, `WATTLINE_HISTORIES` their
//! number in the long tests.

#[path = "../../../crates/rib/tests/histories/generator.rs"]
mod generator;
mod twins;
mod wires;

use crate::harness::quiet;
use generator::Random;
use twins::{Counts, Twins};

const LENGTH: usize = 20;

/// Plays random histories and fails with the shortest form of the differences.
fn compare(by_xdp: bool, histories: u64, default_seed: u64) {
    let seed = number("WATTLINE_SEED", default_seed);
    let mut twins = Twins::start(by_xdp);
    let mut counts = Counts::default();
    let mut differences = Vec::new();
    for history in 0..histories {
        let mut random = Random(seed.wrapping_mul(1_000_003).wrapping_add(history));
        let mut steps = generator::history(&mut random, LENGTH);
        let Some((last, difference)) = twins.play(&steps, &mut counts) else { continue };
        println!("seed {seed}, history {history}: {difference}\n{}", steps.join("\n"));
        steps.truncate(last + 1);
        let (steps, difference) = shrink(&mut twins, steps, difference);
        println!("shrunk: {difference}\n{}\n", steps.join("\n"));
        differences.push(difference);
        if differences.len() >= 5 {
            break;
        }
    }
    let totals = twins.stop();
    println!("{counts:?} {totals:?}");
    assert!(differences.is_empty(), "{differences:#?}");
    assert!(totals.balance(), "{totals:?}");
    assert_eq!(totals.xdp_forwarded > 0, by_xdp, "{totals:?}");
    // Wattline does not leave the work to the kernel.
    assert!(totals.forwarded * 4 > counts.packets, "{counts:?} {totals:?}");
}

/// Leaves out steps as long as a difference remains.
fn shrink(
    twins: &mut Twins,
    mut steps: Vec<String>,
    mut difference: String,
) -> (Vec<String>, String) {
    let mut place = 0;
    while place < steps.len() {
        let mut fewer = steps.clone();
        fewer.remove(place);
        match twins.play(&fewer, &mut Counts::default()) {
            Some((last, found)) => {
                fewer.truncate(last + 1);
                (steps, difference) = (fewer, found);
            }
            None => place += 1,
        }
    }
    (steps, difference)
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
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
