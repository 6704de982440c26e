//! `wattline govern` over a suspend to memory, in which the guest's monotonic clock stands still
//! and its boot-time clock does not: the governor starts again, counts no watts for the time, and
//! restores all settings.

use super::knobs::SETTINGS;
use super::server::{
    BURN, HIGHEST, LOWEST, POLICY, ends_well, restored, start_by, stats, wait_for,
};
use super::{Checks, INSIDE, Witness, power};
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::rig::Machine;

/// Values of the registers when the machine wakes, until the kernel has set them again: the table
/// of powers has a cost for them like for any other value.
const LOST: [u8; 2] = [0; 2];
/// The mean power covers the last five seconds, and the driver of the meter asks the table once per
/// second.
const FORGOTTEN: &str = "sleep 8";
/// Duration of the sleep.
const SLEEP: Duration = Duration::from_secs(40);

/// Suspends the guest under a governor, wakes it, and loads it.
pub(super) fn check(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    let before = machine.run(SETTINGS, INSIDE)?;
    let resting = machine.registers()?;
    start_by(machine, &format!("profile = \"max-save\"\n{POLICY}\n"))?;
    let low = wait_for(machine, LOWEST)?;
    checks.equal("frequencies before the suspend", Witness::Outside, &LOWEST, &low);
    let clocks = "cut -d ' ' -f 1 /proc/uptime; wattline stats --json --socket /tmp/govern.sock";
    let first = Clocks::parse(&machine.run(clocks, INSIDE)?);
    machine.suspend(SLEEP)?;
    let last = Clocks::parse(&machine.run(clocks, INSIDE)?);
    let slept = (last.boot - first.boot) - (last.governor - first.governor);
    let (least, most) = (0.8 * SLEEP.as_secs_f64(), 1.5 * SLEEP.as_secs_f64() + 30.0);
    let what = "seconds of the suspend that the governor's clock left out";
    checks.within(what, Witness::Inside, &(least..most), slept);
    // The first CPU has lost its register then, and the kernel has set the other one by itself.
    let low = wait_for(machine, LOWEST)?;
    checks.equal("frequencies after the suspend", Witness::Outside, &LOWEST, &low);
    let now = stats(machine)?;
    let anew = now["govern"]["restarts"].as_u64().is_some_and(|restarts| restarts > 0);
    checks.equal("governing began anew", Witness::Inside, &true, &anew);
    // With the time of the suspend, the power would be above the machine's maximum, or almost zero.
    let [lost, slow, fast] =
        [LOST, LOWEST, HIGHEST].map(|at| f64::from(power::milliwatts(at)) / 1e3);
    let joules = now["power"]["energy_joules"].as_f64().unwrap_or(f64::NAN);
    let most = fast * (now["uptime_seconds"].as_f64().unwrap_or(f64::NAN) + 1.0);
    checks.within("joules after the suspend", Witness::Inside, &(0.0..most), joules);
    let watts = now["power"]["power_watts"].as_f64().unwrap_or(f64::NAN);
    checks.within("watts after the suspend", Witness::Inside, &(lost - 0.1..fast + 0.1), watts);
    // Readings from the wake-up have left the mean by now.
    machine.run(FORGOTTEN, INSIDE)?;
    let at = machine.registers()?;
    checks.equal("frequencies a while after the suspend", Witness::Outside, &LOWEST, &at);
    let watts = stats(machine)?["power"]["power_watts"].as_f64().unwrap_or(f64::NAN);
    let what = "watts a while after the suspend";
    checks.within(what, Witness::Inside, &(slow - 0.1..slow + 0.1), watts);
    machine.run(BURN, INSIDE)?;
    let high = wait_for(machine, HIGHEST)?;
    checks.equal("frequencies under load, after a suspend", Witness::Outside, &HIGHEST, &high);
    machine.run("touch /tmp/burn.stop", INSIDE)?;
    let low = wait_for(machine, LOWEST)?;
    checks.equal("frequencies without load, after a suspend", Witness::Outside, &LOWEST, &low);
    let last = stats(machine)?;
    let rule = last["govern"]["rule"].as_str().unwrap_or_default();
    checks.equal("rule in force after a suspend", Witness::Inside, &"policy", &rule);
    ends_well(machine, checks)?;
    restored(machine, checks, "a suspend", resting, &before)
}

/// The guest's boot-time clock, and the governor's.
struct Clocks {
    boot: f64,
    governor: f64,
}

impl Clocks {
    fn parse(text: &str) -> Self {
        let (boot, stats) = text.split_once('\n').unwrap_or_default();
        let stats: serde_json::Value = serde_json::from_str(stats).unwrap_or_default();
        Self {
            boot: boot.trim().parse().unwrap_or(f64::NAN),
            governor: stats["uptime_seconds"].as_f64().unwrap_or(f64::NAN),
        }
    }
}
