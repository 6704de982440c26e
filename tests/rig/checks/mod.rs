//! Checks of the lab. Each sets or reads something inside the guest through a real driver, and
//! compares it with the view from outside.

mod conformance;
mod copi;
mod flow_speed;
mod forwarding;
mod governing;
mod ipsec;
mod kernel_cores;
mod knobs;
mod lag;
mod nat;
mod nic;
mod power;
mod sensors;
mod server;
mod stretch;
mod suspend;
mod trial;
mod tuned;
mod vlan;
mod xdp_governed;

use serde::Serialize;
use std::ops::Range;
use std::time::Duration;
use stretch::Stretch;
use wattline_testbed::Error;
use wattline_testbed::rig::Machine;

pub use copi::copi;
pub use flow_speed::flow_speed;
pub use ipsec::ipsec;
pub use lag::{lag, serve as end_of_flow};
pub use nat::nat;
pub use nic::nic;
pub use trial::trial;
pub use tuned::tuned;
pub use vlan::vlan;

/// Time for a command inside, on a busy machine.
pub(super) const INSIDE: Duration = Duration::from_secs(120);

/// One comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The quantity compared.
    pub what: String,
    /// Its expected value.
    pub expected: String,
    /// Its value.
    pub found: String,
    /// Who saw it: `inside` the guest, or the emulator `outside`.
    pub witness: Witness,
    /// True if the observation is the expected one.
    pub holds: bool,
}

/// Point from which something was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Witness {
    /// Through the guest's own files and programs.
    Inside,
    /// Through the emulator's monitor, which does not ask the guest.
    Outside,
}

/// All checks, in their order.
#[derive(Debug, Default, Serialize)]
pub struct Checks {
    pub checks: Vec<Check>,
    /// The governed router's behaviour under load.
    pub load: Vec<Stretch>,
    /// Checks that could not be made here, with the reason: neither held nor failed.
    pub left_out: Vec<(String, String)>,
    #[serde(skip)]
    report: Option<fn(&Check)>,
}

impl Checks {
    /// Returns an empty list that passes each check to `report` at once: all of them take minutes.
    pub fn reported_by(report: fn(&Check)) -> Self {
        Self { report: Some(report), ..Self::default() }
    }

    /// Adds a check that `found` is `expected`.
    fn equal<T: PartialEq + std::fmt::Debug>(
        &mut self,
        what: impl Into<String>,
        witness: Witness,
        expected: &T,
        found: &T,
    ) {
        let (text, holds) = (format!("{found:?}"), expected == found);
        let expected = format!("{expected:?}");
        self.note(Check { what: what.into(), expected, found: text, witness, holds });
    }

    /// Adds a check that `found` lies in a range.
    fn within(
        &mut self,
        what: impl Into<String>,
        witness: Witness,
        range: &Range<f64>,
        found: f64,
    ) {
        let (text, holds) = (format!("{found}"), range.contains(&found));
        let expected = format!("{range:?}");
        self.note(Check { what: what.into(), expected, found: text, witness, holds });
    }

    /// Notes that a check cannot be made here.
    fn leave_out(&mut self, what: String, why: String) {
        if self.report.is_some() {
            println!("----  {what}: not judged: {why}");
        }
        self.left_out.push((what, why));
    }

    fn note(&mut self, check: Check) {
        if let Some(report) = self.report {
            report(&check);
        }
        self.checks.push(check);
    }

    /// Returns the checks that do not hold.
    pub fn failed(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| !check.holds)
    }
}

/// Adds all checks, except checks of single applications and daemons, on a machine whose guest has
/// `wattline` and the program `agent` in `/bin`.
///
/// # Errors
/// When the machine fails; a check that does not hold is no error.
pub fn all(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    prepare(machine)?;
    sensors::check(machine, checks)?;
    power::check(machine, checks)?;
    knobs::check(machine, checks)?;
    if machine.wires.len() > 1 {
        forwarding::check(machine, checks)?;
        if machine.card == "igb" {
            governing::check(machine, checks)?;
        }
    }
    Ok(())
}

/// Adds the checks of `wattline govern` on such a machine.
///
/// # Errors
/// As [`all`].
pub fn server(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    prepare(machine)?;
    server::check(machine, checks)
}

/// Adds the checks of XDP programs that forward beside a governor, on such a machine.
///
/// # Errors
/// As [`all`].
pub fn xdp_governed(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    prepare(machine)?;
    // Moderation is looked at in registers of this card.
    if machine.card == "igb" && machine.wires.len() > 1 {
        xdp_governed::check(machine, checks)?;
    }
    Ok(())
}

/// Adds the checks of cores that follow the load where the kernel forwards, on such a machine.
///
/// # Errors
/// As [`all`].
pub fn kernel_cores(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    prepare(machine)?;
    if machine.card == "igb" { kernel_cores::check(machine, checks) } else { Ok(()) }
}

/// Adds the checks of a suspend under `wattline govern` on such a machine.
///
/// # Errors
/// As [`all`].
pub fn suspend(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    prepare(machine)?;
    suspend::check(machine, checks)
}

/// Adds the checks of the promises of this machine's platform, on such a machine.
///
/// # Errors
/// As [`all`].
pub fn conformance(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    prepare(machine)?;
    checks.equal("card with an indirection table", Witness::Outside, &"igb", &machine.card);
    if machine.card == "igb" { conformance::check(machine, checks) } else { Ok(()) }
}

/// Fixes the frequencies: governors that follow the load would change the registers meanwhile.
fn prepare(machine: &mut Machine) -> Result<(), Error> {
    let fixed = "for p in /sys/devices/system/cpu/cpufreq/policy*; \
                 do echo performance > $p/scaling_governor; done";
    machine.run(fixed, INSIDE)?;
    machine.run("for i in $(ls /sys/class/net); do ip link set $i up; done", INSIDE).map(drop)
}

/// Width of the column of names, for checks that are printed one by one.
const WIDTH: usize = 72;

impl std::fmt::Display for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verdict = if self.holds { "ok  " } else { "FAIL" };
        let witness = match self.witness {
            Witness::Inside => "inside ",
            Witness::Outside => "outside",
        };
        write!(f, "{verdict}  {:<WIDTH$}  {witness}  {}", self.what, self.found)?;
        if self.holds { Ok(()) } else { write!(f, " instead of {}", self.expected) }
    }
}

impl Checks {
    /// Writes the governed router's behaviour under load, as a table.
    pub fn write_load(&self, out: &mut impl std::fmt::Write) -> std::fmt::Result {
        if !self.load.is_empty() {
            let head = "The router governs its machine (watts are emulated):";
            writeln!(out, "\n{head}\n{}", stretch::HEAD)?;
        }
        self.load.iter().try_for_each(|stretch| writeln!(out, "{stretch}"))
    }
}

impl std::fmt::Display for Checks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.checks.iter().try_for_each(|check| writeln!(f, "{check}"))?;
        self.write_load(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_a_failure_and_is_shown() {
        let mut checks = Checks::default();
        checks.equal("registers", Witness::Outside, &[16, 24], &[16, 24]);
        assert_eq!(checks.failed().count(), 0);
        checks.equal("watts", Witness::Inside, &1, &2);
        assert_eq!(checks.failed().count(), 1);
        let text = checks.to_string();
        let line = text.lines().last().unwrap();
        assert!(line.starts_with("FAIL  watts "), "{text}");
        assert!(line.ends_with(" inside   2 instead of 1"), "{text}");
    }
}
