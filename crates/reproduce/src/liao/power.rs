//! Figures 10 to 13: throughput and dynamic power over the I/O size.

use super::known::{host, lacks};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned;
use wattline_meters::attribution::{self, CoreTime, Experiment, State, attribute};
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_report::{Grounds, Table};
use wattline_server::ComponentFile;
use wattline_server::components::{Direction, Scenario};
use wattline_study::cards::shunt_power;
use wattline_study::receive::io_size::{
    Basis, Power, boundary_bytes, call_seconds, power, throughput,
};
use wattline_units::{BitsPerSecond, Watts};

const LINK: BitsPerSecond = BitsPerSecond(10e9);
const SIZES: [u32; 11] = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];

/// Returns the smallest and largest I/O of a direction whose parts all have a printed power.
fn ends(file: &ComponentFile, direction: Direction) -> Result<[&Scenario; 2], ReproduceError> {
    let known = || {
        let all = file.scenarios.iter().filter(|scenario| scenario.direction == direction);
        all.filter(|scenario| scenario.cpu.is_some())
    };
    let ends = known().min_by_key(|s| s.io_bytes).zip(known().max_by_key(|s| s.io_bytes));
    ends.map(|(small, large)| [small, large]).ok_or_else(|| lacks("the ends of a direction"))
}

/// Returns the share of a part in the total power, in percent, at both ends.
fn shares(ends: [&Scenario; 2], part: fn(&Scenario) -> Option<Watts>) -> [f64; 2] {
    ends.map(|end| part(end).map_or(f64::NAN, |watts| watts / end.total * 100.0))
}

/// Returns the processors' dynamic power found by attribution, relative to the scenario's, on two
/// machines of different idle power.
fn by_subtraction(scenario: &Scenario) -> Result<[f64; 2], ReproduceError> {
    let load = scenario.cpu.ok_or_else(|| lacks("the processors' power"))?;
    let of = |idle: f64| -> Result<f64, ReproduceError> {
        let state = |platform: Watts, package: Watts| {
            let power = |mean| attribution::Power { mean, uncertainty: Watts::ZERO };
            State { platform: power(platform), package: power(package), memory: None }
        };
        let idle = state(Watts(idle), Watts(0.3 * idle));
        let loaded = state(idle.platform.mean + scenario.total, idle.package.mean + load);
        let cores = CoreTime { useful_share: 0.5, empty_share: 0.0 };
        let experiment = Experiment { idle, idle_plus: idle, polling: None, loaded, cores };
        let found =
            attribute(&experiment).map_err(|error| ReproduceError::Model(error.to_string()))?;
        Ok(found.package_active.mean / load)
    };
    Ok([of(100.0)?, of(250.0)?])
}

pub(super) fn figures(_: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let file = host()?;
    Ok(vec![receive(&file)?, transmit(&file)?])
}

fn table_and_plot(
    file: &ComponentFile,
    direction: Direction,
    title: &str,
    rate: impl Fn(u32) -> Option<f64>,
) -> Result<(Table, String), ReproduceError> {
    let mut table = Table::new([
        "io_bytes",
        "throughput_gbps",
        "total_watts",
        "cpu_watts",
        "memory_watts",
        "nic_watts",
        "basis",
    ]);
    let mut all: Vec<(f64, Power)> = Vec::new();
    for size in SIZES {
        let at = power(file, direction, size).ok_or_else(|| lacks("two sizes of a direction"))?;
        let cell = |watts: Option<Watts>| watts.map_or(String::new(), |w| format!("{:.2}", w.0));
        table.row([
            size.to_string(),
            rate(size).map_or(String::new(), |rate| format!("{rate:.2}")),
            format!("{:.2}", at.total.0),
            cell(at.cpu),
            cell(at.memory),
            cell(at.nic),
            match at.basis {
                Basis::Published => "published".into(),
                Basis::Interpolated => "interpolated".into(),
            },
        ]);
        all.push((f64::from(size), at));
    }
    let points = |read: fn(&Power) -> Option<Watts>| -> Vec<(f64, f64)> {
        all.iter().filter_map(|(size, at)| Some((*size, read(at)?.0))).collect()
    };
    let printed = file.scenarios.iter().filter(|scenario| scenario.direction == direction);
    let printed = printed.map(|scenario| (f64::from(scenario.io_bytes), scenario.total.0));
    let chart = Chart::new(
        title,
        Axis::new("I/O size (bytes)").logarithmic(),
        Axis::new("dynamic power (W)").from_zero(),
    )
    .series("total", Mark::Line, points(|at| Some(at.total)))
    .series("processors", Mark::Line, points(|at| at.cpu))
    .series("memory", Mark::Line, points(|at| at.memory))
    .series("card", Mark::Line, points(|at| at.nic))
    .series("total, printed", Mark::Published, printed);
    Ok((table, chart.svg()))
}

fn receive(file: &ComponentFile) -> Result<Figure, ReproduceError> {
    let plan = planned::made_for(Paper::Liao)?;
    let [small, large] = ends(file, Direction::Receive)?;
    let slow = small.throughput.ok_or_else(|| lacks("throughput of small I/O"))?;
    let call = call_seconds(small.io_bytes, slow);
    let rate = |size: u32| Some(throughput(size, call, LINK).0 / 1e9);
    let (table, plot) =
        table_and_plot(file, Direction::Receive, "Figures 10 and 11: receiving", rate)?;
    let cpu = shares([large, small], |end| end.cpu);
    let parts = [large, small].map(|end| {
        let sum = end.unexplained().map_or(f64::NAN, |rest| (end.total - rest).0);
        end.cpu.map_or(f64::NAN, |watts| watts.0 / sum * 100.0)
    });
    let growth = large.memory.zip(small.memory).map_or(f64::NAN, |(large, small)| large / small);
    let sent = ends(file, Direction::Transmit)?;
    let memory = [large, sent[1]].map(|end| end.memory.map_or(f64::NAN, |watts| watts.0.round()));
    let checks = vec![
        plan.check("dynamic-power", &by_subtraction(large)?)?,
        plan.check("shunt", &[shunt_power(0.010, 12.0, 0.01).0])?,
        plan.check("small-io-boundary", &[boundary_bytes(call, LINK)])?.note(format!(
            "each call takes the {:.0} ns that it takes at 64 B; the table's throughput between \
             the ends follows from it",
            call * 1e9
        )),
        plan.check("rx-cpu-share", &cpu)?.contradiction(format!(
            "70 % cannot be of the total (11.5 of 17 W); of the sum of the parts it is {:.0} and \
             {:.0} %",
            parts[0], parts[1]
        )),
        plan.check("rx-memory-grows", &[growth])?.contradiction(
            "the share grows from 11 to 15 % since the total falls; in watts memory stays at 2.5, \
             while the introduction says that its power grows",
        ),
        plan.check("rx-nic-share", &shares([small, large], |end| end.nic))?,
        plan.check("cpu-watts", &[large.cpu.map_or(f64::NAN, |watts| watts.0)])?,
        plan.check("memory-watts", &memory)?,
    ];
    Ok(Figure {
        id: "fig10-11",
        title: "Figures 10 and 11: dynamic power when receiving".into(),
        about:
            "The figures are lost. The ends are printed; power between them is interpolated over \
                the logarithm of the size, throughput is the bytes of a call over its time."
                .into(),
        table,
        plots: vec![plot],
        checks: checks.into_iter().map(|check| check.on(Grounds::Tables)).collect(),
    })
}

fn transmit(file: &ComponentFile) -> Result<Figure, ReproduceError> {
    let plan = planned::made_for(Paper::Liao)?;
    let [small, large] = ends(file, Direction::Transmit)?;
    let (table, plot) =
        table_and_plot(file, Direction::Transmit, "Figures 12 and 13: sending", |_| None)?;
    let sent = file.scenarios.iter().filter(|scenario| scenario.direction == Direction::Transmit);
    let peak = sent.map(|scenario| scenario.total.0).fold(0.0, f64::max);
    let checks = vec![
        plan.check("max-transmit", &[peak])?
            .contradiction("25 W in the introduction, about 24.2 W in section 4.2"),
        plan.check("tx-cpu-share", &shares([large, small], |end| end.cpu))?
            .contradiction("13 of 18.5 W are 70 %; 75 % is of the sum of the parts"),
    ];
    Ok(Figure {
        id: "fig12-13",
        title: "Figures 12 and 13: dynamic power when sending".into(),
        about: "The figures are lost. The ends and the peak at 1 kB are printed; the rest is \
                interpolated over the logarithm of the size."
            .into(),
        table,
        plots: vec![plot],
        checks: checks.into_iter().map(|check| check.on(Grounds::Tables)).collect(),
    })
}
