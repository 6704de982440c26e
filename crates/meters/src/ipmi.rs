//! Meter of the board's management controller (BMC): IPMI DCMI "Get Power Reading" (DCMI 1.5,
//! section 6.6.1), read with the program `ipmitool`.
//!
//! A separate driver for /dev/ipmi0 would save a process per reading, with little gain: controllers
//! answer at most about once a second, after tens of milliseconds. Besides, ipmitool knows their
//! quirks.

use crate::reading::{Description, Meter, Plausible, Reading, Rejection, Scope};
use crate::registration::{Finding, Registration, Row};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wattline_linux::missing::Missing;
use wattline_linux::sysfs::{ReadError, Tree};
use wattline_units::{Accuracy, Provenance, Source, Time, Watts};

const DEVICE: &str = "/dev/ipmi0";
const PROGRAM: &str = "ipmitool";
/// Longest wait for an answer: a controller that is being reset may never give one.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(5);
const LONGEST_ANSWER: u64 = 64 << 10;

/// The controller's power reading.
#[derive(Debug)]
pub struct Dcmi {
    program: PathBuf,
    description: Description,
    last: Option<Time>,
}

/// Returns the meter of this machine, or the reason why it is unusable; `None` without a
/// controller.
pub fn find(tree: &Tree) -> Option<Result<Dcmi, Missing>> {
    if !tree.is_live() || !tree.exists(DEVICE) {
        return None;
    }
    let meter = Dcmi::new(PROGRAM);
    Some(match ask(&meter.program) {
        Ok(_) => Ok(meter),
        Err(rejection) => Err(Missing::because(
            "IPMI DCMI power reading",
            &rejection.to_string(),
            "install ipmitool, run as root, and enable power monitoring of the controller (BMC)",
        )),
    })
}

impl Dcmi {
    /// Creates a meter that runs `program` in place of `ipmitool`.
    pub fn new(program: impl AsRef<Path>) -> Self {
        Self {
            program: program.as_ref().to_path_buf(),
            description: Description {
                id: "ipmi:dcmi".to_owned(),
                source: "ipmi",
                scope: Scope::Platform,
                part_of: None,
                provenance: Provenance { source: Source::Measured, accuracy: Accuracy::Bronze },
                note: "the management controller's sensor at the supply; slow, often averaged, \
                       its accuracy is not stated"
                    .to_owned(),
            },
            last: None,
        }
    }
}

impl Meter for Dcmi {
    fn description(&self) -> &Description {
        &self.description
    }

    fn read(&mut self, now: Time) -> Result<Reading, Rejection> {
        // After a failed reading, `elapsed` starts again at zero: a momentary value does not cover
        // the gap.
        let last = self.last.take();
        let watts = ask(&self.program)?;
        let plausible = Plausible { lowest: Watts(0.1), highest: Watts(20_000.0) };
        let power = plausible.check(watts)?;
        let elapsed = now.since(last.unwrap_or(now));
        self.last = Some(now);
        let provenance = self.description.provenance;
        Ok(Reading { energy: None, elapsed, power, provenance })
    }
}

fn ask(program: &Path) -> Result<Watts, Rejection> {
    let failed = |reason: String| {
        Rejection::Unreadable(ReadError::Failed { path: program.to_path_buf(), reason })
    };
    let answer = run(program).map_err(|error| failed(error.to_string()))?;
    parse(&answer).map_err(failed)
}

/// Runs the program for at most [`PATIENCE`] and returns its output.
fn run(program: &Path) -> io::Result<String> {
    let mut child = Command::new(program)
        .args(["dcmi", "power", "reading"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let end = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() >= end => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(io::Error::other(format!("no answer within {PATIENCE:?}")));
            }
            None => std::thread::sleep(LOOK),
        }
    };
    let mut text = String::new();
    if let Some(out) = child.stdout.take() {
        out.take(LONGEST_ANSWER).read_to_string(&mut text)?;
    }
    if status.success() {
        Ok(text)
    } else {
        Err(io::Error::other(format!("it ended with {status}")))
    }
}

/// Parses the present power from an answer; fails if the controller is not measuring.
pub fn parse(answer: &str) -> Result<Watts, String> {
    let field = |name: &str| {
        let of = |line: &str| {
            Some(line.split_once(':').filter(|(key, _)| key.trim() == name)?.1.trim().to_owned())
        };
        answer.lines().find_map(of)
    };
    if let Some(state) = field("Power reading state is")
        && state != "activated"
    {
        return Err(format!("power reading is {state}: ipmitool dcmi power activate"));
    }
    let text = field("Instantaneous power reading")
        .ok_or_else(|| "no line \"Instantaneous power reading\"".to_owned())?;
    let number = text.split_whitespace().next().unwrap_or_default();
    let watts: u32 = number.parse().map_err(|_| {
        let shown: String = text.chars().take(40).collect();
        format!("\"Instantaneous power reading\" is {shown:?}, expected whole watts")
    })?;
    Ok(Watts(f64::from(watts)))
}

/// The management controller.
pub const KIND: Registration = Registration {
    rows: &[Row {
        meter: "`ipmi:dcmi`",
        files: "`/dev/ipmi0`, by `ipmitool dcmi power reading`",
        sees: "the platform",
        class: "bronze",
    }],
    find: |tree, _| match find(tree) {
        Some(Ok(controller)) => Finding::new(vec![controller], Vec::new()),
        Some(Err(why)) => Finding::new(Vec::<Dcmi>::new(), vec![why]),
        None => Finding::default(),
    },
    recorded: &[],
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ANSWER: &str = "
    Instantaneous power reading:                   216 Watts
    Minimum during sampling period:                 12 Watts
    Maximum during sampling period:                485 Watts
    Average power reading over sample period:      214 Watts
    IPMI timestamp:                           Thu Nov  6 13:54:41 2025
    Sampling period:                          00000001 Seconds.
    Power reading state is:                   activated
";

    #[test]
    fn the_present_power_is_taken_and_only_while_it_is_measured() {
        assert_eq!(parse(ANSWER), Ok(Watts(216.0)));
        let off = ANSWER.replace("activated", "deactivated");
        assert!(parse(&off).unwrap_err().contains("activate"));
        assert!(parse("").unwrap_err().contains("no line"));
        let odd = ANSWER.replace("216", "n/a");
        assert!(parse(&odd).unwrap_err().contains("n/a"));
    }

    #[test]
    fn program_is_run_and_each_failure_is_named() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ipmitool");
        let write = |body: &str| {
            std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        let at = |seconds| Time::ZERO + wattline_units::Span::from_seconds(seconds);
        let mut meter = Dcmi::new(&path);
        write(&format!("[ \"$*\" = 'dcmi power reading' ] && cat <<END\n{ANSWER}\nEND"));
        let _ = meter.read(at(1.0)).unwrap();
        let reading = meter.read(at(3.0)).unwrap();
        assert_eq!(
            (reading.power, reading.elapsed),
            (Watts(216.0), wattline_units::Span::from_seconds(2.0))
        );
        write("exit 3");
        assert!(meter.read(at(4.0)).unwrap_err().to_string().contains("exit status: 3"));
        write("echo 'Instantaneous power reading: 0 Watts'");
        assert!(matches!(meter.read(at(5.0)), Err(Rejection::Implausible { .. })));
        let error = Dcmi::new("/nowhere/ipmitool").read(at(6.0)).unwrap_err();
        assert!(matches!(error, Rejection::Unreadable(_)), "{error}");
    }

    proptest! {
        #[test]
        fn any_answer_is_read_without_panic(answer: String) {
            let _ = parse(&answer);
        }
    }
}
