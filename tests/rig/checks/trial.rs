//! `wattline trial` on real drivers: it finds the saving that the power table and the registers, which
//! are read from outside, say.

use super::ipsec::write;
use super::knobs::SETTINGS;
use super::server::{restored, wait_for};
use super::{Checks, INSIDE, Witness, power, sensors};
use std::time::{Duration, Instant};
use wattline_testbed::Error;
use wattline_testbed::rig::Machine;

/// The control values of the lowest and the highest frequency.
const LOWEST: [u8; 2] = [16; 2];
const HIGHEST: [u8; 2] = [33; 2];
/// Goes to the lowest frequency of an idle guest at once.
const SLOW: &str = "[govern]\npolicy = \"ondemand:sampling_rate=500ms,up_threshold=99\"\n";
/// Time for eight pairs of blocks and repeated ones on a busy host.
const PATIENCE: Duration = Duration::from_secs(900);

/// Tries an idle guest at its highest and at its lowest frequency.
pub(super) fn check(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    let before = machine.run(SETTINGS, INSIDE)?;
    let resting = wait_for(machine, HIGHEST)?;
    checks.equal("fast before the trial", Witness::Outside, &HIGHEST, &resting);
    write(machine, "/tmp/slow.toml", SLOW)?;
    // Tasks of an emulated processor wait for the host, which the guest counts as pressure.
    let line = "rm -f /tmp/trial.*; (wattline trial none /tmp/slow.toml --block 20s --pairs 8 --json \
                --pressure-limit 1 > /tmp/trial.out 2> /tmp/trial.log; echo $? > /tmp/trial.status) & true";
    machine.run(line, INSIDE)?;
    let (mut slow, mut fast) = (0, 0);
    let end = Instant::now() + PATIENCE;
    while machine.run("cat /tmp/trial.status 2> /dev/null; true", INSIDE)?.trim().is_empty() {
        match machine.registers()? {
            LOWEST => slow += 1,
            HIGHEST => fast += 1,
            _ => {}
        }
        if Instant::now() >= end {
            break;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    let status = machine.run("cat /tmp/trial.status; true", INSIDE)?;
    println!("{}", machine.run("cat /tmp/trial.out /tmp/trial.log; true", INSIDE)?);
    checks.equal("exit code of the trial", Witness::Inside, &"0", &status.trim());
    checks.equal("both settings are seen", Witness::Outside, &true, &(slow > 10 && fast > 10));
    let result = sensors::json(machine, "cat /tmp/trial.out")?;
    let [least, most] = [LOWEST, HIGHEST].map(|at| f64::from(power::milliwatts(at)) / 1e3);
    let table = least - most;
    // The guest's own chores raise the frequency now and then.
    let end = |key: &str| result[key].as_f64().unwrap_or(f64::NAN);
    let (lower, upper) = (end("difference_lower_watts"), end("difference_upper_watts"));
    checks.within("watts of the trial, lower end", Witness::Inside, &(1.1 * table..0.0), lower);
    checks.within("watts of the trial, upper end", Witness::Inside, &(table..0.6 * table), upper);
    restored(machine, checks, "the trial", resting, &before)
}
