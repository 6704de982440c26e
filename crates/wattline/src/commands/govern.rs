//! `wattline govern`: the governor of this machine, without a router.

use super::dashboard::Dashboard;
use super::root::Root;
use super::run;
use crate::exit::ExitError;
use crate::output;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use wattline_govern::{Daemon, GovernError, Options, profile};
use wattline_host::TakeOverError;
use wattline_policies::POLICIES;
use wattline_status::Stats;

/// Settings of the governor.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration (TOML); by default the profile `balanced`. `wattline config --govern`
    /// prints every key.
    config: Option<PathBuf>,
    /// Print a built-in profile and exit: balanced, latency, max-save or router.
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    print_profile: Option<String>,
    /// With policy copi, also accept tables of another machine, although they were not measured
    /// here.
    #[arg(long)]
    force: bool,
    /// Answer GET /metrics here, for Prometheus, such as 127.0.0.1:9417; takes the place of
    /// [metrics] listen.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    dashboard: Dashboard,
    #[command(flatten)]
    root: Root,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    if let Some(name) = &args.print_profile {
        output::text_alone(json, "--print-profile", "")?;
        let Some(profile) = profile::find(name) else {
            let message = format!("there is no profile \"{name}\": there are {}", profile::names());
            return Err(ExitError::new(ExitError::USAGE, message));
        };
        write!(output::stdout(), "{}", profile.text)?;
        return Ok(());
    }
    let dashboard = args.dashboard.open()?;
    let logging = run::log_to_standard_error()?;
    let tree = args.root.tree()?;
    let options = Options {
        config: args.config.clone(),
        policies: POLICIES,
        force: args.force,
        metrics: args.metrics,
        tree,
        set_log_level: run::set_level(&logging),
    };
    let daemon = Daemon::start(options)?;
    tracing::info!("control socket {}", daemon.socket_path().display());
    dashboard.show("governor", daemon.statistics())?;
    let (account, outcome) = daemon.run();
    drop(logging);
    let printed = run::print_account(&Stats::Governor(Box::new(account)), json);
    // A failure matters more than a reader who has gone.
    outcome?;
    printed
}

impl From<GovernError> for ExitError {
    fn from(error: GovernError) -> Self {
        let code = match error {
            GovernError::Config(error) => return error.into(),
            GovernError::Socket(error) => return error.into(),
            GovernError::Machine(TakeOverError::Session(error)) => return error.into(),
            GovernError::Machine(TakeOverError::Platform(_)) => Self::UNAVAILABLE,
            GovernError::Machine(TakeOverError::Watchdog(_) | TakeOverError::Unrestored(_)) => {
                Self::IO
            }
            GovernError::Nothing(_) => Self::CONFIG,
            GovernError::Policy(_) | GovernError::Machine(TakeOverError::Policy(_)) => Self::CONFIG,
            GovernError::Panicked => Self::SOFTWARE,
            GovernError::Source { ref source, .. } | GovernError::System { ref source, .. } => {
                match source.kind() {
                    ErrorKind::PermissionDenied => Self::NO_PERMISSION,
                    ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable => Self::CONFIG,
                    _ => Self::IO,
                }
            }
        };
        Self::new(code, error)
    }
}
