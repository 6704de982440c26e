//! Captures without a packet in the measured span are refused, not measured as an idle server.

use crate::common::server;
use std::time::Duration;
use wattline_policies::POLICIES;
use wattline_sim::{Report, Scenario, Setting, SimError};
use wattline_traffic::Spec;
use wattline_traffic::capture::{LinkType, Resolution, Writer};
use wattline_units::Span;

/// Writes a capture with packets at these milliseconds.
fn capture(millis: &[u64]) -> tempfile::TempPath {
    let path = tempfile::Builder::new().suffix(".pcap").tempfile().unwrap().into_temp_path();
    let mut writer = Writer::create(&path, LinkType::ETHERNET, Resolution::Nanos).unwrap();
    for at in millis {
        writer.write_cut(Duration::from_millis(*at), &[0; 54], 64).unwrap();
    }
    writer.finish().unwrap();
    path
}

/// Runs a scenario that reads its traffic by itself in every way: 10 ms after 5 ms of warm-up.
fn outcomes(traffic: &str) -> Vec<Result<Report, SimError>> {
    let server = server("westmere-2010");
    let traffic = Spec::parse(traffic).unwrap();
    let policy = POLICIES.parse("napi").unwrap();
    let setting = Setting {
        warmup: Span::from_millis(5),
        ..Setting::new(&server, policy.clone(), Span::from_millis(10))
    };
    let scenario = Scenario { setting, traffic: &traffic };
    let with = scenario.run_with(|context| Ok(wattline_policy::build(&policy, context).unwrap()));
    vec![scenario.run(), with]
}

#[test]
fn capture_without_a_packet_in_the_measured_time_is_refused() {
    let gap = capture(&[0, 1, 50_000]);
    for options in ["", ",loop=false", ",copies=1"] {
        for outcome in outcomes(&format!("capture:{}{options}", gap.display())) {
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("no packet from 0.005 s to 0.015 s after the start"), "{error}");
            assert!(error.contains("rate=1Mpps"), "{error}");
        }
    }
    let faster = format!("capture:{},rate=1Mpps", gap.display());
    assert!(outcomes(&faster).into_iter().all(|outcome| outcome.unwrap().offered_packets > 0));
    let both = format!("capture:{} + constant:10kpps", gap.display());
    assert!(outcomes(&both).into_iter().all(|outcome| outcome.unwrap().offered_packets > 0));
}

#[test]
fn capture_without_packets_is_refused_and_named() {
    let empty = capture(&[]);
    for text in ["capture:FILE", "capture:FILE,rate=1Mpps", "poisson:1Mpps,size=FILE"] {
        for outcome in outcomes(&text.replace("FILE", &empty.display().to_string())) {
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains(&*empty.to_string_lossy()), "{error}");
            assert!(error.contains("contains no packets; a replay needs at least one"), "{error}");
        }
    }
}

#[test]
fn described_traffic_may_leave_a_server_idle() {
    let slow = outcomes("constant:1pps,size=64");
    assert!(slow.into_iter().all(|outcome| outcome.unwrap().offered_packets == 0));
}
