//! Measures an application by itself, to compare costs without the rest of the program:
//! `cargo run --release -p wattline-bench --example app NAME [ALGORITHM] [PEER]`. The algorithm and the
//! harness of the peer are those of `ipsec`.

use wattline_bench::app::{Args, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut given = std::env::args().skip(1);
    let application = given.next().ok_or("usage: app NAME [ALGORITHM] [PEER]")?;
    let default = Args::default();
    let algorithm = given.next().unwrap_or_else(|| default.algorithm.clone());
    let peer = given.next().map(Into::into);
    let report = run(&Args { application, algorithm, peer, ..default })?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}
