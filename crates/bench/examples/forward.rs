//! `cargo run --release -p wattline-bench --example forward [L3FWD [ROUNDS [XDP_FORWARD]]]`: forwarding
//! over veth beside the kernel and, where their programs are given, DPDK's l3fwd and xdp-tools'
//! xdp-forward; JSON on standard output.

use wattline_bench::forward::{Options, run};

fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args().skip(1);
    let l3fwd = arguments.next().filter(|path| !path.is_empty()).map(Into::into);
    let rounds = arguments.next().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    let xdp_forward = arguments.next().map(Into::into);
    let report = run(&Options { l3fwd, rounds, xdp_forward, ..Options::default() }, || {});
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
