//! Plays policies without yardsticks: `cargo run --release -p wattline-league --example gaps -- [FILE
//! [play|untold|misled]]`; with `untold` they have no server file, with `misled` one that is wrong by 30 % in
//! power and 20 % in capacity.

use std::path::Path;
use wattline_league::bound::slot_length;
use wattline_league::{
    Arrivals, Budget, Case, LeagueError, Plan, Wrong, plan, play_policy, play_wrong,
};

fn main() -> Result<(), LeagueError> {
    let plan = match std::env::args().nth(1) {
        None => Plan::quick()?,
        Some(path) => Plan::load(Path::new(&path))?,
    };
    let more = std::env::args().nth(2).unwrap_or_default();
    let mut cases = Vec::new();
    for server in &plan.servers {
        for (text, traffic) in &plan.traffics {
            for &budget in &plan.budgets {
                for &seed in &plan.seeds {
                    let (application, duration, warmup) =
                        (plan.application, plan.duration, plan.warmup);
                    let case = Case { server, application, traffic, duration, warmup, seed };
                    cases.push((text, budget, case));
                }
            }
        }
    }
    let play = |(text, within, case): &(&String, wattline_units::Span, Case<'_>)| {
        let (allowed, budget) = (Budget::p99(*within), within.as_seconds() * 1e6);
        let slack = case.slack_seconds(allowed, 64)?;
        let arrivals = Arrivals::of(case, slot_length(case, slack))?;
        for written in &plan.policies {
            let spec = plan::policy(written, *within).map_err(|error| LeagueError::File {
                place: written.clone(),
                problem: error.to_string(),
            })?;
            let good = Wrong::default();
            let wrong = match more.as_str() {
                "untold" => Some(Wrong { no_file: true, ..good }),
                "misled" => Some(Wrong { power: 1.3, idle_power: 0.7, capacity: 1.2, ..good }),
                _ => None,
            };
            let played = match wrong {
                Some(wrong) => play_wrong(case, &spec, allowed, &arrivals, &wrong)?,
                None => play_policy(case, &spec, allowed, &arrivals)?,
            };
            println!(
                "{text:<46} {budget:>4.0} us seed {:<5} {written:<20} {} {:.4} J, late {:>7.3} %, p99 {:>7.1} us, \
                 lost {:>5}, reordered {:>3}, cores {:>5.2}, changes {:>5.0}/s, p99.9 {:>7.1} us",
                case.seed,
                if played.feasible { "kept  " } else { "BROKEN" },
                played.energy_joules,
                played.late_fraction * 100.0,
                played.p99_seconds.unwrap_or(f64::NAN) * 1e6,
                played.dropped_packets,
                played.reordered_packets,
                played.cores_active_mean,
                played.changes_per_second,
                played.p999_seconds.unwrap_or(f64::NAN) * 1e6,
            );
        }
        Ok(())
    };
    let done = wattline_sim::sweep(&cases, 0, play, || {});
    let done = done.map_err(|error| LeagueError::File {
        place: "threads".into(),
        problem: error.to_string(),
    })?;
    done.into_iter().collect()
}
