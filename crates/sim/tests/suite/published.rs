//! Every figure that PowerSave's paper prints about its machine, reproduced by simulation and not
//! only by the closed form. Each test prints the paper's value, the tolerance and the simulated
//! value (`cargo test -p wattline-sim --test suite published -- --nocapture`).

use crate::common::{poisson, server, setting, simulate};
use wattline_policy::Envelope;
use wattline_server::{Application, ServerModel};
use wattline_sim::Report;
use wattline_units::{Hertz, PacketsPerSecond, Span};

/// Slowest, half-way, highest comparable and fastest P-state of the paper, in GHz.
const SLOW: f64 = 1.6;
const MIDDLE: f64 = 2.4;
const DOUBLE: f64 = 3.2;
const FAST: f64 = 3.333_333;

struct Rig {
    server: ServerModel,
}

impl Rig {
    fn new() -> Self {
        Self { server: server("westmere-2010") }
    }

    fn capacity(&self, cores: usize, gigahertz: f64) -> f64 {
        let cost = self.server.packet_cost(Application::Ipv4, 64).unwrap();
        let frequency = self.server.processor.nearest_frequency(Hertz::from_gigahertz(gigahertz));
        self.server.core_capacity(cost, cores, frequency).0
    }

    fn run(&self, policy: &str, rate: f64, bytes: u16, duration: Span) -> Report {
        let mut setting = setting(&self.server, policy);
        setting.mean_bytes = bytes.into();
        setting.duration = duration;
        setting.warmup = Span::from_millis(2);
        simulate(&setting, &mut poisson(&self.server, rate, bytes, 5))
    }

    /// Simulates cores that nap under a load of 64-byte packets.
    fn loaded(&self, cores: usize, gigahertz: f64, rate: f64) -> Report {
        let policy = format!("napi:cores={cores},frequency_ghz={gigahertz}");
        self.run(&policy, rate, 64, Span::from_millis(8))
    }

    /// Simulates the same cores under more load than they can carry.
    fn full(&self, cores: usize, gigahertz: f64) -> Report {
        self.loaded(cores, gigahertz, 1.2 * self.capacity(cores, gigahertz))
    }

    /// Returns the power at ten packets per second.
    fn idle(&self, policy: &str) -> f64 {
        self.run(policy, 10.0, 64, Span::from_seconds(1.0)).power_watts
    }
}

/// Checks that the value is within a tolerance of the printed one.
fn equals(what: &str, simulated: f64, paper: f64, tolerance: f64) {
    println!("{what}: paper {paper} +- {tolerance}, simulated {simulated:.3}");
    assert!((simulated - paper).abs() <= tolerance, "{what}: {simulated}, paper {paper}");
}

/// Checks that the value is above a printed bound, minus the tolerance.
fn above(what: &str, simulated: f64, bound: f64, tolerance: f64) {
    println!("{what}: paper above {bound}, tolerance {tolerance}, simulated {simulated:.3}");
    assert!(simulated >= bound - tolerance, "{what}: {simulated}, paper above {bound}");
}

fn drop_percent(from: f64, to: f64) -> f64 {
    100.0 * (1.0 - to / from)
}

#[test]
fn forwarding_rates() {
    let rig = Rig::new();
    let rate = |cores, gigahertz| rig.full(cores, gigahertz).forwarded_rate_pps / 1e6;
    let (most, single) = (rate(12, FAST), rate(1, FAST));
    equals("12 cores at 3.33 GHz [Mpps]", most, 29.0, 0.5);
    let slow = rate(12, SLOW);
    equals("12 cores at 1.6 GHz [Mpps]", slow, 19.0, 0.5);
    equals("1 core, 3.2 over 1.6 GHz", rate(1, DOUBLE) / rate(1, SLOW), 1.70, 0.025);
    equals("12 cores, 3.2 over 1.6 GHz", rate(12, DOUBLE) / slow, 1.45, 0.025);
    above("one core alone [Mpps]", single, 3.0, 0.0);
    above("3 Mpps over a core of twelve [Mpps]", 3.0 - most / 12.0, 0.0, 0.0);
    let three = rig.loaded(3, SLOW, 5e6);
    assert_eq!(three.dropped_packets, 0, "3 cores at 1.6 GHz carry 5 Mpps");
}

#[test]
fn sleep_states() {
    let rig = Rig::new();
    equals("all cores in C6 [W]", rig.idle("napi:idle=C6"), 115.0, 0.5);
    equals("all cores in C3 [W]", rig.idle("napi:idle=C3"), 120.0, 0.5);
    equals("all cores in C1 [W]", rig.idle("napi"), 133.0, 0.5);
}

#[test]
fn click_and_napi_click() {
    let rig = Rig::new();
    let idle = rig.idle("poll");
    equals("polling, no traffic [W]", idle, 262.0, 1.0);
    equals("interrupts save without traffic [%]", drop_percent(idle, rig.idle("napi")), 50.0, 1.0);
    // 40 Gbit/s; preambles and gaps leave 4.79 of 4.88 Mpps on the links.
    let carry = |policy| rig.run(policy, 40e9 / (1024.0 * 8.0), 1024, Span::from_millis(30));
    let (poll, napi) = (carry("poll"), carry("napi"));
    equals("polling at 40 Gbit/s [W]", poll.power_watts, 269.0, 1.0);
    let saving = drop_percent(poll.power_watts, napi.power_watts);
    equals("interrupts save at 40 Gbit/s of 1024 B [%]", saving, 22.0, 1.0);
    let best = rig.run("poll", 1e5, 64, Span::from_millis(30)).latency_mean_seconds.unwrap();
    equals("polling at low load [us]", best * 1e6, 7.0, 0.5);
    let napi = rig.run("napi", 1e5, 64, Span::from_millis(30)).latency_mean_seconds.unwrap();
    equals("NAPI at low load [us]", napi * 1e6, 12.0, 1.0);
}

#[test]
fn frequency_and_power_at_full_load() {
    let rig = Rig::new();
    let power = |cores, gigahertz| rig.full(cores, gigahertz).power_watts;
    let halved = |cores| drop_percent(power(cores, DOUBLE), power(cores, SLOW));
    equals("1 core at half the frequency [% less]", halved(1), 5.0, 0.5);
    equals("12 cores at half the frequency [% less]", halved(12), 25.0, 1.0);
}

#[test]
fn twelve_cores_for_what_three_can_do() {
    let rig = Rig::new();
    let power = |cores| rig.loaded(cores, SLOW, 5e6).power_watts;
    above("5 Mpps: 12 cores over 3 [W]", power(12) - power(3), 30.0, 1.0);
}

#[test]
fn figure_7_slower_is_cheaper_at_the_same_rate() {
    let rig = Rig::new();
    for cores in [1, 6, 12] {
        let rate = 0.999 * rig.capacity(cores, SLOW);
        let power = |gigahertz| rig.loaded(cores, gigahertz, rate).power_watts;
        let (slow, middle, fast) = (power(SLOW), power(MIDDLE), power(FAST));
        let step = (middle - slow).min(fast - middle);
        above(&format!("figure 7, {cores} cores: least step [W]"), step, 0.0, 0.2);
    }
}

#[test]
fn figures_6_and_8_packets_per_joule_at_full_load() {
    let rig = Rig::new();
    let yields = |report: &Report| 1.0 / report.energy_per_packet_joules.unwrap();
    for cores in [1, 6, 12] {
        let all = [SLOW, MIDDLE, DOUBLE, FAST].map(|ghz| yields(&rig.full(cores, ghz)));
        let best = all.iter().copied().fold(0.0, f64::max);
        above(&format!("figure 6, {cores} cores: fastest over best"), all[3] / best, 1.0, 0.01);
    }
    for pairs in 1..=6 {
        let many = yields(&rig.full(2 * pairs, SLOW));
        let ratio = many / yields(&rig.full(pairs, DOUBLE));
        above(&format!("figure 8, {} slow over {pairs} fast", 2 * pairs), ratio, 1.0, 0.01);
    }
}

#[test]
fn figure_9_more_cores_never_cost_more_at_the_same_rate() {
    let rig = Rig::new();
    let cost = rig.server.packet_cost(Application::Ipv4, 64).unwrap();
    let frequencies = &rig.server.processor.frequencies;
    let closed = |cores, frequency: usize| {
        let point = rig.server.napi_point(cores, frequencies[frequency]);
        let rate = rig.server.core_capacity(cost, cores, point.frequency);
        (rate.0, rig.server.power_at(cost, 64, &point, rate).total().0)
    };
    // The closed form gives the pairs that are closest to each other; these are simulated.
    let points = |cores| (0..frequencies.len()).map(move |frequency| (cores, frequency));
    let mut calls = Vec::new();
    for few in (1..12).flat_map(points) {
        let (rate, power) = closed(few.0, few.1);
        for many in (few.0 + 1..=12).flat_map(points).filter(|many| many.1 < few.1) {
            let (other, other_power) = closed(many.0, many.1);
            if (0.98..=1.0).contains(&(other / rate)) {
                calls.push((power - other_power, few, many));
            }
        }
    }
    calls.sort_by(|a, b| a.0.total_cmp(&b.0));
    for &(_, few, many) in &calls[..5] {
        let power = |(cores, frequency): (usize, usize)| {
            rig.full(cores, frequencies[frequency].0 / 1e9).power_watts
        };
        let margin = power(few) - power(many);
        above(&format!("figure 9, {few:?} over {many:?} [W]"), margin, 0.0, 1.0);
    }
}

#[test]
fn figure_12_the_ladder_stays_near_the_envelope() {
    let rig = Rig::new();
    let cost = rig.server.packet_cost(Application::Ipv4, 64).unwrap();
    let envelope = Envelope::of(&rig.server, 12, cost, 64, 1.0);
    let frequencies = &rig.server.processor.frequencies;
    let ladder = || (1..=12).map(|m| (m, 0)).chain((1..frequencies.len()).map(|f| (12, f)));
    // Just below the end of every twelfth step of the envelope, where the gap is widest.
    for step in envelope.steps().iter().step_by(12) {
        let rate = step.up_to.0 * 0.995;
        let carries = |&(m, f): &(usize, usize)| rig.capacity(m, frequencies[f].0 / 1e9) >= rate;
        let (cores, frequency) = ladder().find(carries).expect("the fastest rung carries all");
        let power = |cores, ghz| rig.loaded(cores, ghz, rate).power_watts;
        let ours = power(cores, frequencies[frequency].0 / 1e9);
        let least = power(step.cores, frequencies[step.frequency].0 / 1e9);
        let what = format!("figure 12, {:.2} Mpps: 5 W less the gap [W]", rate / 1e6);
        above(&what, 5.0 - (ours - least), 0.0, 0.5);
    }
}

/// Cost of traffic with regular arrivals. Under NAPI the regularity decides how many packets share
/// a wake-up, so the power depends on more than the rate.
#[test]
fn regular_arrivals_wake_a_core_for_every_packet() {
    use wattline_traffic::Spec;
    let rig = Rig::new();
    let power = |traffic: &str| {
        let mut setting = setting(&rig.server, "napi");
        setting.mean_bytes = 1024;
        setting.duration = Span::from_millis(20);
        setting.warmup = Span::from_millis(2);
        let spec = Spec::parse(traffic).unwrap();
        simulate(&setting, spec.build(1).unwrap().as_mut())
    };
    let rate = 1.8e6;
    let turns = power("constant:1.8Mpps,size=1024,popularity=turns");
    let any = power("constant:1.8Mpps,size=1024,popularity=uniform");
    let poisson = power("poisson:1.8Mpps,size=1024");
    for (name, report) in [("turns", &turns), ("any flow", &any), ("poisson", &poisson)] {
        let interrupts = report.interrupts_per_packet.unwrap();
        println!("{name}: {:.1} W, {interrupts:.3} interrupts a packet", report.power_watts);
    }
    // Flows take turns. The gap at a core, 6.7 us, is longer than the interrupt's delivery, wake-up
    // and service together, 5.4 us, so nearly every packet has its own wake-up.
    assert!(turns.interrupts_per_packet.unwrap() > 0.9);
    let fastest = rig.server.processor.highest_frequency();
    let wake_up = rig.server.wake_up_work(fastest).as_seconds();
    for report in [&turns, &any, &poisson] {
        let service = 12.0 / rig.capacity(12, FAST);
        let work = service + wake_up * report.interrupts_per_packet.unwrap();
        let expected = report.forwarded_rate_pps / 12.0 * work;
        let cores = &report.residency.cores;
        let awake = cores.iter().map(|core| core.useful).sum::<f64>() / 12.0;
        println!("awake {awake:.4}, wake-ups and service {expected:.4}");
        assert!((awake / expected - 1.0).abs() < 0.002);
    }
    // Flows are random: a core's share of a regular stream is as good as random.
    assert!((any.power_watts - poisson.power_watts).abs() < 1.0);
    let closed = {
        let cost = rig.server.packet_cost(Application::Ipv4, 1024).unwrap();
        let point = rig.server.napi_point(12, fastest);
        rig.server.power_at(cost, 1024, &point, PacketsPerSecond(rate)).total().0
    };
    assert!((poisson.power_watts / closed - 1.0).abs() < 0.01);
}
