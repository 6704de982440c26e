//! `wattline league`: policies against each other and against the lower bound.

mod interrupted;

use crate::commands::envelope::league_error;
use crate::commands::overwrite::Overwrite;
use crate::commands::page_file;
use crate::commands::results;
use crate::commands::simulation;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;
use wattline::exit::ExitError;
use wattline::output::note;
use wattline::progress::Counted;
use wattline_league::{
    LeagueError, Plan, Results, Standing, Store, is_page, league, page, standings,
};

/// Name of the page.
const PAGE: &str = "index.html";
/// Number of pieces from which on a missing --out is pointed out.
const MANY: usize = 100;

/// League to play.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// League file (TOML); the built-in league by default. A file with `[tuning]` is tuned by itself.
    /// docs/reference/league-file.md has all fields.
    file: Option<PathBuf>,
    /// Run the built-in league that takes some minutes.
    #[arg(long)]
    quick: bool,
    /// Run the built-in league of rivals that are tuned first, each for each kind of traffic and latency
    /// budget. It takes an hour or more.
    #[arg(long, conflicts_with = "quick")]
    tuned: bool,
    /// Directory for the page, index.html, and partial results. The same command continues an
    /// interrupted league from them and replaces its page. Partial results of another build of the
    /// program are left alone, and played again. An index.html that is no league's is replaced only
    /// with --overwrite.
    #[arg(long)]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    /// Threads; 0 for one per core of this machine.
    #[arg(long, default_value = "0", value_parser = simulation::threads)]
    threads: usize,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "League")]
pub struct Output {
    #[serde(flatten)]
    results: Results,
    standings: Vec<Standing>,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let path = args.out.as_ref().map(|out| out.join(PAGE));
    let plan = match &args.file {
        Some(path) => {
            check_alone(args)?;
            Plan::load(path).map_err(league_error)?
        }
        None if args.quick => Plan::quick().map_err(league_error)?,
        None if args.tuned => Plan::tuned().map_err(league_error)?,
        None => Plan::full().map_err(league_error)?,
    };
    if let Some(path) = &path {
        // Checked before an hour of work. Its own page is replaced, since a league continues in the
        // same directory.
        let own = std::fs::read(path).is_ok_and(|text| is_page(&String::from_utf8_lossy(&text)));
        if !own {
            args.overwrite.check([path.as_path()])?;
        }
    }
    let store =
        Store::new(args.out.as_ref().map(|out| out.join("pieces"))).map_err(league_error)?;
    let pieces = league::pieces(&plan);
    let results = watched(args, (&plan, &store), pieces, |done| {
        league::play(&plan, &store, args.threads, done)
    })?;
    let page = page(&plan, &results, &results::command_line());
    let standings = standings(&results);
    let output = Output { results, standings };
    page_file::show((path.as_deref(), Overwrite::REPLACE), page, &output, json)
}

/// Refuses a file together with a built-in league.
fn check_alone(args: &Args) -> Result<(), ExitError> {
    let message = if args.tuned {
        "--tuned: is a built-in league and takes no file; a file with [tuning] is tuned by itself: \
         wattline league FILE"
    } else if args.quick {
        "--quick: is a built-in league and takes no file; one's own is: wattline league FILE"
    } else {
        return Ok(());
    };
    Err(ExitError::new(ExitError::USAGE, message))
}

/// Plays pieces with progress; after an interruption, prints the number of kept pieces.
fn watched<T>(
    args: &Args,
    (plan, store): (&Plan, &Store),
    pieces: usize,
    play: impl FnOnce(&(dyn Fn() + Sync)) -> Result<T, LeagueError>,
) -> Result<T, ExitError> {
    let Some(out) = &args.out else {
        if pieces >= MANY {
            note!("an interruption loses all {pieces} pieces; --out DIR keeps them");
        }
        let bar = Counted::new(pieces as u64, "pieces");
        let found = play(&|| bar.step());
        bar.end();
        return found.map_err(league_error);
    };
    let kept = || league::kept(plan, store);
    let before = kept().map_err(league_error)?;
    if before > 0 {
        note!("{before} of {pieces} pieces are in {} already", out.display());
    }
    let bar = Counted::new(pieces as u64, "pieces");
    let left = || {
        bar.end();
        let there = kept().map_or_else(
            |_| "the pieces that ended".into(),
            |kept| format!("{kept} of {pieces} pieces"),
        );
        format!("{there} are kept in {}; the same command goes on from there", out.display())
    };
    let found = interrupted::with_notice(left, || play(&|| bar.step()))?;
    bar.end();
    found.map_err(league_error)
}
