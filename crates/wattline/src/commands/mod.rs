//! The commands, one file each.

mod active;
mod ask;
mod audit;
mod block;
mod capture;
mod clear;
mod config;
pub mod dashboard;
pub mod duration;
pub mod explain;
mod govern;
mod graph;
pub mod guard;
mod lookup;
mod meter;
#[cfg(feature = "ipsec")]
mod new_keys;
mod plan;
mod policies;
mod probe;
mod reload;
mod restore;
pub mod root;
pub mod run;
pub mod schema;
mod show;
mod stats;
mod status;
mod stop;
mod top;
mod trace;
mod trial;
mod watch;

use crate::exit::ExitError;
use crate::program::Commands;
use clap::Subcommand;

/// Commands of `wattline`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the router until it is asked to stop, or until all captures are read.
    Run(run::Args),
    /// Govern this machine: let its power follow its load, without a router.
    Govern(govern::Args),
    /// Report on one screen the waste of this machine, remedies, and problems that need attention;
    /// exit code 1 if there are any.
    Status(status::Args),
    /// Print the counters of a running router or governor.
    Stats(stats::Args),
    /// Explain the last decisions of a running router or governor: why it uses these cores and
    /// frequencies.
    Explain(explain::Args),
    /// Show the state of a running router: ports, routes, neighbours, forwarding of an address,
    /// flows.
    Show(show::Args),
    /// Compare a running router's forwarding decisions with its kernel's; exit code 1 if any
    /// differ.
    Audit(audit::Args),
    /// Write packets that pass a running router into a capture file, with their outcome.
    Capture(capture::Args),
    /// Trace single packets through a running router, with the reason of their end.
    Trace(trace::Args),
    /// Reset the counters of a running router.
    Clear(clear::Args),
    /// Print the JSON schema of every document of a running router or governor, or of results.
    Schema(schema::Args),
    /// Watch a running router or governor: rates, cores, frequencies, watts, drops.
    Top(top::Args),
    /// Draw the nodes of a running router with their packets, cycles and drops.
    Graph(graph::Args),
    /// Serve traffic with the first N workers of a running router; park the others.
    Active(active::Args),
    /// Make a running router read its configuration again.
    Reload(reload::Args),
    /// Make a running router forward its queued packets, and end.
    Stop(stop::Args),
    /// Keep the kernel from forwarding IPsec traffic in clear while no router runs; or print the
    /// present blocks.
    Block(block::Args),
    /// Print every configuration key with its default and meaning, or check a file.
    Config(config::Args),
    /// Declare that the keys of IPsec tunnels are new: without this, a key whose use is not
    /// recorded is refused.
    #[cfg(feature = "ipsec")]
    NewKeys(new_keys::Args),
    /// Look up addresses in a file of routes: the matching prefix and its next hop.
    Lookup(lookup::Args),
    /// List the policies with their parameters, defaults and sources.
    Policies(policies::Args),
    /// Find out if setting B draws less power than A on this machine, by random blocks.
    Trial(trial::Args),
    /// Show the knobs and meters of this machine, missing ones, and advice.
    Probe(probe::Args),
    /// Show every write that `[power]` would make on this machine, with reasons, and the traffic
    /// that a router would leave to the kernel; make none.
    Plan(plan::Args),
    /// List, read or record power.
    Meter(meter::Args),
    /// Restore the machine when the router that holds the pipe dies.
    #[command(hide = true)]
    Guard(guard::Args),
    /// Undo the changes of a killed run.
    Restore(restore::Args),
}

impl Commands for Command {
    fn is_unattended(&self) -> bool {
        matches!(self, Self::Run(_) | Self::Govern(_) | Self::Guard(_))
    }

    fn run(self, json: bool) -> Result<(), ExitError> {
        match self {
            Self::Run(args) => run::run(&args, json),
            Self::Status(args) => status::run(&args, json),
            Self::Stats(args) => stats::run(&args, json),
            Self::Explain(args) => explain::run(&args, json),
            Self::Show(args) => show::run(&args, json),
            Self::Audit(args) => audit::run(&args, json),
            Self::Capture(args) => capture::run(&args, json),
            Self::Trace(args) => trace::run(&args, json),
            Self::Clear(args) => clear::run(&args, json),
            Self::Schema(args) => schema::run(&args),
            Self::Top(args) => top::run(&args, json),
            Self::Govern(args) => govern::run(&args, json),
            Self::Graph(args) => graph::run(&args, json),
            Self::Active(args) => active::run(&args, json),
            Self::Reload(args) => reload::run(&args, json),
            Self::Stop(args) => stop::run(&args, json),
            Self::Block(args) => block::run(&args, json),
            Self::Config(args) => config::run(&args, json),
            #[cfg(feature = "ipsec")]
            Self::NewKeys(args) => new_keys::run(&args, json),
            Self::Lookup(args) => lookup::run(&args, json),
            Self::Policies(args) => policies::run(&args, json),
            Self::Trial(args) => trial::run(&args, json),
            Self::Probe(args) => probe::run(&args, json),
            Self::Plan(args) => plan::run(&args, json),
            Self::Meter(args) => meter::run(&args, json),
            Self::Guard(args) => guard::run(&args),
            Self::Restore(args) => restore::run(&args, json),
        }
    }
}
