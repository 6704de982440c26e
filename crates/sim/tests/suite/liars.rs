//! The conformance test finds each lie of a platform. A liar stands between the simulator and the
//! probe: it ignores one request of the probe, applies one that it denied, or shows one wrong
//! figure. Otherwise it behaves like the simulator.

use crate::common::Seen;
use crate::conformance::{findings, with_moderation};
use wattline_policy::{
    AskAgain, Can, LatencyView, Looks, Observation, OperatingPoint, Platform, Policy, PowerView,
    Trigger, Wait,
};
use wattline_units::{Hertz, Span};

/// A part of the operating point.
type Part = fn(from: &OperatingPoint, to: &mut OperatingPoint);

const FREQUENCY: Part = |from, to| {
    to.cores.iter_mut().zip(&from.cores).for_each(|(to, from)| to.frequency = from.frequency);
};
const IDLE_LIMIT: Part = |from, to| {
    to.cores.iter_mut().zip(&from.cores).for_each(|(to, from)| to.idle_limit = from.idle_limit);
};
const WAIT: Part = |from, to| {
    to.cores.iter_mut().zip(&from.cores).for_each(|(to, from)| to.wait = from.wait);
};
const MODERATION: Part = |from, to| to.moderation.clone_from(&from.moderation);
const BATCH: Part = |from, to| to.batch = from.batch;
const WEIGHTS: Part = |from, to| to.weights.clone_from(&from.weights);
const CORES: Part = |from, to| to.active = from.active;

/// Kind of lie.
#[derive(Clone, Copy)]
enum Lie {
    /// Accepts a part of the point without applying it.
    Ignores(Part),
    /// Does the same for the frequency, and shows the requested one.
    PretendsFrequency,
    /// Waits in another mode than requested.
    Waits(fn(Wait) -> Wait),
    /// Claims that a part is not supported, hands it back unchanged, and applies it.
    Takes(Part, fn(&mut Can)),
    /// Shows a wrong figure, derived from the first observation.
    Shows(fn(&mut Seen, first: &Seen)),
    /// Passes on only triggers for which this holds.
    Asks(fn(Trigger, count: u64) -> bool),
    /// Asks at a fill level when another trigger was requested, or at a level that is not reached.
    AsksAtAnyLevel,
}

struct Liar {
    lie: Lie,
    probe: Box<dyn Policy>,
    platform: Platform,
    /// Operating point reported to the probe.
    claimed: Option<OperatingPoint>,
    /// Present value of a part that is ignored, or that was applied although it was denied.
    real: Option<OperatingPoint>,
    /// Number of further timers for which the applied part is kept: as long as the probe watches
    /// it.
    keeps: u32,
    first: Option<Seen>,
    asked: u64,
    ask: AskAgain,
}

impl Liar {
    fn shown(&mut self, seen: &Observation<'_>) -> Seen {
        let mut shown = Seen::from(seen);
        let first = self.first.get_or_insert_with(|| shown.clone());
        match self.lie {
            Lie::Shows(spoil) => spoil(&mut shown, first),
            Lie::PretendsFrequency => {
                let claimed = self.claimed.iter().flat_map(|point| &point.cores);
                for (core, setting) in shown.cores.iter_mut().zip(claimed) {
                    core.frequency = Some(self.platform.frequencies[setting.frequency]);
                }
            }
            _ => {}
        }
        shown
    }
}

impl Policy for Liar {
    fn looks_at(&self) -> Looks {
        self.probe.looks_at()
    }
    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        let shown = self.shown(seen);
        if let Lie::Asks(passes) = self.lie
            && !matches!(seen.trigger, Trigger::Start | Trigger::Timer)
        {
            self.asked += 1;
            if !passes(seen.trigger, self.asked) {
                return self.ask;
            }
        }
        let mut wanted = point.clone();
        if let (Lie::Ignores(part) | Lie::Takes(part, _), Some(claimed)) = (self.lie, &self.claimed)
        {
            part(claimed, &mut wanted);
        }
        if let (Lie::PretendsFrequency, Some(claimed)) = (self.lie, &self.claimed) {
            FREQUENCY(claimed, &mut wanted);
        }
        if let (Lie::Waits(_), Some(claimed)) = (self.lie, &self.claimed) {
            WAIT(claimed, &mut wanted);
        }
        let before = wanted.clone();
        let observation = Observation {
            now: seen.now,
            platform: &self.platform,
            trigger: seen.trigger,
            queues: &shown.queues,
            cores: &shown.cores,
            latency: shown.latency,
            power: shown.power,
            entries: &shown.entries,
            offered: seen.offered,
        };
        self.ask = self.probe.decide(&observation, &mut wanted);
        let real = self.real.get_or_insert_with(|| point.clone()).clone();
        *point = wanted.clone();
        match self.lie {
            Lie::Ignores(part) => part(&real, point),
            Lie::PretendsFrequency => FREQUENCY(&real, point),
            Lie::Waits(instead) => {
                point.cores.iter_mut().for_each(|core| core.wait = instead(core.wait));
            }
            Lie::Takes(part, _) => {
                let mut untouched = wanted.clone();
                part(&before, &mut untouched);
                if untouched != wanted {
                    (self.real, self.keeps) = (Some(wanted.clone()), 1);
                } else if self.keeps > 0 {
                    part(&real, point);
                    self.keeps -= 1;
                }
                wanted = untouched;
            }
            Lie::AsksAtAnyLevel if !self.ask.on_fill.cores.is_empty() => {
                self.ask.on_fill.packets = 1;
            }
            _ => {}
        }
        self.claimed = Some(wanted);
        self.ask
    }
}

/// Returns the complaints about a lie.
fn found(lie: Lie) -> Vec<String> {
    let describe = |platform: &mut Platform| {
        if let Lie::Takes(_, deny) = lie {
            deny(&mut platform.can);
        }
    };
    let wrap = |probe, platform: &Platform| -> Box<dyn Policy> {
        Box::new(Liar {
            lie,
            probe,
            platform: platform.clone(),
            claimed: None,
            real: None,
            keeps: 0,
            first: None,
            asked: 0,
            ask: AskAgain::NEVER,
        })
    };
    findings(&with_moderation(), 1.0, "", describe, wrap).complaints()
}

/// Checks that each lie is found under the promise that it breaks.
fn assert_found(lies: &[(&str, Lie)]) {
    for (number, (expected, lie)) in lies.iter().enumerate() {
        let found = found(*lie);
        let named = found.iter().any(|one| one.starts_with(&format!("{expected}: ")));
        assert!(named, "{expected} (lie {number}): {found:#?}");
    }
}

#[test]
fn honest_platform_has_no_complaints() {
    assert_eq!(found(Lie::Shows(|_, _| {})), Vec::<String>::new());
}

#[test]
fn ignored_knob_is_found() {
    assert_found(&[
        ("frequency", Lie::Ignores(FREQUENCY)),
        ("idle-limit", Lie::Ignores(IDLE_LIMIT)),
        ("moderation", Lie::Ignores(MODERATION)),
        ("batch", Lie::Ignores(BATCH)),
        ("weights", Lie::Ignores(WEIGHTS)),
        ("cores", Lie::Ignores(CORES)),
        ("wait: poll", Lie::Ignores(WAIT)),
        (
            "wait: sleep",
            Lie::Waits(|wait| match wait {
                Wait::Sleep(_) => Wait::Interrupt,
                other => other,
            }),
        ),
        (
            "wait: sleep",
            Lie::Waits(|wait| match wait {
                Wait::Sleep(_) => Wait::Poll,
                other => other,
            }),
        ),
        ("wait: interrupt", Lie::Waits(|_| Wait::Poll)),
    ]);
}

/// If a frequency is shown but not applied, the service time of packets reveals it.
#[test]
fn pretended_frequency_is_found() {
    let found = found(Lie::PretendsFrequency);
    let expected = "frequency: promised, and a packet took";
    assert!(found.iter().any(|one| one.starts_with(expected)), "{found:#?}");
}

#[test]
fn denied_but_applied_knob_is_found() {
    assert_found(&[
        ("frequency", Lie::Takes(FREQUENCY, |can| can.set_frequency = false)),
        ("idle-limit", Lie::Takes(IDLE_LIMIT, |can| can.limit_idle = false)),
        ("moderation", Lie::Takes(MODERATION, |can| can.set_moderation = false)),
        ("weights", Lie::Takes(WEIGHTS, |can| can.set_weights = false)),
        ("cores", Lie::Takes(CORES, |can| can.set_cores = false)),
        ("wait: poll", Lie::Takes(WAIT, |can| can.waits.poll = false)),
        ("wait: sleep", Lie::Takes(WAIT, |can| can.waits.sleep = false)),
    ]);
}

#[test]
fn wrong_figure_is_found() {
    assert_found(&[
        (
            "arrivals",
            Lie::Shows(|shown, first| {
                shown.queues.clone_from(&first.queues);
                shown.cores.clone_from(&first.cores);
            }),
        ),
        ("core times", Lie::Shows(|shown, first| shown.cores.clone_from(&first.cores))),
        (
            "latency",
            Lie::Shows(|shown, _| {
                shown.latency = shown.latency.map(|_| LatencyView::default());
            }),
        ),
        (
            "latency",
            Lie::Shows(|shown, _| {
                let mean = Span::from_micros(7);
                shown.latency = shown.latency.map(|latency| LatencyView { mean, ..latency });
            }),
        ),
        ("latency", Lie::Shows(|shown, _| shown.latency = None)),
        (
            "late packets",
            Lie::Shows(|shown, _| {
                shown.latency = shown.latency.map(|latency| LatencyView { late: 0, ..latency });
            }),
        ),
        (
            "late packets",
            Lie::Shows(|shown, _| {
                let late = |latency: LatencyView| latency.samples;
                shown.latency = shown.latency.map(|l| LatencyView { late: late(l), ..l });
            }),
        ),
        (
            "watts",
            Lie::Shows(|shown, first| {
                let watts = first.power.unwrap().watts.0 + 100.0;
                shown.power = shown
                    .power
                    .map(|power| PowerView { watts: wattline_units::Watts(watts), ..power });
            }),
        ),
        ("entries", Lie::Shows(|shown, first| shown.entries.clone_from(&first.entries))),
        (
            "frequency",
            Lie::Shows(|shown, _| {
                shown.cores.iter_mut().for_each(|core| core.frequency = Some(Hertz(1e9)));
            }),
        ),
        (
            "residency",
            Lie::Shows(|shown, first| {
                let cores = shown.cores.iter_mut().zip(&first.cores);
                cores.for_each(|(core, first)| core.residency = first.residency);
            }),
        ),
        (
            "bytes",
            Lie::Shows(|shown, _| {
                shown.queues.iter_mut().for_each(|queue| queue.bytes = Some(0));
            }),
        ),
        (
            "oldest",
            Lie::Shows(|shown, _| {
                shown.queues.iter_mut().for_each(|queue| queue.oldest = None);
            }),
        ),
        (
            "softirq",
            Lie::Shows(|shown, _| {
                shown.cores.iter_mut().for_each(|core| core.softirq = Some(Span::ZERO));
            }),
        ),
    ]);
}

#[test]
fn missing_or_unrequested_trigger_is_found() {
    assert_found(&[
        ("Batch", Lie::Asks(|trigger, _| !matches!(trigger, Trigger::Batch { .. }))),
        (
            "Batch",
            Lie::Asks(|trigger, count| {
                !matches!(trigger, Trigger::Batch { .. }) || count.is_multiple_of(2)
            }),
        ),
        ("Fill", Lie::Asks(|trigger, _| !matches!(trigger, Trigger::Fill { .. }))),
        ("Fill", Lie::AsksAtAnyLevel),
        ("EmptyPolls", Lie::Asks(|trigger, _| !matches!(trigger, Trigger::EmptyPolls { .. }))),
        ("Streak", Lie::Asks(|trigger, _| !matches!(trigger, Trigger::Streak { .. }))),
        ("Silence", Lie::Asks(|trigger, _| !matches!(trigger, Trigger::Silence { .. }))),
    ]);
}
