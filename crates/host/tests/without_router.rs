//! The example that governs a machine without a router, on a recorded machine.

mod common;
#[path = "../examples/without_router.rs"]
#[allow(dead_code, reason = "its main and its arguments are not needed here")]
mod example;

use common::Fixture;
use std::time::Duration;

#[test]
fn a_policy_sets_frequencies_without_a_router_and_all_is_restored() {
    let fixture = Fixture::copy("acpi-cpufreq");
    let before = fixture.snapshot();
    let time = Duration::from_millis(200);
    let govern = |policy: &str, cpus| example::govern(policy, cpus, time, fixture.root.path());
    let fast = govern("performance", vec![0, 1]).unwrap();
    let slow = govern("powersave-governor", vec![0, 1]).unwrap();
    assert_eq!(fast.len(), 2, "{fast:?}");
    assert!(fast.iter().zip(&slow).all(|(fast, slow)| fast != slow), "{fast:?} and {slow:?}");
    assert_eq!(fixture.snapshot(), before, "everything is restored");
    let error = govern("no-such-policy", vec![0]).unwrap_err().to_string();
    assert!(error.contains("no-such-policy"), "{error}");
    assert_eq!(fixture.snapshot(), before);
}
