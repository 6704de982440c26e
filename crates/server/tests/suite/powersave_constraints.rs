//! The closed form of `westmere-2010` compared with everything that the PowerSave paper prints
//! about the power and capacity of its router. Each line gives the paper's figure, the tolerance
//! and the model's figure; `cargo test -- --nocapture` prints the residuals.

use wattline_server::{Application, PacketCost, ServerModel, UniformPoint};
use wattline_units::{Hertz, PacketsPerSecond, Span};

struct Westmere {
    model: ServerModel,
    cost: PacketCost,
}

/// Form of a published figure.
enum Published {
    About(f64, f64),
    AtLeast(f64, f64),
    Below(f64, f64),
}
use Published::{About, AtLeast, Below};

impl Westmere {
    fn new() -> Self {
        let model = ServerModel::load("westmere-2010").unwrap();
        let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
        Self { model, cost }
    }
    fn ghz(&self, gigahertz: f64) -> Hertz {
        self.model.processor.nearest_frequency(Hertz::from_gigahertz(gigahertz))
    }
    /// R(m, f) in Mpps.
    fn rate(&self, cores: usize, gigahertz: f64) -> f64 {
        self.model.core_capacity(self.cost, cores, self.ghz(gigahertz)).mpps()
    }
    fn napi(&self, cores: usize, gigahertz: f64) -> UniformPoint {
        self.model.napi_point(cores, self.ghz(gigahertz))
    }
    fn polling(&self) -> UniformPoint {
        self.model.polling_point(12, self.ghz(3.333))
    }
    fn watts(&self, point: &UniformPoint, bytes: u32, mpps: f64) -> f64 {
        let offered = PacketsPerSecond::from_mpps(mpps);
        self.model.power_at(self.cost, bytes, point, offered).total().0
    }
    /// Power at full load without idle time, 64-byte packets.
    fn full(&self, cores: usize, gigahertz: f64) -> f64 {
        self.watts(&self.napi(cores, gigahertz), 64, self.rate(cores, gigahertz))
    }
    fn packets_per_joule(&self, cores: usize, gigahertz: f64) -> f64 {
        self.rate(cores, gigahertz) * 1e6 / self.full(cores, gigahertz)
    }
    fn gigahertz(&self) -> Vec<f64> {
        self.model.processor.frequencies.iter().map(|f| f.gigahertz()).collect()
    }
    /// Returns the power of the cheapest of the given points that carries the rate.
    fn cheapest(&self, points: impl Iterator<Item = (usize, f64)>, mpps: f64) -> f64 {
        points
            .filter(|&(m, f)| self.rate(m, f) >= mpps)
            .map(|(m, f)| self.watts(&self.napi(m, f), 64, mpps))
            .fold(f64::INFINITY, f64::min)
    }
    /// Returns the power of PowerSave's ladder: the first rung that carries the rate.
    fn ladder(&self, mpps: f64) -> f64 {
        let cores = (1..=12).map(|m| (m, 1.6));
        let speeds = self.gigahertz().into_iter().skip(1).map(|f| (12, f));
        let mut rungs = cores.chain(speeds);
        let (m, f) = rungs.find(|&(m, f)| self.rate(m, f) >= mpps).unwrap();
        self.watts(&self.napi(m, f), 64, mpps)
    }
}

/// Prints one line per constraint and returns those that are not met.
fn misses(constraints: &[(&str, Published, f64)]) -> Vec<String> {
    let mut misses = Vec::new();
    for (what, published, ours) in constraints {
        let (paper, met) = match *published {
            About(value, tolerance) => (value, (ours - value).abs() <= tolerance),
            AtLeast(value, tolerance) => (value, *ours >= value - tolerance),
            Below(value, tolerance) => (value, *ours <= value + tolerance),
        };
        let line = format!("{what:55} paper {paper:8.3} ours {ours:8.3} {:+.3}", ours - paper);
        println!("{line} {}", if met { "met" } else { "MISSED" });
        if !met {
            misses.push(line);
        }
    }
    misses
}

#[test]
fn capacity() {
    let w = Westmere::new();
    let missed = misses(&[
        ("12 cores at 3.33 GHz, 64 B, Mpps", About(29.0, 0.5), w.rate(12, 3.333)),
        ("12 cores at 1.6 GHz, Mpps", About(19.0, 0.5), w.rate(12, 1.6)),
        ("1 core, 1.6 to 3.2 GHz, x", About(1.70, 0.025), w.rate(1, 3.2) / w.rate(1, 1.6)),
        ("12 cores, 1.6 to 3.2 GHz, x", About(1.45, 0.025), w.rate(12, 3.2) / w.rate(12, 1.6)),
        ("3 Mpps a core: one core alone", AtLeast(3.0, 0.0), w.rate(1, 3.333)),
        ("3 Mpps a core: one of twelve", Below(3.0, 0.0), w.rate(12, 3.333) / 12.0),
        ("3 cores at 1.6 GHz carry 5 Mpps", AtLeast(5.0, 0.05), w.rate(3, 1.6)),
    ]);
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn power() {
    let w = Westmere::new();
    let parked = |state: &str| {
        let index = w.model.idle_state(state).unwrap();
        let point = UniformPoint { nap: index, parked: index, ..w.napi(12, 1.6) };
        w.watts(&point, 64, 0.0)
    };
    // "40 Gbit/s" of 1024-byte packets is four saturated links: 39.2 Gbit/s of packet bytes.
    let forty_gigabit = 40e3 / (1024.0 * 8.0);
    let polling_idle = w.watts(&w.polling(), 1024, 0.0);
    let polling_busy = w.watts(&w.polling(), 1024, forty_gigabit);
    let napi_idle = w.watts(&w.napi(12, 3.333), 1024, 0.0);
    let napi_busy = w.watts(&w.napi(12, 3.333), 1024, forty_gigabit);
    let drop = |m| 100.0 * (1.0 - w.full(m, 1.6) / w.full(m, 3.2));
    let twelve_or_three = w.watts(&w.napi(12, 1.6), 64, 5.0) - w.watts(&w.napi(3, 1.6), 64, 5.0);
    let missed = misses(&[
        ("Table 1: all cores in C6, W", About(115.0, 0.5), parked("C6")),
        ("Table 1: all cores in C3, W", About(120.0, 0.5), parked("C3")),
        ("Table 1: all cores in C1, W", About(133.0, 0.5), parked("C1")),
        ("Fig. 1: polling without traffic, W", About(262.0, 1.0), polling_idle),
        ("Fig. 1: polling, 40 Gbit/s, W", About(269.0, 1.0), polling_busy),
        ("Fig. 3: NAPI idle, % less", About(50.0, 1.0), 100.0 * (1.0 - napi_idle / polling_idle)),
        ("Fig. 3: NAPI 40G, % less", About(22.0, 1.0), 100.0 * (1.0 - napi_busy / polling_busy)),
        ("Fig. 4: half the frequency, 1 core, % less", About(5.0, 0.5), drop(1)),
        ("Fig. 4: half the frequency, 12 cores, % less", About(25.0, 1.0), drop(12)),
        ("Fig. 11: 3 cores instead of 12 at 5 Mpps, W less", AtLeast(30.0, 1.0), twelve_or_three),
    ]);
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn orderings() {
    let w = Westmere::new();
    let mut constraints = Vec::new();
    for m in [1, 6, 12] {
        let rate = w.rate(m, 1.6);
        let at = |f| w.watts(&w.napi(m, f), 64, rate);
        let step = (at(2.4) - at(1.6)).min(at(3.333) - at(2.4));
        constraints.push(("Fig. 7: 1.6 < 2.4 < 3.3 GHz at one rate, W", AtLeast(0.0, 0.0), step));
        let best = w.gigahertz().iter().map(|&f| w.packets_per_joule(m, f)).fold(0.0, f64::max);
        let fastest = w.packets_per_joule(m, 3.333) / best;
        constraints.push(("Fig. 6: highest frequency best, x", AtLeast(1.0, 0.01), fastest));
    }
    let numbers = (1..=6)
        .map(|k| w.packets_per_joule(2 * k, 1.6) / w.packets_per_joule(k, 3.2))
        .fold(f64::INFINITY, f64::min);
    constraints.push(("Fig. 8: numbers beat speed, x", AtLeast(1.0, 0.0), numbers));
    constraints.push(("Fig. 9: more cores never cost more, W", AtLeast(0.0, 0.0), fig9_margin(&w)));
    let gap = (1..=400)
        .map(|step| f64::from(step) / 400.0 * w.rate(12, 3.333))
        .map(|rate| {
            let all = (1..=12).flat_map(|m| w.gigahertz().into_iter().map(move |f| (m, f)));
            w.ladder(rate) - w.cheapest(all, rate)
        })
        .fold(0.0, f64::max);
    constraints.push(("Fig. 12: ladder above the optimum, W", Below(5.0, 0.0), gap));
    let missed = misses(&constraints);
    assert!(missed.is_empty(), "{missed:#?}");
}

/// Returns the least extra power of a point with fewer, faster cores over a point with more, slower
/// cores and the same capacity (within 2 %).
fn fig9_margin(w: &Westmere) -> f64 {
    let frequencies = w.gigahertz();
    let points: Vec<(usize, f64, f64, f64)> = (1..=12)
        .flat_map(|m| frequencies.iter().map(move |&f| (m, f)))
        .map(|(m, f)| (m, f, w.rate(m, f), w.full(m, f)))
        .collect();
    let mut margin = f64::INFINITY;
    for &(m1, f1, rate1, watts1) in &points {
        for &(m2, f2, rate2, watts2) in &points {
            if m2 > m1 && f2 < f1 && (0.98..=1.0).contains(&(rate2 / rate1)) {
                margin = margin.min(watts1 - watts2);
            }
        }
    }
    assert!(margin.is_finite(), "no pair of points has equal capacity");
    margin
}

/// Fig. 1 by component, and its one conflict: the CPUs' 2 x (92 - 25) = 134 W, but 147 W between
/// idling and polling. The 13 W are attributed to memory.
#[test]
fn components_close_at_idle_and_at_peak() {
    let w = Westmere::new();
    let idle = UniformPoint { cores: 0, ..w.napi(12, 1.6) };
    let idle = w.model.power_at(w.cost, 64, &idle, PacketsPerSecond::ZERO);
    let forty_gigabit = PacketsPerSecond::from_mpps(40e3 / (1024.0 * 8.0));
    let peak = w.model.power_at(w.cost, 1024, &w.polling(), forty_gigabit);
    let cpu = |p: &wattline_server::PowerBreakdown| p.cpu_packages.0 + p.cpu_cores.0;
    let missed = misses(&[
        ("CPUs idle, W", About(50.0, 0.1), cpu(&idle)),
        ("CPUs at peak, W", About(184.0, 0.5), cpu(&peak)),
        ("memory at peak, W", About(20.0, 0.1), peak.memory.0),
        ("NICs at peak, W", About(15.0, 0.2), peak.nic.0),
        ("memory and NICs idle, W", About(15.0, 0.1), idle.memory.0 + idle.nic.0),
        ("board, W", About(24.0, 0.0), peak.board.0),
    ]);
    assert!(missed.is_empty(), "{missed:#?}");

    let terms = w.model.power_terms(w.cost, 64, &w.polling(), PacketsPerSecond::ZERO);
    let swing = terms.awake_cores.0 + terms.uncore.0;
    assert!((swing - 147.0).abs() < 0.1, "the paper's conflict has changed: {swing} W");
}

#[test]
fn parts_sum_to_the_whole_everywhere() {
    let w = Westmere::new();
    for m in 0..=12 {
        for f in w.gigahertz() {
            for mpps in [0.0, 0.1, 1.0, 5.0, 50.0] {
                for point in [w.napi(m, f), UniformPoint { cores: m, ..w.polling() }] {
                    let offered = PacketsPerSecond::from_mpps(mpps);
                    let terms = w.model.power_terms(w.cost, 64, &point, offered);
                    let parts = w.model.power_at(w.cost, 64, &point, offered).total();
                    assert!((parts.0 - terms.total().0).abs() < 1e-9, "{point:?} {mpps}");
                }
            }
        }
    }
}

#[test]
fn latency_starts_at_the_papers_seven_microseconds() {
    let w = Westmere::new();
    let offered = PacketsPerSecond::from_mpps(0.001);
    let polling = w.model.mean_latency(w.cost, &w.polling(), offered).unwrap().total();
    assert!((polling.as_seconds() * 1e6 - 7.0).abs() < 0.01, "{polling:?}");
    let napi = w.model.mean_latency(w.cost, &w.napi(12, 3.333), offered).unwrap().total();
    let work = w.model.wake_up_work(w.ghz(3.333));
    let set_up = work + w.model.interrupt_delivery();
    assert!((napi - polling).as_picos().abs_diff(set_up.as_picos()) < 2_000);
    let missed =
        misses(&[("Section 3: NAPI latency, us", About(12.0, 0.1), napi.as_seconds() * 1e6)]);
    assert!(missed.is_empty(), "{missed:#?}");
    let full = PacketsPerSecond::from_mpps(29.0);
    assert_eq!(w.model.mean_latency(w.cost, &w.polling(), full), None);
}

#[test]
fn ideal_core_follows_pollaczek_and_khinchine() {
    let model = ServerModel::load("ideal-single-core").unwrap();
    let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
    let point = model.napi_point(1, Hertz::from_gigahertz(1.0));
    for load in [0.3, 0.6, 0.9] {
        let offered = PacketsPerSecond(load * 1e6);
        let latency = model.mean_latency(cost, &point, offered).unwrap();
        let theory = load * 1e-6 / (2.0 * (1.0 - load));
        assert!((latency.waiting.as_seconds() - theory).abs() < 1e-12);
        assert!((model.awake_fraction(cost, &point, offered) - load).abs() < 1e-12);
    }
    assert_eq!(model.service_time(cost, point.frequency, 1), Span::from_micros(1));
}
