//! The policy `wattline` on machines that are not what it was told:
//! `cargo run --release -p wattline-league --example robust -- [WORD]`. With a word only faults whose
//! name has it; with `all` as a second word under all kinds of traffic of the quick league. It prints one line for each traffic and fault.

use wattline_league::bound::{lower_bound, slot_length};
use wattline_league::{Arrivals, Budget, Case, LeagueError, Meter, Wrong, plan, play_wrong};
use wattline_server::{Application, ServerFile};
use wattline_sim::KnobBehaviour;
use wattline_traffic::Spec;
use wattline_units::{Span, Time};

const TRAFFICS: [&str; 4] = [
    "poisson:8Mpps,size=64",
    "poisson:16Mpps,size=64",
    "mmpp:5Mpps,size=64,ratio=10,high=10ms,low=40ms",
    "flash:3Mpps,size=64,ratio=10,period=50ms",
];

const MORE: [&str; 7] = [
    "constant:6Mpps,size=64",
    "poisson:1Mpps,size=64",
    "onoff:5Mpps,size=64,burst=32",
    "self-similar:5Mpps,size=64",
    "mmpp:5Mpps,size=64,ratio=10,high=2ms,low=8ms",
    "day:8Mpps,size=64,duration=60ms",
    "sawtooth:8Mpps,size=64,ratio=10,period=50ms",
];

fn faults() -> Result<Vec<(&'static str, Wrong)>, LeagueError> {
    let good = Wrong::default();
    let knobs = |text: &str| {
        KnobBehaviour::parse(text)
            .map(|knobs| Wrong { knobs, ..good })
            .map_err(|error| LeagueError::File { place: text.into(), problem: error.to_string() })
    };
    let power = |power, idle_power| Wrong { power, idle_power, ..good };
    let capacity = |capacity| Wrong { capacity, ..good };
    let meter = |meter| Wrong { meter, ..good };
    Ok(vec![
        ("nothing", good),
        ("no server file", Wrong { no_file: true, ..good }),
        ("power +30 %, idle -30 %", power(1.3, 0.7)),
        ("power -30 %, idle +30 %", power(0.7, 1.3)),
        ("capacity told +20 %", capacity(1.2)),
        ("capacity told -20 %", capacity(0.8)),
        ("both: power +30 %, capacity +20 %", Wrong { capacity: 1.2, ..power(1.3, 0.7) }),
        ("meter noisy by 20 %", meter(Meter::Noisy(0.2))),
        ("meter late by 10 ms", meter(Meter::Late(Span::from_millis(10)))),
        ("meter dead from 30 ms on", meter(Meter::DeadFrom(Time::ZERO + Span::from_millis(30)))),
        ("cores refuse", knobs("cores:refuse")?),
        ("frequency refuses", knobs("frequency:refuse")?),
        ("wait refuses", knobs("wait:refuse")?),
        ("one write in ten fails", knobs("all:fail=0.1")?),
        ("frequency rounded to 4 steps", knobs("frequency:round=4")?),
        ("cores slow by 50 us", knobs("cores:delay=50us")?),
    ])
}

fn main() -> Result<(), LeagueError> {
    let only = std::env::args().nth(1).unwrap_or_default();
    let every = std::env::args().nth(2).is_some_and(|word| word == "all");
    let kinds: Vec<&str> =
        if every { TRAFFICS.iter().chain(&MORE).copied().collect() } else { TRAFFICS.to_vec() };
    let file = ServerFile::load("westmere-2010").map_err(|error| LeagueError::File {
        place: "westmere-2010".into(),
        problem: error.to_string(),
    })?;
    let broken = |problem: String| LeagueError::File { place: "westmere-2010".into(), problem };
    let server = file.model().map_err(|error| broken(error.to_string()))?;
    let p99 = Span::from_micros(100);
    let (budget, policy) = (
        Budget::p99(p99),
        plan::policy("wattline:p99={p99}", p99).map_err(|error| broken(error.to_string()))?,
    );
    let faults: Vec<_> = faults()?.into_iter().filter(|(name, _)| name.contains(&only)).collect();
    let each = |text: &&str| {
        let traffic = Spec::parse(text).map_err(|error| LeagueError::File {
            place: (*text).into(),
            problem: error.to_string(),
        })?;
        let case = Case {
            server,
            application: Application::Ipv4,
            traffic: &traffic,
            duration: Span::from_millis(60),
            warmup: Span::from_millis(20),
            seed: 9_001,
        };
        let slack = case.slack_seconds(budget, 64)?;
        let arrivals = Arrivals::of(&case, slot_length(&case, slack))?;
        let bound = lower_bound(&case, budget, &arrivals)?;
        for (name, wrong) in &faults {
            let played = play_wrong(&case, &policy, budget, &arrivals, wrong)?;
            println!(
                "{text:<48} {name:<34} {} gap {:6.2} %  late {:6.3} %  p99 {:7.1} us  lost {:5}  \
                 reordered {}  changes {:5.0}/s",
                if played.feasible { "kept  " } else { "BROKEN" },
                bound.map_or(f64::NAN, |bound| (played.energy_joules / bound.joules - 1.0) * 100.0),
                played.late_fraction * 100.0,
                played.p99_seconds.unwrap_or(f64::NAN) * 1e6,
                played.dropped_packets,
                played.reordered_packets,
                played.changes_per_second,
            );
        }
        Ok(())
    };
    let done: Vec<Result<(), LeagueError>> =
        wattline_sim::sweep(&kinds, 0, each, || {}).map_err(|error| broken(error.to_string()))?;
    done.into_iter().collect()
}
