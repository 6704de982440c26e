//! PowerSave's decisions under one recorded traffic, side by side: simulated, on emulated cores, and in
//! a router's worker over veth. Each has one core and the same three frequencies.
//!
//! The traffic is that of captures: the packets of each interval come as one burst. The worker finds it
//! as a whole because the router stands still meanwhile; the model's link is fast for the same reason.

use crate::governed_streaks::{KILOHERTZ, Scene};
use crate::harness::{captures, has, privileged};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wattline_demo::scale;
use wattline_governor::decisions::Decision;
use wattline_policies::POLICIES;
use wattline_policy::{
    AskAgain, Looks, Observation, OperatingPoint, Policy, Reason, Trigger, build,
};
use wattline_server::{Application, ServerFile, ServerModel};
use wattline_traffic::capture::{CaptureError, Reader};
use wattline_traffic::{Block, Packet, Source};
use wattline_units::{BitsPerSecond, Hertz, Span, Time};

/// At most one step per burst: while an event of a worker waits for its answer, nothing is counted.
const POLICY: &str = "queue-length:q_h=16,q_l=4,c_up=4,c_down=1,silence=0s";
/// Captures with bursts of different lengths, and the intervals into which each is divided.
const RECORDED: [(&str, usize); 2] = [("vnc.pcap", 400), ("netflix.pcap", 200)];
/// Model time from burst to burst. At the lowest frequency the longest is forwarded in half of it.
const PACE: Span = Span::from_micros(200);
/// The emulation takes 40 ms of real time for a burst.
const DILATION: u32 = 200;
const ATTEMPTS: usize = 3;
/// Share of the bursts after which the frequency may be another one, and of the decisions at each
/// threshold that may differ.
const TOLERANCE: f64 = 0.05;

/// Lengths of the bursts, or none with a word about it.
fn bursts(test: &str) -> Vec<usize> {
    let files = captures(test);
    let of = |(name, intervals): (&str, usize)| {
        let path = files.iter().find(|path| path.ends_with(name));
        path.map_or_else(Vec::new, |path| lengths(path, intervals))
    };
    RECORDED.into_iter().flat_map(of).collect()
}

/// Packets in each of so many intervals of a capture, without empty ones.
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
    lengths.retain(|length| *length > 0);
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

/// Decisions of a platform.
#[derive(Debug, Default)]
struct Decided {
    /// Index of the frequency after each burst.
    steps: Vec<usize>,
    above: usize,
    below: usize,
}

impl Decided {
    /// From the decisions in order: the burst that each followed, and its frequency.
    fn from(bursts: usize, decisions: &[(usize, usize)]) -> Self {
        let mut all = Self::default();
        let (mut decisions, mut present) = (decisions.iter().peekable(), 0);
        for burst in 0..bursts {
            while let Some((_, step)) = decisions.next_if(|(after, _)| *after <= burst) {
                all.above += usize::from(*step > present);
                all.below += usize::from(*step < present);
                present = *step;
            }
            all.steps.push(present);
        }
        all
    }

    /// Returns what differs by more than allowed.
    fn differences(&self, other: &Self) -> Vec<String> {
        let most = |whole: usize| (TOLERANCE * whole as f64).ceil() as usize;
        let pairs = self.steps.iter().zip(&other.steps);
        let bursts = (pairs.filter(|(one, two)| one != two).count(), self.steps.len());
        let above = (self.above.abs_diff(other.above), self.above);
        let below = (self.below.abs_diff(other.below), self.below);
        [("bursts", bursts), ("decisions above q_h", above), ("decisions below q_l", below)]
            .into_iter()
            .filter(|(_, (differ, whole))| *differ > most(*whole))
            .map(|(what, (differ, whole))| format!("{differ} of {whole} {what}"))
            .collect()
    }

    fn print(&self, name: &str) {
        let Self { steps, above, below } = self;
        let on = |step| steps.iter().filter(|at| **at == step).count();
        let [low, middle, high] = [0, 1, 2].map(on);
        println!("{name:<18} {above:>9} {below:>9} {low:>6} {middle:>6} {high:>6}");
    }
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
    fn decide(
        &mut self,
        now: Time,
        seen: &Observation<'_>,
        point: &mut OperatingPoint,
    ) -> AskAgain {
        let before = point.fastest_active();
        let ask = self.policy.decide(now, seen, point);
        let after = point.fastest_active();
        if after != before && seen.trigger != Trigger::Start {
            self.decisions.lock().unwrap().push((burst_before(now), after));
        }
        ask
    }
}

fn duration(bursts: &[usize]) -> Span {
    PACE * (bursts.len() as u64 + 1)
}

fn simulated(bursts: &[usize]) -> Decided {
    let server = server();
    let policy = POLICIES.parse(POLICY).unwrap();
    let setting = wattline_sim::Setting {
        server: &server,
        application: Application::Ipv4,
        policy: policy.clone(),
        mean_bytes: 64,
        duration: duration(bursts),
        warmup: Span::ZERO,
        interval: None,
        output_links: false,
        seed: 1,
        log_states: false,
        profile: false,
    };
    let decisions = Arc::default();
    let noted = Arc::clone(&decisions);
    let mut source = Played { bursts: bursts.to_vec(), next: 0 };
    wattline_sim::run_with(&setting, &mut source, |context| {
        let policy = build(&policy, context).unwrap();
        Ok(Box::new(Noted { policy, decisions: noted }))
    })
    .unwrap();
    let decisions = decisions.lock().unwrap();
    Decided::from(bursts.len(), &decisions)
}

/// On emulated cores, and why they may have been disturbed.
fn emulated(bursts: &[usize]) -> (Decided, Option<String>) {
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
    (Decided::from(bursts.len(), &decisions), outcome.disturbed_because())
}

/// The burst that a decision followed, and its frequency; none for the first one.
fn frequency_of(decision: &Decision) -> Option<(usize, usize)> {
    let (_, frequency) = decision.frequency_hertz?;
    let step = hertz().iter().position(|hertz| (hertz.0 - frequency).abs() < 1e6).unwrap();
    let at = Time::ZERO + Span::from_seconds(decision.at_seconds);
    (decision.number > 1).then(|| (burst_before(at), step))
}

/// In a worker over veth.
fn live(bursts: &[usize]) -> Decided {
    let scene = Scene::start(POLICY);
    let mut sent = scene.forwarded();
    let mut decisions = Vec::new();
    for (number, length) in bursts.iter().enumerate() {
        scene.burst(*length);
        sent += *length as u64;
        wattline_needs::until_or(|| scene.forwarded() >= sent, || scene.row.router.log());
        // The governor's thread writes what it has decided.
        std::thread::sleep(Duration::from_millis(5));
        let step = KILOHERTZ.iter().position(|kilohertz| *kilohertz == scene.speed()).unwrap();
        decisions.push((number, step));
    }
    scene.row.stop();
    Decided::from(bursts.len(), &decisions)
}

#[test]
#[ignore = "real time on a quiet machine; `make test-long` runs it"]
fn decisions_are_the_same_simulated_emulated_and_in_a_worker() {
    let test = "decisions_are_the_same_simulated_emulated_and_in_a_worker";
    privileged(test, || {
        let bursts = bursts(test);
        if bursts.is_empty() || !has("ethtool", test) || !Scene::is_possible() {
            return;
        }
        let sim = simulated(&bursts);
        let worker = live(&bursts);
        let (mut scale, mut disturbed) = emulated(&bursts);
        for _ in 1..ATTEMPTS {
            if sim.differences(&scale).is_empty() || disturbed.is_none() {
                break;
            }
            (scale, disturbed) = emulated(&bursts);
        }
        println!("{} bursts of {} packets", bursts.len(), bursts.iter().sum::<usize>());
        println!("{:<18} {:>9} {:>9} bursts after which 1.6, 2.4, 3.3 GHz", "", "above", "below");
        sim.print("sim");
        scale.print("scale");
        worker.print("worker over veth");
        assert!(sim.above.min(sim.below) >= 10, "too few decisions: {sim:?}");
        assert_eq!(sim.differences(&worker), Vec::<String>::new(), "in a worker");
        let differences = sim.differences(&scale);
        assert!(differences.is_empty() || disturbed.is_some(), "on scale: {differences:?}");
    });
}
