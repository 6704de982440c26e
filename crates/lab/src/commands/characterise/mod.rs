//! `wattline characterise`: Bolla's sweep of a router, and the fitted model.

mod live;
mod scale;

use super::fit::{FitFile, failed, note, print};
use super::simulation::{self, Problems};
use crate::commands::overwrite::Overwrite;
use crate::commands::results;
use serde_json::json;
use std::path::PathBuf;
use wattline::exit::ExitError;
use wattline::progress::Counted;
use wattline_reproduce::characterise::{Grid, Router, to_csv};
use wattline_server::Application;
use wattline_study::fit::{FitOptions, Row, fit};
use wattline_units::{Accuracy, Source};

/// Router, and output files.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Server model: name of a shipped one or a file.
    #[arg(long, default_value = "westmere-2010")]
    server: String,
    /// Platform of the router.
    #[arg(long, value_enum, default_value_t = On::Sim)]
    on: On,
    /// Application that processes each packet: ipv4, netflow, ipsec or re.
    #[arg(long, default_value = "ipv4", value_parser = simulation::application)]
    app: Application,
    /// Length of the packets in bytes.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(64..=9000))]
    size: u16,
    /// Write the model as a server file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Model, by name or file, from which the written file borrows figures that rows cannot give.
    #[arg(long, value_name = "NAME", requires = "out")]
    like: Option<String>,
    /// Write the simulated or emulated rows, as `wattline fit` reads them.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Name of the written model.
    #[arg(long, default_value = "characterised")]
    name: String,
    /// Seed of the packets.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads of simulations; 0 for one per core of this machine.
    #[arg(long, default_value = "0", value_parser = simulation::threads)]
    threads: usize,
    #[command(flatten)]
    live: live::Options,
    #[command(flatten)]
    overwrite: Overwrite,
}

/// Platform of the router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum On {
    /// The simulator: all frequencies and most numbers of cores.
    Sim,
    /// The emulated server: three frequencies and numbers of cores, minutes on an idle machine.
    Scale,
    /// A machine with a meter whose running router or governor holds the points.
    Host,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let files = [&args.out, &args.csv];
    args.overwrite.check(files.into_iter().flatten().map(PathBuf::as_path))?;
    let (name, rows, power) = if args.on == On::Host {
        let (rows, power) = live::measure(&args.live)?;
        ("this machine".to_owned(), rows, power)
    } else {
        let server = simulation::server(&args.server)?;
        let router =
            Router { server: &server, application: args.app, bytes: args.size, seed: args.seed };
        let (rows, power) = measure(args, &router)?;
        (server.name, rows, power)
    };
    let mut problems = Problems::default();
    if let Some(path) = &args.csv {
        // Written before the fit, which may fail, since the rows took long.
        problems.keep(args.overwrite.write(path, &to_csv(&rows)));
    }
    let fitted = fit(&rows, &FitOptions::default()).map_err(|error| failed(&name, error))?;
    let source = match args.on {
        On::Host => "this machine by characterise --on host".to_owned(),
        On::Sim | On::Scale => format!("the {power} router {}", args.server),
    };
    let packets = (args.app, u32::from(args.size));
    let file_of =
        FitFile { name: &args.name, source: &source, like: args.like.as_deref(), packets };
    let completed = file_of.complete(&fitted)?;
    if let Some(path) = &args.out {
        problems.keep(args.overwrite.write(path, &file_of.text(&fitted, completed.as_ref())));
    }
    let power = json!({ "source": power, "accuracy": Accuracy::Learned });
    let mut document = json!({ "server": name, "fit": fitted, "power": power });
    note(&mut document, completed.as_ref());
    results::print_then_fail(problems.check(), &document, json, |out, _| {
        print(out, &fitted, completed.as_ref())
    })
}

/// Measures a router; also returns the source of the watts.
fn measure(args: &Args, router: &Router<'_>) -> Result<(Vec<Row>, Source), ExitError> {
    let data = |error| ExitError::new(ExitError::DATA, error);
    let begin = |grid| {
        let points = router.points(grid).map_err(data)?;
        Ok::<_, ExitError>(Counted::new(points.len() as u64, "points"))
    };
    let (bar, rows, power) = match args.on {
        On::Sim => {
            let bar = begin(Grid::Fine)?;
            let rows = router.measure(args.threads, || bar.step()).map_err(data);
            (bar, rows, Source::Modelled)
        }
        On::Scale | On::Host => {
            let bar = begin(Grid::Coarse)?;
            let busy = |error| ExitError::new(ExitError::UNAVAILABLE, error);
            let rows = scale::measure(router, || bar.step()).map_err(busy);
            (bar, rows, Source::Emulated)
        }
    };
    bar.end();
    Ok((rows?, power))
}
