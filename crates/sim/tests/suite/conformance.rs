//! The simulator keeps the promises of its platform to policies, on ideal knobs and on slow ones.

use crate::common::{poisson, server, setting};
use wattline_governor::conformance::{Circumstances, Findings, Follows, page, probe};
use wattline_policy::{Platform, Policy};
use wattline_server::{Moderation, ServerModel};
use wattline_sim::{KnobBehaviour, Setting, run_with};
use wattline_units::Span;

const PAGE: &str = include_str!("../../../../docs/explanation/policy-contract.md");
/// Time in which each core gets a hundred packets, and slow knobs settle.
const PERIOD: Span = Span::from_micros(1_500);
/// More periods than the probe needs.
const PERIODS: u64 = 75;

/// Returns PowerSave's server with a card that moderates interrupts, so that it has all knobs of
/// the model.
pub fn with_moderation() -> ServerModel {
    let mut server = server("westmere-2010");
    let longest = Span::from_millis(1);
    server.nic.moderation =
        Some(Moderation { shortest: Span::ZERO, longest, step: Span::from_micros(2) });
    server
}

/// Puts a probe in charge of a server. `describe` may change the platform's description for the
/// probe, and `wrap` puts something between the two.
pub fn findings(
    server: &ServerModel,
    mpps: f64,
    knobs: &str,
    describe: impl FnOnce(&mut Platform),
    wrap: impl FnOnce(Box<dyn Policy>, &Platform) -> Box<dyn Policy>,
) -> Findings {
    let setting = Setting {
        warmup: Span::ZERO,
        duration: PERIOD * PERIODS,
        knobs: KnobBehaviour::parse(knobs).unwrap(),
        ..setting(server, "poll")
    };
    let mut source = poisson(server, mpps * 1e6, 64, 7);
    let mut findings = None;
    run_with(&setting, &mut source, |context| {
        let mut platform = context.platform.clone();
        describe(&mut platform);
        let circumstances = Circumstances { period: PERIOD, traffic: true, follows: Follows::ALL };
        let (policy, found) = probe(&platform, circumstances);
        findings = Some(found);
        Ok(wrap(policy, &platform))
    })
    .unwrap();
    findings.unwrap()
}

fn honest(server: &ServerModel, mpps: f64, knobs: &str) -> Findings {
    findings(server, mpps, knobs, |_| {}, |probe, _| probe)
}

#[test]
fn simulator_keeps_its_promises() {
    for (server, mpps) in [
        (with_moderation(), 1.0),
        (server("westmere-2010"), 1.0),
        (server("ideal-single-core"), 0.05),
    ] {
        let found = honest(&server, mpps, "");
        found.verdicts().iter().for_each(|verdict| println!("{}: {verdict}", server.name));
        assert_eq!(found.complaints(), Vec::<String>::new(), "{}", server.name);
    }
    // Slow knobs with a limited pace keep the promises as well, only later.
    let slow = "all:delay=10us;budget:rate=100000,burst=100;frequency:dwell=500us";
    assert_eq!(honest(&with_moderation(), 1.0, slow).complaints(), Vec::<String>::new());
}

#[test]
fn page_describes_the_check_of_each_promise() {
    let found = honest(&with_moderation(), 1.0, "");
    let wrong = page::differences(PAGE, "simulator", &found.verdicts());
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn refusing_simulated_knob_is_found() {
    let found = honest(&with_moderation(), 1.0, "batch:refuse;cores:refuse").complaints();
    for expected in ["batch: promised", "cores: promised", "weights: promised"] {
        assert!(found.iter().any(|one| one.contains(expected)), "{expected}: {found:?}");
    }
}
