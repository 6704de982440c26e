//! PowerSave's estimator, which runs in the cores: compared with its pseudo-code at each batch, and
//! with infrequent samples.

use crate::common::{assert_conserved, server, setting, timeless};
use wattline_policy::{
    AskAgain, CoreSet, Looks, Observation, OperatingPoint, Policy, Trigger, Wait,
};
use wattline_sim::{Report, run, run_with};
use wattline_traffic::Spec;
use wattline_units::Span;

const SILENCE: Span = Span::from_millis(1);

/// The pseudo-code of PowerSave's section 6.1 as a policy that is asked at each batch.
struct EachBatch {
    up: u64,
    down: u64,
    counters: [(u64, u64); 16],
}

impl EachBatch {
    fn step(&mut self, up: bool, seen: &Observation<'_>, point: &mut OperatingPoint) {
        self.counters.fill((0, 0));
        let (platform, nap) = (seen.platform, 0);
        let (cores, frequency) = (point.active.len(), point.fastest_active());
        if up && cores < platform.cores {
            point.set_active(cores + 1, nap, platform.deepest());
        } else if up && frequency < platform.fastest() {
            point.set_frequency(frequency + 1);
        } else if !up && frequency > 0 {
            point.set_frequency(frequency - 1);
        } else if !up && cores > 1 {
            point.set_active(cores - 1, nap, platform.deepest());
        }
    }
}

impl Policy for EachBatch {
    fn looks_at(&self) -> Looks {
        Looks::TRIGGER
    }
    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        match seen.trigger {
            Trigger::Start => {
                point.set_active(1, 0, seen.platform.deepest());
                point.set_frequency(0);
                point.set_wait(Wait::Interrupt);
                point.batch = 8;
            }
            Trigger::Batch { queue, .. } => {
                let fill = seen.queues[queue].fill;
                let (high, low) = &mut self.counters[seen.platform.queues[queue].port];
                if fill > 32 {
                    (*high, *low) = (*high + 1, 0);
                } else if fill < 4 {
                    (*high, *low) = (0, *low + 1);
                } else {
                    (*high, *low) = (0, 0);
                }
                let (up, down) = (*high > self.up, *low > self.down);
                if up || down {
                    self.step(up, seen, point);
                }
            }
            Trigger::Timer => self.step(false, seen, point),
            other => panic!("{other:?} was not asked for"),
        }
        AskAgain { at: seen.now + SILENCE, ..AskAgain::on_batch(CoreSet::only(0)) }
    }
}

/// Traffic under which the controller climbs, descends, and meets silences.
const TRAFFIC: [&str; 4] = [
    "poisson:5Mpps,size=64",
    "day:3Mpps,duration=12ms,spikes=4,size=64",
    "mmpp:1Mpps,ratio=20,high=2ms,low=4ms,size=64",
    "poisson:800pps,size=64",
];

/// Rounds each number in the text to nine digits: energy is summed at every decision.
fn rounded(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    let token = |token: &str| match token.parse::<f64>() {
        Ok(number) if token.contains('.') => format!("{number:.8e}"),
        _ => token.to_owned(),
    };
    text.split_inclusive(|c| !is_part(c))
        .map(|part| {
            let end = part.trim_end_matches(|c| !is_part(c)).len();
            token(&part[..end]) + &part[end..]
        })
        .collect()
}

/// Only the number of decisions may differ.
#[test]
fn streaks_counted_in_the_core_give_the_pseudo_codes_figures() {
    let server = server("westmere-2010");
    for (up, down) in [(0, 80), (2, 5)] {
        let mut steps = 0;
        for text in TRAFFIC {
            let traffic = Spec::parse(text).unwrap();
            let policy = format!("queue-length:c_up={up},c_down={down}");
            let mut setting = setting(&server, &policy);
            (setting.warmup, setting.duration) = (Span::ZERO, Span::from_millis(24));
            let ours = run(&setting, traffic.build(1).unwrap().as_mut()).unwrap();
            let code = EachBatch { up, down, counters: [(0, 0); 16] };
            let theirs =
                run_with(&setting, traffic.build(1).unwrap().as_mut(), |_| Ok(Box::new(code)))
                    .unwrap();
            assert_conserved(&ours);
            steps += ours.core_changes + ours.frequency_changes;
            let comparable = |report: &Report| {
                let mut report = timeless(report);
                report.decisions = 0;
                report.last_changes.clear();
                rounded(&format!("{report:?}"))
            };
            assert_eq!(comparable(&ours), comparable(&theirs), "{policy}, {text}");
            assert!(ours.decisions <= theirs.decisions, "{text}");
        }
        assert!(steps > 10, "only {steps} steps were compared");
    }
}

/// The table of docs/explanation/closed-loop.md.
#[test]
fn sampling_every_millisecond_costs_latency() {
    let server = server("westmere-2010");
    for text in ["poisson:5Mpps,size=64", "mmpp:2Mpps,ratio=20,high=5ms,low=15ms,size=64"] {
        let traffic = Spec::parse(text).unwrap();
        let report = |look: &str| {
            let mut setting = setting(&server, &format!("queue-length:look={look}"));
            setting.duration = Span::from_millis(400);
            let report = run(&setting, traffic.build(1).unwrap().as_mut()).unwrap();
            println!(
                "{text}, look={look}: {:.1} W, mean {:.1} us, p99 {:.1} us, {} of {} lost, {:.2} cores, \
                 {} changes",
                report.power_watts,
                report.latency_mean_seconds.unwrap() * 1e6,
                report.latency_p99_seconds.unwrap() * 1e6,
                report.dropped_packets,
                report.offered_packets,
                report.cores_active_mean,
                report.core_changes + report.frequency_changes,
            );
            report
        };
        let (batch, millisecond) = (report("0us"), report("1ms"));
        if text.starts_with("mmpp") {
            assert!(millisecond.latency_p99_seconds > batch.latency_p99_seconds, "{text}");
        }
    }
}
