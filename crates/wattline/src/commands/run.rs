//! `wattline run`: the router.

use super::dashboard::Dashboard;
use super::{block, stats};
use crate::applications::APPLICATIONS;
use crate::exit::ExitError;
use crate::platforms::PLATFORMS;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tracing::Level;
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use wattline_router::stats::Stats;
use wattline_router::{Extensions, Remedy, Router, RouterError};
use wattline_settings::LogLevel;

/// What this program adds to a router.
const EXTENSIONS: Extensions = Extensions { applications: APPLICATIONS, platforms: PLATFORMS };

/// What to run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration (TOML); `wattline config` prints every key.
    config: PathBuf,
    #[command(flatten)]
    dashboard: Dashboard,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let dashboard = args.dashboard.open()?;
    let level = log_to_standard_error();
    let set_level = move |new: LogLevel| level.store(new as u8, Ordering::Relaxed);
    block::at_start(&args.config);
    let router = Router::start(&args.config, EXTENSIONS, Box::new(set_level))?;
    tracing::info!("control socket {}", router.socket_path().display());
    let name = args.config.file_stem().unwrap_or_default().to_string_lossy();
    dashboard.show(&name, router.statistics())?;
    let (account, outcome) = router.run();
    let printed = print(&account, json);
    // What went wrong matters more than a reader who has gone.
    outcome.map_err(|error| ExitError::from(error).after_result())?;
    printed
}

fn print(account: &Stats, json: bool) -> Result<(), ExitError> {
    let mut out = std::io::stdout().lock();
    let account = serde_json::to_value(account).map_err(std::io::Error::from)?;
    if json {
        writeln!(out, "{account:#}")?;
    } else {
        stats::print(&account, &mut out)?;
    }
    Ok(())
}

/// Begins to log; the level can be changed at any time.
pub(super) fn log_to_standard_error() -> Arc<AtomicU8> {
    let level = Arc::new(AtomicU8::new(LogLevel::Info as u8));
    let shared = level.clone();
    // Dynamic, since the answer for one place in the code changes with a reload.
    let filter = dynamic_filter_fn(move |metadata, _| {
        let shown = match shared.load(Ordering::Relaxed) {
            0 => Level::ERROR,
            1 => Level::WARN,
            2 => Level::INFO,
            3 => Level::DEBUG,
            _ => Level::TRACE,
        };
        metadata.level() <= &shown
    });
    let subscriber = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(Level::TRACE)
        .with_target(false)
        .with_ansi(false)
        .finish()
        .with(filter);
    // Only a test that runs two commands in one process could have set one before.
    let _ = tracing::subscriber::set_global_default(subscriber);
    level
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
