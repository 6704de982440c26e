//! Measurement of two cards as Sohan et al. made it (sections II.C and III.B): idle with the links
//! connected, then five TCP streams each way and both ways, repeated until runs agree.

use super::streams::{Streams, Traffic, check};
use crate::breakdown::{MeterPower, Meters};
use serde::Serialize;
use std::process::Command;
use std::time::{Duration, Instant};
use wattline_linux::sysfs::Tree;
use wattline_study::cards::accepted_mean;
use wattline_testbed::Error;
use wattline_testbed::command::{self, LIMIT};
use wattline_testbed::cpu::CpuTime;
use wattline_testbed::packets::End;

/// Number of runs in a row that must agree.
const AGREEING: usize = 3;
/// Time for the streams to open up before a run.
const SETTLE: Duration = Duration::from_millis(500);

/// Options of the measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Both ends of the cable, as `[NAMESPACE/]INTERFACE`.
    pub interfaces: [String; 2],
    /// Duration of a run.
    pub duration: Duration,
    /// Largest number of runs of a state.
    pub most_runs: usize,
    /// Meter of the card: its name, or the file of an external one.
    pub card_meter: Option<String>,
    /// Resistance of its shunt in ohms, if it has one.
    pub shunt_ohms: Option<f64>,
}

/// One run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Run {
    /// Bits of TCP payload received per second, forward and back.
    pub received_bps: [f64; 2],
    /// Busy time of all processors, in percent of one processor: both ends and all other programs.
    pub cpu_percent: f64,
    /// Mean power of each meter.
    pub powers: Vec<MeterPower>,
}

impl Run {
    /// Returns the figures that must agree: throughput of both directions, host CPU and watts.
    fn figures(&self) -> Vec<(&str, f64)> {
        let throughput = self.received_bps.iter().sum();
        let carried = [("throughput_bps", throughput), ("cpu_percent", self.cpu_percent)];
        let powers = self.powers.iter();
        let powers = powers.map(|it| (it.meter.as_str(), it.power_watts.unwrap_or(f64::NAN)));
        carried.into_iter().filter(|_| throughput > 0.0).chain(powers).collect()
    }
}

/// One figure over the runs of a state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// `throughput_bps`, `cpu_percent`, or the name of a meter (watts).
    pub figure: String,
    /// Mean of the last three runs.
    pub mean: f64,
    /// Reason why the runs do not agree; `None` if they agree.
    pub disagreement: Option<String>,
}

/// One state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct State {
    /// The state.
    pub state: Traffic,
    /// All runs.
    pub runs: Vec<Run>,
    /// Figures of the last runs.
    pub figures: Vec<Figure>,
    /// Throughput per watt of the card, in Gbit/s per watt; `None` unless both figures agree.
    pub nic_performance_per_watt: Option<f64>,
    /// The same per watt of the server.
    pub server_performance_per_watt: Option<f64>,
}

impl State {
    fn new(state: Traffic, runs: Vec<Run>, figures: Vec<Figure>, meters: [&[String]; 2]) -> Self {
        let mean = |figure: &str| {
            let agreed = figures.iter().filter(|it| it.disagreement.is_none());
            agreed.into_iter().find(|it| it.figure == figure).map(|it| it.mean)
        };
        let [nic, server] = meters.map(|meters| {
            let watts = meters.iter().map(|meter| mean(meter)).sum::<Option<f64>>();
            let watts = watts.filter(|watts| *watts > 0.0)?;
            Some(mean("throughput_bps")? / 1e9 / watts)
        });
        Self {
            state,
            runs,
            figures,
            nic_performance_per_watt: nic,
            server_performance_per_watt: server,
        }
    }
}

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// Both ends, as named in the options.
    pub interfaces: [String; 2],
    /// Driver of each end; `None` if the program `ethtool` does not show it.
    pub drivers: [Option<String>; 2],
    /// Physical medium of each end, if its driver reports it.
    pub media: [Option<String>; 2],
    /// Rule by which a state ends.
    pub rule: String,
    /// Results by state.
    pub states: Vec<State>,
    /// Meter of the card.
    pub card_meter: Option<String>,
    /// Meters whose sum is the server's power.
    pub server_meters: Vec<String>,
    /// Missing meters with the reason; empty if there are meters.
    pub meters_missing: String,
}

/// Runs the measurement; `progress` gets a line before each run.
///
/// # Errors
/// Fails if namespaces need root, if the kernel would route the streams by another path, if a named
/// meter cannot be opened, or if a stream breaks.
pub fn measure(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Measured, Error> {
    let ends = [0, 1].map(|at| End::from(options.interfaces[at].as_str()));
    check(ends)?;
    let mut meters = Meters::find(&Tree::live());
    let server_meters = meters.server_meters();
    let card = options.card_meter.as_deref();
    let card_meter = card.map(|name| meters.device_meter(name, options.shunt_ohms)).transpose()?;
    let mut states = Vec::new();
    for state in Traffic::ALL {
        let (runs, figures) = until_agreed(options.most_runs, |number| {
            progress(&format!("{}, run {number}", state.name()));
            one(ends, state, options.duration, &mut meters)
        })?;
        states.push(State::new(state, runs, figures, [card_meter.as_slice(), &server_meters]));
    }
    Ok(Measured {
        interfaces: options.interfaces.clone(),
        drivers: ends.map(|end| ethtool_property(end, &["-i"], "driver: ")),
        media: ends.map(|end| ethtool_property(end, &[], "Port: ")),
        rule: format!(
            "Five TCP streams, runs of {} s, until the last three lie within 3 % in throughput, \
             host CPU and the watts of each meter, {} runs at most",
            options.duration.as_secs_f64(),
            options.most_runs
        ),
        states,
        card_meter,
        server_meters,
        meters_missing: meters.missing,
    })
}

/// Repeats runs until the last three agree, at most `most` times.
fn until_agreed(
    most: usize,
    mut run: impl FnMut(usize) -> Result<Run, Error>,
) -> Result<(Vec<Run>, Vec<Figure>), Error> {
    let mut runs = Vec::new();
    loop {
        runs.push(run(runs.len() + 1)?);
        let figures = judge(&runs);
        if runs.len() >= most || figures.iter().all(|it| it.disagreement.is_none()) {
            return Ok((runs, figures));
        }
    }
}

/// Returns each figure over the last three runs; empty for a state without figures.
fn judge(runs: &[Run]) -> Vec<Figure> {
    let last: Vec<_> = runs.iter().rev().take(AGREEING).map(Run::figures).collect();
    let figures = last.first().into_iter().flatten().enumerate();
    let judged = figures.map(|(at, (figure, _))| {
        let values: Vec<f64> = last.iter().filter_map(|run| Some(run.get(at)?.1)).collect();
        Figure {
            figure: (*figure).to_owned(),
            mean: values.iter().sum::<f64>() / values.len() as f64,
            disagreement: accepted_mean(&values).err().map(|why| why.to_string()),
        }
    });
    judged.collect()
}

fn one(
    ends: [End; 2],
    state: Traffic,
    duration: Duration,
    meters: &mut Meters,
) -> Result<Run, Error> {
    let streams = match state {
        Traffic::Idle => None,
        _ => Some(Streams::start(ends, state)?),
    };
    let received = || streams.as_ref().map_or(Ok([0; 2]), Streams::received);
    std::thread::sleep(SETTLE);
    let (before, busy, began) = (received()?, CpuTime::now()?, Instant::now());
    let ((), powers) = meters.during(|| std::thread::sleep(duration));
    let (after, busy, seconds) =
        (received()?, CpuTime::now()? - busy, began.elapsed().as_secs_f64());
    if streams.is_some() && after == before {
        let silent = std::io::ErrorKind::TimedOut;
        return Err(Error::io(format!("TCP streams, {}: no byte in a run", state.name()), silent));
    }
    Ok(Run {
        received_bps: [0, 1].map(|at| (after[at] - before[at]) as f64 * 8.0 / seconds),
        cpu_percent: busy.busy_seconds() / seconds * 100.0,
        powers,
    })
}

/// Returns a property that the program `ethtool` shows. The cards' sysfs files are not visible:
/// sysfs belongs to this process's namespace.
fn ethtool_property(end: End, options: &[&str], property: &str) -> Option<String> {
    let show = || command::run(Command::new("ethtool").args(options).arg(end.interface), LIMIT);
    let text = end.within(show).ok()?;
    text.lines().find_map(|line| Some(line.trim().strip_prefix(property)?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_meters::Scope;
    use wattline_testbed::leftovers::can_build_namespaces;
    use wattline_testbed::namespace::Namespace;
    use wattline_testbed::topology::{SINK, SOURCE, connect};

    fn runs(carried: &[(f64, f64)]) -> Vec<Run> {
        let run = |(gigabits, watts): &(f64, f64)| Run {
            received_bps: [*gigabits * 1e9, 0.0],
            cpu_percent: 100.0,
            powers: vec![MeterPower {
                meter: "card".into(),
                scope: Scope::Device,
                source: "measured".into(),
                accuracy: "gold".into(),
                power_watts: Some(*watts),
            }],
        };
        carried.iter().map(run).collect()
    }

    fn agreed(most: usize, runs: &[Run]) -> (usize, Vec<bool>) {
        let (made, figures) = until_agreed(most, |number| Ok(runs[number - 1].clone())).unwrap();
        (made.len(), figures.iter().map(|it| it.disagreement.is_none()).collect())
    }

    #[test]
    fn runs_end_once_three_agree_or_at_the_bound() {
        let rising = runs(&[5.0, 9.0, 9.1, 9.2, 9.0].map(|it| (it, 14.0)));
        assert_eq!(agreed(10, &rising), (4, vec![true; 3]));
        assert_eq!(agreed(3, &rising), (3, vec![false, true, true]));
        assert_eq!(agreed(2, &rising), (2, vec![false; 3]), "two runs never agree");
        let warming = runs(&[10.0, 11.0, 12.0, 13.0, 14.0].map(|watts| (9.0, watts)));
        assert_eq!(agreed(5, &warming), (5, vec![true, true, false]));
        let unread = runs(&[(9.0, f64::NAN); 3]);
        assert_eq!(agreed(3, &unread), (3, vec![true, true, false]));
        assert_eq!(agreed(9, &[Run::default()]), (1, vec![]), "nothing to agree");
    }

    #[test]
    fn metrics_need_figures_that_agree() {
        let metrics = |watts: [f64; 3], meters: [&[String]; 2]| {
            let runs = runs(&watts.map(|it| (18.7, it)));
            let figures = judge(&runs);
            let state = State::new(Traffic::Both, runs, figures, meters);
            (state.nic_performance_per_watt, state.server_performance_per_watt)
        };
        // Broadcom(Fibre): 18.7 Gbit/s at 14.0 W (Table IV), 1.336 Gbit/s per watt (Figure 2).
        let [card, other] = ["card", "other"].map(|it| vec![it.to_owned()]);
        let (nic, server) = metrics([14.0, 14.1, 13.9], [&card, &[]]);
        assert!(nic.is_some_and(|it| (it - 1.336).abs() < 0.001), "{nic:?}");
        assert_eq!(server, None);
        assert_eq!(metrics([14.0, 14.1, 15.0], [&card, &card]), (None, None));
        assert_eq!(metrics([14.0; 3], [&other, &card]), (None, Some(18.7 / 14.0)));
    }

    #[test]
    fn pair_of_interfaces_is_measured_in_all_states() {
        if !can_build_namespaces("pair_of_interfaces_is_measured_in_all_states") {
            return;
        }
        let [near, far] = ["near", "far"].map(|role| Namespace::create(role).unwrap());
        connect(&near, SOURCE, &far, SINK, 1500, 1).unwrap();
        let end = |namespace: &Namespace| format!("{}/{}", namespace.name(), SOURCE.interface);
        let folder = tempfile::tempdir().unwrap();
        let meter = folder.path().join("card.csv");
        std::fs::write(&meter, "time,watts\n0,14\n").unwrap();
        let mut options = Options {
            interfaces: [end(&near), end(&far)],
            duration: Duration::from_millis(200),
            most_runs: 2,
            card_meter: Some(meter.display().to_string()),
            shunt_ohms: None,
        };
        let refused = |options: &Options| measure(options, &mut |_| ()).unwrap_err().to_string();
        assert!(refused(&options).contains("a route from uplink"), "{}", refused(&options));
        for (namespace, own, other) in [(&near, SOURCE, SINK), (&far, SINK, SOURCE)] {
            let route = format!("route add {} dev {} src {}", other.v4, own.interface, own.v4);
            namespace.ip(&route).unwrap();
        }
        let measured = measure(&options, &mut |_| ()).unwrap();
        assert_eq!(measured.meters_missing, "", "a named meter is one");
        let drivers = measured.drivers.map(|it| it.is_none_or(|driver| driver == "veth"));
        assert_eq!(drivers, [true; 2], "none without ethtool");
        for state in measured.states {
            let idle = state.state == Traffic::Idle;
            assert!(idle || state.runs.len() == 2, "two runs are too few to agree: {state:?}");
            for run in &state.runs {
                let directions = run.received_bps.map(|rate| rate > 1e6);
                let expected = match state.state {
                    Traffic::Idle => [false, false],
                    Traffic::Forward => [true, false],
                    Traffic::Back => [false, true],
                    Traffic::Both => [true, true],
                };
                assert_eq!(directions, expected, "{state:?}");
            }
        }
        options.interfaces[1] = end(&near);
        assert!(refused(&options).contains("one network namespace"), "{}", refused(&options));
        options.interfaces[0] = "nonesuch0".into();
        assert!(refused(&options).contains("nonesuch0"), "{}", refused(&options));
    }
}
