//! Power sensors of `/sys/class/hwmon` (Documentation/hwmon/sysfs-interface.rst), among them
//! the ACPI power meter (Documentation/hwmon/acpi_power_meter.rst).

use crate::reading::{Description, Meter, Plausible, Reading, Rejection, Scope};
use crate::registration::{Finding, Registration, Row};
use std::path::PathBuf;
use wattline_linux::missing::Missing;
use wattline_linux::sysfs::{ReadError, Tree};
use wattline_units::{Accuracy, Provenance, Source, Span, Time, Watts};

const HWMON: &str = "/sys/class/hwmon";

/// What firmware shows instead of a value: all ones in 32 bits, as it is and times 1000 or
/// 10^6 for the unit (seen as 4 294 967 295 000 µW on ACPI meters).
const SENTINELS: [i64; 4] = [4_294_967_295, 4_294_967_295_000, 4_294_967_295_000_000, i64::MAX];

/// One power sensor.
#[derive(Debug)]
pub struct Hwmon {
    tree: Tree,
    file: PathBuf,
    description: Description,
    plausible: Plausible,
    last: Option<Time>,
}

/// All power sensors that can be used, and why others cannot.
pub fn find(tree: &Tree) -> (Vec<Hwmon>, Vec<Missing>) {
    let mut meters = Vec::new();
    let mut missing = Vec::new();
    for (_, chip) in tree.numbered(HWMON, "hwmon") {
        for (channel, _) in channels(tree, &chip) {
            match Hwmon::open(tree, &chip, channel) {
                Ok(meter) => meters.push(meter),
                Err(why) => {
                    missing.push(Missing::new(format!("{chip} power{channel}"), &why));
                }
            }
        }
    }
    (meters, missing)
}

/// Where the attributes of a chip are: with it, or, as libsensors looks too, with the device
/// that it belongs to. The ACPI power meter's driver leaves them there (seen on kernel 6.12).
fn attributes(tree: &Tree, chip: &str) -> PathBuf {
    let directory = PathBuf::from(HWMON).join(chip);
    let device = directory.join("device");
    let with_device = !tree.exists(directory.join("name")) && tree.exists(device.join("name"));
    if with_device { device } else { directory }
}

/// Channels of a chip, each with the file that shows its value: the average where there is
/// one, because it covers the time between two readings.
fn channels(tree: &Tree, chip: &str) -> Vec<(u32, String)> {
    let mut found = std::collections::BTreeMap::new();
    for name in tree.entries(attributes(tree, chip)) {
        let Some((number, kind)) = name.strip_prefix("power").and_then(|n| n.split_once('_'))
        else {
            continue;
        };
        let Ok(number) = number.parse::<u32>() else { continue };
        match kind {
            "average" => drop(found.insert(number, name)),
            "input" => drop(found.entry(number).or_insert(name)),
            _ => {}
        }
    }
    found.into_iter().collect()
}

impl Hwmon {
    fn open(tree: &Tree, chip: &str, channel: u32) -> Result<Self, ReadError> {
        let directory = attributes(tree, chip);
        let name = tree.text(directory.join("name"))?;
        let label = tree.text(directory.join(format!("power{channel}_label"))).ok();
        let file = channels(tree, chip)
            .into_iter()
            .find(|(number, _)| *number == channel)
            .map(|(_, file)| directory.join(file))
            .ok_or_else(|| ReadError::Missing(tree.path(&directory)))?;
        // Tried once: some sensors exist and answer with an error only.
        tree.number::<i64>(&file)?;
        // The ACPI meter measures what the supply delivers; other chips what they sit on.
        let platform = name == "power_meter" || name == "acpi_power_meter";
        let (scope, highest) =
            if platform { (Scope::Platform, 20_000.0) } else { (Scope::Device, 2_000.0) };
        let stated = tree.text(directory.join(format!("power{channel}_accuracy"))).ok();
        let shown = label.as_deref().unwrap_or("no label");
        let note = match &stated {
            Some(accuracy) => format!("{name}, {shown}, states an accuracy of {accuracy}"),
            None => format!("{name}, {shown}, states no accuracy"),
        };
        Ok(Self {
            tree: tree.clone(),
            file,
            // A running machine draws something; a device may draw nothing.
            plausible: Plausible {
                lowest: Watts(if platform { 0.1 } else { 0.0 }),
                highest: Watts(highest),
            },
            last: None,
            description: Description {
                id: format!("hwmon:{chip}/power{channel}"),
                source: "hwmon",
                scope,
                part_of: None,
                provenance: Provenance {
                    source: Source::Measured,
                    accuracy: stated.map_or(Accuracy::Bronze, |text| accuracy_class(&text)),
                },
                note,
            },
        })
    }
}

impl Meter for Hwmon {
    fn description(&self) -> &Description {
        &self.description
    }

    fn read(&mut self, now: Time) -> Result<Reading, Rejection> {
        let microwatts: i64 = self.tree.number(&self.file)?;
        if SENTINELS.contains(&microwatts) {
            return Err(Rejection::Sentinel { value: microwatts });
        }
        let power = self.plausible.check(Watts(microwatts as f64 / 1e6))?;
        let elapsed = self.last.map_or(Span::ZERO, |last| now.since(last));
        self.last = Some(now);
        // A spot value: what happened between two readings is not known, so no energy is.
        Ok(Reading { energy: None, elapsed, power, provenance: self.description.provenance })
    }
}

/// The class of a stated accuracy; the ACPI meter writes `95.0%` for an error of 5 %.
fn accuracy_class(text: &str) -> Accuracy {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if (95.0..=100.0).contains(&percent) => Accuracy::Gold,
        Ok(percent) if (90.0..95.0).contains(&percent) => Accuracy::Silver,
        _ => Accuracy::Bronze,
    }
}

/// Power sensors.
pub const KIND: Registration = Registration {
    rows: &[Row {
        meter: "`hwmon:hwmonN/powerM`",
        files: "`/sys/class/hwmon/hwmonN/powerM_average`, else `_input`",
        sees: "the platform for the ACPI power meter, else a device",
        class: "as `powerM_accuracy` states, else bronze",
    }],
    find: |tree, _| {
        let (sensors, mut missing) = find(tree);
        if sensors.is_empty() && missing.is_empty() {
            missing.push(Missing::because(
                "hwmon power sensor",
                "no chip in /sys/class/hwmon shows power",
                "load acpi_power_meter where the firmware has a meter (ACPI000D), or the driver \
                 of the supply (pmbus) or board",
            ));
        }
        Finding::of(sensors, missing)
    },
    // Chip by chip: other files of one can hold what identifies the machine.
    recorded: &[],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stated_accuracy_becomes_a_class() {
        assert_eq!(accuracy_class("95.0%"), Accuracy::Gold);
        assert_eq!(accuracy_class("90.0%"), Accuracy::Silver);
        assert_eq!(accuracy_class("70.0%"), Accuracy::Bronze);
        assert_eq!(accuracy_class("?"), Accuracy::Bronze);
    }
}
