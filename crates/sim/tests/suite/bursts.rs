//! Load in a single step, and in bursts of any length.

use crate::common::{played, server, setting, simulate};
use wattline_sim::Setting;
use wattline_traffic::Spec;
use wattline_units::Span;

/// Returns a source of 3 Mpps on average. Bursts of `packets` packets per port arrive at the rate
/// of the links: from even traffic to ten milliseconds of overload.
fn bursts(packets: u32) -> Spec {
    Spec::parse(&format!("onoff:3Mpps,size=64,burst={packets}")).unwrap()
}

#[test]
fn bursts_of_every_length_are_served_or_counted() {
    let server = server("westmere-2010");
    for policy in played() {
        for burst in (0..=14).map(|power| 1 << power) {
            // Each port has at least two bursts.
            let period = f64::from(burst) * 4.0 / 3e6;
            let setting = Setting {
                warmup: Span::ZERO,
                duration: Span::from_seconds((2.0 * period).max(3e-3)),
                ..setting(&server, policy)
            };
            // `simulate` checks conservation of packets, time and energy.
            let report = simulate(&setting, bursts(burst).build(1).unwrap().as_mut());
            let what = format!("{policy}, bursts of {burst}");
            assert!(report.forwarded_packets > 0, "{what}");
            // Policies that react, or keep all cores on, lose no burst that fits into a ring.
            if burst <= 64 {
                assert_eq!(report.dropped_packets, 0, "{what}");
            }
        }
    }
}

/// The load goes from zero to more than the server can serve, and back.
#[test]
fn a_step_of_load_is_followed_up_and_down() {
    let server = server("westmere-2010");
    // 8192 packets per port at 14.9 Mpps last 0.55 ms; each port starts at its own time in 16 ms.
    let traffic = Spec::parse("onoff:2Mpps,size=64,burst=8192").unwrap();
    let setting = Setting {
        warmup: Span::ZERO,
        duration: Span::from_millis(40),
        interval: Some(Span::from_micros(250)),
        // Time per rung down the ladder: all 25 rungs fit between two bursts.
        ..setting(&server, "queue-length:silence=50us")
    };
    let report = simulate(&setting, traffic.build(1).unwrap().as_mut());
    let cores = || report.intervals.iter().map(|interval| interval.cores_active_mean);
    let (most, least) = (cores().fold(0.0, f64::max), cores().fold(f64::MAX, f64::min));
    assert_eq!((most, least), (12.0, 1.0), "{:?}", cores().collect::<Vec<_>>());
    // The controller climbs again after each burst, not only once.
    let mut rises = 0;
    let mut down = true;
    for cores in cores() {
        rises += usize::from(down && cores >= 6.0);
        down = cores <= 2.0 || down && cores < 6.0;
    }
    assert!(rises >= 2, "{rises}: {:?}", cores().collect::<Vec<_>>());
}
