//! Checks of every knob: a session of Wattline in the guest turns it, and the host reads it from
//! outside, while the session runs and after each ending of a session.

use super::{Checks, INSIDE, Witness, power};
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::rig::{Machine, agent, traffic};

/// Shell command that prints all settings that the requests below, or a governor, may change.
pub(super) const SETTINGS: &str = "cd /sys/devices/system/cpu; \
    grep . cpufreq/policy*/scaling_governor cpufreq/policy*/scaling_setspeed \
    cpufreq/policy*/scaling_m??_freq cpu*/cpuidle/state*/disable cpu*/power/pm_qos_resume_latency_us \
    /proc/irq/*/smp_affinity_list /sys/class/net/eth?/queues/*/?ps_cpus; \
    for i in eth0 eth1; do ethtool -c $i; ethtool -x $i; done 2>/dev/null; true";

/// Lines of requests to the agent.
const REQUESTS: [&str; 5] =
    ["frequency 0 1.6", "frequency 1 2.4", "idle 0 10", "moderation eth0 100", "redirect eth0 1"];

/// Offset and number of words of the 82576 controller's indirection table, with four entries a word
/// (Intel 318551, section 8.10.17).
pub(super) const RETA: (u64, usize) = (0x5c00, 32);
/// Offset of the register that throttles the interrupt of receive queue 1; its microseconds are in
/// bits 2 to 14 (section 8.8.12).
const EITR: u64 = 0x1688;

/// End of a session.
#[derive(Clone, Copy)]
enum Ending {
    /// The agent gets SIGTERM and finishes the session.
    Finish,
    /// The agent gets SIGINT and drops the session.
    Drop,
    /// The agent is killed; `wattline restore` follows.
    KillAndRestore,
    /// The agent is killed; the next session follows.
    KillAndNext,
}

/// Sets everything, checks it, and ends the session, once for each ending.
pub(super) fn check(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    let before = machine.run(SETTINGS, INSIDE)?;
    let resting = machine.registers()?;
    let has_table = machine.card == "igb";
    let requests = if has_table { &REQUESTS[..] } else { &REQUESTS[..4] };
    let table = if has_table { machine.card_registers("eth0", RETA.0, RETA.1)? } else { vec![] };
    for (ending, name) in [
        (Ending::Finish, "an orderly end"),
        (Ending::Drop, "SIGINT"),
        (Ending::KillAndRestore, "SIGKILL and restore"),
        (Ending::KillAndNext, "SIGKILL and the next start"),
    ] {
        start(machine, requests)?;
        checks.equal(
            format!("frequencies set, before {name}"),
            Witness::Outside,
            &[16, 24],
            &machine.registers()?,
        );
        if matches!(ending, Ending::Finish) {
            seen_inside(machine, checks)?;
            if has_table {
                seen_in_card(machine, checks)?;
            }
        }
        let status = match ending {
            Ending::Finish => end(machine, "TERM")?,
            Ending::Drop => end(machine, "INT")?,
            Ending::KillAndRestore | Ending::KillAndNext => end(machine, "KILL")?,
        };
        match ending {
            Ending::Finish | Ending::Drop => {
                checks.equal(format!("exit code, {name}"), Witness::Inside, &0, &status);
            }
            Ending::KillAndRestore => {
                killed(machine, checks, status)?;
                machine.run("wattline restore", INSIDE)?;
            }
            Ending::KillAndNext => {
                killed(machine, checks, status)?;
                start(machine, &[])?;
                end(machine, "TERM")?;
            }
        }
        checks.equal(
            format!("frequencies restored after {name}"),
            Witness::Outside,
            &resting,
            &machine.registers()?,
        );
        if has_table {
            let restored = machine.card_registers("eth0", RETA.0, RETA.1)? == table;
            let what = format!("indirection table of eth0 as before, after {name}");
            checks.equal(what, Witness::Outside, &true, &restored);
        }
        let after = machine.run(SETTINGS, INSIDE)?;
        checks.equal(
            format!("settings that differ after {name}"),
            Witness::Inside,
            &String::new(),
            &differences(&before, &after),
        );
    }
    Ok(())
}

/// Checks the effects of the requests that only the guest sees.
fn seen_inside(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    power::follows_registers(machine, checks, "1.6 and 2.4 GHz set")?;
    let speeds =
        machine.run("cat /sys/devices/system/cpu/cpufreq/policy*/scaling_cur_freq", INSIDE)?;
    checks.equal("kHz shown by cpufreq", Witness::Inside, &"1600000\n2400000\n", &&*speeds);
    let moderation = machine.run("ethtool -c eth0 | grep ^rx-usecs:", INSIDE)?;
    checks.equal("moderation of eth0", Witness::Inside, &"rx-usecs: 100", &moderation.trim());
    // A forbidden state is not entered any more; an allowed one is.
    let entered = |machine: &mut Machine| {
        let counts =
            machine.run("cat /sys/devices/system/cpu/cpu*/cpuidle/state2/usage", INSIDE)?;
        Ok::<Vec<u64>, Error>(counts.lines().filter_map(|line| line.parse().ok()).collect())
    };
    let first = entered(machine)?;
    machine.run("sleep 2", INSIDE)?;
    let moved: Vec<bool> =
        first.iter().zip(entered(machine)?).map(|(before, now)| now > *before).collect();
    checks.equal("C2 entered on CPU 0, 1", Witness::Inside, &vec![false, true], &moved);
    Ok(())
}

/// Checks the card's own registers.
fn seen_in_card(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    let entries = machine.card_registers("eth0", RETA.0, RETA.1)?;
    let steered = entries.iter().all(|four| *four == 0x0101_0101);
    checks.equal("indirection table of eth0 leads to queue 1", Witness::Outside, &true, &steered);
    // The driver writes the register at the next interrupt.
    if let [into, out, ..] = &machine.wires[..] {
        traffic::pass(into, out, 50.0, Duration::from_millis(500))?;
    }
    let register = machine.card_registers("eth0", EITR, 1)?;
    let micros = register.iter().map(|word| (word & 0x7ffc) >> 2).next();
    checks.equal("throttling of eth0, queue 1, in us", Witness::Outside, &Some(100), &micros);
    Ok(())
}

/// Checks that the frequencies are still set after a kill: otherwise nothing would be left to
/// restore.
fn killed(machine: &mut Machine, checks: &mut Checks, status: i32) -> Result<(), Error> {
    checks.equal("exit code, killed", Witness::Inside, &137, &status);
    let registers = machine.registers()?;
    checks.equal("frequencies after the kill", Witness::Outside, &[16, 24], &registers);
    Ok(())
}

/// Starts an agent in the guest and waits until it has made all changes.
pub(super) fn start(machine: &mut Machine, requests: &[&str]) -> Result<(), Error> {
    machine.run("rm -f /tmp/agent.*; touch /tmp/agent.requests", INSIDE)?;
    for request in requests {
        machine.run(&format!("echo '{request}' >> /tmp/agent.requests"), INSIDE)?;
    }
    // The arguments are those of a test program: the agent is one of its tests.
    let line = format!(
        "(sh -c 'echo $$ > /tmp/agent.pid; exec env {}=/tmp/agent.requests agent --exact agent \
         --nocapture' > /tmp/agent.log 2>&1; echo $? > /tmp/agent.status) & true",
        agent::REQUESTS
    );
    machine.run(&line, INSIDE)?;
    let wait = format!(
        "until grep -q '{}' /tmp/agent.log; do [ -e /tmp/agent.status ] && \
         {{ cat /tmp/agent.log >&2; exit 1; }}; sleep 0.1; done",
        agent::READY
    );
    machine.run(&wait, INSIDE).map(drop)
}

/// Sends the agent a signal, and returns the exit code that a shell would see.
pub(super) fn end(machine: &mut Machine, signal: &str) -> Result<i32, Error> {
    let line = format!(
        "kill -{signal} $(cat /tmp/agent.pid); until [ -s /tmp/agent.status ]; \
         do sleep 0.1; done; cat /tmp/agent.status"
    );
    Ok(machine.run(&line, INSIDE)?.trim().parse().unwrap_or(-1))
}

/// Returns the lines of `after` that differ from the same line of `before`.
pub(super) fn differences(before: &str, after: &str) -> String {
    let mut different: Vec<&str> = before
        .lines()
        .zip(after.lines())
        .filter(|(before, after)| before != after)
        .map(|(_, after)| after)
        .collect();
    if before.lines().count() != after.lines().count() {
        different.push("a different number of lines");
    }
    different.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_differ_are_named() {
        assert_eq!(differences("a:1\nb:2\n", "a:1\nb:2\n"), "");
        assert_eq!(differences("a:1\nb:2\n", "a:1\nb:3\n"), "b:3");
        assert_eq!(differences("a:1\nb:2\n", "a:1\n"), "a different number of lines");
    }
}
