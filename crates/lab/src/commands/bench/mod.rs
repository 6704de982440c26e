//! `wattline bench`: benchmarks, one file each.

mod app;
mod app_costs;
mod breakdown;
mod control_loop;
mod device_name;
mod eer;
mod fib;
mod forward;
mod nic;
mod page;
mod pipeline;
mod rfc2544;
mod sim;
mod sim_report;

use wattline::exit::ExitError;

/// Benchmark to run.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, clap::Subcommand)]
enum Benchmark {
    /// Cost of an application on top of plain forwarding, on one core.
    App(app::Args),
    /// Convert the JSON of `bench app all` to a file of costs for `--app-costs`.
    Costs(app_costs::Args),
    /// Longest-prefix match: lookups, build, memory and updates of a table.
    Fib(fib::Args),
    /// The whole IPv4 graph between memory ports on one core.
    Pipeline(pipeline::Args),
    /// Forwarding over veth, compared with the kernel and DPDK's l3fwd. Needs root.
    Forward(forward::Args),
    /// Throughput, latency, frame loss and back-to-back frames of a forwarding device. Needs root.
    Rfc2544(rfc2544::Args),
    /// The energy efficiency ratio, of the emulated server of `scale` or of a forwarder.
    Eer(eer::Args),
    /// Processor time per packet in the kernel's stack: iperf3 under perf. Needs root.
    Breakdown(breakdown::Args),
    /// The network cards of this machine, and the throughput of a pair.
    Nic(nic::Args),
    /// The governor's loop: observe, decide, steps, tables.
    Loop(control_loop::Args),
    /// The simulator: packets per second, where the time goes, speed-up of a sweep.
    Sim(sim::Args),
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    match &args.benchmark {
        Benchmark::App(args) => app::run(args, json),
        Benchmark::Costs(args) => app_costs::run(args, json),
        Benchmark::Fib(args) => fib::run(args, json),
        Benchmark::Pipeline(args) => pipeline::run(args, json),
        Benchmark::Forward(args) => forward::run(args, json),
        Benchmark::Rfc2544(args) => rfc2544::run(args, json),
        Benchmark::Eer(args) => eer::run(args, json),
        Benchmark::Breakdown(args) => breakdown::run(args, json),
        Benchmark::Nic(args) => nic::run(args, json),
        Benchmark::Loop(args) => control_loop::run(args, json),
        Benchmark::Sim(args) => sim::run(args, json),
    }
}
