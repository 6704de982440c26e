//! Measures an application by itself: `cargo run --release -p wattline-bench --example app NAME`, to
//! compare costs without the rest of the program.

use wattline_bench::app::{Args, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let application = std::env::args().nth(1).ok_or("usage: app NAME")?;
    let report = run(&Args { application, ..Args::default() })?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}
