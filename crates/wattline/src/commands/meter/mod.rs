//! `wattline meter`: list, read, record or take apart power.

mod attribute;
mod external;
mod list;
mod read;
mod record;

pub use read::over;

use super::root::Root;
use crate::exit::ExitError;
use std::time::Instant;
use wattline_meters::{Meter, Missing, Reading, Rejection, Survey, survey};
use wattline_units::{Span, Time};

/// What to do with the meters.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    meters: Meters,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Which meters there are, what they see, and which are missing.
    List,
    /// Power over a short interval.
    Read(read::Args),
    /// Write readings as CSV until the time is over or a signal comes.
    Record(record::Args),
    /// Where a loaded machine's watts go: package, memory, card, rest, by subtraction of the
    /// same machine idle.
    Attribute(attribute::Args),
}

/// Which meters to look at.
#[derive(Debug, clap::Args)]
struct Meters {
    #[command(flatten)]
    root: Root,
    #[command(flatten)]
    external: external::ExternalMeter,
}

impl Meters {
    fn open(&self) -> Result<Survey, ExitError> {
        let mut survey = survey(&self.root.tree()?);
        survey.meters.extend(self.external.open()?);
        Ok(survey)
    }

    /// At least one meter, else why there is none.
    fn some(&self) -> Result<Vec<Box<dyn Meter>>, ExitError> {
        let Survey { meters, missing } = self.open()?;
        if !meters.is_empty() {
            return Ok(meters);
        }
        let mut message = String::from("power is unavailable: no meter can be read");
        for Missing { what, why, remedy, .. } in &missing {
            message.push_str(&format!("\n{what}: {why}; {remedy}"));
        }
        // Without the right to read, the remedy is another one than other hardware.
        let denied = missing.iter().any(|missing| missing.permission);
        let code = if denied { ExitError::NO_PERMISSION } else { ExitError::UNAVAILABLE };
        Err(ExitError::new(code, message))
    }
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    match &args.action {
        Action::List => list::run(&args.meters, json),
        Action::Read(read) => read::run(read, &args.meters, json),
        Action::Record(record) => record::run(record, &args.meters, json),
        Action::Attribute(attribute) => attribute::run(attribute, &args.meters, json),
    }
}

/// Reads a meter, and says on standard error what the figure leaves out.
fn reading(meter: &mut dyn Meter, now: Time) -> Result<Reading, Rejection> {
    let result = meter.read(now);
    for mistake in meter.mistakes() {
        eprintln!("wattline: left out: {mistake}");
    }
    result
}

/// Monotonic time since the start of the command.
struct Clock(Instant);

impl Clock {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn now(&self) -> Time {
        Time::ZERO + Span::from(self.0.elapsed())
    }

    fn sleep_until(&self, then: Time) {
        std::thread::sleep(then.since(self.now()).into());
    }
}
