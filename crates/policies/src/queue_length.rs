//! PowerSave's controller (PowerSave, section 6).

use super::fixed;
use wattline_policy::{
    AskAgain, BuildContext, CoreSet, FillRead, Kind, Level, Looks, Observation, OperatingPoint,
    Parameter, Parameters, Platform, Policy, PolicyInfo, Preset, Reason, StreakReset, StreakRule,
    Streaks, Trigger, Wait,
};
use wattline_units::{Span, Time};

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "queue-length",
    summary: "Adds cores at the lowest frequency while queues grow, then raises the frequency; the reverse when they stay short. Active cores nap in C1, removed ones in the deepest state",
    source: "PowerSave, section 6",
    parameters: &[
        Parameter {
            name: "preset",
            kind: Kind::Preset { presets: PRESETS },
            default: "latency",
            meaning: "defaults of the values below: `latency` keeps capacity, and draws up to some 60 W more at \
                      a steady rate; `efficient` stays near the optimum at one, with eight times the 99th \
                      percentile and thousands of changes per second",
            source: "ours: see docs/lab-notes/powersave-readings.md",
        },
        Parameter {
            name: "q_h",
            kind: Kind::Count { min: 1, max: 1_000_000 },
            default: "32",
            meaning: "packets in a ring above which a core is overloaded",
            source: "PowerSave, section 6.1",
        },
        Parameter {
            name: "q_l",
            kind: Kind::Count { min: 0, max: 1_000_000 },
            default: "4",
            meaning: "packets in a ring below which a core is underloaded; must be below q_h",
            source: "PowerSave, section 6.1",
        },
        Parameter {
            name: "c_up",
            kind: Kind::Count { min: 0, max: 1_000_000 },
            default: "0",
            meaning: "more samples in a row than this above q_h add capacity",
            source: "ours, the paper's value is lost: by simulation, see docs/explanation/simulator.md",
        },
        Parameter {
            name: "c_down",
            kind: Kind::Count { min: 0, max: 100_000_000 },
            default: "80",
            meaning: "more samples in a row than this below q_l take capacity away",
            source: "ours, the paper's value is lost: by simulation, see docs/explanation/simulator.md",
        },
        Parameter {
            name: "batch",
            kind: Kind::Count { min: 1, max: 4096 },
            default: "8",
            meaning: "packets of a batch; the queue is sampled once for each",
            source: "ours, the paper's value is lost: by simulation, see docs/explanation/simulator.md",
        },
        Parameter {
            name: "read",
            kind: Kind::Word,
            default: "before",
            meaning: "when the queue is read: `before` the batch is taken, `after` it, or `pass`: before, and the \
                      pass that finds nothing before the core halts counts, too",
            source: "ours, the paper's text allows all three: see docs/lab-notes/powersave-readings.md",
        },
        Parameter {
            name: "reset",
            kind: Kind::Word,
            default: "all",
            meaning: "counters that a change resets: of `all` interfaces or its `own`",
            source: "ours, the paper's text allows both: see docs/lab-notes/powersave-readings.md",
        },
        fixed::IDLE,
        Parameter {
            name: "silence",
            kind: Kind::Duration { min_micros: 0, max_micros: 60_000_000 },
            default: "1ms",
            meaning: "takes capacity away when no batch came for so long; 0 for never",
            source: "ours: without packets the paper's estimator is not run at all",
        },
        Parameter {
            name: "look",
            kind: Kind::Duration { min_micros: 0, max_micros: 1_000_000 },
            default: "0us",
            meaning: "time between two samples of a queue, to see the loss by rare sampling; 0 for one at each \
                      batch. A sample stands for the batches since the last one",
            source: "ours: the paper's estimator runs at each batch",
        },
    ],
    make,
};

/// Presets for the lost constants: for the lowest latency (the parameters' defaults), and for the
/// smallest distance from the optimum at a steady rate.
const PRESETS: &[Preset] = &[
    Preset { name: "latency", values: &[] },
    Preset { name: "efficient", values: &[("c_up", "7"), ("c_down", "10"), ("read", "after")] },
];

/// Time after which the controller, at an end of the ladder, checks that the machine is still
/// there.
const LOOK_AGAIN: Span = Span::from_millis(1_000);

/// The controller. Its estimator ([`wattline_policy::QueueEstimator`]) runs on one core per
/// interface: the lowest active one, which always exists while the router runs.
#[derive(Debug)]
struct QueueLength {
    rule: StreakRule,
    batch: u32,
    nap: usize,
    /// Reason for the last step.
    why: &'static str,
}

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let (q_high, q_low) = (parameters.count("q_h"), parameters.count("q_l"));
    if q_low >= q_high {
        return Err(format!("q_l = {q_low}: must be below q_h = {q_high}"));
    }
    let read = match parameters.word("read") {
        "before" => FillRead::Before,
        "after" => FillRead::After,
        // The paper has `qlen, batch = input(batch_len)` and, after the batch is processed, `if
        // qlen == 0 halt()`: to the letter, a pass that finds nothing is a sample.
        "pass" => FillRead::Pass,
        other => return Err(format!("read = {other}: allowed are before, after and pass")),
    };
    let reset = match parameters.word("reset") {
        "all" => StreakReset::All,
        "own" => StreakReset::Own,
        other => return Err(format!("reset = {other}: allowed are all and own")),
    };
    let level = |packets: u64, samples| Level {
        packets: packets as u32,
        samples: parameters.count(samples) as u32,
    };
    let rule = StreakRule {
        above: level(q_high, "c_up"),
        below: level(q_low, "c_down"),
        read,
        reset,
        look: parameters.span("look"),
        silence: parameters.span("silence"),
    };
    let nap = fixed::idle_state(parameters, context.platform)?;
    let batch = parameters.count("batch") as u32;
    Ok(Box::new(QueueLength { rule, batch, nap, why: "" }))
}

impl QueueLength {
    /// Takes one rung up or down the ladder.
    fn step(&self, up: bool, platform: &Platform, point: &mut OperatingPoint) {
        let (cores, frequency) = (point.active.len(), point.fastest_active());
        if up {
            if cores < platform.cores && platform.can.set_cores {
                point.set_active(cores + 1, self.nap, platform.deepest());
            } else if frequency < platform.fastest() {
                point.set_frequency(frequency + 1);
            }
        } else if frequency > 0 && platform.can.set_frequency {
            point.set_frequency(frequency - 1);
        } else if cores > 1 {
            point.set_active(cores - 1, self.nap, platform.deepest());
        }
    }

    /// Returns the streaks to ask for. Once the machine is at an end of the ladder, streaks that
    /// would lead beyond it change nothing, so the policy does not ask for them.
    fn ask(&self, now: Time, point: &OperatingPoint, at_top: bool, at_bottom: bool) -> AskAgain {
        let cores = point.active.lowest().map_or(CoreSet::EMPTY, CoreSet::only);
        let at_silence = self.rule.silence > Span::ZERO && !at_bottom;
        let (rule, at_above, at_below) = (self.rule, !at_top, !at_bottom);
        let at = if at_top || at_bottom { now + LOOK_AGAIN } else { Time::NEVER };
        AskAgain {
            at,
            ..AskAgain::on_streak(Streaks { cores, rule, at_above, at_below, at_silence })
        }
    }
}

/// Returns true if nothing can be added.
fn at_top(platform: &Platform, point: &OperatingPoint) -> bool {
    let all_cores = point.active.len() >= platform.cores || !platform.can.set_cores;
    all_cores && (point.fastest_active() >= platform.fastest() || !platform.can.set_frequency)
}

/// Returns true if nothing can be taken away.
fn at_bottom(platform: &Platform, point: &OperatingPoint) -> bool {
    let one_core = point.active.len() <= 1 || !platform.can.set_cores;
    one_core && (point.fastest_active() == 0 || !platform.can.set_frequency)
}

impl Policy for QueueLength {
    fn reason(&self) -> Option<Reason> {
        Some(Reason { words: self.why, rate: None, phase: None })
    }

    fn looks_at(&self) -> Looks {
        Looks::TRIGGER
    }

    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        let platform = seen.platform;
        let (was_at_top, was_at_bottom) = (at_top(platform, point), at_bottom(platform, point));
        match seen.trigger {
            Trigger::Start => {
                self.why = "no rate was measured yet";
                let cores = if platform.can.set_cores { 1 } else { platform.cores };
                point.set_active(cores, self.nap, platform.deepest());
                point.set_frequency(0);
                point.set_wait(Wait::Interrupt);
                point.batch = self.batch;
            }
            Trigger::Streak { above, .. } => {
                let marks = ["queues stayed below q_l", "queues stayed above q_h"];
                self.why = marks[usize::from(above)];
                self.step(above, platform, point);
            }
            Trigger::Silence { .. } => {
                self.why = "no batch came for as long as `silence` says";
                self.step(false, platform, point);
            }
            Trigger::Timer
            | Trigger::Batch { .. }
            | Trigger::Fill { .. }
            | Trigger::EmptyPolls { .. } => {}
        }
        let start = seen.trigger == Trigger::Start;
        let stays = |before: bool, at_end: fn(&Platform, &OperatingPoint) -> bool| {
            !start && before && at_end(platform, point)
        };
        self.ask(seen.now, point, stays(was_at_top, at_top), stays(was_at_bottom, at_bottom))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, server};
    use wattline_server::Application;
    use wattline_units::PacketsPerSecond;

    /// Returns the 25 rungs: cores first at the lowest frequency, then frequency (PS-F9).
    fn ladder() -> Vec<(usize, usize)> {
        (1..=12).map(|cores| (cores, 0)).chain((1..14).map(|step| (12, step))).collect()
    }

    fn climb(bench: &mut Bench, above: bool) -> Vec<(usize, usize)> {
        let mut rungs = vec![bench.rung()];
        for _ in 0..200 {
            bench.streak(0, above);
            if rungs.last() != Some(&bench.rung()) {
                rungs.push(bench.rung());
            }
        }
        rungs
    }

    #[test]
    fn climbs_and_descends_the_ladder() {
        let mut bench = Bench::new();
        let ask = bench.play("queue-length:c_up=2,c_down=3", None);
        assert_eq!(ask.watched(), CoreSet::only(0));
        let up = climb(&mut bench, true);
        assert_eq!(up, ladder());
        let mut down = climb(&mut bench, false);
        down.reverse();
        assert_eq!(down, ladder());
        assert!(bench.point.cores[1..].iter().all(|core| core.idle_limit == 2), "C6 when removed");
        assert_eq!(bench.point.cores[0].idle_limit, 0, "C1 when active");
    }

    #[test]
    fn parameters_become_the_rule_of_the_estimator() {
        let bench = &mut Bench::new();
        let text = "queue-length:q_h=20,q_l=3,c_up=2,c_down=5,read=pass,reset=own,look=1ms";
        let ask = bench.play(text, None).on_streak;
        let rule = StreakRule {
            above: Level { packets: 20, samples: 2 },
            below: Level { packets: 3, samples: 5 },
            read: FillRead::Pass,
            reset: StreakReset::Own,
            look: Span::from_millis(1),
            silence: Span::from_millis(1),
        };
        assert_eq!(ask.rule, rule);
        assert!(ask.at_above && ask.at_below && ask.at_silence);
        for wrong in ["reset=none", "read=never", "q_l=32"] {
            assert!(bench.make(&format!("queue-length:{wrong}"), None).is_err(), "{wrong}");
        }
    }

    /// At an end of the ladder the policy does not ask for streaks that cannot lead further, once
    /// the machine is really there: it may have refused the last step.
    #[test]
    fn ladder_ends_ask_for_fewer_streaks() {
        let mut bench = Bench::new();
        let ask = bench.play("queue-length", None).on_streak;
        assert!(ask.at_below && ask.at_silence, "the machine may not have followed yet");
        let ask = bench.streak(0, false);
        let streaks = ask.on_streak;
        assert!(streaks.at_above && !streaks.at_below && !streaks.at_silence);
        assert_eq!(ask.at, bench.now + LOOK_AGAIN);
        let ask = bench.streak(0, true);
        assert!(ask.on_streak.at_below && ask.on_streak.at_silence && ask.at == Time::NEVER);
        climb(&mut bench, true);
        let ask = bench.streak(0, true).on_streak;
        assert!(!ask.at_above && ask.at_below && ask.at_silence);
        let ask = bench.streak(0, false).on_streak;
        assert!(ask.at_above && bench.rung() == (12, 12));
        // A platform without a knob is at both ends.
        bench.platform.can.set_cores = false;
        bench.platform.can.set_frequency = false;
        let ask = bench.streak(0, true).on_streak;
        assert!(!ask.at_above && !ask.at_below && !ask.at_silence);
    }

    #[test]
    fn silence_leads_down() {
        let mut bench = Bench::playing("queue-length:c_up=0");
        bench.streak(0, true);
        assert_eq!(bench.rung(), (2, 0));
        assert_eq!(bench.policy().reason().unwrap().words, "queues stayed above q_h");
        bench.silence(0);
        assert_eq!(bench.rung(), (1, 0));
        assert!(bench.policy().reason().unwrap().words.contains("silence"));
    }

    /// On the ladder the first rung that carries a rate costs less than 5 W above the lower
    /// envelope at low rates (section 6, figure 12). At the worst single rate of all, just where a
    /// pair reaches its capacity, the model gives 5.2 W.
    #[test]
    fn the_ladder_stays_near_the_envelope() {
        let model = server();
        let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
        let envelope = wattline_policy::Envelope::of(&model, 12, cost, 64, 1.0);
        for step in envelope.steps() {
            let rate = PacketsPerSecond(step.up_to.0);
            let rung = ladder().into_iter().find_map(|(cores, frequency)| {
                let point = model.napi_point(cores, model.processor.frequencies[frequency]);
                (model.core_capacity(cost, cores, point.frequency).0 + 0.5 >= rate.0)
                    .then(|| model.power_at(cost, 64, &point, rate).total())
            });
            let gap = rung.unwrap().0 - step.power.0;
            let bound = if rate.mpps() < 4.2 { 5.0 } else { 5.3 };
            assert!((-1e-9..bound).contains(&gap), "{gap} W at {rate}");
        }
    }
}
