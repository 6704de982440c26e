//! The server's parameters, the controller's rules, and the simulator against the closed form.

use super::bench::{SEED, Steady, all, content, ipv4, napping, server};
use super::driven::Controller;
use crate::claim;
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned;
use crate::printed::{numbers_in, numbers_of, printed, printed_at};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use wattline_policy::{CoreSet, IndirectionTable};
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_report::{Check, Table};
use wattline_server::{DvfsDomain, ServerModel};
use wattline_study::cards::shunt_power;
use wattline_study::race::IdealCore;
use wattline_traffic::source::{Poisson, Rate};
use wattline_traffic::{Block, Popularity, Source};
use wattline_units::{Hertz, PacketsPerSecond, Span};

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let server = server(inputs)?;
    let mut checks = parameters(&server)?;
    checks.extend(rules(&server)?);
    checks.extend(energies(&server)?);
    let (table, chart, model) = closed_form(&server)?;
    checks.extend(model);
    Ok(vec![Figure {
        id: "model",
        title: "The server's model and PowerSave's rules".into(),
        about:
            "Parameters as shipped in crates/server/servers/westmere-2010.toml; the fitted closed form against \
                the simulator, where the same powers come out of single wake-ups and batches \
                (Poisson arrivals of 64-byte packets)."
                .into(),
        table,
        plots: vec![chart.svg()],
        checks,
    }])
}

fn parameters(server: &ServerModel) -> Result<Vec<Check>, ReproduceError> {
    let plan = planned::made_for(Paper::Powersave)?;
    let processor = &server.processor;
    let gigahertz: Vec<f64> = processor.frequencies.iter().map(|f| f.gigahertz()).collect();
    let nic = &server.nic;
    Ok(vec![
        plan.check("processors", &[processor.sockets as f64])?,
        plan.check("cores-processor", &[processor.cores_per_socket as f64])?,
        plan.check("highest-frequency-ghz", &[processor.highest_frequency().gigahertz()])?,
        plan.check("ports-10-gbps", &[nic.ports as f64])?,
        plan.check("p-states", &[gigahertz.len() as f64])?,
        plan.holds(
            "lowest-highest-frequency",
            [gigahertz.first(), gigahertz.last()]
                .map(|f| f.map(|f| (10.0 * f).round() / 10.0))
                .into_iter()
                .eq([0, 1].map(|index| Some(printed_at("PS-056", index)))),
            format!("{:.3} to {:.3}", gigahertz[0], gigahertz[gigahertz.len() - 1]),
        )?,
        plan.holds("one-frequency-for", processor.dvfs == DvfsDomain::PerChip, "per chip")?,
        plan.holds(
            "receive-queue-for",
            nic.queues_per_port >= processor.cores(),
            format!("{} queues, {} cores", nic.queues_per_port, processor.cores()),
        )?,
        plan.check("entries-indirection-table", &[nic.redirect_table_entries as f64])?,
    ])
}

fn rules(server: &ServerModel) -> Result<Vec<Check>, ReproduceError> {
    let plan = planned::made_for(Paper::Powersave)?;
    let default = |name: &str| {
        let policy = wattline_policies::POLICIES.find("queue-length");
        let parameter = policy.and_then(|p| p.parameters.iter().find(|known| known.name == name));
        parameter.and_then(|p| p.default.parse().ok()).unwrap_or(f64::NAN)
    };
    let mut widest = 0;
    let mut stray = 0;
    let entries = printed("PS-104") as usize;
    let mut table = IndirectionTable::new(entries, CoreSet::first(1));
    for cores in (1..=12).chain((1..12).rev()) {
        table.spread(CoreSet::first(cores));
        let held =
            |core: usize| table.entries().iter().filter(|e| usize::from(**e) == core).count();
        let counts: Vec<usize> = (0..cores).map(held).collect();
        let most = counts.iter().max().copied().unwrap_or(0);
        widest = widest.max(most - counts.iter().min().copied().unwrap_or(0));
        stray += entries - counts.iter().sum::<usize>();
    }
    // Compares every hash with its lowest bits alone, and with the next bit flipped.
    table.spread(CoreSet::first(12));
    let mask = (1_u32 << printed("PS-105") as u32) - 1;
    let hashes = (0..4096_u32).map(|index| index.wrapping_mul(0x9e37_79b9));
    let low_bits = hashes.clone().all(|hash| table.core(hash) == table.core(hash & mask))
        && hashes.clone().any(|hash| table.core(hash) != table.core(hash & (mask >> 1)));
    let delay = printed("PS-098") / printed("PS-101");
    let stated = claim::find("PS-087")?.map_or_else(Vec::new, |row| numbers_in(&row.quantity));
    let mpps = stated.first().copied().unwrap_or(f64::NAN);
    let conversion = claim::find("PS-018")?;
    let conversion = conversion.map_or_else(Vec::new, |row| {
        [numbers_in(&row.value), numbers_in(&row.how_a_program_could_check_it)].concat()
    });
    let shunt = match conversion.as_slice() {
        [ohms, volts, .., drop, watts] => (*drop, *volts, *ohms, *watts),
        _ => return Err(ReproduceError::Model("PS-018 has other numbers".into())),
    };
    let rungs = ladder(server)?;
    let (steps, same) = pseudo_code(server)?;
    let idle = naps(server)?;
    let shares = port_shares(server.nic.ports)?;
    Ok(vec![
        plan.check("q-h", &[default("q_h")])?,
        plan.check("q-l", &[default("q_l")])?,
        plan.check("printed-q-h", &[delay])?,
        plan.check("printed-latency-polling", &[printed("PS-047") + delay])?,
        plan.check("time-between-packets", &[1.0 / mpps])?,
        plan.check("entries-per-active", &[widest as f64])?,
        plan.check("entries-left-on", &[stray as f64])?,
        plan.holds("lowest-bits", low_bits, if low_bits { "the same" } else { "another" })?,
        plan.holds(
            "rungs-controller-takes",
            rungs.up == rungs.expected && rungs.down.iter().rev().eq(&rungs.expected),
            format!("{} up, {} down", rungs.up.len(), rungs.down.len()),
        )?,
        plan.holds(
            "points-controller-beside",
            same,
            format!("{}, {steps} steps", if same { "the same" } else { "others" }),
        )?,
        plan.check("shunt", &[shunt_power(shunt.0, shunt.1, shunt.2).0, shunt.3])?,
        plan.holds("idle-states-active", idle == ["C1", "C6"].map(str::to_owned), idle.join(", "))?,
        plan.check("share-port-beside", &[shares])?,
    ])
}

/// Returns the widest relative difference of a port's share of the traffic from an even one.
fn port_shares(ports: usize) -> Result<f64, ReproduceError> {
    let mut source = Poisson::new(Rate::Packets(8e6), content(600, Popularity::Uniform), SEED);
    let mut counts = vec![0_u64; ports];
    let mut block = Block::new();
    while counts.iter().sum::<u64>() < 400_000 {
        source.next_block(&mut block).map_err(|error| ReproduceError::Model(error.to_string()))?;
        for packet in block.iter() {
            counts[usize::from(packet.port)] += 1;
        }
    }
    let even = counts.iter().sum::<u64>() as f64 / ports as f64;
    Ok(counts.iter().map(|count| (*count as f64 / even - 1.0).abs()).fold(0.0, f64::max))
}

/// Checks equations 1 to 3 on a core of the server, against sums of power times time.
fn energies(server: &ServerModel) -> Result<Vec<Check>, ReproduceError> {
    let processor = &server.processor;
    let (slow, fast) = (processor.lowest_frequency(), processor.highest_frequency());
    let (least, most) = (server.awake_core_power(slow), server.awake_core_power(fast));
    // Power is linear in frequency, so two frequencies determine it.
    let scaling = (most - least) / (fast.0 - slow.0) * fast.0;
    let idle = server.idle_core_power(server.shallowest_idle_state());
    let core = IdealCore { fixed: most - scaling, scaling, exponent: 1.0, idle, fastest: fast };
    let (period, transitions) = (Span::from_millis(10), Span::from_micros(100));
    let cycles = slow.0 * period.as_seconds();
    let none = || ReproduceError::Model("the work does not fit into the period".into());
    let at = server.processor.nearest_frequency((slow + fast) / 2.0);
    let sum = |frequency: Hertz, transitions: Span| {
        let active = cycles / frequency.0;
        let rest = period.as_seconds() - active - transitions.as_seconds();
        server.awake_core_power(frequency).0 * (active + transitions.as_seconds()) + idle.0 * rest
    };
    let one = core.energy(cycles, at, transitions, period).ok_or_else(none)?;
    let tortoise = core.tortoise(cycles, period).ok_or_else(none)?;
    let hare = core.hare(cycles, transitions, period).ok_or_else(none)?;
    let near = |id: &str, ours: f64, sum: f64| {
        planned::made_for(Paper::Powersave)?.check(id, &[ours / sum])
    };
    Ok(vec![
        near("equation-1", one.0, sum(at, transitions))?,
        near("equation-2", tortoise.0, sum(slow, Span::ZERO))?,
        near("equation-3", hare.0, sum(fast, transitions))?,
    ])
}

/// Operating points, as pairs of a number of cores and a frequency step.
struct Rungs {
    up: Vec<(usize, usize)>,
    down: Vec<(usize, usize)>,
    /// Rungs in the paper's order.
    expected: Vec<(usize, usize)>,
}

/// Number of queue lengths for the comparison of controller and pseudo-code.
const SAMPLES: u64 = 20_000;

/// Compares the controller with the paper's pseudo-code, written out here, on random lengths at and
/// near both limits. Returns the number of the controller's steps, and true if both always agreed.
fn pseudo_code(server: &ServerModel) -> Result<(usize, bool), ReproduceError> {
    let (c_up, c_down) = (2, 3);
    let spec = format!("queue-length:c_up={c_up},c_down={c_down}");
    let mut controller = Controller::new(server, &spec)?;
    let (q_h, q_l) = (printed("PS-098") as u32, printed("PS-099") as u32);
    let lengths = [q_l - 1, q_l, q_h, q_h + 1];
    let (all, fastest) = (server.processor.cores(), server.processor.frequencies.len() - 1);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let ((mut c_h, mut c_l), (mut cores, mut frequency), mut length) = ((0, 0), (1, 0), q_l);
    let (mut steps, mut same) = (0, true);
    for _ in 0..SAMPLES {
        // A length lasts for a few samples, so that counters fill.
        if random.random_bool(0.25) {
            length = lengths[random.random_range(0..lengths.len())];
        }
        if length > q_h {
            (c_l, c_h) = (0, c_h + 1);
            if c_h > c_up {
                c_h = 0;
                if cores < all {
                    cores += 1;
                } else if frequency < fastest {
                    frequency += 1;
                }
            }
        } else if length < q_l {
            (c_l, c_h) = (c_l + 1, 0);
            if c_l > c_down {
                c_l = 0;
                if frequency > 0 {
                    frequency -= 1;
                } else if cores > 1 {
                    cores -= 1;
                }
            }
        } else {
            (c_h, c_l) = (0, 0);
        }
        let before = controller.rung();
        controller.batch(0, length);
        steps += usize::from(controller.rung() != before);
        same &= controller.rung() == (cores, frequency);
    }
    Ok((steps, same && steps > 0))
}

/// Returns the rungs that the controller takes from its start up, and down again.
fn ladder(server: &ServerModel) -> Result<Rungs, ReproduceError> {
    let mut controller = Controller::new(server, "queue-length")?;
    let (high, low) = (printed("PS-098") as u32 + 1, printed("PS-099") as u32 - 1);
    let (up, down) = (controller.points(high), controller.points(low));
    let cores = server.processor.cores();
    let slow = (1..=cores).map(|count| (count, 0));
    let fast = (1..server.processor.frequencies.len()).map(|step| (cores, step));
    Ok(Rungs { up, down, expected: slow.chain(fast).collect() })
}

/// Returns the names of the idle states of an active core and of a removed one.
fn naps(server: &ServerModel) -> Result<[String; 2], ReproduceError> {
    let Controller { platform, point, .. } = Controller::new(server, "queue-length")?;
    let limit = |core: usize| platform.idle_states[point.cores[core].idle_limit].name.to_string();
    Ok([limit(0), limit(platform.cores - 1)])
}

/// Returns the power of cores that nap in C1 and forward 64-byte packets, by the printed equation.
fn printed_power(cores: f64, frequency: Hertz, awake: f64, rate: PacketsPerSecond) -> f64 {
    let gigahertz = frequency.gigahertz();
    let [base, uncore] = [0, 1].map(|at| printed_at("PS-134", at));
    let traffic = numbers_of("PS-134").last().copied().unwrap_or(f64::NAN);
    let [fixed, scaling, nap] = [0, 1, 2].map(|at| printed_at("PS-133", at));
    let core = awake * (fixed + scaling * gigahertz) + (1.0 - awake) * nap;
    let any_awake = 1.0 - (1.0 - awake).powf(cores);
    base + uncore * gigahertz * any_awake + cores * core + traffic * rate.0 * 64.0 * 8.0 / 1e9
}

/// Returns simulated power and the closed form over load, with checks of their difference.
fn closed_form(server: &ServerModel) -> Result<(Table, Chart, Vec<Check>), ReproduceError> {
    let cost = ipv4(server)?;
    let points = [(3, 1.6), (12, 1.6), (12, 3.3333)];
    let mut runs = Vec::new();
    let mut expected = Vec::new();
    let mut from_equation: f64 = 0.0;
    for (cores, gigahertz) in points {
        let frequency = server.processor.nearest_frequency(Hertz::from_gigahertz(gigahertz));
        let capacity = server.core_capacity(cost, cores, frequency);
        for step in 1..=9 {
            let rate = capacity * (0.1 * f64::from(step));
            runs.push(Steady::new(napping(cores, frequency, "C1"), rate.mpps()));
            let point = server.napi_point(cores, frequency);
            let closed = server.power_terms(cost, 64, &point, rate).total().0;
            let awake = server.awake_fraction(cost, &point, rate);
            let printed = printed_power(cores as f64, frequency, awake, rate);
            // A missing coefficient makes the result NaN.
            let apart = (closed - printed).abs();
            if apart.is_nan() || apart > from_equation {
                from_equation = apart;
            }
            expected.push(closed);
        }
    }
    let reports = all(server, &runs)?;
    let mut table = Table::new([
        "cores",
        "frequency_ghz",
        "offered_mpps",
        "simulated_watts",
        "closed_form_watts",
    ]);
    let mut chart = Chart::new(
        "Simulator against closed form, interrupt-driven cores",
        Axis::new("offered load (Mpps)").range(0.0, 30.0),
        Axis::new("power (W)").from_zero(),
    );
    let mut widest: f64 = 0.0;
    for (index, (cores, gigahertz)) in points.into_iter().enumerate() {
        let own = 9 * index..9 * (index + 1);
        let rate = |i: usize| runs[i].packets_per_second / 1e6;
        for i in own.clone() {
            table.numbers([cores as f64, gigahertz, rate(i), reports[i].power_watts, expected[i]]);
            widest = widest.max((reports[i].power_watts - expected[i]).abs());
        }
        let name = format!("{cores} × {gigahertz:.1} GHz");
        chart = chart
            .series(
                format!("{name}, closed form"),
                Mark::Line,
                own.clone().map(|i| (rate(i), expected[i])),
            )
            .series(
                format!("{name}, simulated"),
                Mark::Points,
                own.map(|i| (rate(i), reports[i].power_watts)),
            );
    }
    let plan = planned::made_for(Paper::Powersave)?;
    let checks = vec![
        plan.check("widest-difference-closed", &[from_equation])?,
        plan.check("widest-difference-simulator", &[widest])?,
    ];
    Ok((table, chart, checks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_report::Verdict;

    #[test]
    fn rules_match_the_paper() {
        for check in rules(&server(&Inputs::default()).unwrap()).unwrap() {
            assert_eq!(check.verdict, Verdict::Meets, "{}: {}", check.quantity, check.ours);
        }
    }
}
