//! `wattline trial`: does B draw less power than A on this machine?

use super::duration;
use super::meter::unavailable;
use super::plan::of_machine;
use super::root::Root;
use crate::exit::ExitError;
use crate::output::{self, note};
use crate::progress::Counted;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::io::{ErrorKind, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tracing::Level;
use wattline_daemon::logging::{self, Logging};
use wattline_govern::config::Config;
use wattline_govern::trial::{
    Comparison, Course, Design, Estimate, Experiment, Figure, LEAST_PAIRS, Limits, METHOD, Means,
    Meter, Passed, Progress, Setting, SettingFile, State, estimate,
};
use wattline_govern::{Block, NONE, profile, without_address};
use wattline_host::PowerPlan;
use wattline_linux::sysfs::Tree;
use wattline_meters::{Counter, Timing, disjoint};
use wattline_policies::POLICIES;
use wattline_report::columns::{Columns, number, text};
use wattline_units::Span;

/// Readings of a block; at least one a second.
const READINGS: f64 = 8.0;
/// A signal is honoured within this time.
const POLL_PERIOD: Duration = Duration::from_millis(50);
/// Length of a recording, in blocks.
const RECORDED_BLOCKS: f64 = 6.0;
/// Allowed lengths of a block, and the message for others.
pub(super) const BLOCKS: RangeInclusive<Span> =
    Span::from_millis(2_000)..=Span::from_millis(86_400_000);
pub(super) const BLOCK_BOUNDS: &str = "--block: from 2s to 24h";
/// Share of the power that `--plan` refers to.
const SHARE: f64 = 0.01;

/// Settings to compare, and the duration.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The first setting: none (the machine as it is), a profile (balanced, latency, max-save,
    /// router), a configuration of `wattline govern` or a file of commands.
    a: String,
    /// The second setting.
    b: String,
    /// Length of a block. Its first quarter, in which meter and governor settle, does not count.
    #[arg(long, value_name = "TIME", default_value = "3min", value_parser = duration::parse)]
    block: Span,
    /// Pairs of blocks, from 8 on.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pairs: u16,
    /// Record six blocks under A, and estimate how many pairs show a difference of 1 %.
    #[arg(long, conflicts_with = "out")]
    plan: bool,
    /// Store the trial in this file after each pair. The same command continues an interrupted one.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// End if some task waits for a CPU for more than this share of ten seconds.
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    pressure_limit: f64,
    /// End if the 99th percentile of a latency source of A or B is longer for ten seconds.
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    latency_limit: Option<Span>,
    /// Counter of work: prometheus:URL#QUERY.
    #[arg(long, value_name = "METER")]
    work: Option<String>,
    #[command(flatten)]
    root: Root,
}

/// Result, as `--json` prints it.
#[derive(Serialize)]
struct Output {
    #[serde(flatten)]
    design: Design,
    washout_seconds: f64,
    void_blocks: u32,
    #[serde(flatten)]
    difference: Difference,
    method: &'static str,
    work: Option<Figure>,
    at_equal_work: bool,
    #[serde(flatten)]
    meter: Meter,
    means: ByLetter,
    troubles: Vec<String>,
}

#[derive(Serialize)]
struct Difference {
    difference_shown: bool,
    difference_watts: f64,
    difference_lower_watts: f64,
    difference_upper_watts: f64,
    hidden_watts: f64,
}

#[derive(Serialize)]
struct ByLetter {
    a: Means,
    b: Means,
}

/// Result of `--plan`.
#[derive(Serialize)]
struct Planned {
    #[serde(flatten)]
    estimate: Estimate,
    #[serde(flatten)]
    meter: Meter,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let tree = args.root.tree()?;
    let trial = Trial::prepare(args, tree)?;
    let logging = logging::start(Level::WARN)
        .map_err(|error| ExitError::new(ExitError::IO, format!("cannot begin to log: {error}")))?;
    if args.plan {
        let planned = trial.plan(&logging)?;
        return output::print(&planned, json, |out, it| print_plan(out, it, &trial.design));
    }
    let (experiment, troubles) = trial.run(args.out.as_deref(), &logging)?;
    let Comparison { power, work, at_equal_work } =
        experiment.result().map_err(|error| ExitError::new(ExitError::DATA, error))?;
    let output = Output {
        washout_seconds: experiment.design.washout_seconds(),
        void_blocks: experiment.void_blocks,
        difference: Difference {
            difference_shown: power.is_shown(),
            difference_watts: power.watts,
            difference_lower_watts: power.lower_watts,
            difference_upper_watts: power.upper_watts,
            hidden_watts: power.hidden_watts(),
        },
        method: METHOD,
        work,
        at_equal_work,
        meter: experiment.meter.clone().unwrap_or_default(),
        means: ByLetter { a: experiment.means(Setting::A), b: experiment.means(Setting::B) },
        troubles,
        design: experiment.design,
    };
    output::print(&output, json, |out, output| print(out, output, &power.to_string()))
}

/// A trial that can begin.
struct Trial {
    tree: Tree,
    design: Design,
    limits: Limits,
    a: Side,
    b: Side,
    counter: Option<Counter>,
    stop: Arc<AtomicBool>,
}

/// One of the two settings: a governor's configuration, and commands.
struct Side {
    config: Config,
    commands: Option<SettingFile>,
    /// Text of the file of commands.
    text: String,
}

impl Trial {
    /// Reads the settings, and finds a meter.
    fn prepare(args: &Args, tree: Tree) -> Result<Self, ExitError> {
        let usage = |message: &str| ExitError::new(ExitError::USAGE, message);
        if !BLOCKS.contains(&args.block) {
            return Err(usage(BLOCK_BOUNDS));
        }
        if usize::from(args.pairs) < LEAST_PAIRS {
            return Err(usage(&format!("--pairs: {LEAST_PAIRS} or more; fewer show nothing")));
        }
        if !(args.pressure_limit > 0.0 && args.pressure_limit <= 1.0) {
            return Err(usage("--pressure-limit: a share above 0 and up to 1, such as 0.5"));
        }
        let (mut a, mut b) = (setting(&args.a)?, setting(&args.b)?);
        // The latency of both is observed, whichever configuration names the source.
        if a.config.latency.is_empty() {
            a.config.latency.clone_from(&b.config.latency);
        } else if b.config.latency.is_empty() {
            b.config.latency.clone_from(&a.config.latency);
        }
        if args.latency_limit.is_some() && a.config.latency.is_empty() {
            return Err(usage(
                "--latency-limit: neither A nor B has a source of latency; add a section \
                 [[latency]] to a configuration",
            ));
        }
        check_meters(&tree, args.block)?;
        let counter = args.work.as_deref().map(Counter::open).transpose();
        let counter = counter
            .map_err(|why| ExitError::new(ExitError::UNAVAILABLE, format!("--work: {why}")))?;
        let plans = [plan(&a.config, &tree)?, plan(&b.config, &tree)?];
        for rival in plans.iter().flat_map(|plan| &plan.rivals) {
            note!(
                "wattline: {} also sets {}; to stop that: {}",
                rival.name,
                rival.sets,
                rival.remedy
            );
        }
        let writes = |plan: &PowerPlan| !plan.at_start.is_empty() || !plan.later.is_empty();
        let commands = a.commands.is_some() || b.commands.is_some();
        if a.config != b.config && !commands && !plans.iter().any(writes) {
            let message = format!(
                "neither {} nor {} writes anything on this machine, so that there is nothing to compare: \
                 `wattline plan --govern` says why",
                args.a, args.b
            );
            return Err(ExitError::new(ExitError::UNAVAILABLE, message));
        }
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
        let mut versions = versions(&tree);
        for (side, name) in [(&mut a, &args.a), (&mut b, &args.b)] {
            let Some(commands) = &mut side.commands else { continue };
            let found = commands
                .prepare()
                .map_err(|why| ExitError::new(ExitError::UNAVAILABLE, format!("{name}: {why}")))?;
            versions.extend(found);
        }
        versions.dedup();
        let design = Design {
            a: name(&args.a),
            b: name(&args.b),
            settings: fingerprint(&[&a, &b], args.work.as_deref()),
            versions,
            counter: args.work.as_deref().map(|name| without_address(name).to_owned()),
            pairs: args.pairs.into(),
            block_seconds: args.block.as_seconds(),
        };
        let limits = Limits {
            pressure: args.pressure_limit,
            latency_seconds: args.latency_limit.map(Span::as_seconds),
        };
        Ok(Self { tree, design, limits, a, b, counter, stop })
    }

    /// Records under A, and estimates the number of pairs.
    fn plan(&self, _logging: &Logging) -> Result<Planned, ExitError> {
        let block_seconds = RECORDED_BLOCKS * self.design.block_seconds;
        let recording = Design { block_seconds, ..self.design.clone() };
        let ended = self.block(Setting::A, &recording)?;
        let estimate = estimate(&ended.course, &self.design, SHARE);
        let no_power = || {
            let why = "the meter gave no power for long enough (`wattline meter read`)";
            ExitError::new(ExitError::UNAVAILABLE, why)
        };
        Ok(Planned { estimate: estimate.ok_or_else(no_power)?, meter: ended.meter })
    }

    /// Runs all missing blocks. Returns the trial, and problems that were reported during it.
    fn run(
        &self,
        out: Option<&Path>,
        _logging: &Logging,
    ) -> Result<(Experiment, Vec<String>), ExitError> {
        let mut experiment = match out {
            Some(path) => stored(path, &self.design)?,
            None => None,
        }
        .unwrap_or_else(|| Experiment::new(self.design.clone(), seed()));
        // Finds out now, not after hours, that the file cannot be written.
        store(out, &experiment)?;
        let bar = Counted::new(self.design.pairs as u64, "pairs of blocks");
        (0..experiment.pairs()).for_each(|_| bar.step());
        let mut troubles = Vec::new();
        while let Some(setting) = experiment.next() {
            let ended = self.block(setting, &self.design);
            let Ended { course, meter, suspended, troubles: new } = ended.inspect_err(|_| {
                bar.end();
                let (done, of) = (experiment.pairs(), self.design.pairs);
                let more = out.map_or("", |_| "; the same command continues the trial");
                note!("wattline: {done} of {of} pairs are complete{more}");
            })?;
            troubles.extend(new);
            let means = course.means(&self.design).filter(|_| !suspended);
            match experiment.finish(means.map(|means| (means, meter))) {
                Progress::Pair => {
                    bar.step();
                    store(out, &experiment)?;
                }
                Progress::HalfPair => {}
                Progress::Repeats => {
                    note!(
                        "wattline: a block is void, because its meters had no power for most of it or \
                         were others than before, or the machine was suspended; its pair is repeated"
                    );
                }
                Progress::GivesUp => {
                    bar.end();
                    let why = "three blocks in a row have no power by the meters of the first \
                               (`wattline meter read` says why); the machine is as before";
                    return Err(ExitError::new(ExitError::UNAVAILABLE, why));
                }
            }
        }
        bar.end();
        troubles.sort();
        troubles.dedup();
        Ok((experiment, troubles))
    }

    /// Runs a block, and always restores the machine.
    fn block(&self, setting: Setting, design: &Design) -> Result<Ended, ExitError> {
        let (side, name) = match setting {
            Setting::A => (&self.a, &design.a),
            Setting::B => (&self.b, &design.b),
        };
        let failed = |why: String| ExitError::new(ExitError::DATA, format!("{name}: {why}"));
        let Some(file) = &side.commands else {
            return self.governed(setting, &side.config, design);
        };
        let mut force = file.enter(&self.tree, &self.stop).map_err(failed)?;
        let ended = self.governed(setting, &side.config, design);
        let checked = if ended.is_ok() { force.check().map_err(failed) } else { Ok(()) };
        // A machine left changed matters more than the cause of the end.
        force.leave().map_err(failed)?;
        checked.and(ended)
    }

    /// Runs a block under a governor, which may only measure.
    fn governed(
        &self,
        setting: Setting,
        config: &Config,
        design: &Design,
    ) -> Result<Ended, ExitError> {
        let mut block = Block::begin(config, &self.tree)?;
        let mut course = Course::default();
        let state = self.observe(&mut block, &mut course, design);
        let ended = Ended {
            course,
            meter: block.meter().clone(),
            suspended: block.was_suspended(),
            troubles: block.troubles(),
        };
        // A machine left changed matters more than the cause of the end.
        block.end()?;
        match state? {
            State::Passed(passed) => Err(limit_error(setting, passed)),
            State::GoesOn => {
                let message = "interrupted by a signal; the machine is as before";
                Err(ExitError::new(128 + 2, message))
            }
            State::Over => Ok(ended),
        }
    }

    /// Reads a block until it ends; continues if a signal came.
    fn observe(
        &self,
        block: &mut Block,
        course: &mut Course,
        design: &Design,
    ) -> Result<State, ExitError> {
        let period = Duration::from_secs_f64((self.design.block_seconds / READINGS).min(1.0));
        let mut due = Instant::now();
        loop {
            let mut reading = block.read()?;
            // If the server does not answer, the block has no measure of work.
            if let Some(Ok(value)) = self.counter.as_ref().map(Counter::value) {
                reading.integrals.insert(Figure::Counter, value);
            }
            let state = course.take(reading, design, self.limits);
            if self.limits.latency_seconds.is_some() && block.is_silent() {
                let message = "no source shows whether --latency-limit is kept (`wattline stats` of a \
                               governor with these [[latency]] sections says why); the trial ends, and \
                               the machine is as before";
                return Err(ExitError::new(ExitError::DATA, message));
            }
            if state != State::GoesOn {
                return Ok(state);
            }
            due += period;
            while Instant::now() < due {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(State::GoesOn);
                }
                std::thread::sleep(POLL_PERIOD.min(due.saturating_duration_since(Instant::now())));
            }
        }
    }
}

/// A block that has ended.
struct Ended {
    course: Course,
    meter: Meter,
    suspended: bool,
    troubles: Vec<String>,
}

/// Reads a setting.
fn setting(text: &str) -> Result<Side, ExitError> {
    let governed = |config| Ok(Side { config, commands: None, text: String::new() });
    if text == NONE {
        return governed(Config::none());
    }
    let of_config = |problems| ExitError::new(ExitError::CONFIG, problems);
    if let Some(profile) = profile::find(text) {
        return governed(Config::parse(profile.text, profile.name, POLICIES).map_err(of_config)?);
    }
    let path = Path::new(text);
    if !path.exists() {
        let names = profile::names();
        let message = format!(
            "{text}: neither \"{NONE}\" nor a profile ({names}), and no file: give one of these"
        );
        return Err(ExitError::new(ExitError::NO_INPUT, message));
    }
    let content = wattline_files::read_text(path, wattline_files::MOST_TEXT)
        .map_err(|error| ExitError::no_input(path, &error))?;
    let parsed = SettingFile::parse(&content)
        .map_err(|why| ExitError::new(ExitError::CONFIG, format!("{text}: [setting]: {why}")))?;
    if let Some((commands, rest)) = parsed {
        let config = Config::parse(&rest, text, POLICIES).map_err(of_config)?;
        return Ok(Side { config, commands: Some(commands), text: content });
    }
    let config = Config::load(path, POLICIES)?;
    output::write_notes(&config.notes);
    governed(config)
}

/// Finds a meter, and refuses blocks that are too short for it.
fn check_meters(tree: &Tree, block: Span) -> Result<(), ExitError> {
    let survey = wattline_meters::survey(tree);
    let chosen = disjoint(survey.meters.iter().map(|meter| meter.description()));
    if chosen.is_empty() {
        return Err(unavailable(&survey.missing));
    }
    for meter in &survey.meters {
        let (Timing { period, lag }, id) = (meter.timing(), &meter.description().id);
        // The washout covers the meter's lag, and the remaining readings suffice.
        let (period, lag) = (period.as_seconds(), lag.as_seconds());
        let least = (4.0 * (period + lag)).max(7.0 * period);
        if block.as_seconds() < least && chosen.iter().any(|one| one.id == *id) {
            let message = format!(
                "--block: {id} has a figure every {period} s, {lag} s late: blocks of {least} s at \
                 least, or state its true period and lag in /etc/wattline/meters.toml"
            );
            return Err(ExitError::new(ExitError::USAGE, message));
        }
    }
    Ok(())
}

/// Returns the versions of this program and of the kernel.
fn versions(tree: &Tree) -> Vec<String> {
    let own = format!("wattline {}", env!("CARGO_PKG_VERSION"));
    let kernel = tree.text("/proc/sys/kernel/osrelease").map(|release| format!("Linux {release}"));
    [own].into_iter().chain(kernel.ok()).collect()
}

/// Returns the writes that the governor would make under a setting.
fn plan(config: &Config, tree: &Tree) -> Result<PowerPlan, ExitError> {
    Ok(wattline_govern::plan(config, tree).map_err(of_machine)?.plan)
}

/// Returns the name of a setting for reports, without its path, which may identify the machine's
/// owner.
fn name(setting: &str) -> String {
    let file = Path::new(setting).file_name();
    file.map_or(setting.into(), |name| name.to_string_lossy().into_owned())
}

/// Returns a number that differs if a setting or the counter of work does.
fn fingerprint(settings: &[&Side], work: Option<&str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    work.hash(&mut hasher);
    settings.iter().for_each(|side| format!("{:?}{}", side.config, side.text).hash(&mut hasher));
    hasher.finish()
}

/// Returns an unpredictable seed.
fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Returns the trial in a file; `None` if there is none.
fn stored(path: &Path, design: &Design) -> Result<Option<Experiment>, ExitError> {
    let shown = path.display();
    let text = match wattline_files::read_text(path, wattline_files::MOST_TEXT) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ExitError::no_input(path, &error)),
    };
    let experiment: Experiment = serde_json::from_str(&text).map_err(|error| {
        let message = format!("{shown}: no trial: {error}; remove it or name another file");
        ExitError::new(ExitError::DATA, message)
    })?;
    if experiment.design != *design {
        let Design { a, b, pairs, block_seconds, .. } = &experiment.design;
        let message = format!(
            "{shown}: another trial ({a} against {b}, {pairs} pairs of blocks of {block_seconds} s), or \
             of settings that have changed: remove it or name another file"
        );
        return Err(ExitError::new(ExitError::DATA, message));
    }
    Ok(Some(experiment))
}

fn store(out: Option<&Path>, experiment: &Experiment) -> Result<(), ExitError> {
    let Some(path) = out else { return Ok(()) };
    let text = serde_json::to_string_pretty(experiment).map_err(std::io::Error::from)?;
    wattline_files::replace(path, text.as_bytes())
        .map_err(|error| ExitError::new(ExitError::IO, format!("{}: {error}", path.display())))
}

fn limit_error(setting: Setting, passed: Passed) -> ExitError {
    let Passed { figure, mean, limit } = passed;
    let option = match figure {
        Figure::Latency => "--latency-limit",
        _ => "--pressure-limit",
    };
    let (name, shown) = row(figure);
    let message = format!(
        "{name} was {} under {setting:?} in the last seconds, above {option} {}; the trial ends, and the \
         machine is as before",
        shown(mean),
        shown(limit),
    );
    ExitError::new(ExitError::DATA, message)
}

fn print_plan(out: &mut impl Write, planned: &Planned, design: &Design) -> std::io::Result<()> {
    let Estimate { power_watts, half_width_watts, pairs, duration_seconds } = planned.estimate;
    writeln!(
        out,
        "{power_watts:.2} W under A: an interval of {half_width_watts:.2} W (1 %) on either side takes \
         about {pairs} pairs of blocks of {} s, {}",
        design.block_seconds,
        hours(duration_seconds)
    )?;
    writeln!(out, "{}", provenance(&planned.meter))
}

fn hours(seconds: f64) -> String {
    let minutes = (seconds / 60.0).ceil();
    if minutes < 120.0 { format!("{minutes:.0} min") } else { format!("{:.1} h", minutes / 60.0) }
}

fn provenance(meter: &Meter) -> String {
    let Meter { sensors, source, accuracy } = meter;
    format!("watts: {source}, {accuracy}, by {}", sensors.join(", "))
}

fn print(out: &mut impl Write, output: &Output, verdict: &str) -> std::io::Result<()> {
    let Output { design, means, .. } = output;
    let Design { a, b, versions, pairs, block_seconds, .. } = design;
    writeln!(out, "A: {a}\nB: {b}\nversions: {}", versions.join(", "))?;
    writeln!(
        out,
        "{pairs} pairs of blocks of {block_seconds} s, the first {} s of each left out; {} blocks void",
        output.washout_seconds, output.void_blocks
    )?;
    let equal = match (output.at_equal_work, output.work) {
        (true, Some(work)) => format!("at equal work ({})", row(work).0),
        (_, Some(work)) => {
            let work = row(work).0;
            format!("NOT at equal work: the {work} follow the setting, see below")
        }
        _ => "over the whole time, as nothing counts the work".to_owned(),
    };
    writeln!(out, "\n{verdict}, {equal}")?;
    let percent = |watts: f64| 100.0 * watts / means.a.power_watts;
    let difference = &output.difference;
    if difference.difference_shown {
        writeln!(out, "{:+.1} % of A's power", percent(difference.difference_watts))?;
    } else if difference.hidden_watts.is_finite() {
        writeln!(out, "{:.1} % of A's power", percent(difference.hidden_watts))?;
    }
    writeln!(out, "method: {}", output.method)?;
    writeln!(out, "{}\n", provenance(&output.meter))?;
    let mut table = Columns::new([text("mean of all blocks"), number("A"), number("B")]);
    let watts = |watts: f64| format!("{watts:.2} W");
    table.row(["power".to_owned(), watts(means.a.power_watts), watts(means.b.power_watts)]);
    for (figure, in_a) in &means.a.figures {
        let (name, shown) = row(*figure);
        let in_b = means.b.figures.get(figure).map_or("-".to_owned(), |value| shown(*value));
        table.row([name.to_owned(), shown(*in_a), in_b]);
    }
    write!(out, "{table}")?;
    output.troubles.iter().try_for_each(|trouble| writeln!(out, "meanwhile: {trouble}"))
}

/// Returns a figure's name, and the formatter of its value with the unit.
fn row(figure: Figure) -> (&'static str, fn(f64) -> String) {
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let watts = |watts: f64| format!("{watts:.2} W");
    let gigahertz = |hertz: f64| format!("{:.3} GHz", hertz / 1e9);
    match figure {
        Figure::Counter => ("work by --work", |rate| format!("{rate:.1}/s")),
        Figure::Requests => ("requests", |rate| format!("{rate:.1}/s")),
        Figure::Packets => ("packets", |rate| format!("{rate:.1}/s")),
        Figure::BusyHertz => ("cycles of busy CPUs", gigahertz),
        Figure::BusyCpus => ("busy CPUs", |cpus| format!("{cpus:.3}")),
        Figure::Latency => ("latency (p99)", |seconds| format!("{:.3} ms", seconds * 1e3)),
        Figure::Pressure => ("CPU pressure", percent),
        Figure::RunQueueDelay => ("run-queue delay", percent),
        Figure::Softirq => ("CPUs in soft interrupts", |cpus| format!("{cpus:.3}")),
        Figure::Frequency => ("frequency", gigahertz),
        Figure::DeepestIdle => ("deepest idle state", percent),
        Figure::PackagePower => ("packages", watts),
        Figure::MemoryPower => ("memory", watts),
    }
}
