//! Knobs, estimator, wake-ups, sampling and traffic of sections 3 to 7 in this program.

use super::bench::{Arrivals, SEED, Steady, all, content, napping, server};
use super::driven::Controller;
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned::{self, Plan};
use crate::printed::{numbers_of, printed};
use std::collections::BTreeSet;
use std::time::Duration;
use wattline_policy::OperatingPoint;
use wattline_report::{Check, Table};
use wattline_server::ServerModel;
use wattline_sim::Report;
use wattline_traffic::capture::{CaptureError, LinkType, Reader, Resolution, Writer};
use wattline_traffic::rates::RateStep;
use wattline_traffic::source::{Constant, Links, Modulated, Rate, Replay, Steps, Trace};
use wattline_traffic::{Block, Popularity, Source};
use wattline_units::{Hertz, Span};

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let server = server(inputs)?;
    let mut table = Table::new([
        "run",
        "offered_mpps",
        "latency_min_us",
        "latency_mean_us",
        "latency_p99_us",
        "latency_max_us",
    ]);
    let plan = planned::made_for(Paper::Powersave)?;
    let mut checks = vec![knobs(plan, &server)?, estimator(plan, &server)?];
    checks.extend(wake_ups(plan, &server, &mut table)?);
    checks.push(sampling(plan, &server, &mut table)?);
    checks.push(exponent(plan, &server)?);
    checks.extend(traffic(plan, server.nic.ports)?);
    Ok(vec![Figure {
        id: "methods",
        title: "Knobs, estimator, wake-ups, sampling and traffic".into(),
        about: "One core at its lowest frequency, packets of 64 bytes; wake-ups with even gaps, seconds with \
                Poisson arrivals."
            .into(),
        table,
        plots: Vec::new(),
        checks,
    }])
}

/// Checks which parts of an operating point the controller changes on its way up and down.
fn knobs(plan: &'static Plan, server: &ServerModel) -> Result<Check, ReproduceError> {
    let mut turned: BTreeSet<&str> = BTreeSet::new();
    let mut controller = Controller::new(server, "queue-length")?;
    let start = controller.point.clone();
    for fill in [printed("PS-098") as u32 + 1, printed("PS-099") as u32 - 1] {
        controller.points(fill);
        note_turned(&start, &controller.point, &mut turned);
    }
    let names = turned.iter().copied().collect::<Vec<_>>().join(", ");
    Ok(plan.check("knobs", &[turned.len() as f64])?.note(names))
}

fn note_turned(from: &OperatingPoint, to: &OperatingPoint, turned: &mut BTreeSet<&'static str>) {
    let mut note = |differs: bool, name| {
        if differs {
            turned.insert(name);
        }
    };
    note(from.active != to.active, "active cores");
    for (old, new) in from.cores.iter().zip(&to.cores) {
        note(old.frequency != new.frequency, "frequency");
        note(old.idle_limit != new.idle_limit, "idle state");
        note(old.wait != new.wait, "way of waiting");
    }
    note(from.weights != to.weights, "weights of the table");
    note(from.moderation != to.moderation, "moderation");
    note(from.as_found != to.as_found, "moderation by the driver");
    note(from.batch != to.batch, "batch");
    note(from.uncore != to.uncore, "uncore");
}

/// Checks that each interface has its own estimator, run by one core.
fn estimator(plan: &'static Plan, server: &ServerModel) -> Result<Check, ReproduceError> {
    const C_UP: u32 = 2;
    let long = printed("PS-098") as u32 + 1;
    let mut most_cores = 0;
    // Counts the steps caused by long queues of these ports in sequence.
    let mut steps = |ports: &[usize]| -> Result<usize, ReproduceError> {
        let mut controller = Controller::new(server, &format!("queue-length:c_up={C_UP}"))?;
        let mut steps = 0;
        for &port in ports {
            let before = controller.rung();
            controller.batch(port, long);
            steps += usize::from(controller.rung() != before);
            most_cores = most_cores.max(controller.ask.watched().len());
        }
        Ok(steps)
    };
    let apart = steps(&[0, 1, 0, 1])?;
    let together = steps(&[0, 0, 0])?;
    // Cores are added, and the estimator stays on its core.
    steps(&[0; 60])?;
    plan.holds(
        "estimators",
        (apart, together, most_cores) == (0, 1, 1),
        format!("{apart}, {together}; {most_cores}"),
    )
}

fn row(table: &mut Table, name: &str, report: &Report) {
    let micros = |seconds: Option<f64>| format!("{:.2}", 1e6 * seconds.unwrap_or(f64::NAN));
    table.row([
        name.to_owned(),
        format!("{:.4}", report.offered_rate_pps / 1e6),
        micros(report.latency_min_seconds),
        micros(report.latency_mean_seconds),
        micros(report.latency_p99_seconds),
        micros(report.latency_max_seconds),
    ]);
}

/// Checks that the packet that wakes a core from C6 waits for its exit, and later packets do not.
fn wake_ups(
    plan: &'static Plan,
    server: &ServerModel,
    table: &mut Table,
) -> Result<[Check; 2], ReproduceError> {
    let slow = server.processor.lowest_frequency();
    let run = |mpps: f64, millis: u64| Steady {
        arrivals: Arrivals::Even,
        duration: Span::from_millis(millis),
        ..Steady::new(napping(1, slow, "C6"), mpps)
    };
    // At 5 ms between packets each finds the core in C6; then 2 µs.
    let reports = all(server, &[run(0.0002, 200), run(0.5, 20)])?;
    let [rare, dense] = reports.as_slice() else {
        return Err(ReproduceError::Model("two runs".into()));
    };
    row(table, "C6, a packet each 5 ms", rare);
    row(table, "C6, a packet each 2 µs", dense);
    let micros = |seconds: Option<f64>| 1e6 * seconds.unwrap_or(f64::NAN);
    Ok([
        plan.check("shortest-latency-packet", &[micros(rare.latency_min_seconds)])?,
        plan.check("longest-latency-packet", &[micros(dense.latency_max_seconds)])?,
    ])
}

/// Checks that minimum, mean and P99 of each second equal those of a run at the rate of that
/// second.
fn sampling(
    plan: &'static Plan,
    server: &ServerModel,
    table: &mut Table,
) -> Result<Check, ReproduceError> {
    // The second with few packets comes last, so that packets of the first would be visible in it.
    const RATES: [f64; 2] = [1e6, 0.1e6];
    let policy = napping(1, server.processor.lowest_frequency(), "C1");
    let second = Span::from_millis(1_000);
    let run = |steps: Vec<f64>| -> Result<Report, ReproduceError> {
        let step = |rate_pps: f64| RateStep { line: 1, rate_pps, seconds: 1.0 };
        let seconds = steps.len() as u64;
        let steps = Steps::new(steps.into_iter().map(step).collect(), 1.0);
        let none = || ReproduceError::Model("no packets".into());
        let content = content(64, Popularity::Uniform);
        let mut source = Modulated::new(steps.ok_or_else(none)?, content, SEED);
        let job = super::bench::Job {
            policy: &policy,
            application: wattline_server::Application::Ipv4,
            bytes: 64,
            duration: second * seconds,
            warmup: Span::ZERO,
            interval: Some(second),
            output_links: false,
        };
        super::bench::simulate(server, &job, &mut source)
    };
    let both = run(RATES.to_vec())?;
    let mut widest: f64 = 0.0;
    for (index, rate) in RATES.into_iter().enumerate() {
        let alone = run(vec![rate])?;
        let within = both.intervals.get(index);
        let within = within.ok_or_else(|| ReproduceError::Model("a second is missing".into()))?;
        row(table, &format!("second {}", index + 1), within);
        row(table, &format!("the rate of second {} alone", index + 1), &alone);
        for of in [
            |report: &Report| report.latency_min_seconds,
            |report: &Report| report.latency_mean_seconds,
            |report: &Report| report.latency_p99_seconds,
        ] {
            let apart =
                of(within).zip(of(&alone)).map_or(f64::INFINITY, |(a, b)| (a / b - 1.0).abs());
            widest = widest.max(apart);
        }
    }
    plan.check("sampling", &[widest])
}

/// Checks the exponent with which a core's active power grows over frequency.
fn exponent(plan: &'static Plan, server: &ServerModel) -> Result<Check, ReproduceError> {
    let nap = server.idle_core_power(server.shallowest_idle_state());
    let above = |idle: f64| {
        let point = |f: &Hertz| (f.gigahertz().ln(), (server.awake_core_power(*f).0 - idle).ln());
        let points: Vec<(f64, f64)> = server.processor.frequencies.iter().map(point).collect();
        let count = points.len() as f64;
        let x = points.iter().map(|p| p.0).sum::<f64>() / count;
        let together: f64 = points.iter().map(|p| (p.0 - x) * p.1).sum();
        together / points.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>()
    };
    let check = plan.check("exponent-core-power", &[above(nap.0)])?;
    Ok(check.note(format!("barely; above C6 it is {:.2}", above(0.0))))
}

/// Checks that synthetic and captured packets arrive on all ports, and that headers are enough.
fn traffic(plan: &'static Plan, ports: usize) -> Result<[Check; 2], ReproduceError> {
    const PACKETS: usize = 2_000;
    let failed = |error: CaptureError| ReproduceError::Model(error.to_string());
    let mut synthetic = Constant::new(Rate::Packets(4e6), content(600, Popularity::Uniform));
    let lengths: Vec<usize> = (0..PACKETS).map(|index| 60 + (index * 37) % 1455).collect();
    let [whole, cut] = [false, true].map(|cut| capture(&lengths, cut).map_err(failed));
    let (whole, cut) = (whole?, cut?);
    let links = Links { ports: u8::try_from(ports).unwrap_or(u8::MAX), ..Links::POWERSAVE };
    let mut replay = Replay::new(&whole, Some(Rate::Packets(4e6)), true, links);
    let sources: [&mut dyn Source; 2] = [&mut synthetic, &mut replay];
    let mut reached = Vec::new();
    for source in sources {
        let mut used = BTreeSet::new();
        let mut block = Block::new();
        for _ in 0..PACKETS.div_ceil(Block::CAPACITY) {
            source.next_block(&mut block).map_err(failed)?;
            used.extend(block.iter().map(|packet| packet.port));
        }
        reached.push(used.len());
    }
    let streams: f64 = numbers_of("PS-025").iter().take(2).product();
    let same = whole.packets().len() == PACKETS
        && whole.packets() == cut.packets()
        && whole.packets().iter().zip(&lengths).all(|(p, length)| usize::from(p.length) == *length);
    Ok([
        plan.holds(
            "streams",
            reached.iter().all(|count| *count as f64 == streams),
            format!("{} and {}", reached[0], reached[1]),
        )?,
        plan.holds(
            "headers",
            same,
            format!(
                "{}, {} packets",
                if same { "the same" } else { "others" },
                cut.packets().len()
            ),
        )?,
    ])
}

/// Writes UDP packets of these lengths to a capture in memory, whole or without payload, and reads it.
fn capture(lengths: &[usize], cut: bool) -> Result<Trace, CaptureError> {
    const HEADERS: usize = 42;
    let mut writer = Writer::new("memory", Vec::new(), LinkType::ETHERNET, Resolution::Nanos)?;
    for (index, length) in lengths.iter().enumerate() {
        let mut frame = vec![0x5a; *length];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[14] = 0x45;
        frame[16..18].copy_from_slice(&((*length - 14) as u16).to_be_bytes());
        frame[20..22].copy_from_slice(&[0, 0]);
        frame[23] = 17;
        frame[26..30].copy_from_slice(&[10, 0, (index / 251) as u8, (index % 251) as u8]);
        let kept = if cut { HEADERS } else { *length };
        let at = Duration::from_micros(index as u64);
        writer.write_cut(at, &frame[..kept], *length as u32)?;
    }
    Trace::read(&mut Reader::new("memory", writer.finish()?.as_slice())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_report::Verdict;

    #[test]
    fn methods_match_the_paper() {
        for check in &figures(&Inputs::default()).unwrap()[0].checks {
            println!("{}: {} ({})", check.quantity, check.ours, check.verdict.text());
            assert_eq!(check.verdict, Verdict::Meets, "{}: {}", check.quantity, check.ours);
        }
    }
}
