//! The whole loop on real drivers: the router governs the machine that it runs on, under a load
//! that rises and falls.

use super::forwarding::{SOCKET, start, stop};
use super::knobs::{RETA, SETTINGS, differences};
use super::{Checks, INSIDE, Witness, power, sensors};
use crate::Error;
use crate::rig::{Machine, traffic};
use serde::Serialize;
use std::time::{Duration, Instant};

/// What is added to the router's configuration.
const POWER: &str = "[power]\nplatform = \"host\"\npolicy = \"powersave\"\n";
/// Frames a second that an emulated machine forwards without loss even on a busy host.
const LITTLE: f64 = 50.0;
/// Then so many, one after the other until the router asks for more of its machine: what one
/// core of it can forward depends on what the host leaves to it.
const MUCH: [f64; 5] = [5e3, 1e4, 2e4, 4e4, 8e4];
/// How long each is offered.
const SECONDS: u64 = 4;
/// How long a busy host may take to let the policy come down, or the watchdog restore.
const PATIENCE: Duration = Duration::from_secs(60);
/// The control value of the lowest frequency.
const LOWEST: u8 = 16;

/// What was seen during one stretch of load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stretch {
    /// Frames a second that were offered.
    pub offered_pps: f64,
    /// What became of them.
    #[serde(flatten)]
    pub passage: traffic::Passage,
    /// Lowest and highest frequency of either CPU that the registers showed, outside.
    pub frequency_hertz: [f64; 2],
    /// Most queues that the card's redirect table led to, outside.
    pub queues: usize,
    /// Changes of the operating point, as the router counts them.
    pub transitions: u64,
    /// Power at the end of the stretch, as the router reads it: emulated.
    pub power_watts: Option<f64>,
    /// What the table's formula gives for the registers at that time.
    pub table_watts: f64,
}

/// Lets the router govern, and looks.
pub(super) fn check(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    let before = machine.run(SETTINGS, INSIDE)?;
    let resting = machine.registers()?;
    let table = machine.card_registers("eth0", RETA.0, RETA.1)?;
    start(machine, POWER)?;
    let mut transitions = 0;
    offer(machine, checks, LITTLE, &mut transitions)?;
    let mut rose = false;
    for rate in MUCH {
        rose = offer(machine, checks, rate, &mut transitions)?;
        if rose {
            break;
        }
    }
    checks.equal("frequency or cores rise with the load", Witness::Outside, &true, &rose);
    offer(machine, checks, LITTLE, &mut transitions)?;
    let fell = wait_for(machine, [LOWEST; 2])?;
    checks.equal("frequencies without load", Witness::Outside, &[LOWEST; 2], &fell);
    power::follows_registers(machine, checks, "governed, without load")?;
    let stats = sensors::json(machine, &stats())?;
    let failed = stats["power"]["steps_failed"].as_u64();
    checks.equal("steps that failed", Witness::Inside, &Some(0), &failed);
    let status = stop(machine)?;
    checks.equal("exit code of the governing router", Witness::Inside, &0, &status);
    restored(machine, checks, "its end", resting, &table, &before)?;

    start(machine, POWER)?;
    wait_for(machine, [LOWEST; 2])?;
    machine.run("kill -KILL $(cat /tmp/router.pid)", INSIDE)?;
    restored(machine, checks, "SIGKILL, by the watchdog", resting, &table, &before)
}

/// Offers a load, and says whether the machine was seen to do more for it than the least.
fn offer(
    machine: &mut Machine,
    checks: &mut Checks,
    rate: f64,
    transitions: &mut u64,
) -> Result<bool, Error> {
    let stretch = stretch(machine, rate, SECONDS, transitions)?;
    let passage = &stretch.passage;
    let what = format!("frames forwarded wrongly, {rate} a second");
    checks.equal(what, Witness::Outside, &0, &passage.odd);
    // Beyond what the host leaves to the guest, frames are lost in the guest's rings.
    if rate <= LITTLE {
        let what = format!("frames forwarded of those sent, {rate} a second");
        checks.equal(what, Witness::Outside, &passage.sent, &passage.forwarded);
    }
    let rose = stretch.frequency_hertz[1] > f64::from(LOWEST) * 1e8 || stretch.queues > 1;
    checks.load.push(stretch);
    Ok(rose)
}

fn stats() -> String {
    format!("wattline stats --json --socket {SOCKET}")
}

/// Waits until the registers are so, and says what they are in the end.
fn wait_for(machine: &mut Machine, wanted: [u8; 2]) -> Result<[u8; 2], Error> {
    let end = Instant::now() + PATIENCE;
    loop {
        let registers = machine.registers()?;
        if registers == wanted || Instant::now() >= end {
            return Ok(registers);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Whether everything is as it was before the router governed.
fn restored(
    machine: &mut Machine,
    checks: &mut Checks,
    after: &str,
    resting: [u8; 2],
    table: &[u32],
    before: &str,
) -> Result<(), Error> {
    let registers = wait_for(machine, resting)?;
    let what = format!("frequencies restored after {after}");
    checks.equal(what, Witness::Outside, &resting, &registers);
    // The watchdog restores one after the other.
    let end = Instant::now() + PATIENCE;
    let different = loop {
        let different = differences(before, &machine.run(SETTINGS, INSIDE)?);
        if different.is_empty() || Instant::now() >= end {
            break different;
        }
    };
    let what = format!("settings that differ after {after}");
    checks.equal(what, Witness::Inside, &String::new(), &different);
    let same = machine.card_registers("eth0", RETA.0, RETA.1)? == table;
    let what = format!("redirect table of eth0 as before, after {after}");
    checks.equal(what, Witness::Outside, &true, &same);
    Ok(())
}

/// Offers a load, and looks at the machine from outside meanwhile.
fn stretch(
    machine: &mut Machine,
    rate: f64,
    seconds: u64,
    transitions: &mut u64,
) -> Result<Stretch, Error> {
    let copy = |machine: &Machine, number: usize| {
        let wire = machine.wires.get(number).map(|wire| wire.try_clone());
        let none = || std::io::Error::other("there is no such card");
        wire.unwrap_or_else(|| Err(none())).map_err(|e| Error::io("sharing a cable", e))
    };
    let (into, out) = (copy(machine, 0)?, copy(machine, 1)?);
    let time = Duration::from_secs(seconds);
    let (mut frequency, mut queues) = ([f64::MAX, 0.0_f64], 0);
    let passage = std::thread::scope(|scope| {
        let sending = scope.spawn(move || traffic::pass(&into, &out, rate, time));
        while !sending.is_finished() {
            for register in machine.registers()? {
                let hertz = f64::from(register) * 1e8;
                frequency = [frequency[0].min(hertz), frequency[1].max(hertz)];
            }
            let table = machine.card_registers("eth0", RETA.0, RETA.1)?;
            queues = queues.max(queues_of(&table));
            std::thread::sleep(Duration::from_millis(50));
        }
        sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    let power = sensors::json(machine, &stats())?["power"].take();
    let so_far = power["transitions"].as_u64().unwrap_or(0);
    let new = so_far.saturating_sub(*transitions);
    *transitions = so_far;
    Ok(Stretch {
        offered_pps: rate,
        passage,
        frequency_hertz: frequency,
        queues,
        transitions: new,
        power_watts: power["power_watts"].as_f64(),
        table_watts: f64::from(power::milliwatts(machine.registers()?)) / 1e3,
    })
}

/// How many queues a redirect table leads to, four entries a word.
fn queues_of(table: &[u32]) -> usize {
    let entries: std::collections::BTreeSet<u8> =
        table.iter().flat_map(|word| word.to_le_bytes()).collect();
    entries.len()
}

impl std::fmt::Display for Stretch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [low, high] = self.frequency_hertz.map(|hertz| hertz / 1e9);
        let traffic::Passage { sent, refused, forwarded, .. } = self.passage;
        let read = self.power_watts.map_or("-".to_owned(), |watts| format!("{watts:.1}"));
        write!(
            f,
            "{:>13} {sent:>7} {refused:>8} {forwarded:>10} {low:>9.1} {high:>8.1} {:>7} {:>12} \
             {read:>9} {:>10.1}",
            self.offered_pps, self.queues, self.transitions, self.table_watts
        )
    }
}

/// The head of a table of stretches.
pub(super) const HEAD: &str = "offered (pps)    sent  refused  forwarded  from GHz   to GHz  \
                               queues  transitions  read (W)  table (W)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_of_a_table_are_counted() {
        assert_eq!(queues_of(&[0; 32]), 1);
        assert_eq!(queues_of(&[0x0100_0100; 32]), 2);
    }
}
