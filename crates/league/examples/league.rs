//! A league without the rest of the program: `cargo run --release -p wattline-league --example
//! league -- [FILE|quick|tuned] [DIRECTORY]`. It prints one line for each policy and traffic.

use std::path::{Path, PathBuf};
use wattline_league::{LeagueError, Plan, Store, league, page, standings};

fn main() -> Result<(), LeagueError> {
    let mut arguments = std::env::args().skip(1);
    let plan = match arguments.next().as_deref() {
        None | Some("quick") => Plan::quick()?,
        Some("tuned") => Plan::tuned()?,
        Some(path) => Plan::load(Path::new(path))?,
    };
    let out = arguments.next().map(PathBuf::from);
    let store = Store::new(out.as_ref().map(|out| out.join("pieces")))?;
    let results = league::play(&plan, &store, 0, || eprint!("."))?;
    eprintln!();
    for row in standings(&results) {
        println!(
            "{:<46} {:<22} kept {}/{} gap {:6.2} ± {:5.2} % above base {:6.1} % beside {:6.2} ± {:5.2} % late {:7.3} % \
             lost {:6} changes {:6.0}/s {}",
            row.traffic,
            row.policy,
            row.feasible,
            row.seeds,
            row.gap * 100.0,
            row.gap_within * 100.0,
            row.gap_above_base * 100.0,
            row.beside_first * 100.0,
            row.beside_first_within * 100.0,
            row.worst_late * 100.0,
            row.dropped_packets,
            row.changes_per_second,
            row.setting,
        );
    }
    for row in &results.envelopes {
        let bound = row.envelope.lower_bound_joules.unwrap_or(f64::NAN);
        println!(
            "{:<46} seed {} bound {:.4} J, schedule {:+.3} %, fixed {:+.3} % {}",
            row.traffic,
            row.seed,
            bound,
            row.envelope.feasible_gap.unwrap_or(f64::NAN) * 100.0,
            (row.envelope.static_best_joules.unwrap_or(f64::NAN) / bound - 1.0) * 100.0,
            row.envelope.static_best.as_deref().unwrap_or("none"),
        );
    }
    if let Some(out) = out {
        let path = out.join("index.html");
        std::fs::write(
            &path,
            page(&plan, &results, "cargo run --release -p wattline-league --example league"),
        )
        .map_err(|source| LeagueError::Io { path: path.display().to_string(), source })?;
    }
    Ok(())
}
