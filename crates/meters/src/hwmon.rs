//! Power sensors of `/sys/class/hwmon` (Documentation/hwmon/sysfs-interface.rst), among them
//! the ACPI power meter (Documentation/hwmon/acpi_power_meter.rst).
//!
//! The kernel numbers chips in order of detection, which differs from boot to boot. A sensor is
//! therefore named by its chip and device, and found again under another number.

use crate::reading::{Description, Meter, Plausible, Reading, Rejection, Scope};
use crate::registration::{Finding, Registration, Row};
use std::path::PathBuf;
use wattline_linux::missing::Missing;
use wattline_linux::sysfs::{ReadError, Tree};
use wattline_units::{Accuracy, Provenance, Source, Span, Time, Watts};

const HWMON: &str = "/sys/class/hwmon";

/// Firmware's values for none: all ones in 32 bits, unchanged and times 1000 or 10^6 for the unit
/// (seen as 4 294 967 295 000 µW on ACPI meters).
const SENTINELS: [i64; 4] = [4_294_967_295, 4_294_967_295_000, 4_294_967_295_000_000, i64::MAX];

/// Lowest mains voltage: a supply with less is fed by another supply (48 V and below).
const LEAST_MAINS_MILLIVOLTS: i64 = 80_000;

/// One power sensor.
#[derive(Debug)]
pub struct Hwmon {
    tree: Tree,
    place: Place,
    description: Description,
    plausible: Plausible,
    last: Option<Time>,
}

/// A channel of a chip, and its last place.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    /// `hwmonN`.
    chip: String,
    name: String,
    device: String,
    channel: u32,
    /// Name of the file with its value.
    file: String,
}

impl Place {
    fn find(tree: &Tree, chip: &str, (channel, file): (u32, String)) -> Result<Self, ReadError> {
        let name = tree.text(attributes(tree, chip).join("name"))?;
        let chip = chip.to_owned();
        Ok(Self { device: device(tree, &chip), chip, name, channel, file })
    }

    fn id(&self) -> String {
        let Self { name, device, channel, .. } = self;
        format!("hwmon:{name}-{device}/power{channel}")
    }

    /// Reads the present value, under the chip's present number.
    fn read(&mut self, tree: &Tree) -> Result<i64, ReadError> {
        // The number may belong to another chip by now, or to none.
        if !self.is_at(tree, &self.chip) {
            let mut chips = tree.numbered(HWMON, "hwmon").into_iter().map(|(_, chip)| chip);
            let gone = || ReadError::Missing(tree.path(PathBuf::from(HWMON).join(&self.chip)));
            self.chip = chips.find(|chip| self.is_at(tree, chip)).ok_or_else(gone)?;
        }
        tree.number(attributes(tree, &self.chip).join(&self.file))
    }

    fn is_at(&self, tree: &Tree, chip: &str) -> bool {
        let name = tree.text(attributes(tree, chip).join("name"));
        name.is_ok_and(|name| name == self.name) && device(tree, chip) == self.device
    }
}

/// Returns the name of the device that a chip belongs to; the chip's own without a device.
fn device(tree: &Tree, chip: &str) -> String {
    let directory = PathBuf::from(HWMON).join(chip);
    let recorded = || tree.text(directory.join(RECORDED_DEVICE)).ok();
    let name = tree.link_name(directory.join("device")).or_else(recorded);
    name.unwrap_or_else(|| chip.to_owned())
}

/// File of a recording with the name of a chip's device; the machine has a link instead.
pub const RECORDED_DEVICE: &str = "recorded_device";

/// Returns all usable power sensors, and the reasons why others are not.
pub fn find(tree: &Tree) -> (Vec<Hwmon>, Vec<Missing>) {
    let mut meters: Vec<Hwmon> = Vec::new();
    let mut missing = Vec::new();
    for (_, chip) in tree.numbered(HWMON, "hwmon") {
        for (channel, file) in channels(tree, &chip) {
            match Hwmon::open(tree, &chip, (channel, file)) {
                Ok(meter) => meters.push(meter),
                Err(why) => {
                    missing.push(Missing::new(format!("{chip} power{channel}"), &why));
                }
            }
        }
    }
    // The ACPI meter sees all supplies together.
    let whole =
        meters.iter().find(|meter| meter.is_acpi()).map(|meter| meter.description.id.clone());
    for meter in meters.iter_mut().filter(|meter| !meter.is_acpi()) {
        if meter.description.scope == Scope::Platform {
            meter.description.part_of.clone_from(&whole);
        }
    }
    (meters, missing)
}

/// Finds a chip's attributes: in its directory, or, like libsensors, in that of its device. The
/// ACPI power meter's driver leaves them there (seen on kernel 6.12).
fn attributes(tree: &Tree, chip: &str) -> PathBuf {
    let directory = PathBuf::from(HWMON).join(chip);
    let device = directory.join("device");
    let with_device = !tree.exists(directory.join("name")) && tree.exists(device.join("name"));
    if with_device { device } else { directory }
}

/// Returns the channels of a chip, each with the file of its value: the average if there is one,
/// because it covers the time between two readings.
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

/// Returns true if a channel is the input of a supply on the mains: by PMBus's labels
/// (Documentation/hwmon/pmbus.rst) and its voltage. Regulators of a board have the same labels.
fn is_mains_input(tree: &Tree, chip: &str, label: Option<&str>) -> bool {
    let directory = attributes(tree, chip);
    let mains = |channel: u32| {
        let label = tree.text(directory.join(format!("in{channel}_label")));
        let volts = tree.number::<i64>(directory.join(format!("in{channel}_input")));
        label.is_ok_and(|label| label == "vin")
            && volts.is_ok_and(|it| it >= LEAST_MAINS_MILLIVOLTS)
    };
    label == Some("pin") && (0..=1).any(mains)
}

impl Hwmon {
    /// Returns true for the meter of the firmware.
    fn is_acpi(&self) -> bool {
        is_acpi(&self.place.name)
    }

    fn open(tree: &Tree, chip: &str, value: (u32, String)) -> Result<Self, ReadError> {
        let directory = attributes(tree, chip);
        let channel = value.0;
        let mut place = Place::find(tree, chip, value)?;
        // Tried once: some sensors exist but only return errors.
        place.read(tree)?;
        let name = &place.name;
        let label = tree.text(directory.join(format!("power{channel}_label"))).ok();
        // The ACPI meter measures the output of the supply, a supply on the mains its input; other
        // chips measure their own device.
        let platform = is_acpi(name) || is_mains_input(tree, chip, label.as_deref());
        let (scope, highest) =
            if platform { (Scope::Platform, 20_000.0) } else { (Scope::Device, 2_000.0) };
        let stated = tree.text(directory.join(format!("power{channel}_accuracy"))).ok();
        let shown = label.as_deref().unwrap_or("no label");
        let note = match &stated {
            Some(accuracy) => format!("{name}, {shown}, states an accuracy of {accuracy}"),
            None => format!("{name}, {shown}, states no accuracy"),
        };
        // A running machine draws some power; a device may draw none, and so may one of two
        // supplies.
        let lowest = if is_acpi(name) { 0.1 } else { 0.0 };
        Ok(Self {
            tree: tree.clone(),
            plausible: Plausible { lowest: Watts(lowest), highest: Watts(highest) },
            last: None,
            description: Description {
                id: place.id(),
                source: "hwmon",
                scope,
                part_of: None,
                provenance: Provenance {
                    source: Source::Measured,
                    accuracy: stated.map_or(Accuracy::Bronze, |text| accuracy_class(&text)),
                },
                note,
            },
            place,
        })
    }

    fn power(&mut self) -> Result<Watts, Rejection> {
        let microwatts = self.place.read(&self.tree)?;
        if SENTINELS.contains(&microwatts) {
            return Err(Rejection::Sentinel { value: microwatts });
        }
        self.plausible.check(Watts(microwatts as f64 / 1e6))
    }
}

fn is_acpi(name: &str) -> bool {
    name == "power_meter" || name == "acpi_power_meter"
}

impl Meter for Hwmon {
    fn description(&self) -> &Description {
        &self.description
    }

    fn read(&mut self, now: Time) -> Result<Reading, Rejection> {
        // A time without a figure is a gap: a momentary value does not cover it.
        let last = self.last.take();
        let power = self.power()?;
        let elapsed = last.map_or(Span::ZERO, |last| now.since(last));
        self.last = Some(now);
        // A momentary value: the power between two readings is unknown, and so is the energy.
        Ok(Reading { energy: None, elapsed, power, provenance: self.description.provenance })
    }
}

/// Returns the class of a stated accuracy; the ACPI meter writes `95.0%` for an error of 5 %.
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
        meter: "`hwmon:CHIP-DEVICE/powerM`",
        files: "`/sys/class/hwmon/hwmonN/powerM_average`, else `_input`",
        sees: "the platform for the ACPI power meter and, summed, supplies on the mains; else a device",
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
        Finding::new(sensors, missing)
    },
    // Chip by chip: other files of a chip can identify the machine.
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
