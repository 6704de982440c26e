//! Figure 17: the same mean rate in ever longer bursts.

use super::super::report::{Check, Figure};
use super::super::{ReproduceError, Table};
use super::bench::{Job, SEED, content, server, side_by_side, simulate};
use crate::plot::{Axis, Chart, Mark};
use wattline_server::Application;
use wattline_traffic::Popularity;
use wattline_traffic::source::{Links, OnOff, Rate};
use wattline_units::Span;

/// The paper does not say; a backbone's mean.
const BYTES: u16 = 600;
const BURSTS: [u32; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
const POLICIES: [(&str, &str); 3] =
    [("poll", "Click"), ("napi", "NAPI-Click"), ("powersave", "PowerSave")];

pub(super) fn figures() -> Result<Vec<Figure>, ReproduceError> {
    let server = server()?;
    // The gaps of Ethernet are in the links here: a burst comes as fast as one can.
    let links = Links { overhead: 20, ..Links::POWERSAVE };
    let runs: Vec<(&str, u32)> =
        POLICIES.iter().flat_map(|(policy, _)| BURSTS.map(|burst| (*policy, burst))).collect();
    let reports = side_by_side(&runs, |(policy, burst)| {
        let content = content(BYTES, Popularity::Uniform);
        let mut source = OnOff::new(Rate::Bits(10e9), *burst, links, &content, SEED);
        let job = Job {
            policy,
            application: Application::Ipv4,
            bytes: BYTES,
            duration: Span::from_millis(300),
            warmup: Span::from_millis(60),
            interval: None,
            output_links: false,
        };
        simulate(&server, &job, &mut source)
    })?;
    let of = |policy: usize| &reports[policy * BURSTS.len()..(policy + 1) * BURSTS.len()];
    let mut table = Table::new([
        "burst_packets",
        "click_watts",
        "napi_watts",
        "powersave_watts",
        "powersave_latency_mean_us",
        "powersave_dropped_packets",
    ]);
    for (index, burst) in BURSTS.iter().enumerate() {
        let own = &of(2)[index];
        table.numbers([
            f64::from(*burst),
            of(0)[index].power_watts,
            of(1)[index].power_watts,
            own.power_watts,
            own.latency_mean_seconds.unwrap_or(f64::NAN) * 1e6,
            own.dropped_packets as f64,
        ]);
    }
    let mut chart = Chart::new(
        "Figure 17: power over the length of bursts",
        Axis::new("packets in a burst, per port").logarithmic(),
        Axis::new("power (W)").range(100.0, 290.0),
    );
    for (index, (_, name)) in POLICIES.iter().enumerate() {
        let points = BURSTS
            .iter()
            .zip(of(index))
            .map(|(burst, report)| (f64::from(*burst), report.power_watts));
        chart = chart.series(*name, Mark::LineAndPoints, points);
    }
    let watts =
        |policy: usize| of(policy).iter().map(|report| report.power_watts).collect::<Vec<_>>();
    let spread = |watts: &[f64]| {
        let (low, high) =
            watts.iter().fold((f64::MAX, f64::MIN), |(l, h), w| (l.min(*w), h.max(*w)));
        100.0 * (high - low) * watts.len() as f64 / watts.iter().sum::<f64>()
    };
    let (click, napi, own) = (watts(0), watts(1), watts(2));
    let lowest =
        own.iter().zip(&napi).zip(&click).all(|((own, napi), click)| own < napi && own < click);
    let gigabits = of(2).iter().map(|report| report.forwarded_rate_bits_per_second / 4e9);
    let mean = gigabits.sum::<f64>() / BURSTS.len() as f64;
    let dropped: u64 = of(2).iter().map(|report| report.dropped_packets).sum();
    Ok(vec![Figure {
        id: "fig17",
        title: "Figure 17: bursts".into(),
        about: format!(
            "Simulated: bursts back to back at the links' rate on each of the four ports, {BYTES}-byte \
             packets (the paper does not give their size), IPv4 routing. The curves are lost."
        ),
        table,
        plots: vec![chart.svg()],
        checks: vec![
            Check::near(&["PS-127", "PS-128"], "mean rate by port (Gbps)", mean, 2.5, 0.025),
            Check::below(
                &["PS-129"],
                "range of PowerSave's power over its mean (%)",
                spread(&own),
                5.0,
            )
            .note("\"varies very little\" has no number in the paper; 5 % is our reading. The longest bursts \
                 fill rings beyond q_h and turn a core more on"),
            Check::below(
                &["PS-129"],
                "range of Click's power over its mean (%)",
                spread(&click),
                1.0,
            ),
            Check::below(
                &["PS-129"],
                "NAPI-Click at the longest burst over uniform traffic",
                napi[napi.len() - 1] / napi[0],
                1.0,
            ),
            Check::holds(
                &["PS-129"],
                "PowerSave lowest at every length",
                lowest,
                if lowest { "it is" } else { "it is not" },
                "it is",
            ),
            Check::near(&["PS-129"], "packets that PowerSave drops", dropped as f64, 0.0, 0.0),
        ],
    }])
}
