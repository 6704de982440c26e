//! `wattline reproduce`: recomputes the papers' figures and compares them with the printed ones.

use crate::commands::overwrite::Overwrite;
use crate::commands::results;
use crate::commands::simulation::simulation_error;
use serde::Deserialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use wattline::exit::ExitError;
use wattline::progress::Counted;
use wattline_report::Verdict;
use wattline_reproduce::{
    OwnTraffic, Paper, Progress, ReproduceError, Reproduction, Summary, Target,
};
use wattline_sim::SimError;
use wattline_units::Build;

/// Papers, and output.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Paper, such as powersave, or figure, such as powersave/fig12; all for all papers, as when
    /// none is given. Several with commas or blanks between them. Alone: published-watts.
    #[arg(value_name = "PAPER[/FIGURE]", value_delimiter = ',')]
    targets: Vec<String>,
    /// Directory for data (CSV), plots (SVG), summary.json and index.html; created if it does not
    /// exist. Files of an earlier run in it are replaced only with --overwrite.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Directory of published results, for published-watts.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Use this capture (pcap, pcapng) in figures that have traffic, at its length.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rates", "data"])]
    capture: Option<PathBuf>,
    /// Use these rates (columns time_seconds, rate_pps) in figures that have traffic.
    #[arg(long, value_name = "FILE.csv", conflicts_with = "data")]
    rates: Option<PathBuf>,
    /// Repeat the search for sets of unprinted parameters that the printed figures allow, and the
    /// variation of unprinted inputs, which takes hours. Without it, recorded results are used.
    #[arg(long, conflicts_with_all = ["capture", "rates", "data"])]
    fresh: bool,
    #[command(flatten)]
    overwrite: Overwrite,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    if args.targets.iter().any(|target| target == WATTS) {
        return watts(args, json);
    }
    if args.data.is_some() {
        return Err(ExitError::new(ExitError::USAGE, format!("--data: only {WATTS} takes it")));
    }
    let targets = targets(&args.targets)?;
    let own = match (&args.capture, &args.rates) {
        (Some(file), _) => Some(OwnTraffic::capture(file)),
        (None, file) => file.as_deref().map(OwnTraffic::rates),
    };
    let own = own.transpose().map_err(failed)?;
    let files = [args.out.join("index.html"), args.out.join("summary.json")];
    args.overwrite.check(files.iter().map(PathBuf::as_path))?;
    let wanted = |paper: &Paper| targets.iter().any(|it| it.paper == *paper && it.figure.is_none());
    if !Paper::ALL.iter().all(wanted) {
        check_build(&files[1])?;
    }
    let bar = Counted::new(wattline_reproduce::steps(&targets) as u64, "steps");
    // Several steps run at once; the running ones are named, the oldest first.
    let mut running: Vec<String> = Vec::new();
    let show = |progress: Progress<'_>| {
        match progress {
            Progress::Begins(step) => running.push(step.to_owned()),
            Progress::Ends(step) => {
                running.retain(|name| name != step);
                bar.step();
            }
        }
        bar.show(running.join(", "));
    };
    let results = match &own {
        Some(own) => wattline_reproduce::reproduce_own(&targets, own, show),
        None if args.fresh => wattline_reproduce::reproduce_fresh(&targets, show),
        None => wattline_reproduce::reproduce(&targets, show),
    };
    let results = results.map_err(failed)?;
    bar.end();
    let written =
        wattline_reproduce::write(&results, &args.out, &results::command_line()).map_err(failed);
    let is_there = written.is_ok();
    results::print_then_fail(written, &results, json, |out, results| {
        match own {
            Some(_) => writeln!(out, "Your own traffic: nothing is compared with the papers.")?,
            None => table(out, results)?,
        }
        match is_there {
            true => writeln!(out, "\n{}", args.out.join("index.html").display()),
            false => Ok(()),
        }
    })
}

/// Target that is not a paper.
const WATTS: &str = "published-watts";

/// Compares fits with published watts.
fn watts(args: &Args, json: bool) -> Result<(), ExitError> {
    let usage = |problem: String| ExitError::new(ExitError::USAGE, problem);
    if args.targets.len() > 1 {
        return Err(usage(format!("{WATTS}: cannot be combined with papers; name it alone")));
    }
    let Some(data) = &args.data else {
        return Err(usage(format!(
            "{WATTS}: --data is missing; give the directory of the results"
        )));
    };
    let page = args.out.join(format!("{WATTS}.html"));
    args.overwrite.check([page.as_path()])?;
    let figures = wattline_reproduce::published_watts(data).map_err(failed)?;
    let written = wattline_reproduce::write_watts(&figures, &args.out).map_err(failed);
    let is_there = written.is_ok();
    results::print_then_fail(written, &figures, json, |out, figures| {
        for figure in figures {
            writeln!(out, "{}: {}\n", figure.title, figure.about)?;
        }
        if is_there { writeln!(out, "{}", page.display()) } else { Ok(()) }
    })
}

/// The only key that is read from existing figures.
#[derive(Deserialize)]
struct Head {
    build: Option<Build>,
}

/// Refuses to add figures to those of another build.
fn check_build(summary: &Path) -> Result<(), ExitError> {
    let Ok(text) = wattline_files::read_text(summary, wattline_files::MOST_TEXT) else {
        return Ok(());
    };
    let there: Vec<Head> = serde_json::from_str(&text).unwrap_or_default();
    let own = Build::default();
    let Some(other) = there.iter().find(|head| head.build.as_ref() != Some(&own)) else {
        return Ok(());
    };
    let other =
        other.build.as_ref().map_or("an unnamed build".to_owned(), |it| format!("build {it}"));
    let message = format!(
        "{}: figures of {other}, and this is build {own}: name another directory, or reproduce all \
         papers",
        summary.display()
    );
    Err(ExitError::new(ExitError::DATA, message))
}

fn targets(names: &[String]) -> Result<Vec<Target>, ExitError> {
    if names.is_empty() {
        return Ok(Paper::ALL.map(Target::from).to_vec());
    }
    let (known, unknown): (Vec<_>, Vec<_>) =
        names.iter().map(|name| Target::named(name)).partition(Result::is_ok);
    let unknown: Vec<String> =
        unknown.into_iter().filter_map(Result::err).map(|error| error.to_string()).collect();
    if unknown.is_empty() {
        Ok(known.into_iter().flatten().flatten().collect())
    } else {
        Err(ExitError::new(ExitError::USAGE, unknown.join("\n")))
    }
}

fn failed(error: ReproduceError) -> ExitError {
    let code = match error {
        ReproduceError::Traffic(error) => return simulation_error(SimError::Source(error)),
        ReproduceError::Write { .. } => ExitError::IO,
        ReproduceError::NoTraffic { .. } => ExitError::USAGE,
        _ => ExitError::DATA,
    };
    ExitError::new(code, error)
}

/// Prints the number of each verdict, then all checks that do not meet, with the reason.
fn table(out: &mut impl Write, results: &[Reproduction]) -> std::io::Result<()> {
    let summary = Summary::new(results);
    writeln!(out, "{} {}\n", summary.headline(), summary.others())?;
    write!(out, "{:<12}{:>8}", "paper", "claims")?;
    for verdict in Verdict::ALL {
        write!(out, "  {}", verdict.text())?;
    }
    writeln!(out)?;
    for result in results {
        write!(out, "{:<12}{:>8}", result.paper.name(), result.claims.len())?;
        for verdict in Verdict::ALL {
            let width = verdict.text().len();
            write!(out, "  {:>width$}", result.count(verdict))?;
        }
        writeln!(out)?;
    }
    for result in results {
        let checks = result.figures.iter().flat_map(|f| f.checks.iter().map(move |c| (f.id, c)));
        for (figure, check) in checks.filter(|(_, check)| check.verdict != Verdict::Meets) {
            writeln!(
                out,
                "\n{} {figure}: {}: {} (published: {} {}): {}",
                result.paper.name(),
                check.quantity,
                check.ours,
                check.published,
                check.tolerance,
                check.verdict.text(),
            )?;
            if !check.note.is_empty() {
                writeln!(out, "    {}", check.note)?;
            }
        }
    }
    Ok(())
}
