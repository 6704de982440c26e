//! `wattline characterise`: Bolla's sweep of a router, and the model that follows from it.

use super::fit::{failed, print};
use super::simulation::{self, Problems};
use crate::commands::overwrite::Overwrite;
use crate::commands::results;
use serde_json::json;
use std::path::PathBuf;
use wattline::exit::ExitError;
use wattline::progress::Counted;
use wattline_reproduce::characterise::{Router, to_csv};
use wattline_server::Application;
use wattline_server::fit::{FitOptions, fit};
use wattline_units::{Accuracy, Source};

/// Router, and where to.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Server model: name of a shipped one or a file.
    #[arg(long, default_value = "westmere-2010")]
    server: String,
    /// Application that processes each packet: ipv4, netflow, ipsec or re.
    #[arg(long, default_value = "ipv4", value_parser = simulation::application)]
    app: Application,
    /// Length of the packets in bytes.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(64..=9000))]
    size: u16,
    /// Write the model as a server file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the measured rows, as `wattline fit` reads them.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Name of the written model.
    #[arg(long, default_value = "characterised")]
    name: String,
    /// Seed of the packets.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads; 0 for one per core of this machine.
    #[arg(long, default_value = "0", value_parser = simulation::threads)]
    threads: usize,
    #[command(flatten)]
    overwrite: Overwrite,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let files = [&args.out, &args.csv];
    args.overwrite.check(files.into_iter().flatten().map(PathBuf::as_path))?;
    let server = simulation::server(&args.server)?;
    let router =
        Router { server: &server, application: args.app, bytes: args.size, seed: args.seed };
    let data = |error| ExitError::new(ExitError::DATA, error);
    let bar = Counted::new(router.points().map_err(data)? as u64, "points");
    let rows = router.measure(args.threads, || bar.step()).map_err(data)?;
    bar.end();
    let fitted = fit(&rows, &FitOptions::default()).map_err(|error| failed(&server.name, error))?;
    let mut problems = Problems::default();
    if let Some(path) = &args.out {
        problems.keep(args.overwrite.write(path, &fitted.to_toml(&args.name, &args.server)));
    }
    if let Some(path) = &args.csv {
        problems.keep(args.overwrite.write(path, &to_csv(&rows)));
    }
    let power = json!({ "source": Source::Modelled, "accuracy": Accuracy::Learned });
    let document = json!({ "server": server.name, "fit": fitted, "power": power });
    results::print_beside(problems.check(), &document, json, |out, _| print(out, &fitted))
}
