//! Histories: after every sequence of changes, the tables decide as the kernel does.
//!
//! A history is a sequence of commands in a namespace of its own. After each command, the decisions
//! of the tables are compared with the kernel's (`ip route get … iif …`) for addresses at the ends
//! of all prefixes. A difference is shrunk to the shortest sequence that shows it. `WATTLINE_SEED`
//! selects other histories, `WATTLINE_HISTORIES` their number in the long test.

mod fixed;
mod generator;
mod laboratory;

use generator::Random;
use laboratory::Counts;
use std::sync::atomic::{AtomicU32, Ordering};
use wattline_linux::namespace::Namespace;

const LENGTH: usize = 20;

fn namespace() -> Option<Namespace> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    laboratory::create(format!("wlhist{}-{number}", std::process::id()))
}

/// Plays random histories and fails with the shortest form of the differences.
fn compare(histories: u64, default_seed: u64) {
    let seed = number("WATTLINE_SEED", default_seed);
    let mut counts = Counts::default();
    let mut differences = Vec::new();
    for history in 0..histories {
        if namespace().is_none() {
            return;
        }
        let mut random = Random(seed.wrapping_mul(1_000_003).wrapping_add(history));
        let mut steps = generator::history(&mut random, LENGTH);
        let Some((last, difference)) = laboratory::play(&steps, &mut counts) else { continue };
        steps.truncate(last + 1);
        let (steps, difference) = shrink(steps, difference);
        println!("seed {seed}, history {history}: {difference}\n{}\n", steps.join("\n"));
        differences.push(difference);
        if differences.len() >= 10 {
            break;
        }
    }
    println!("{counts:?}");
    assert!(differences.is_empty(), "{differences:#?}");
    assert!(counts.own * 4 > counts.decisions, "most packets are left to the kernel: {counts:?}");
}

/// Leaves out steps as long as a difference remains.
fn shrink(mut steps: Vec<String>, mut difference: String) -> (Vec<String>, String) {
    let mut place = 0;
    while place < steps.len() {
        let mut fewer = steps.clone();
        fewer.remove(place);
        match laboratory::play(&fewer, &mut Counts::default()) {
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
fn random_histories_end_in_the_kernels_decisions() {
    compare(12, 1);
}

#[test]
#[ignore = "takes about half a second per history"]
fn many_random_histories_end_in_the_kernels_decisions() {
    compare(number("WATTLINE_HISTORIES", 500), 2);
}
