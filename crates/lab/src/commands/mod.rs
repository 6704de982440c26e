//! The commands, one file each.

mod bench;
mod characterise;
mod demo;
mod envelope;
mod errors;
mod fit;
pub mod generate;
mod league;
mod load;
mod nics;
mod optimise;
mod overwrite;
mod page_file;
mod profile;
mod receive;
mod report;
mod reproduce;
mod results;
mod schema;
mod server_errors;
mod servers;
mod sim;
mod sim_args;
mod sim_requests;
mod simulation;
mod sweep;

use crate::{line, scale};
use clap::Subcommand;
use wattline::commands::{guard, run};
use wattline::exit::ExitError;
use wattline::program::Commands;

/// Commands for researchers and engineers.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a compressed day of traffic under several policies; then compare Wattline with the
    /// kernel.
    Demo(demo::Args),
    /// Run a policy on a server model in virtual time.
    Sim(sim_args::Args),
    /// Run many simulations side by side: servers, policies, traffics, seeds.
    Sweep(sweep::Args),
    /// Compute the lowest energy for a traffic within a latency bound, and find a schedule close to
    /// it.
    Envelope(envelope::Args),
    /// Compare all policies with each other and with a lower bound of energy.
    League(league::Args),
    /// List the shipped server models, or show one with the origin of its figures.
    Servers(servers::Args),
    /// List network cards, compare them, or choose one for a throughput and its budgets.
    Nics(nics::Args),
    /// Fit a power and capacity model to measured rows.
    Fit(fit::Args),
    /// Sweep a simulated, emulated or real router over frequencies, cores and loads, and fit its model.
    #[command(alias = "characterize")]
    Characterise(characterise::Args),
    /// Find the cheapest frequency and number of cores for a rate or a trace.
    #[command(alias = "optimize")]
    Optimise(optimise::Args),
    /// Send packets through a forwarding device, or requests to memcached or HTTP servers, at a given
    /// rate; measure loss and latency.
    Load(load::Args),
    /// Measure a server's tail latency and power by load, frequency and interrupt moderation.
    Profile(profile::Args),
    /// Reproduce the figures and tables of the papers, and compare the results.
    Reproduce(reproduce::Args),
    /// Simulate the receive path of a host: cache misses, cycles and watts per packet (Liao).
    Receive(receive::Args),
    /// Compare runs, each of several repetitions, with confidence intervals.
    Report(report::Args),
    /// Measure forwarding devices by RFC 2544, and the speed of Wattline itself on this machine.
    Bench(bench::Args),
    /// Run a router on emulated cores.
    #[command(hide = true)]
    Run(run::Args),
    /// Restore the machine when the profile that holds the pipe dies.
    #[command(hide = true)]
    Guard(guard::Args),
    /// Print the JSON schema of results (`wattline schema results`).
    #[command(hide = true)]
    Schema(wattline::commands::schema::Args),
    /// Write manual pages, completions or the reference page of the command line.
    #[command(hide = true)]
    Generate(generate::Args),
}

impl Commands for Command {
    fn is_unattended(&self) -> bool {
        matches!(self, Self::Run(_) | Self::Guard(_))
    }

    fn run(self, json: bool) -> Result<(), ExitError> {
        match self {
            Self::Demo(args) => demo::run(args, json),
            Self::Sim(args) => sim::run(&args, json),
            Self::Sweep(args) => sweep::run(&args, json),
            Self::Envelope(args) => envelope::run(&args, json),
            Self::League(args) => league::run(&args, json),
            Self::Servers(args) => servers::run(&args, json),
            Self::Nics(args) => nics::run(&args, json),
            Self::Fit(args) => fit::run(&args, json),
            Self::Characterise(args) => characterise::run(&args, json),
            Self::Optimise(args) => optimise::run(&args, json),
            Self::Load(args) => load::run(&args, json),
            Self::Profile(args) => profile::run(&args, json),
            Self::Reproduce(args) => reproduce::run(&args, json),
            Self::Receive(args) => receive::run(&args, json),
            Self::Report(args) => report::run(&args, json),
            Self::Bench(args) => bench::run(&args, json),
            Self::Run(args) => run::run_on(&args, json, scale::PLATFORMS),
            Self::Guard(args) => guard::run(&args),
            Self::Schema(_) => schema::run(),
            Self::Generate(args) => generate::run(&args, json, &line::whole::<Self>()),
        }
    }
}
