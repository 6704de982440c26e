//! Sensors that `wattline probe` and `wattline meter` find inside.

use super::{Checks, INSIDE, Witness};
use serde_json::Value;
use wattline_testbed::Error;
use wattline_testbed::rig::Machine;

/// Looks at the guest with the guest's own Wattline.
pub(super) fn check(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    let probe = json(machine, "wattline probe --json")?;
    let state = |name: &str| -> String {
        let knobs = probe["knobs"].as_array().into_iter().flatten();
        let mut named = knobs.filter(|knob| knob["name"] == name);
        named.next().and_then(|knob| knob["state"].as_str()).unwrap_or("missing").to_owned()
    };
    for cpu in 0..2 {
        let expected = "AcpiCpufreq, 1.600 to 3.300 GHz of 1.600 to 3.300, \
                        governor performance, 3 steps";
        let name = format!("frequency of CPUs [{cpu}]");
        let found = state(&name);
        checks.equal(format!("probe: {name}"), Witness::Inside, &expected, &found.as_str());
    }
    let expected = "acpi_idle: POLL (0 us), C1 (1 us), C2 (87 us)";
    checks.equal("probe: idle states", Witness::Inside, &expected, &state("idle states").as_str());
    let found = state("interrupt moderation eth0") != "missing";
    checks.equal("probe: interrupt moderation of eth0", Witness::Inside, &true, &found);
    let meters = json(machine, "wattline meter list --json")?;
    let summed = meters["summed"].to_string();
    let expected = r#"["hwmon:power_meter-ACPI000D:00/power1"]"#;
    checks.equal("meter list: what is summed", Witness::Inside, &expected, &summed.as_str());
    Ok(())
}

/// Runs a command inside and returns its output, which has to be JSON.
pub(super) fn json(machine: &mut Machine, line: &str) -> Result<Value, Error> {
    let text = machine.run(line, INSIDE)?;
    serde_json::from_str(&text).map_err(|error| Error::Rig {
        what: format!("`{line}` printed no JSON ({error}): {text}"),
        console: String::new(),
    })
}
