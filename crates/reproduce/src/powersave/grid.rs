//! Figures 4 to 6, 8 and 9: all numbers of cores at all frequencies, without idle time.

use super::bench::{Arrivals, Steady, all, ipv4, polling, server};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned::{self, Plan};
use crate::printed::printed;
use wattline_report::Table;
use wattline_report::plot::{Axis, Bars, Chart, Mark};
use wattline_units::Span;

/// One operating point at its full load.
#[derive(Debug, Clone, Copy)]
struct Point {
    cores: usize,
    gigahertz: f64,
    mpps: f64,
    watts: f64,
}

impl Point {
    /// Returns the packets per joule, in thousands.
    fn kpkt_per_joule(&self) -> f64 {
        1e3 * self.mpps / self.watts
    }
}

struct Grid {
    frequencies: Vec<f64>,
    points: Vec<Point>,
}

impl Grid {
    fn measure(inputs: &Inputs) -> Result<Self, ReproduceError> {
        let server = server(inputs)?;
        let cost = ipv4(&server)?;
        let mut runs = Vec::new();
        let mut points = Vec::new();
        for cores in 1..=server.processor.cores() {
            for &frequency in &server.processor.frequencies {
                // This exceeds the capacity by enough to fill even the queue with the fewest of the
                // 128 entries.
                let offered = 1.2 * server.core_capacity(cost, cores, frequency).mpps();
                runs.push(Steady {
                    arrivals: Arrivals::Even,
                    duration: Span::from_millis(5),
                    ..Steady::new(polling(cores, frequency), offered)
                });
                points.push(Point {
                    cores,
                    gigahertz: frequency.gigahertz(),
                    mpps: 0.0,
                    watts: 0.0,
                });
            }
        }
        for (point, report) in points.iter_mut().zip(all(&server, &runs)?) {
            (point.mpps, point.watts) = (report.forwarded_rate_pps / 1e6, report.power_watts);
        }
        let frequencies = server.processor.frequencies.iter().map(|f| f.gigahertz()).collect();
        Ok(Self { frequencies, points })
    }

    /// Returns the point with `cores` cores at the frequency nearest to the given one.
    fn at(&self, cores: usize, gigahertz: f64) -> Point {
        let near = |f: &f64| (f - gigahertz).abs();
        let index = (0..self.frequencies.len())
            .min_by(|a, b| near(&self.frequencies[*a]).total_cmp(&near(&self.frequencies[*b])))
            .unwrap_or(0);
        self.points[(cores - 1) * self.frequencies.len() + index]
    }

    fn lowest(&self) -> f64 {
        self.frequencies.first().copied().unwrap_or(f64::NAN)
    }

    fn highest(&self) -> f64 {
        self.frequencies.last().copied().unwrap_or(f64::NAN)
    }

    fn of_cores(&self, cores: usize) -> &[Point] {
        let count = self.frequencies.len();
        &self.points[(cores - 1) * count..cores * count]
    }

    fn table(&self) -> Table {
        let mut table =
            Table::new(["cores", "frequency_ghz", "rate_mpps", "power_watts", "kpkt_per_joule"]);
        for p in &self.points {
            table.numbers([p.cores as f64, p.gigahertz, p.mpps, p.watts, p.kpkt_per_joule()]);
        }
        table
    }

    fn over_frequency(&self, title: &str, label: &str, of: fn(&Point) -> f64) -> Chart {
        let mut chart =
            Chart::new(title, Axis::new("frequency (GHz)").range(1.5, 3.4), Axis::new(label));
        for cores in [1, 2, 4, 6, 8, 10, 12] {
            let points = self.of_cores(cores).iter().map(|p| (p.gigahertz, of(p)));
            let name = if cores == 1 { "1 core".into() } else { format!("{cores} cores") };
            chart = chart.series(name, Mark::LineAndPoints, points);
        }
        chart.ordered()
    }
}

const ABOUT: &str = "Simulated: polling cores with more packets than they can forward, 64 bytes. \
                     The curves are lost; ratios and a few values are printed.";

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let grid = Grid::measure(inputs)?;
    let plan = planned::made_for(Paper::Powersave)?;
    Ok(vec![
        power(plan, &grid)?,
        rate(plan, &grid)?,
        efficiency(plan, &grid)?,
        numbers(plan, &grid)?,
        scatter(plan, &grid)?,
    ])
}

fn power(plan: &'static Plan, grid: &Grid) -> Result<Figure, ReproduceError> {
    let drop = |cores: usize| 100.0 * (1.0 - grid.at(cores, 1.6).watts / grid.at(cores, 3.2).watts);
    let rises = (1..12).all(|cores| drop(cores) < drop(cores + 1));
    Ok(Figure {
        id: "fig4",
        title: "Figure 4: power over frequency".into(),
        about: ABOUT.into(),
        table: grid.table(),
        plots: vec![
            grid.over_frequency("Figure 4: power at full load", "power (W)", |p| p.watts).svg(),
        ],
        checks: vec![
            plan.check("drop-of-power-1-core", &[drop(1)])?,
            plan.check("drop-of-power-12-cores", &[drop(12)])?,
            plan.holds("drop-grows", rises, "it does")?,
        ],
    })
}

fn rate(plan: &'static Plan, grid: &Grid) -> Result<Figure, ReproduceError> {
    let gain = |cores: usize| 100.0 * (grid.at(cores, 3.2).mpps / grid.at(cores, 1.6).mpps - 1.0);
    let (of_twelve, alone) = (grid.at(12, 3.333).mpps / 12.0, grid.at(1, 3.333).mpps);
    let chart =
        grid.over_frequency("Figure 5: rate at full load", "rate (Mpps)", |p| p.mpps).series(
            "printed, 12 cores",
            Mark::Published,
            [(grid.highest(), printed("PS-046")), (grid.lowest(), printed("PS-076"))],
        );
    Ok(Figure {
        id: "fig5",
        title: "Figure 5: rate over frequency".into(),
        about: ABOUT.into(),
        table: grid.table(),
        plots: vec![chart.svg()],
        checks: vec![
            plan.check("gain-of-rate-1-core", &[gain(1)])?,
            plan.check("gain-of-rate-12-cores", &[gain(12)])?,
            plan.holds(
                "rate-of-a-core",
                (of_twelve..=alone).contains(&printed("PS-101")),
                format!("{of_twelve:.3}, {alone:.3}"),
            )?,
        ],
    })
}

fn efficiency(plan: &'static Plan, grid: &Grid) -> Result<Figure, ReproduceError> {
    let share_of_best = |cores: usize| {
        let all = grid.of_cores(cores).iter().map(Point::kpkt_per_joule);
        grid.at(cores, 3.333).kpkt_per_joule() / all.fold(0.0, f64::max)
    };
    let worst = (1..=12).map(share_of_best).fold(1.0, f64::min);
    let gain = |cores: usize| {
        100.0
            * (grid.at(cores, 3.333).kpkt_per_joule() / grid.at(cores, 1.6).kpkt_per_joule() - 1.0)
    };
    Ok(Figure {
        id: "fig6",
        title: "Figure 6: packets per joule over frequency".into(),
        about: ABOUT.into(),
        table: grid.table(),
        plots: vec![grid.over_frequency("Figure 6: efficiency at full load", "efficiency (kpkt/J)", Point::kpkt_per_joule).svg()],
        checks: vec![
            plan.check("highest-frequency-best", &[worst])?.contradiction(format!(
                "the highest frequency is best, but \"marginally in all configurations\" cannot be: \
                 +70 % rate for +5 % power make it {:.0} % with one core; only with 12 is it {:.0} %",
                gain(1),
                gain(12)
            )),
        ],
    })
}

fn numbers(plan: &'static Plan, grid: &Grid) -> Result<Figure, ReproduceError> {
    let pairs: Vec<(Point, Point)> =
        (1..=6).map(|k| (grid.at(k, 3.2), grid.at(2 * k, 1.6))).collect();
    let mut table =
        Table::new(["k", "k_cores_3.2ghz_kpkt_per_joule", "2k_cores_1.6ghz_kpkt_per_joule"]);
    for (fast, many) in &pairs {
        table.numbers([fast.cores as f64, fast.kpkt_per_joule(), many.kpkt_per_joule()]);
    }
    let least = pairs
        .iter()
        .map(|(fast, many)| many.kpkt_per_joule() / fast.kpkt_per_joule())
        .fold(f64::MAX, f64::min);
    let axis = Axis::new("efficiency (kpkt/J)");
    let groups = (1..=6).map(|k| k.to_string());
    let bars = Bars::new("Figure 8: strength in speed or in numbers", "k", axis, groups)
        .series("k cores at 3.2 GHz", pairs.iter().map(|p| p.0.kpkt_per_joule()))
        .series("2k cores at 1.6 GHz", pairs.iter().map(|p| p.1.kpkt_per_joule()));
    Ok(Figure {
        id: "fig8",
        title: "Figure 8: k cores fast against 2k cores slow".into(),
        about: ABOUT.into(),
        table,
        plots: vec![bars.svg()],
        checks: vec![plan.check("packets-per-joule", &[least])?],
    })
}

fn scatter(plan: &'static Plan, grid: &Grid) -> Result<Figure, ReproduceError> {
    let most = grid.at(12, 3.333).mpps;
    let mut least = f64::MAX;
    for one in &grid.points {
        for other in &grid.points {
            let as_fast = (0.98..=1.0).contains(&(other.mpps / one.mpps));
            if other.cores > one.cores && other.gigahertz < one.gigahertz && as_fast {
                least = least.min(one.watts - other.watts);
            }
        }
    }
    let mut chart = Chart::new(
        "Figure 9: all 168 operating points at full load",
        Axis::new("rate (Mpps)").range(0.0, 30.0),
        Axis::new("power (W)").from_zero(),
    );
    for cores in [1, 3, 6, 9, 12] {
        chart = chart.series(
            format!("{cores} core{}", if cores == 1 { "" } else { "s" }),
            Mark::LineAndPoints,
            grid.of_cores(cores).iter().map(|p| (p.mpps, p.watts)),
        );
    }
    Ok(Figure {
        id: "fig9",
        title: "Figure 9: power over rate, every number of cores and frequency".into(),
        about: format!(
            "{ABOUT} The plot shows five of the twelve numbers of cores, the data all of them."
        ),
        table: grid.table(),
        plots: vec![chart.svg()],
        checks: vec![
            plan.check(
                "operating-points",
                &[printed("PS-011") * printed("PS-012") * printed("PS-055")],
            )?,
            plan.check("least-saving-more", &[least])?,
            plan.check("rate-12-cores", &[grid.at(12, 1.6).mpps])?,
            plan.check("rate-12-cores-fast", &[most])?,
        ],
    })
}
