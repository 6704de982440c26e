//! `wattline govern` on real drivers: frequencies and watts of a machine whose kernel serves the
//! packets fall and rise with its load, and all is given back.

use super::ipsec::write;
use super::knobs::{SETTINGS, differences};
use super::{Checks, INSIDE, Witness, power, sensors};
use std::ops::Range;
use std::time::{Duration, Instant};
use wattline_testbed::Error;
use wattline_testbed::rig::{Machine, traffic};

const SOCKET: &str = "/tmp/govern.sock";
/// Time that a busy host may take to show the load, and the guard of CPU pressure to forget it.
const PATIENCE: Duration = Duration::from_secs(240);
/// Control values of both CPUs for the lowest and the highest frequency.
pub(super) const LOWEST: [u8; 2] = [16; 2];
pub(super) const HIGHEST: [u8; 2] = [33; 2];
/// The profile's policy with one sample per second instead of ten: on an emulator that shares its
/// host with other tests, ten samples per second are a load by themselves.
pub(super) const POLICY: &str = "policy = \"conservative:sampling_rate=1s,up_threshold=90,\
    down_threshold=60,freq_step=10\"";
/// Keeps both CPUs busy until the file `/tmp/burn.stop` exists.
pub(super) const BURN: &str = "rm -f /tmp/burn.stop; for i in 0 1; do \
    (while [ ! -e /tmp/burn.stop ]; do :; done) > /dev/null 2>&1 & done; true";

/// Governs the guest by a profile that turns every knob. Ends once in order and once by SIGKILL.
pub(super) fn check(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    let before = machine.run(SETTINGS, INSIDE)?;
    let resting = machine.registers()?;
    checks.equal("fast before it is governed", Witness::Outside, &HIGHEST, &resting);
    start(machine)?;
    let low = wait_for(machine, LOWEST)?;
    checks.equal("frequencies at low load", Witness::Outside, &LOWEST, &low);
    // Sampling is load, too: the mean of some seconds lies a little above the power at the lowest
    // frequency, and well below the power before.
    let [least, most] = [LOWEST, resting].map(|at| f64::from(power::milliwatts(at)) / 1e3);
    let low = least - 0.1..least + (most - least) / 2.0;
    let watts = watts_within(machine, &low)?;
    checks.within("watts at low load", Witness::Inside, &low, watts);
    // As found while the guard sees CPU pressure, which a busy host makes.
    let line = "for second in $(seq 120); do ethtool -c eth0 | grep -qx 'rx-usecs:[[:space:]]*100' && break; \
                sleep 1; done; ethtool -c eth0 | grep ^rx-usecs:";
    let moderation = machine.run(line, PATIENCE)?;
    checks.equal("moderation of eth0", Witness::Inside, &"rx-usecs: 100", &moderation.trim());
    counted(machine, checks)?;
    put_back(machine, checks)?;

    machine.run(BURN, INSIDE)?;
    let high = wait_for(machine, HIGHEST)?;
    checks.equal("frequencies under load", Witness::Outside, &HIGHEST, &high);
    machine.run("touch /tmp/burn.stop", INSIDE)?;
    let low = wait_for(machine, LOWEST)?;
    checks.equal("frequencies after the load", Witness::Outside, &LOWEST, &low);
    let stats = stats(machine)?;
    let failed = stats["power"]["steps_failed"].as_u64();
    checks.equal("steps of the server's governor that failed", Witness::Inside, &Some(0), &failed);
    ends_well(machine, checks)?;
    restored(machine, checks, "the end of the server's governor", resting, &before)?;

    start(machine)?;
    wait_for(machine, LOWEST)?;
    // A CPU goes and comes back: the kernel keeps its settings.
    let line = "cd /sys/devices/system/cpu/cpu1; echo 0 > online; sleep 3; echo 1 > online";
    machine.run(line, INSIDE)?;
    machine.run(BURN, INSIDE)?;
    let high = wait_for(machine, HIGHEST)?;
    let what = "frequencies under load, after a CPU was off line";
    checks.equal(what, Witness::Outside, &HIGHEST, &high);
    machine.run("touch /tmp/burn.stop", INSIDE)?;
    wait_for(machine, LOWEST)?;
    machine.run("kill -KILL $(cat /tmp/govern.pid)", INSIDE)?;
    restored(machine, checks, "SIGKILL of the server's governor", resting, &before)?;
    unconfigured(machine, checks, resting, &before)
}

/// Governs without a configuration file.
fn unconfigured(
    machine: &mut Machine,
    checks: &mut Checks,
    resting: [u8; 2],
    before: &str,
) -> Result<(), Error> {
    let line = "rm -f /tmp/govern.*; (sh -c 'echo $$ > /tmp/govern.pid; exec wattline govern --json' \
                > /tmp/govern.out 2> /tmp/govern.log; echo $? > /tmp/govern.status) & true";
    machine.run(line, INSIDE)?;
    // The kernel controls the frequency then; its lowest value in an emulated machine is not fixed.
    let line = "for second in $(seq 60); do \
                grep -qx schedutil /sys/devices/system/cpu/cpufreq/policy0/scaling_governor && break; sleep 1; done; \
                cat /sys/devices/system/cpu/cpufreq/policy*/scaling_governor";
    let governors = machine.run(line, INSIDE)?;
    let what = "governors of the frequency without a configuration";
    checks.equal(what, Witness::Inside, &"schedutil\nschedutil", &governors.trim());
    machine.run(BURN, INSIDE)?;
    let high = wait_for(machine, HIGHEST)?;
    let what = "frequencies under load without a configuration";
    checks.equal(what, Witness::Outside, &HIGHEST, &high);
    machine.run("touch /tmp/burn.stop", INSIDE)?;
    ends_well(machine, checks)?;
    restored(machine, checks, "governing without a configuration", resting, before)
}

/// Settings that another program resets to their values from before are set again.
fn put_back(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    let line = "echo performance > /sys/devices/system/cpu/cpufreq/policy0/scaling_governor; \
                until grep -q 'scaling_governor: it was put back' /tmp/govern.log; do sleep 0.2; done; \
                grep -c 'the governor leaves it' /tmp/govern.log; true";
    let left = machine.run(line, INSIDE)?;
    checks.equal("settings left to another program", Witness::Inside, &"0", &left.trim());
    let low = wait_for(machine, LOWEST)?;
    checks.equal("frequencies, once reset by another program", Witness::Outside, &LOWEST, &low);
    Ok(())
}

/// Ends the governor, and checks its exit code.
pub(super) fn ends_well(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    let line = "kill -TERM $(cat /tmp/govern.pid); until [ -s /tmp/govern.status ]; \
                do sleep 0.1; done; cat /tmp/govern.status";
    let status = machine.run(line, INSIDE)?;
    checks.equal("exit code of the server's governor", Witness::Inside, &"0", &status.trim());
    Ok(())
}

/// Frames that come in are counted by the card's queues.
fn counted(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    let offered = |stats: &serde_json::Value| stats["power"]["offered_packets"].as_u64();
    let first = offered(&stats(machine)?).unwrap_or(0);
    let [into, out, ..] = &machine.wires[..] else { return Ok(()) };
    let sent = traffic::pass(into, out, 100.0, Duration::from_secs(2))?.sent;
    let end = Instant::now() + PATIENCE;
    let seen = loop {
        let seen = offered(&stats(machine)?).unwrap_or(0).saturating_sub(first);
        if seen >= sent || Instant::now() >= end {
            break seen;
        }
    };
    checks.equal(
        "frames counted by the server's governor",
        Witness::Inside,
        &true,
        &(seen >= sent),
    );
    Ok(())
}

pub(super) fn stats(machine: &mut Machine) -> Result<serde_json::Value, Error> {
    sensors::json(machine, &format!("wattline stats --json --socket {SOCKET}"))
}

/// Returns the governor's mean power of some seconds, once it covers low load alone: on a busy
/// host, the guest's own tasks raise its frequency now and then.
fn watts_within(machine: &mut Machine, range: &Range<f64>) -> Result<f64, Error> {
    let end = Instant::now() + PATIENCE;
    loop {
        machine.run("sleep 6", INSIDE)?;
        let watts = stats(machine)?["power"]["power_watts"].as_f64().unwrap_or(f64::NAN);
        if range.contains(&watts) || Instant::now() >= end {
            return Ok(watts);
        }
    }
}

fn start(machine: &mut Machine) -> Result<(), Error> {
    // With permission to raise, so that it turns every knob in both directions.
    start_by(machine, &format!("profile = \"max-save\"\nmay_raise = true\n{POLICY}\n"))
}

/// Governs with these keys of `[govern]`, and waits until the governor answers.
pub(super) fn start_by(machine: &mut Machine, text: &str) -> Result<(), Error> {
    start_with(machine, "", text)
}

/// The same with arguments.
pub(super) fn start_with(machine: &mut Machine, more: &str, text: &str) -> Result<(), Error> {
    machine.run("rm -f /tmp/govern.*", INSIDE)?;
    write(machine, "/tmp/govern.toml", &format!("[govern]\nsocket = \"{SOCKET}\"\n{text}"))?;
    let line = format!(
        "(sh -c 'echo $$ > /tmp/govern.pid; exec wattline govern {more} /tmp/govern.toml --json' \
         > /tmp/govern.out 2> /tmp/govern.log; echo $? > /tmp/govern.status) & true"
    );
    machine.run(&line, INSIDE)?;
    let wait = format!(
        "until wattline stats --socket {SOCKET} > /tmp/govern.stats 2>&1; do \
         [ -e /tmp/govern.status ] && {{ cat /tmp/govern.log >&2; exit 1; }}; sleep 0.2; done"
    );
    machine.run(&wait, INSIDE).map(drop)
}

/// Waits until the registers have these values, and returns their last ones. Prints the state of
/// the guest if they never get them.
pub(super) fn wait_for(machine: &mut Machine, wanted: [u8; 2]) -> Result<[u8; 2], Error> {
    let end = Instant::now() + PATIENCE;
    loop {
        let registers = machine.registers()?;
        if registers == wanted {
            return Ok(registers);
        }
        if Instant::now() >= end {
            let line = "grep . /sys/devices/system/cpu/cpufreq/policy*/scaling_*; head -3 /proc/stat; \
                        sleep 5; head -3 /proc/stat; ps -o pid,psr,stat,args 2>&1 | tail -30; \
                        wattline stats --json --socket /tmp/govern.sock; tail -40 /tmp/govern.log; true";
            println!(
                "registers are {registers:?}, not {wanted:?}:\n{}",
                machine.run(line, INSIDE)?
            );
            return Ok(registers);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Checks that everything is as it was before.
pub(super) fn restored(
    machine: &mut Machine,
    checks: &mut Checks,
    after: &str,
    resting: [u8; 2],
    before: &str,
) -> Result<(), Error> {
    let registers = wait_for(machine, resting)?;
    let what = format!("frequencies restored after {after}");
    checks.equal(what, Witness::Outside, &resting, &registers);
    // The watchdog restores one after the other.
    let end = Instant::now() + PATIENCE;
    let different = loop {
        let different = differences(&own(before), &own(&machine.run(SETTINGS, INSIDE)?));
        if different.is_empty() || Instant::now() >= end {
            break different;
        }
    };
    let what = format!("settings that differ after {after}");
    checks.equal(what, Witness::Inside, &String::new(), &different);
    Ok(())
}

/// Leaves out the CPUs of interrupts, which this governor does not set and a CPU that goes offline
/// moves.
fn own(settings: &str) -> String {
    let lines = settings.lines().filter(|line| !line.starts_with("/proc/irq"));
    lines.map(|line| format!("{line}\n")).collect()
}
