//! `wattline run`: the router.

use super::ask::print_json;
use super::dashboard::Dashboard;
use super::{block, stats};
use crate::applications::{self, APPLICATIONS};
use crate::exit::ExitError;
use crate::platforms::PLATFORMS;
use crate::{laboratory, output};
use std::path::PathBuf;
use tracing::Level;
use wattline_daemon::logging::{self, Logging};
use wattline_daemon::settings::LogLevel;
use wattline_policies::POLICIES;
use wattline_router::config::PowerPlatform;
use wattline_router::platform::Platforms;
use wattline_router::{Extensions, Remedy, Router, RouterError};
use wattline_status::{Build, Stats};

/// Configuration to run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration (TOML); `wattline config` prints every key.
    config: PathBuf,
    #[command(flatten)]
    dashboard: Dashboard,
}

/// Runs the command. A router with platform `scale` belongs to the laboratory.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let config = applications::load(&args.config);
    if config.is_ok_and(|config| config.power.platform == PowerPlatform::Scale) {
        return Err(laboratory::hand_over("[power] platform = \"scale\""));
    }
    run_on(args, json, PLATFORMS)
}

/// Like [`run`], with these platforms, until the router is asked to stop.
///
/// # Errors
/// When the router cannot start, or has failed.
pub fn run_on(args: &Args, json: bool, platforms: Platforms) -> Result<(), ExitError> {
    let extensions = Extensions { applications: APPLICATIONS, platforms, policies: POLICIES };
    let dashboard = args.dashboard.open()?;
    let logging = log_to_standard_error()?;
    block::at_start(&args.config);
    let router = Router::start(&args.config, extensions, set_level(&logging))?;
    tracing::info!("control socket {}", router.socket_path().display());
    let name = args.config.file_stem().unwrap_or_default().to_string_lossy();
    dashboard.show(&name, router.statistics())?;
    let (account, outcome) = router.run();
    drop(logging);
    let printed = print_account(&Stats::Router(Box::new(account)), json);
    // A failure matters more than a reader who has gone.
    outcome.map_err(|error| ExitError::from(error).after_result())?;
    printed
}

/// Prints the last statistics of a daemon.
pub(super) fn print_account(account: &Stats, json: bool) -> Result<(), ExitError> {
    output::print_within(|out| match json {
        true => print_json(out, account),
        false => stats::print(account, out),
    })
}

/// Starts logging to standard error, with the build of this program.
///
/// # Errors
/// Fails if standard error cannot be written.
pub fn log_to_standard_error() -> Result<Logging, ExitError> {
    let failed =
        |error| ExitError::new(ExitError::IO, format_args!("cannot begin to log: {error}"));
    let logging = logging::start(Level::INFO).map_err(failed)?;
    tracing::info!("wattline {}", Build::default());
    Ok(logging)
}

/// Returns the function that sets the log level from that of a configuration.
pub(super) fn set_level(logging: &Logging) -> Box<dyn Fn(LogLevel)> {
    let set = logging.set_level();
    Box::new(move |level| {
        set(match level {
            LogLevel::Error => Level::ERROR,
            LogLevel::Warn => Level::WARN,
            LogLevel::Info => Level::INFO,
            LogLevel::Debug => Level::DEBUG,
            LogLevel::Trace => Level::TRACE,
        });
    })
}

impl From<RouterError> for ExitError {
    fn from(error: RouterError) -> Self {
        let code = match error.remedy() {
            Remedy::Config => Self::CONFIG,
            Remedy::Input => Self::NO_INPUT,
            Remedy::Data => Self::DATA,
            Remedy::Permission => Self::NO_PERMISSION,
            Remedy::Machine => Self::UNAVAILABLE,
            Remedy::System => Self::IO,
            Remedy::Defect => Self::SOFTWARE,
        };
        Self::new(code, error)
    }
}
