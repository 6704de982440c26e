//! Histories: after every sequence of changes, the tables decide as the kernel does.
//!
//! A history is a sequence of commands in a namespace of its own. After each command, the decisions
//! of the tables are compared with the kernel's (`ip route get … iif …`) for addresses at the ends
//! of all prefixes. A difference is shrunk to the shortest sequence that shows it. `WATTLINE_SEED`
//! selects other histories, `WATTLINE_HISTORIES` their number in the long test.

mod fixed;
mod generator;
mod laboratory;
mod search;

use laboratory::Counts;
use search::number;
use wattline_linux::namespace::Namespace;

fn namespace() -> Option<Namespace> {
    Namespace::for_test(&[]).map_err(wattline_needs::rights).ok()
}

/// Plays random histories and fails with the shortest form of the differences.
fn compare(histories: u64, default_seed: u64) {
    if namespace().is_none() {
        return;
    }
    let mut counts = Counts::default();
    let differences = search::differences(histories, default_seed, 10, |steps, is_shorter| {
        let mut aside = Counts::default();
        laboratory::play(steps, if is_shorter { &mut aside } else { &mut counts })
    });
    println!("{counts:?}");
    assert!(differences.is_empty(), "{differences:#?}");
    assert!(counts.own * 4 > counts.decisions, "most packets are left to the kernel: {counts:?}");
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
