//! PowerSave's decisions under one recorded traffic, side by side: simulated, on emulated cores, and over
//! veth in a router's workers, behind its XDP programs, and behind the kernel with a masquerade. Each has
//! one core and the same three frequencies.
//!
//! The traffic comes from captures: the packets of each interval form bursts of a poll's budget
//! at most. So a worker's batch, a poll of NAPI and the model's batch are the same packets, and
//! each is one sample of the estimator. A longer burst would be several samples: the simulator
//! answers an event of the first one before the second, a machine at some time after it.

use crate::governed_forwarder::{KILOHERTZ, Scene};
use crate::harness::{ADAPTIVE, KERNEL, XDP, captures, has, privileged};
use std::path::Path;
use std::sync::{Arc, Mutex};
use wattline_demo::scale;
use wattline_governor::decisions::Decision;
use wattline_policies::POLICIES;
use wattline_policy::{
    AskAgain, Looks, Observation, OperatingPoint, Policy, Reason, Trigger, build,
};
use wattline_server::{Application, Path as Way, ServerFile, ServerModel};
use wattline_testbed::forwarder::Forwarder;
use wattline_traffic::capture::{CaptureError, Reader};
use wattline_traffic::{Block, Packet, Source};
use wattline_units::{BitsPerSecond, Hertz, Span, Time};

/// Policy with at most one step per burst: while an event of a worker waits for its answer, nothing
/// is counted.
const POLICY: &str = "queue-length:q_h=16,q_l=4,c_up=1,c_down=1,batch=64,silence=0s";
/// Captures with bursts of different lengths, and the intervals into which each is divided.
const RECORDED: [(&str, usize); 2] = [("vnc.pcap", 400), ("netflix.pcap", 200)];
const LONGEST: usize = OperatingPoint::NAPI_BUDGET as usize;
/// Model time between bursts. At the lowest frequency the longest burst takes most of it.
const PACE: Span = Span::from_micros(200);
/// Slow-down of the emulation: 40 ms of real time for a burst.
const DILATION: u32 = 200;
const ATTEMPTS: usize = 3;
/// Bursts of the quick test: the kernel takes some 20 ms to make each.
const FIRST: usize = 100;
/// Share of the bursts after which emulated cores may have another frequency.
const TOLERANCE: f64 = 0.05;
const FORWARDERS: [(&str, Forwarder); 3] =
    [("workers", ADAPTIVE), ("XDP programs", XDP), ("kernel with a masquerade", KERNEL)];

/// Returns the lengths of the bursts; none, with a message, without the captures.
fn bursts(test: &str) -> Vec<usize> {
    let files = captures(test);
    let of = |(name, intervals): (&str, usize)| {
        let path = files.iter().find(|path| path.ends_with(name));
        path.map_or_else(Vec::new, |path| lengths(path, intervals))
    };
    let divided = |length: usize| {
        let rest = Some(length % LONGEST).filter(|rest| *rest > 0);
        std::iter::repeat_n(LONGEST, length / LONGEST).chain(rest)
    };
    RECORDED.into_iter().flat_map(of).flat_map(divided).collect()
}

/// Packets in each of so many intervals of a capture.
fn lengths(path: &Path, intervals: usize) -> Vec<usize> {
    let mut reader = Reader::open(path).unwrap();
    let mut times = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        times.push(record.time.as_picos());
    }
    let (first, last) = (times[0], times[times.len() - 1]);
    let mut lengths = vec![0; intervals];
    for time in times {
        let place = (time - first) as f64 / (last - first) as f64 * intervals as f64;
        lengths[(place as usize).min(intervals - 1)] += 1;
    }
    lengths
}

/// The bursts as packets of one flow.
struct Played {
    bursts: Vec<usize>,
    next: usize,
}

impl Source for Played {
    fn next_block(&mut self, out: &mut Block) -> Result<(), CaptureError> {
        out.clear();
        if let Some(length) = self.bursts.get(self.next) {
            self.next += 1;
            let picos = PACE.as_picos() * self.next as u64;
            (0..*length).for_each(|_| out.push(Packet { picos, flow: 1, length: 64, port: 0 }));
        }
        Ok(())
    }
}

fn server() -> ServerModel {
    let mut server = ServerFile::load("westmere-2010").unwrap().model().unwrap().clone();
    let processor = &mut server.processor;
    (processor.sockets, processor.cores_per_socket) = (1, 1);
    processor.frequencies = hertz().to_vec();
    server.nic.link = BitsPerSecond(1e12);
    server
}

fn hertz() -> [Hertz; 3] {
    KILOHERTZ.map(|kilohertz| Hertz(kilohertz.parse::<f64>().unwrap() * 1e3))
}

/// Returns the index of the frequency after each burst, from the decisions in order: the burst that each
/// followed, and its frequency.
fn steps(bursts: usize, decisions: &[(usize, usize)]) -> Vec<usize> {
    let (mut decisions, mut present) = (decisions.iter().peekable(), 0);
    let after = |burst| {
        while let Some((_, step)) = decisions.next_if(|(after, _)| *after <= burst) {
            present = *step;
        }
        present
    };
    (0..bursts).map(after).collect()
}

/// Returns the ups and downs in order: true for up.
fn changes(steps: &[usize]) -> Vec<bool> {
    let pairs = std::iter::once(&0).chain(steps).zip(steps);
    pairs.filter(|(one, next)| one != next).map(|(one, next)| next > one).collect()
}

/// The burst before a point of model time.
fn burst_before(at: Time) -> usize {
    ((at.as_picos() / PACE.as_picos()) as usize).saturating_sub(1)
}

/// A policy whose changes of frequency are noted.
struct Noted {
    policy: Box<dyn Policy>,
    decisions: Arc<Mutex<Vec<(usize, usize)>>>,
}

impl Policy for Noted {
    fn reason(&self) -> Option<Reason> {
        self.policy.reason()
    }
    fn looks_at(&self) -> Looks {
        self.policy.looks_at()
    }
    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        let before = point.fastest_active();
        let ask = self.policy.decide(seen, point);
        let after = point.fastest_active();
        if after != before && seen.trigger != Trigger::Start {
            self.decisions.lock().unwrap().push((burst_before(seen.now), after));
        }
        ask
    }
}

fn duration(bursts: &[usize]) -> Span {
    PACE * (bursts.len() as u64 + 1)
}

fn simulated(way: Way, bursts: &[usize]) -> Vec<usize> {
    let server = server().on_path(way).unwrap();
    let policy = POLICIES.parse(POLICY).unwrap();
    let setting = wattline_sim::Setting::new(&server, policy.clone(), duration(bursts));
    let decisions = Arc::default();
    let noted = Arc::clone(&decisions);
    let mut source = Played { bursts: bursts.to_vec(), next: 0 };
    wattline_sim::run_with(&setting, &mut source, |context| {
        let policy = build(&policy, context).unwrap();
        Ok(Box::new(Noted { policy, decisions: noted }))
    })
    .unwrap();
    let decisions = decisions.lock().unwrap();
    steps(bursts.len(), &decisions)
}

/// Returns the frequencies on emulated cores, and the reason if the run may have been disturbed.
fn emulated(bursts: &[usize]) -> (Vec<usize>, Option<String>) {
    let setting = wattline_scale::Setting {
        server: server(),
        application: Application::Ipv4,
        policy: POLICIES.parse(POLICY).unwrap(),
        mean_bytes: 64,
        dilation: DILATION,
        seed: 1,
    };
    let plan = scale::Plan {
        setting,
        duration: duration(bursts),
        warmup: Span::ZERO,
        interval: PACE * 10,
    };
    let source = Box::new(Played { bursts: bursts.to_vec(), next: 0 });
    let (mut number, mut decisions) = (0, Vec::new());
    let outcome = scale::run(&plan, source, |_, scale| {
        for decision in scale.look(|governor| governor.decisions(number)) {
            number = decision.number;
            decisions.extend(frequency_of(&decision));
        }
    });
    let outcome = outcome.unwrap();
    assert_eq!(outcome.delivery.lost_packets(), 0, "{:?}", outcome.delivery);
    (steps(bursts.len(), &decisions), outcome.disturbed_because())
}

/// The burst that a decision followed, and its frequency; none for the first one.
fn frequency_of(decision: &Decision) -> Option<(usize, usize)> {
    let (_, frequency) = decision.frequency_hertz?;
    let step = hertz().iter().position(|hertz| (hertz.0 - frequency).abs() < 1e6).unwrap();
    let at = Time::ZERO + Span::from_seconds(decision.at_seconds);
    (decision.number > 1).then(|| (burst_before(at), step))
}

/// Returns the first difference of a forwarder over veth from the expected frequencies.
fn difference(forwarder: Forwarder, bursts: &[usize], expected: &[usize]) -> Option<String> {
    let scene = Scene::start(forwarder, POLICY);
    let steps = scene.play(bursts, expected);
    if steps != expected {
        let (last, step) = (steps.len() - 1, steps[steps.len() - 1]);
        let log = scene.log();
        return Some(format!(
            "frequency {step}, not {}, after burst {last}\n{log}",
            expected[last]
        ));
    }
    let (reasons, changes) = (scene.reasons(), changes(expected));
    let as_expected = !reasons.is_empty() && changes.ends_with(&reasons);
    (!as_expected).then(|| format!("reasons {reasons:?} at the end of {changes:?}"))
}

/// Returns the bursts, and the frequency after each on all paths of the simulator.
fn scene(test: &str) -> Option<(Vec<usize>, Vec<usize>)> {
    let bursts = bursts(test);
    let tools = ["ethtool", "nft"].iter().all(|tool| has(tool, test));
    if bursts.is_empty() || !tools || !Scene::is_possible() {
        return None;
    }
    let expected = simulated(Way::Workers, &bursts);
    for way in [Way::Xdp, Way::Kernel] {
        assert_eq!(simulated(way, &bursts), expected, "{way:?}");
    }
    let changes = changes(&expected);
    let ups = changes.iter().filter(|up| **up).count();
    println!(
        "{} bursts of {} packets, {ups} ups and {} downs",
        bursts.len(),
        bursts.iter().sum::<usize>(),
        changes.len() - ups
    );
    assert!(ups.min(changes.len() - ups) >= 10, "too few decisions");
    Some((bursts, expected))
}

#[test]
fn decisions_are_the_same_simulated_in_workers_behind_xdp_programs_and_behind_the_kernel() {
    let test =
        "decisions_are_the_same_simulated_in_workers_behind_xdp_programs_and_behind_the_kernel";
    privileged(test, || {
        let Some((bursts, expected)) = scene(test) else { return };
        let (bursts, expected) = (&bursts[..FIRST], &expected[..FIRST]);
        assert!(changes(expected).len() >= 6, "too few decisions");
        for (name, forwarder) in FORWARDERS {
            assert_eq!(difference(forwarder, bursts, expected), None, "{name}");
        }
    });
}

#[test]
#[ignore = "real time on a quiet machine; `make test-long` runs it"]
fn decisions_are_the_same_ten_times_and_on_emulated_cores() {
    let test = "decisions_are_the_same_ten_times_and_on_emulated_cores";
    privileged(test, || {
        let Some((bursts, expected)) = scene(test) else { return };
        let same = FORWARDERS.map(|(name, forwarder)| {
            let differ = (0..10).filter_map(|_| difference(forwarder, &bursts, &expected));
            let differ: Vec<String> = differ.collect();
            println!("{name}: the same {} times of 10 {differ:#?}", 10 - differ.len());
            differ.is_empty()
        });
        assert_eq!(same, [true; 3]);
        for _ in 0..ATTEMPTS {
            let (steps, disturbed) = emulated(&bursts);
            let differ = steps.iter().zip(&expected).filter(|(one, other)| one != other).count();
            println!("emulated cores: {differ} bursts differ, disturbed: {disturbed:?}");
            if differ as f64 <= TOLERANCE * bursts.len() as f64 {
                return;
            }
            assert!(disturbed.is_some(), "{differ} of {} bursts", bursts.len());
        }
    });
}
