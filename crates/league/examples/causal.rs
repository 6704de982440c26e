//! Least energy of a policy without foresight beside the bound that knows the future: `cargo run --release
//! -p wattline-league --example causal -- [FILE]`, for each server, traffic of two rates and budget of a league
//! file (default: the quick league).

use std::path::Path;
use wattline_league::bound::{lower_bound, slot_length};
use wattline_league::{Arrivals, Budget, Case, LeagueError, Plan, causal};

fn main() -> Result<(), LeagueError> {
    let plan = match std::env::args().nth(1) {
        None => Plan::quick()?,
        Some(path) => Plan::load(Path::new(&path))?,
    };
    for server in &plan.servers {
        for (text, traffic) in &plan.traffics {
            for &within in &plan.budgets {
                let (application, duration, warmup) =
                    (plan.application, plan.duration, plan.warmup);
                let case =
                    Case { server, application, traffic, duration, warmup, seed: plan.seeds[0] };
                let allowed = Budget::p99(within);
                let slack = case.slack_seconds(allowed, 64)?;
                let arrivals = Arrivals::of(&case, slot_length(&case, slack))?;
                let Some(found) = causal(&case, allowed, &arrivals)? else { continue };
                let bound = lower_bound(&case, allowed, &arrivals)?;
                let above = bound.map_or(f64::NAN, |bound| found.joules / bound.joules - 1.0);
                println!(
                    "{} {text:<46} {:>4.0} us {:.4} J, {:+.2} % above the bound of seed {}, {:.2} % above the \
                     same with foresight",
                    server.name,
                    within.as_seconds() * 1e6,
                    found.joules,
                    above * 100.0,
                    case.seed,
                    found.gap * 100.0,
                );
            }
        }
    }
    Ok(())
}
