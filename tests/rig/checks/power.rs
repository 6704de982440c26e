//! Power: readings of the real driver of the ACPI power meter, against the formula of
//! `rig/machine.asl` on the registers that are read from outside.

use super::{Checks, INSIDE, Witness, sensors};
use wattline_testbed::Error;
use wattline_testbed::rig::Machine;

/// Time between two readings of the table by the driver.
const SAMPLE: &str = "sleep 2";

/// Sets frequencies by hand and reads the power of each.
pub(super) fn check(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    for (first, second) in
        [("performance", "performance"), ("powersave", "performance"), ("powersave", "powersave")]
    {
        let policy = "/sys/devices/system/cpu/cpufreq/policy";
        let line = format!(
            "echo {first} > {policy}0/scaling_governor; echo {second} > {policy}1/scaling_governor"
        );
        machine.run(&line, INSIDE)?;
        follows_registers(machine, checks, &format!("governors {first}, {second}"))?;
    }
    let back = "for p in /sys/devices/system/cpu/cpufreq/policy*; \
                do echo performance > $p/scaling_governor; done";
    machine.run(back, INSIDE)?;
    attributed(machine, checks)
}

/// Attributes the machine's power from records at its slowest and at its fastest: the idle part is
/// the formula's value for the slowest, the rest is the difference.
fn attributed(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    let mut watts = Vec::new();
    for (governor, file) in [("powersave", "idle"), ("performance", "loaded")] {
        let line = format!(
            "for p in /sys/devices/system/cpu/cpufreq/policy*; do \
             echo {governor} > $p/scaling_governor; done; {SAMPLE}; rm -f /tmp/{file}.csv; \
             wattline meter record --period 500ms --duration 2s --out /tmp/{file}.csv"
        );
        machine.run(&line, INSIDE)?;
        watts.push(milliwatts(machine.registers()?));
    }
    let line = "wattline meter attribute --idle /tmp/idle.csv --idle-plus /tmp/idle.csv \
                --loaded /tmp/loaded.csv --json";
    let report = sensors::json(machine, line)?;
    let part = |name: &str| {
        let parts = report["parts"].as_array().into_iter().flatten();
        let found = parts
            .filter(|part| part["part"] == name)
            .find_map(|part| Some((part["power_watts"].as_f64()? * 1e3).round() as i64));
        found.unwrap_or(-1)
    };
    let [slow, fast] = watts[..] else { return Ok(()) };
    for (name, expected) in [
        ("rest", i64::from(slow)),
        ("network card, idle", 0),
        ("processors and card, traffic", i64::from(fast) - i64::from(slow)),
    ] {
        let what = format!("milliwatts attributed to: {name}");
        checks.equal(what, Witness::Inside, &expected, &part(name));
    }
    Ok(())
}

/// Compares the power that Wattline reads with the formula on the registers.
pub(super) fn follows_registers(
    machine: &mut Machine,
    checks: &mut Checks,
    when: &str,
) -> Result<(), Error> {
    machine.run(SAMPLE, INSIDE)?;
    let read = sensors::json(machine, "wattline meter read --interval 100ms --json")?;
    let total = &read["total"];
    let expected = milliwatts(machine.registers()?);
    let watts = total["power_watts"].as_f64().unwrap_or(f64::NAN);
    let found = (watts * 1e3).round() as u32;
    checks.equal(format!("milliwatts read by hwmon, {when}"), Witness::Inside, &expected, &found);
    let class = format!("{} {}", total["source"], total["accuracy"]);
    let expected = r#""measured" "gold""#;
    checks.equal("class of that reading", Witness::Inside, &expected, &class.as_str());
    Ok(())
}

/// The formula of the table.
pub fn milliwatts(registers: [u8; 2]) -> u32 {
    let sum: u32 = registers.into_iter().map(u32::from).sum();
    115_000 + (23_400 + 3_267 * sum) / 10
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The base and the core term of the reference server, awake.
    #[test]
    fn the_table_costs_what_the_server_model_says() {
        let core = |gigahertz: f64| 1.17 + 3.267 * gigahertz;
        for (registers, expected) in
            [([33, 33], 115.0 + 2.0 * core(3.3)), ([16, 24], 115.0 + core(1.6) + core(2.4))]
        {
            let found = f64::from(milliwatts(registers)) / 1e3;
            assert!((found - expected).abs() < 0.001, "{found} W instead of {expected} W");
        }
    }
}
