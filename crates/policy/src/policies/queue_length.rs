//! PowerSave's controller (PowerSave, section 6).

use super::fixed;
use crate::{
    AskAgain, BuildContext, CoreSet, Kind, Looks, Observation, OperatingPoint, Parameter,
    Parameters, Platform, Policy, PolicyInfo, Preset, Reason, Trigger, Wait,
};
use std::num::NonZeroU32;
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
            meaning: "what the values below are by default: `latency` keeps capacity, and draws up to some 60 W more at \
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
            meaning: "whose counters a change resets: those of `all` interfaces or its `own`",
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
    ],
    make,
};

/// Presets for the lost constants: those of the least latency, which are the parameters' defaults,
/// and those nearest to the optimum at a steady rate.
const PRESETS: &[Preset] = &[
    Preset { name: "latency", values: &[] },
    Preset { name: "efficient", values: &[("c_up", "7"), ("c_down", "10"), ("read", "after")] },
];

/// When the estimator reads the queue. The paper's pseudo-code has `qlen, batch = input(batch_len)`
/// and, after the batch is processed, `if qlen == 0 halt()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    /// With the packets of the batch; a pass without a packet is no sample.
    Before,
    /// Without the packets of the batch: the core halts after a batch that left nothing.
    After,
    /// With the packets of the batch, and each core makes one more pass, which finds nothing and
    /// is a sample, before it halts: the pseudo-code to the letter.
    Pass,
}

/// Times in a row that a ring was too full or nearly empty: c_h and c_l.
#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    high: u64,
    low: u64,
}

/// The controller. Its estimator runs on one core per interface: the lowest active one,
/// which is there as long as the router is.
#[derive(Debug)]
struct QueueLength {
    q_high: u64,
    q_low: u64,
    c_up: u64,
    c_down: u64,
    batch: u32,
    read: Read,
    /// Whether a change resets the counters of all interfaces, or of its own.
    reset_all: bool,
    nap: usize,
    silence: Span,
    /// By number of the port.
    counters: Vec<Counters>,
    /// Reason for the last step.
    why: &'static str,
}

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let (q_high, q_low) = (parameters.count("q_h"), parameters.count("q_l"));
    if q_low >= q_high {
        return Err(format!("q_l = {q_low}: must be below q_h = {q_high}"));
    }
    let read = match parameters.word("read") {
        "before" => Read::Before,
        "after" => Read::After,
        "pass" => Read::Pass,
        other => return Err(format!("read = {other}: allowed are before, after and pass")),
    };
    if read == Read::Pass && !context.platform.can.asks.empty_polls.is_noticed() {
        return Err("read = pass: the platform does not ask at empty polls, which this reading \
                    counts: choose before or after"
            .into());
    }
    let reset_all = match parameters.word("reset") {
        "all" => true,
        "own" => false,
        other => return Err(format!("reset = {other}: allowed are all and own")),
    };
    let queues = &context.platform.queues;
    let ports = queues.iter().map(|queue| queue.port + 1).max().unwrap_or(0);
    Ok(Box::new(QueueLength {
        q_high,
        q_low,
        c_up: parameters.count("c_up"),
        c_down: parameters.count("c_down"),
        batch: parameters.count("batch") as u32,
        read,
        reset_all,
        nap: fixed::idle_state(parameters, context.platform)?,
        silence: parameters.span("silence"),
        counters: vec![Counters::default(); ports],
        why: "",
    }))
}

impl QueueLength {
    /// One sample of a port's estimator, which stands for so many batches. `Some(true)` asks
    /// for more capacity, `Some(false)` for less.
    ///
    /// A sample says less than the batches that it stands for, so it counts for no more than an
    /// eighth of those that a decision takes: several looks in a row have to agree.
    fn sample(&mut self, port: usize, fill: u64, batches: u64) -> Option<bool> {
        let counters = &mut self.counters[port];
        let of = |count: u64| batches.clamp(1, count / 8 + 1);
        if fill > self.q_high {
            counters.low = 0;
            counters.high += of(self.c_up);
            (counters.high > self.c_up).then_some(true)
        } else if fill < self.q_low {
            counters.high = 0;
            counters.low += of(self.c_down);
            (counters.low > self.c_down).then_some(false)
        } else {
            *counters = Counters::default();
            None
        }
    }

    /// Takes one sample, and one step if it asks for one.
    fn estimate(
        &mut self,
        port: usize,
        fill: u32,
        batches: u32,
        platform: &Platform,
        point: &mut OperatingPoint,
    ) {
        if let Some(up) = self.sample(port, fill.into(), batches.into()) {
            let marks = ["queues stayed below q_l", "queues stayed above q_h"];
            self.why = marks[usize::from(up)];
            self.reset(port);
            self.step(up, platform, point);
        }
    }

    /// The counters start anew after a change, so that it can show its effect before the next one.
    fn reset(&mut self, port: usize) {
        if self.reset_all {
            self.counters.fill(Counters::default());
        } else {
            self.counters[port] = Counters::default();
        }
    }

    /// One rung up or down the ladder.
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
}

impl Policy for QueueLength {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn reason(&self) -> Option<Reason> {
        Some(Reason { words: self.why, rate: None, phase: None })
    }

    fn looks_at(&self) -> Looks {
        Looks::TRIGGER
    }

    fn decide(
        &mut self,
        now: Time,
        seen: &Observation<'_>,
        point: &mut OperatingPoint,
    ) -> AskAgain {
        let platform = seen.platform;
        match seen.trigger {
            Trigger::Start => {
                self.why = "no rate was measured yet";
                let cores = if platform.can.set_cores { 1 } else { platform.cores };
                point.set_active(cores, self.nap, platform.deepest());
                point.set_frequency(0);
                point.set_wait(Wait::Interrupt);
                point.batch = self.batch;
            }
            Trigger::Batch { queue, batches, taken } => {
                let found = seen.queues[queue].fill;
                let fill =
                    if self.read == Read::After { found.saturating_sub(taken) } else { found };
                self.estimate(platform.queues[queue].port, fill, batches, platform, point);
            }
            Trigger::EmptyPolls { .. } => {
                for port in 0..self.counters.len() {
                    self.estimate(port, 0, 1, platform, point);
                }
            }
            Trigger::Timer => {
                self.why = "no batch came for as long as `silence` says";
                self.counters.fill(Counters::default());
                self.step(false, platform, point);
            }
            Trigger::Fill { .. } => {}
        }
        let estimator = point.active.lowest().map_or(CoreSet::EMPTY, CoreSet::only);
        let at = if self.silence == Span::ZERO { Time::NEVER } else { now + self.silence };
        let after_empty_polls = (self.read == Read::Pass).then_some(NonZeroU32::MIN);
        AskAgain { at, after_empty_polls, ..AskAgain::on_batch(estimator) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::testing::{Bench, server};
    use wattline_server::Application;
    use wattline_units::PacketsPerSecond;

    /// The 25 rungs: cores first at the lowest frequency, then frequency (PS-F9).
    fn ladder() -> Vec<(usize, usize)> {
        (1..=12).map(|cores| (cores, 0)).chain((1..14).map(|step| (12, step))).collect()
    }

    fn climb(bench: &mut Bench, policy: &mut dyn Policy, fill: u32) -> Vec<(usize, usize)> {
        let mut rungs = vec![bench.rung()];
        for _ in 0..200 {
            bench.batch(policy, 0, fill);
            if rungs.last() != Some(&bench.rung()) {
                rungs.push(bench.rung());
            }
        }
        rungs
    }

    #[test]
    fn climbs_and_descends_the_ladder() {
        let mut bench = Bench::new();
        let mut controller = bench.make("queue-length:c_up=2,c_down=3", None).unwrap();
        let ask = bench.start(&mut *controller);
        assert_eq!(ask.on_batch, CoreSet::only(0));
        let up = climb(&mut bench, &mut *controller, 33);
        assert_eq!(up, ladder());
        let mut down = climb(&mut bench, &mut *controller, 3);
        down.reverse();
        assert_eq!(down, ladder());
        assert!(bench.point.cores[1..].iter().all(|core| core.idle_limit == 2), "C6 when removed");
        assert_eq!(bench.point.cores[0].idle_limit, 0, "C1 when active");
    }

    #[test]
    fn scripted_queue_lengths_give_these_actions() {
        let mut bench = Bench::new();
        let mut controller = bench.make("queue-length:c_up=2,c_down=2", None).unwrap();
        bench.start(&mut *controller);
        // (fill level, cores afterwards); more than two samples in a row act.
        let script = [
            (40, 1),
            (40, 1),
            (40, 2), // the third above acts
            (40, 2),
            (40, 2),
            (32, 2), // 32 is not above: counters reset
            (40, 2),
            (40, 2),
            (3, 2), // a low sample resets the high counter
            (4, 2),
            (3, 2),
            (3, 2), // 4 is not below: counters reset
            (3, 1),
            (3, 1),
            (0, 1), // the third below acts; then nothing is left to take
            (40, 1),
            (40, 1),
            (40, 2),
        ];
        for (step, (fill, cores)) in script.into_iter().enumerate() {
            bench.batch(&mut *controller, 0, fill);
            assert_eq!(bench.point.active.len(), cores, "step {step}");
        }
    }

    /// A count of batches lasts as long on platforms that sample, but several looks have to agree.
    #[test]
    fn a_sample_counts_for_the_batches_that_it_stands_for() {
        let looks_until_a_step = |batches: u32| {
            let mut bench = Bench::new();
            let mut controller = bench.make("queue-length:c_up=0,c_down=80", None).unwrap();
            bench.start(&mut *controller);
            bench.batch(&mut *controller, 0, 50);
            assert_eq!(bench.rung(), (2, 0));
            (1..).find(|_| {
                bench.sample(&mut *controller, 0, 1, batches);
                bench.rung() == (1, 0)
            })
        };
        assert_eq!(looks_until_a_step(1), Some(81));
        assert_eq!(looks_until_a_step(10), Some(9));
        assert_eq!(looks_until_a_step(1000), Some(8));
    }

    /// The same fills and batches under the three readings: packets of a batch count or do not, and
    /// a pass that finds nothing is a sample of every interface or none.
    #[test]
    fn the_queue_is_read_before_or_after_the_batch_or_at_each_pass() {
        let rung_after = |read: &str, fills: &[u32]| {
            let mut bench = Bench::new();
            let mut controller = bench
                .make(&format!("queue-length:c_up=0,c_down=1,batch=32,read={read}"), None)
                .unwrap();
            let ask = bench.start(&mut *controller);
            assert_eq!(ask.after_empty_polls.is_some(), read == "pass");
            for fill in [100, 100] {
                bench.batch(&mut *controller, 0, fill);
            }
            assert_eq!(
                bench.rung(),
                (3, 0),
                "100 packets are too many with and without a batch of 32"
            );
            for &fill in fills {
                bench.batch(&mut *controller, 0, fill);
            }
            bench.rung()
        };
        // With 40 packets 8 are left after the batch of 32; with 20 none.
        assert_eq!(rung_after("before", &[40]), (4, 0));
        assert_eq!(rung_after("after", &[40]), (3, 0));
        assert_eq!(rung_after("before", &[20, 20]), (3, 0));
        assert_eq!(rung_after("after", &[20, 20]), (2, 0));
        let mut bench = Bench::new();
        let mut controller = bench.make("queue-length:c_up=0,c_down=1,read=pass", None).unwrap();
        bench.start(&mut *controller);
        bench.batch(&mut *controller, 0, 100);
        assert_eq!(bench.rung(), (2, 0));
        let mut empty = |fills: &[u32]| {
            for &fill in fills {
                bench.batch(&mut *controller, 0, fill);
            }
            bench.empty_polls(&mut *controller, 0);
            bench.rung()
        };
        // Of port 0 a packet in between, of the others nothing.
        assert_eq!(empty(&[]), (2, 0));
        assert_eq!(empty(&[20]), (1, 0), "the other interfaces found nothing twice");
    }

    #[test]
    fn a_change_may_reset_its_own_interface_alone() {
        for (reset, rung) in [("all", (2, 0)), ("own", (3, 0))] {
            let mut bench = Bench::new();
            let policy = format!("queue-length:c_up=1,reset={reset}");
            let mut controller = bench.make(&policy, None).unwrap();
            bench.start(&mut *controller);
            for queue in [0, 12, 0, 12] {
                bench.batch(&mut *controller, queue, 50);
            }
            assert_eq!(bench.rung(), rung, "{reset}");
        }
        assert!(Bench::new().make("queue-length:reset=none", None).is_err());
        assert!(Bench::new().make("queue-length:read=never", None).is_err());
    }

    #[test]
    fn each_interface_counts_for_itself_and_a_change_resets_all() {
        let mut bench = Bench::new();
        let mut controller = bench.make("queue-length:c_up=2", None).unwrap();
        bench.start(&mut *controller);
        for queue in [0, 12, 0, 12] {
            bench.batch(&mut *controller, queue, 50);
        }
        assert_eq!(bench.point.active.len(), 1);
        bench.batch(&mut *controller, 0, 50);
        assert_eq!(bench.point.active.len(), 2);
        bench.batch(&mut *controller, 12, 50);
        assert_eq!(bench.point.active.len(), 2, "the other interface starts anew too");
    }

    #[test]
    fn silence_leads_down() {
        let mut bench = Bench::new();
        let mut controller = bench.make("queue-length:c_up=0", None).unwrap();
        bench.start(&mut *controller);
        let ask = bench.batch(&mut *controller, 0, 50);
        assert_eq!(bench.rung(), (2, 0));
        assert_eq!(ask.at, bench.now + Span::from_millis(1));
        assert_eq!(controller.reason().unwrap().words, "queues stayed above q_h");
        bench.pass(&mut *controller, Span::from_millis(1), &[], 0);
        assert_eq!(bench.rung(), (1, 0));
        assert!(controller.reason().unwrap().words.contains("silence"));
    }

    /// On the ladder the first rung that carries a rate costs less than 5 W above the lower
    /// envelope at low rates (section 6, figure 12). At the worst single rate of all, just
    /// where a pair reaches its capacity, the model gives 5.2 W.
    #[test]
    fn the_ladder_stays_near_the_envelope() {
        let model = server();
        let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
        let envelope = crate::Envelope::of(&model, 12, cost, 64, 1.0);
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
