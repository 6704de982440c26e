//! The simulator keeps the promises of its platform to policies, on ideal knobs and on slow ones.

use crate::common::{poisson, server, setting};
use wattline_governor::conformance::{Circumstances, probe};
use wattline_sim::{KnobBehaviour, run_on};
use wattline_units::Span;

fn complaints(name: &str, mpps: f64, knobs: &str) -> Vec<String> {
    let server = server(name);
    let mut setting = setting(&server, "poll");
    (setting.warmup, setting.duration) = (Span::ZERO, Span::from_millis(100));
    let mut source = poisson(&server, mpps * 1e6, 64, 7);
    let mut findings = None;
    let knobs = KnobBehaviour::parse(knobs).unwrap();
    let circumstances =
        Circumstances { period: Span::from_millis(5), traffic: true, frequency_follows: true };
    run_on(&setting, knobs, &mut source, |context| {
        let (policy, found) = probe(context.platform, circumstances);
        findings = Some(found);
        Ok(policy)
    })
    .unwrap();
    findings.unwrap().complaints()
}

#[test]
fn the_simulator_keeps_its_word() {
    for (name, mpps) in [("westmere-2010", 1.0), ("ideal-single-core", 0.05)] {
        assert_eq!(complaints(name, mpps, ""), Vec::<String>::new(), "{name}");
    }
    // Slow knobs with a limited pace keep them as well, only later.
    let slow = "all:delay=10us;budget:rate=100000,burst=100;frequency:dwell=1ms";
    assert_eq!(complaints("westmere-2010", 1.0, slow), Vec::<String>::new());
}

#[test]
fn a_simulated_knob_that_refuses_is_found() {
    let found = complaints("westmere-2010", 1.0, "batch:refuse;cores:refuse");
    for told in ["batch: promised", "cores: promised", "weights: promised"] {
        assert!(found.iter().any(|one| one.contains(told)), "{told}: {found:?}");
    }
}
