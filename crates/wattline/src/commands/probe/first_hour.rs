//! `wattline probe --first-hour`: the data for a first report from a machine, in one archive.

use super::place::Place;
use super::record::fill;
use crate::commands::restore::verdict;
use crate::commands::root::Root;
use crate::commands::trial;
use crate::exit::ExitError;
use crate::output::note;
use crate::program::ENDS_WITH_INPUT;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use wattline_host::OWN_PROGRAM;
use wattline_knobs::{Bounded, Machine, restore_now};
use wattline_linux::sysfs::Tree;
use wattline_units::Span;

/// A signal is honoured within this time.
const POLL_PERIOD: Duration = Duration::from_millis(50);
/// Signals that end the report.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
/// Pairs of blocks of the trial: the minimum that shows anything.
const PAIRS: u32 = wattline_govern::trial::LEAST_PAIRS as u32;
/// Limit of the messages kept of a step, in bytes.
const MESSAGES: usize = 16_384;

/// The report of an hour.
#[derive(Serialize)]
pub struct FirstHour {
    pub files: usize,
    pub steps: Vec<Step>,
}

impl FirstHour {
    /// Returns the error of the first failed step, by its exit code.
    pub fn verdict(&self) -> Result<(), ExitError> {
        let failed: Vec<&Step> =
            self.steps.iter().filter(|step| step.exit_code != Some(0)).collect();
        let Some(first) = failed.first() else { return Ok(()) };
        let commands: Vec<&str> = failed.iter().map(|step| &*step.command).collect();
        let code = first.exit_code.and_then(|code| u8::try_from(code).ok());
        let message = format!(
            "the report is written, but {} of {} steps were not done ({}); first-hour/steps.json in it \
             says why",
            failed.len(),
            self.steps.len(),
            commands.join("; ")
        );
        Err(ExitError::new(code.unwrap_or(ExitError::IO), message).after_result())
    }
}

/// A command that was run.
#[derive(Serialize)]
pub struct Step {
    pub command: String,
    /// File of its standard output.
    pub file: &'static str,
    /// 0 for success, as for every command; `None` if a signal ended it.
    pub exit_code: Option<i32>,
    pub seconds: f64,
    /// Its standard error.
    pub messages: String,
}

/// Records the machine, its idle power and a short trial into a new archive or folder. Nothing is
/// stored before the end: after an interruption the report starts from the beginning.
///
/// # Errors
/// Fails if the place is taken or cannot be written, if another process changes settings, or if a
/// signal ends it. A failed step is part of the report.
pub fn run(place: &Path, block: Span, root: &Root) -> Result<FirstHour, ExitError> {
    if !trial::BLOCKS.contains(&block) {
        return Err(ExitError::new(ExitError::USAGE, trial::BLOCK_BOUNDS));
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in SIGNALS {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let tree = root.tree()?;
    Place::filled(place, |place| {
        restore(&tree, root)?;
        let recorded = fill(&tree, place);
        let mut steps = Vec::new();
        for (file, command) in commands(block) {
            note!("wattline: {command}");
            let (step, output) = run_step(file, command, root, &stop)?;
            if step.exit_code != Some(0) {
                note!("wattline: not done; the report says why");
            }
            place.put(&Path::new("first-hour").join(file), &output);
            steps.push(step);
        }
        let text = serde_json::to_string_pretty(&steps).map_err(std::io::Error::from)?;
        place.put(Path::new("first-hour/steps.json"), &text);
        Ok(FirstHour { files: recorded.files + steps.len() + 1, steps })
    })
}

/// Undoes the changes of a killed run, which the report would take for the machine's own settings.
fn restore(tree: &Tree, root: &Root) -> Result<(), ExitError> {
    let report = restore_now(&mut Bounded::new(Machine::new(tree)), tree, &root.state())?;
    for line in &report.lines {
        note!("wattline: left by a killed run: {line}");
    }
    verdict(&report)
}

/// Returns the commands, each with the file of its output.
fn commands(block: Span) -> [(&'static str, String); 5] {
    let block = format!("{}s", block.as_seconds());
    [
        ("probe.json", "probe --json".to_owned()),
        ("meters.json", "meter list --json".to_owned()),
        ("plan.json", "plan --govern --json".to_owned()),
        ("power.csv", format!("meter record --duration {block}")),
        ("trial.json", format!("trial none balanced --block {block} --pairs {PAIRS} --json")),
    ]
}

fn run_step(
    file: &'static str,
    command: String,
    root: &Root,
    stop: &AtomicBool,
) -> Result<(Step, String), ExitError> {
    let began = Instant::now();
    // Holds the other end of the step's input until the step has ended.
    let mut child = Command::new(OWN_PROGRAM)
        .args(command.split(' '))
        .args(root.arguments())
        .env(ENDS_WITH_INPUT, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().map(|mut pipe| {
        thread::spawn(move || {
            let mut text = Vec::new();
            // Output up to that point is kept.
            let _ = pipe.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        })
    });
    let messages = child.stderr.take().map(|pipe| {
        thread::spawn(move || {
            let mut kept = String::new();
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                note!("{line}");
                if kept.len() + line.len() < MESSAGES {
                    kept += &(line + "\n");
                }
            }
            kept
        })
    });
    let exit_code = wait(&mut child, stop)?;
    let text = |thread: Option<thread::JoinHandle<String>>| {
        thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
    };
    let step = Step {
        command: format!("wattline {command}"),
        file,
        exit_code,
        seconds: began.elapsed().as_secs_f64(),
        messages: text(messages),
    };
    Ok((step, text(output)))
}

/// Waits for the end of a step. A signal to this process ends the step first, which restores its
/// settings.
fn wait(child: &mut Child, stop: &AtomicBool) -> Result<Option<i32>, ExitError> {
    let mut is_signalled = false;
    loop {
        if let Some(status) = child.try_wait()? {
            // A signal to the group of processes may end the step first, even before it is seen
            // here.
            let ended_by = status.signal().filter(|signal| SIGNALS.contains(signal));
            if stop.load(Ordering::Relaxed) || ended_by.is_some() {
                let message = "interrupted; nothing is written, and the machine is as before; the same \
                               command starts over";
                return Err(ExitError::new(ExitError::IO, message));
            }
            return Ok(status.code());
        }
        if stop.load(Ordering::Relaxed) && !is_signalled {
            is_signalled = true;
            let process = rustix::process::Pid::from_child(child);
            // The step may end by itself at this moment.
            let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
        }
        thread::sleep(POLL_PERIOD);
    }
}
