//! Promises of this machine's platform to policies, on real drivers. The probe that all platforms
//! pass (`governor::conformance`) runs inside and turns each knob. Its changes are seen from
//! outside, denied knobs stay as they are, and writes that the kernel refuses are detected.

use super::knobs::{RETA, SETTINGS, differences};
use super::{Checks, INSIDE, Witness};
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::rig::conformance::{CAN, COMPLAINT, DONE, FIRST, GO, MISSING, SUBJECT, TURN};
use wattline_testbed::rig::{Machine, traffic};

const LOG: &str = "/tmp/conformance.log";
/// All knobs, in the order in which the probe turns them.
const KNOBS: [&str; 11] = [
    "uncore",
    "frequency",
    "idle-limit",
    "moderation",
    "batch",
    "weights",
    "wait: pause",
    "wait: sleep",
    "wait: poll",
    "wait: interrupt",
    "cores",
];
/// Promises of the platform to a router on these drivers, and where the kernel forwards.
const ROUTER: [&str; 8] = [
    "frequency",
    "idle-limit",
    "moderation",
    "weights",
    "batch",
    "wait: poll",
    "wait: interrupt",
    "cores",
];
const KERNEL: [&str; 4] = ["frequency", "idle-limit", "moderation", "wait: interrupt"];
/// A router with a port that has neither moderation nor an indirection table.
const PLAIN: [&str; 5] = ["frequency", "idle-limit", "batch", "wait: poll", "wait: interrupt"];
/// Frames per second, and the duration: a few hundred frames show the queues that take them.
const RATE: f64 = 200.0;
const TIME: Duration = Duration::from_secs(1);

/// The machine, as it is seen at a turn.
#[derive(Clone, PartialEq)]
struct Sight {
    registers: [u8; 2],
    /// Entries of each card's table that lead to queue 1.
    entries: [usize; 2],
    settings: String,
}

impl Sight {
    fn look(machine: &mut Machine) -> Result<Self, Error> {
        let mut entries = [0; 2];
        for (entries, card) in entries.iter_mut().zip(["eth0", "eth1"]) {
            let words = machine.card_registers(card, RETA.0, RETA.1)?;
            let queues = words.iter().flat_map(|four| four.to_le_bytes());
            *entries = queues.filter(|queue| *queue != 0).count();
        }
        let settings = machine.run(SETTINGS, INSIDE)?;
        Ok(Self { registers: machine.registers()?, entries, settings })
    }

    /// Returns the differences from an earlier one, in words.
    fn changes(&self, before: &Self) -> String {
        let mut changes = differences(&before.settings, &self.settings);
        if (self.registers, self.entries) != (before.registers, before.entries) {
            changes += &format!("; {:?} {:?}", self.registers, self.entries);
        }
        changes
    }
}

/// Puts the platform to the test in each of its forms.
pub(super) fn check(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    let complaints = probe(machine, checks, "router eth0,eth1", &ROUTER, None)?;
    none_of(checks, "a router of both cards", &complaints);
    let complaints = probe(machine, checks, "kernel eth0,eth1", &KERNEL, None)?;
    none_of(checks, "a server whose kernel serves", &complaints);
    let complaints = probe(machine, checks, "router eth0,lo", &PLAIN, None)?;
    none_of(checks, "a router with a port without knobs", &complaints);
    // From the first trial on the card has one queue. The kernel refuses entries for another one: a
    // core that was taken out does not come back.
    let before = Sight::look(machine)?;
    let taken = Some("ethtool -X eth1 equal 1 && ethtool -L eth1 combined 1");
    let complaints = probe(machine, checks, "router eth0,eth1", &ROUTER, taken)?;
    let mut named: Vec<&str> =
        complaints.iter().filter_map(|text| text.split_once(':')).map(|(knob, _)| knob).collect();
    named.sort_unstable();
    named.dedup();
    let what = "complaints where the kernel refuses a table";
    checks.equal(what, Witness::Inside, &vec!["cores", "weights"], &named);
    machine.run("ethtool -X eth1 default && ethtool -L eth1 combined 2", INSIDE)?;
    let after = Sight::look(machine)?;
    let what = "differences after a table was refused";
    checks.equal(what, Witness::Outside, &String::new(), &after.changes(&before));
    Ok(())
}

fn none_of(checks: &mut Checks, of: &str, complaints: &[String]) {
    let none: &[String] = &[];
    checks.equal(format!("complaints of {of}"), Witness::Inside, &none, &complaints);
}

/// Lets the probe turn all knobs, checks each turn, and returns the probe's complaints. `meanwhile`
/// runs at the first turn.
fn probe(
    machine: &mut Machine,
    checks: &mut Checks,
    subject: &str,
    promised: &[&str],
    meanwhile: Option<&str>,
) -> Result<Vec<String>, Error> {
    let before = Sight::look(machine)?;
    start(machine, subject)?;
    machine.run(&wait_until(&format!("grep -q '^{FIRST}' {LOG}")), INSIDE)?;
    go_on(machine)?;
    for (number, knob) in KNOBS.iter().enumerate() {
        let word = if promised.contains(knob) { "promised" } else { "denied" };
        let mut last = None;
        // Before and after the knob is turned.
        for (step, when) in ["before", "turned"].into_iter().enumerate() {
            let turn = format!("{knob} {word} {when}");
            let found = await_turn(machine, 2 * number + step)?;
            checks.equal(format!("{subject}: a turn"), Witness::Inside, &turn, &found);
            match (meanwhile, &last) {
                (Some(line), None) if number == 0 => machine.run(line, INSIDE).map(drop)?,
                (Some(_), _) | (None, None) => {}
                (None, Some(last)) => {
                    let now = Sight::look(machine)?;
                    judge(machine, checks, (subject, knob), promised.contains(knob), (last, &now))?;
                }
            }
            last = Some(Sight::look(machine)?);
            go_on(machine)?;
        }
    }
    machine.run(&wait_until(&format!("grep -q '{DONE}' {LOG}")), INSIDE)?;
    let log = machine.run(&format!("cat {LOG}"), INSIDE)?;
    let lines = |begin: &str| -> Vec<String> {
        log.lines().filter_map(|line| line.strip_prefix(begin)).map(str::to_owned).collect()
    };
    reported(checks, subject, promised, (&lines(CAN), &lines(MISSING)));
    if meanwhile.is_none() {
        let after = Sight::look(machine)?;
        let what = format!("{subject}: what differs after the probe");
        checks.equal(what, Witness::Outside, &String::new(), &after.changes(&before));
    }
    Ok(lines(COMPLAINT))
}

/// Checks that a turn of a knob changed its setting, and nothing else.
fn judge(
    machine: &mut Machine,
    checks: &mut Checks,
    (subject, knob): (&str, &str),
    promised: bool,
    (before, now): (&Sight, &Sight),
) -> Result<(), Error> {
    let what = format!("{subject}: {knob}");
    // Only workers see wait modes and batches.
    let in_memory = knob == "batch" || knob.starts_with("wait");
    if !promised || in_memory {
        let what = format!("{what}, changed from outside");
        checks.equal(what, Witness::Outside, &String::new(), &now.changes(before));
        return Ok(());
    }
    match knob {
        "frequency" => {
            checks.equal(what, Witness::Outside, &[16; 2], &now.registers);
        }
        "idle-limit" => {
            let entered = c2_entered(machine)?;
            checks.equal(format!("{what}: C2 entered"), Witness::Inside, &[true; 2], &entered);
        }
        "moderation" => {
            // The most that the driver takes (IGB_MAX_ITR_USECS).
            let line = "for i in eth0 eth1; do ethtool -c $i | grep ^rx-usecs:; done";
            let found = machine.run(line, INSIDE)?;
            let expected = "rx-usecs: 8191\nrx-usecs: 8191\n";
            checks.equal(what, Witness::Inside, &expected, &&*found);
        }
        "weights" => {
            checks.equal(
                format!("{what}: entries of queue 1, evenly shared"),
                Witness::Outside,
                &[64; 2],
                &before.entries,
            );
            checks.equal(
                format!("{what}: entries of queue 1, shared 3 to 1"),
                Witness::Outside,
                &[32; 2],
                &now.entries,
            );
        }
        "cores" => {
            let what = format!("{what}: entries of queue 1");
            checks.equal(what, Witness::Outside, &[0; 2], &now.entries);
            frames_go_to_the_first_queue(machine, checks, subject)?;
        }
        _ => {}
    }
    Ok(())
}

/// Counts frames by the card's driver, not by Wattline.
fn frames_go_to_the_first_queue(
    machine: &mut Machine,
    checks: &mut Checks,
    subject: &str,
) -> Result<(), Error> {
    let counted = |machine: &mut Machine| -> Result<Vec<u64>, Error> {
        let line = "ethtool -S eth0 | grep 'rx_queue_[01]_packets'";
        let text = machine.run(line, INSIDE)?;
        let words = text.lines().filter_map(|line| line.split_whitespace().last()?.parse().ok());
        Ok(words.collect())
    };
    let before = counted(machine)?;
    let [into, out, ..] = &machine.wires[..] else { return Ok(()) };
    traffic::pass(into, out, RATE, TIME)?;
    let now = counted(machine)?;
    let came: Vec<bool> = now.iter().zip(&before).map(|(now, before)| now > before).collect();
    let what = format!("{subject}: cores: queues that get frames");
    checks.equal(what, Witness::Inside, &vec![true, false], &came);
    Ok(())
}

/// Returns, for each CPU, true if it enters its deepest state within two seconds.
fn c2_entered(machine: &mut Machine) -> Result<[bool; 2], Error> {
    let mut counts = Vec::new();
    for _ in 0..2 {
        let text = machine.run(
            "sleep 2; cat /sys/devices/system/cpu/cpu0/cpuidle/state2/usage \
             /sys/devices/system/cpu/cpu1/cpuidle/state2/usage",
            INSIDE,
        )?;
        let numbers = text.lines().filter_map(|line| line.parse::<u64>().ok());
        counts.push(numbers.collect::<Vec<u64>>());
    }
    let grew = |cpu: usize| counts[1].get(cpu) > counts[0].get(cpu);
    Ok([grew(0), grew(1)])
}

/// Checks that denied knobs are reported, with the reason if the machine denies them.
fn reported(
    checks: &mut Checks,
    subject: &str,
    promised: &[&str],
    (can, missing): (&[String], &[String]),
) {
    let can: serde_json::Value =
        can.first().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let sees = |what: &str| can["sees"][what].as_bool();
    let what = format!("{subject}: watts, residencies, frequencies and soft interrupts are seen");
    let found = ["power", "residency", "frequency", "softirq"].map(sees);
    checks.equal(what, Witness::Inside, &[Some(true); 4], &found);
    for (knob, begin) in
        [("uncore", "uncore:"), ("moderation", "interrupt moderation:"), ("cores", "cores:")]
    {
        let expected = !promised.contains(&knob);
        let said = missing.iter().any(|note| note.starts_with(begin));
        let what = format!("{subject}: says that it misses: {knob}");
        checks.equal(what, Witness::Inside, &expected, &said);
    }
}

fn start(machine: &mut Machine, subject: &str) -> Result<(), Error> {
    machine.run(&format!("rm -f {LOG} {GO}; mkfifo {GO}"), INSIDE)?;
    let line = format!(
        "({SUBJECT}='{subject}' agent --exact agent --nocapture > {LOG} 2>&1; \
         echo 'ended with' $? >> {LOG}) & true"
    );
    machine.run(&line, INSIDE).map(drop)
}

/// Lets the probe turn the next knob.
fn go_on(machine: &mut Machine) -> Result<(), Error> {
    machine.run(&format!("echo go > {GO}"), INSIDE).map(drop)
}

/// Waits for the text of a turn.
fn await_turn(machine: &mut Machine, number: usize) -> Result<String, Error> {
    let count = number + 1;
    let there = format!("[ $(grep -c '^{TURN}' {LOG}) -ge {count} ]");
    let line = format!("{}; grep '^{TURN}' {LOG} | tail -n 1", wait_until(&there));
    let text = machine.run(&line, INSIDE)?;
    Ok(text.trim().strip_prefix(TURN.trim_end()).unwrap_or_default().trim().to_owned())
}

/// Waits until a condition holds, and fails if the program ends before. The condition is checked
/// once more after the end: the program may have met it and ended between two commands.
fn wait_until(holds: &str) -> String {
    format!(
        "until {holds}; do \
         if grep -q '^ended with' {LOG} && ! {holds}; then cat {LOG} >&2; exit 1; fi; \
         sleep 0.1; done"
    )
}
