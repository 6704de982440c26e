//! Relations of the lost figures, tested on a router that can be simulated: PowerSave's server,
//! whose rates and watts are printed elsewhere and were not fitted to this paper.

use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned;
use crate::runner::side_by_side;
use wattline_policies::POLICIES;
use wattline_report::Table;
use wattline_server::ServerModel;
use wattline_sim::{Report, Setting, run};
use wattline_traffic::source::{Content, Poisson, Rate};
use wattline_traffic::{Popularity, Sizes, Spread};
use wattline_units::{Hertz, Span};

const SEED: u64 = 2011;
const BYTES: u16 = 64;
/// Offered load above the capacity of one core at any operating point.
const OVERLOAD: f64 = 4e6;
/// Shares of a core's capacity at which interrupts are counted.
const LOADS: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let server = inputs.server("westmere-2010")?.model()?.clone();
    let processor = &server.processor;
    let (slow, all) = (processor.lowest_frequency(), processor.cores());
    let mut table = Table::new([
        "run",
        "cores",
        "frequency_ghz",
        "offered_mpps",
        "forwarded_mpps",
        "power_watts",
        "latency_max_us",
        "interrupts_per_packet",
        "busiest_core_over_mean",
    ]);
    let by_frequency: Vec<Run> =
        processor.frequencies.iter().map(|f| Run::polling(1, *f, OVERLOAD)).collect();
    let by_cores: Vec<Run> =
        (1..=all).map(|cores| Run::polling(cores, slow, OVERLOAD * cores as f64)).collect();
    let most = |run: &Report| run.forwarded_rate_pps;
    let saturated = simulate(&server, &by_frequency, &mut table)?;
    let many = simulate(&server, &by_cores, &mut table)?;
    let capacity = saturated.first().map_or(f64::NAN, most);
    let loaded: Vec<Run> = LOADS.iter().map(|load| Run::napi(slow, load * capacity)).collect();
    let loaded = simulate(&server, &loaded, &mut table)?;
    let half: Vec<Run> =
        (2..=all).map(|cores| Run::polling(cores, slow, 0.5 * capacity * cores as f64)).collect();
    let spread = simulate(&server, &half, &mut table)?;

    let straight = [&saturated, &many].map(|reports| {
        let points = reports.iter().map(|report| (report.power_watts, most(report)));
        explained(&points.collect::<Vec<_>>())
    });
    let rates: Vec<f64> = saturated.iter().map(most).collect();
    let gain = |at: usize| {
        let step = processor.frequencies[at + 1] - processor.frequencies[at];
        (rates[at + 1] - rates[at]) / step.gigahertz() / 1e6
    };
    let gains: Vec<f64> = (0..rates.len() - 1).map(gain).collect();
    // One packet more or less in 20 ms does not count as a gain.
    let noise = 0.01;
    let falling = gains.windows(2).all(|pair| pair[1] <= pair[0] + noise);
    let less = gains.first() > gains.last().map(|last| last + noise).as_ref();
    let concave = falling && less && gains.iter().all(|gain| *gain > 0.0);
    let ends = |all: &[f64]| match all {
        [first, .., last] => format!("{first:.3} to {last:.3}"),
        _ => String::new(),
    };
    let longest: Vec<f64> =
        saturated.iter().map(|run| 1e6 * run.latency_max_seconds.unwrap_or(f64::NAN)).collect();
    let interrupts: Vec<f64> =
        loaded.iter().map(|run| run.interrupts_per_packet.unwrap_or(f64::NAN)).collect();
    let falls = |all: &[f64]| all.windows(2).all(|pair| pair[1] < pair[0]);
    let busiest = spread.iter().map(busiest).fold(0.0, f64::max);
    let plan = planned::made_for(Paper::Bolla)?;
    let checks = vec![
        plan.check("straight-line-rate", &[straight[0].min(straight[1])])?,
        plan.holds(
            "core-highest-rate",
            concave,
            format!("gains of {} Mpps per GHz", ends(&gains)),
        )?,
        plan.holds("longest-latency-saturated", falls(&longest), ends(&longest))?,
        plan.holds("interrupts-per-packet", falls(&interrupts), ends(&interrupts))?,
        plan.check("load-busiest-2", &[busiest - 1.0])?,
    ];
    Ok(vec![Figure {
        id: "simulated",
        title: "Figures 1 to 6 on another router".into(),
        about: "Simulated, Poisson arrivals of 64-byte packets on PowerSave's server. The paper's own points are \
                lost; these are the relations that its text describes."
            .into(),
        table,
        plots: Vec::new(),
        checks,
    }])
}

struct Run {
    name: &'static str,
    cores: usize,
    frequency: Hertz,
    packets_per_second: f64,
}

impl Run {
    fn polling(cores: usize, frequency: Hertz, packets_per_second: f64) -> Self {
        Self { name: "poll", cores, frequency, packets_per_second }
    }

    fn napi(frequency: Hertz, packets_per_second: f64) -> Self {
        Self { name: "napi", cores: 1, frequency, packets_per_second }
    }

    fn report(&self, server: &ServerModel) -> Result<Report, ReproduceError> {
        let Self { name, cores, frequency, packets_per_second } = self;
        let policy = format!("{name}:cores={cores},frequency_ghz={:.6}", frequency.gigahertz());
        let ports = u8::try_from(server.nic.ports).unwrap_or(u8::MAX);
        let sizes = Sizes::fixed(BYTES);
        let content = Content::new(sizes, 8192, ports, Popularity::Uniform, Spread::Even, SEED);
        let mut source = Poisson::new(Rate::Packets(*packets_per_second), content, SEED);
        let setting = Setting {
            mean_bytes: BYTES.into(),
            warmup: Span::from_millis(5),
            seed: SEED,
            ..Setting::new(server, POLICIES.parse(&policy)?, Span::from_millis(20))
        };
        Ok(run(&setting, &mut source)?)
    }
}

fn simulate(
    server: &ServerModel,
    runs: &[Run],
    table: &mut Table,
) -> Result<Vec<Report>, ReproduceError> {
    let reports = side_by_side(runs, |run| run.report(server))?;
    for (run, report) in runs.iter().zip(&reports) {
        table.row([
            run.name.into(),
            run.cores.to_string(),
            format!("{:.2}", run.frequency.gigahertz()),
            format!("{:.3}", run.packets_per_second / 1e6),
            format!("{:.3}", report.forwarded_rate_pps / 1e6),
            format!("{:.2}", report.power_watts),
            format!("{:.1}", 1e6 * report.latency_max_seconds.unwrap_or(f64::NAN)),
            format!("{:.4}", report.interrupts_per_packet.unwrap_or(f64::NAN)),
            format!("{:.3}", busiest(report)),
        ]);
    }
    Ok(reports)
}

/// Returns the useful time of the busiest active core over the mean of active cores.
fn busiest(report: &Report) -> f64 {
    let useful = report.residency.cores.iter().map(|core| core.useful);
    let active: Vec<f64> = useful.filter(|useful| *useful > 0.0).collect();
    let mean = active.iter().sum::<f64>() / active.len().max(1) as f64;
    active.iter().copied().fold(0.0, f64::max) / mean
}

/// Returns the share of the variance of the second values explained by a straight line over the
/// first.
fn explained(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let sum = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let together = sum(&|point| (point.0 - x) * (point.1 - y));
    together * together / sum(&|point| (point.0 - x).powi(2)) / sum(&|point| (point.1 - y).powi(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_report::Verdict;

    #[test]
    fn straight_line_is_explained_and_a_hill_is_not() {
        assert!((explained(&[(1.0, 3.0), (2.0, 5.0), (4.0, 9.0)]) - 1.0).abs() < 1e-12);
        assert!(explained(&[(1.0, 0.0), (2.0, 5.0), (3.0, 0.0)]) < 0.01);
    }

    #[test]
    fn relations_of_the_lost_figures_hold() {
        let figures = figures(&Inputs::default()).unwrap();
        for check in &figures[0].checks {
            println!("{}: {} ({})", check.quantity, check.ours, check.verdict.text());
            assert_eq!(check.verdict, Verdict::Meets, "{}: {}", check.quantity, check.ours);
        }
    }
}
