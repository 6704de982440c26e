//! `wattline bench sim`: the speed of the simulator.

use super::sim_report::{Output, page};
use crate::commands::page_file::PageFile;
use crate::commands::simulation;
use crate::commands::simulation::simulation_error;
use std::time::Instant;
use wattline::exit::ExitError;
use wattline::progress::Counted;
use wattline_policy::PolicySpec;
use wattline_server::ServerModel;
use wattline_sim::{Scenario, Setting, sweep};
use wattline_testbed::cpu::thread_cpu_seconds;
use wattline_traffic::Spec;
use wattline_units::Span;

/// Simulation to measure.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Server model.
    #[arg(long, default_value = "westmere-2010")]
    server: String,
    /// Policy.
    #[arg(long, default_value = "queue-length")]
    policy: String,
    /// Traffic; the default loads twelve cores fully.
    #[arg(long, default_value = "constant:29Mpps,size=64")]
    traffic: String,
    /// Simulated time of each run.
    #[arg(long, default_value = "500ms", value_parser = simulation::span)]
    duration: Span,
    /// Runs; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    #[command(flatten)]
    page: PageFile,
}

/// Simulations by thread of the sweep that is timed.
const SWEEP_PER_THREAD: usize = 4;

/// Number of timed sweeps, on one thread and on all.
const SWEEPS: u64 = 3;

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    args.page.check()?;
    let server = simulation::server(&args.server)?;
    let traffic = simulation::traffic(&args.traffic)?;
    let policy = simulation::policy(&args.policy)?;
    let run = |profile| {
        let setting = Setting { profile, ..Setting::new(&server, policy.clone(), args.duration) };
        Scenario { setting, traffic: &traffic }.run().map_err(simulation_error)
    };
    // Runs, one for the profile, and the sweep on one thread and on all.
    let bar = Counted::new(u64::from(args.runs) + 1 + 2 * SWEEPS, "runs");
    let mut by_cpu = Vec::new();
    let (mut wall, mut cpu, mut packets) = (0.0, 0.0, 0);
    for _ in 0..args.runs {
        let (cpu_before, wall_before) = (thread_cpu_seconds(), Instant::now());
        packets = run(false)?.offered_packets;
        let spent = thread_cpu_seconds() - cpu_before;
        by_cpu.push(packets as f64 / spent);
        cpu += spent;
        wall += wall_before.elapsed().as_secs_f64();
        bar.step();
    }
    by_cpu.sort_by(f64::total_cmp);
    let profile = run(true)?.profile.unwrap_or_default();
    bar.step();
    let sweep = time_sweep(&server, (&policy, &traffic), args, &bar)?;
    bar.end();
    let output = Output {
        server: &args.server,
        policy: &policy.to_string(),
        traffic: &args.traffic,
        runs: args.runs,
        simulated_packets_per_run: packets,
        simulated_packets_per_cpu_second: by_cpu[by_cpu.len() / 2],
        simulated_packets_per_cpu_second_least: by_cpu[0],
        simulated_packets_per_cpu_second_most: by_cpu[by_cpu.len() - 1],
        simulated_packets_per_second: packets as f64 * f64::from(args.runs) / wall,
        cpu_share: cpu / wall,
        profile,
        sweep_threads: sweep.threads,
        sweep_simulations: sweep.simulations,
        sweep_seconds_one_thread: sweep.one,
        sweep_seconds_all_threads: sweep.all,
        sweep_speed_up: sweep.one / sweep.all,
        sweep_efficiency: sweep.one / sweep.all / sweep.threads as f64,
        sweep_results_identical: sweep.identical,
    };
    args.page.show(page(&output), &output, json)
}

struct Sweep {
    threads: usize,
    simulations: usize,
    one: f64,
    all: f64,
    identical: bool,
}

/// Times the same sweep on one thread and on all, in turns; the shortest of three counts,
/// since other programs can only lengthen it.
fn time_sweep(
    server: &ServerModel,
    (policy, traffic): (&PolicySpec, &Spec),
    args: &Args,
    bar: &Counted,
) -> Result<Sweep, ExitError> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let seeds: Vec<u64> = (0..(threads * SWEEP_PER_THREAD) as u64).collect();
    let time = |threads| {
        let start = Instant::now();
        let work = |seed: &u64| {
            let short = Setting::new(server, policy.clone(), args.duration / 5);
            let setting = Setting { seed: *seed, ..short };
            Scenario { setting, traffic }.run().map(|report| {
                (report.forwarded_packets, report.energy_joules, report.latency_mean_seconds)
            })
        };
        let results = sweep(&seeds, threads, work, || ())
            .map_err(|error| ExitError::new(ExitError::UNAVAILABLE, error))?;
        let results =
            results.into_iter().collect::<Result<Vec<_>, _>>().map_err(simulation_error)?;
        Ok::<_, ExitError>((start.elapsed().as_secs_f64(), results))
    };
    let mut sweep =
        Sweep { threads, simulations: seeds.len(), one: f64::MAX, all: f64::MAX, identical: true };
    for _ in 0..SWEEPS {
        let (one, of_one) = time(1)?;
        bar.step();
        let (all, of_all) = time(threads)?;
        bar.step();
        sweep.one = sweep.one.min(one);
        sweep.all = sweep.all.min(all);
        sweep.identical &= of_one == of_all;
    }
    Ok(sweep)
}
