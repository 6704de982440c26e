//! Runs the pipeline benchmark by itself: `cargo run --release -p wattline-bench --example
//! pipeline ROUTES`, to profile the data plane without the rest of the program.

use wattline_bench::pipeline::{Args, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let routes = std::env::args().nth(1).ok_or("usage: pipeline ROUTES")?.into();
    let report = run(&Args { routes, ..Args::default() })?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}
