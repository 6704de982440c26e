//! Sessions of governing a recorded machine.

#[path = "../../../knobs/tests/common/fixture.rs"]
mod fixture;

use super::*;
use fixture::Fixture;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use wattline_governor::conformance::{Circumstances, Follows, probe};
use wattline_policies::POLICIES;
use wattline_policy::testing::policy;
use wattline_policy::{AskAgain, Looks};

const GOVERNOR: &str = "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor";

/// Creates a recorded machine, on which nothing happens by itself.
fn machine() -> (tempfile::TempDir, Tree) {
    let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("../knobs/tests/fixtures");
    let Fixture { root, tree } = Fixture::from_folder(&machines.join("acpi-cpufreq"));
    (root, tree)
}

#[test]
fn panicked_governor_ends_the_session_and_leaves_nothing_set() {
    let (_root, tree) = machine();
    let before = tree.text(GOVERNOR).unwrap();
    let mut asked = false;
    let panics = policy(Looks::WHOLE, move |seen, point| {
        assert!(!std::mem::replace(&mut asked, true), "called after the panic");
        point.set_frequency(0);
        AskAgain::at(seen.now + Span::from_millis(100))
    });
    let config = Config::parse("[govern]\nmay_raise = true\n", "test", POLICIES).unwrap();
    let config = Config { policy: "ondemand".to_owned(), ..config };
    let session = Session::begin_with(&config, &tree, |_, _, _| Ok(panics)).unwrap();
    assert_ne!(tree.text(GOVERNOR).unwrap(), before, "it governs");
    let error = wattline_needs::until("the panic is noticed", || session.check_governor().err());
    assert!(matches!(error, GovernError::Panicked), "{error}");
    session.end(Ending::Final).unwrap();
    assert_eq!(tree.text(GOVERNOR).unwrap(), before);
}

/// With sources of latency and without: promised figures are shown, denied ones are not.
#[test]
fn machine_with_latency_sources_keeps_its_promises() {
    for with_source in [false, true] {
        let (root, tree) = machine();
        let socket = root.path().join("latency");
        let source = format!("[[latency]]\nname = \"a\"\nclients = \"{}\"\n", socket.display());
        let text =
            format!("[govern]\npolicy = \"ondemand\"\n{}", if with_source { &source } else { "" });
        let config = Config::parse(&text, "test", POLICIES).unwrap();
        let period = Span::from_millis(20);
        let circumstances = Circumstances { period, traffic: false, follows: Follows::NOTHING };
        let (mut findings, mut sees) = (None, None);
        let mut session = Session::begin_with(&config, &tree, |(platform, _), _, _| {
            let (policy, found) = probe(platform, circumstances);
            (findings, sees) = (Some(found), Some(platform.can.sees));
            Ok(policy)
        })
        .unwrap();
        let (findings, sees) = (findings.unwrap(), sees.unwrap());
        assert_eq!((sees.latency, sees.late), (with_source, with_source));
        let client = UnixDatagram::unbound().unwrap();
        client.set_nonblocking(true).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while !findings.are_complete() && Instant::now() < end {
            // All of them later than the probe's bound.
            let report = b"{\"latency_seconds\":[[0.004,5]]}";
            if with_source {
                let _ = client.send_to(report, &socket);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let sources = session.look().unwrap().sources;
        assert_eq!(
            sources.iter().map(|one| one.samples > 0).collect::<Vec<_>>(),
            vec![true; sources.len()]
        );
        session.end(Ending::Final).unwrap();
        assert_eq!(findings.complaints(), Vec::<String>::new(), "{with_source}");
    }
}
