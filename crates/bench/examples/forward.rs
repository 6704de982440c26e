//! `cargo run --release -p wattline-bench --example forward [L3FWD [ROUNDS]]`: forwarding
//! over veth beside the kernel and, where its program is given, DPDK's l3fwd; JSON on
//! standard output.

use wattline_bench::forward::{Options, run};

fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args().skip(1);
    let l3fwd = arguments.next().filter(|path| !path.is_empty()).map(Into::into);
    let rounds = arguments.next().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    let report = run(&Options { l3fwd, rounds, ..Options::default() }, || {});
    match report.map(|report| serde_json::to_string_pretty(&report)) {
        Ok(Ok(text)) => {
            println!("{text}");
            std::process::ExitCode::SUCCESS
        }
        Ok(Err(error)) => fail(&error),
        Err(error) => fail(&error),
    }
}

fn fail(error: &dyn std::error::Error) -> std::process::ExitCode {
    eprintln!("error: {error}");
    std::process::ExitCode::FAILURE
}
