//! Recording the files of a machine, so that others can test against it.

use super::place::Place;
use crate::exit::ExitError;
use std::path::Path;
use wattline_knobs::{Access, KNOBS, Machine, affinity};
use wattline_linux::sysfs::Tree;
use wattline_meters::{KINDS, RECORDED_DEVICE};

/// Maximum depth in sysfs and number of files of a recording: it must end even with a cycle of
/// links or thousands of CPUs.
const DEEPEST: u32 = 6;
const MOST_FILES: usize = 200_000;

const CPUS: &str = "/sys/devices/system/cpu";
/// In addition to the files that knobs and meters register: the kind of processor, in `CPUS` and of
/// each CPU.
const SHARED: &str = "smt";
const OF_EACH_CPU: &str = "topology";
const FILES: [&str; 6] = [
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/present",
    "/sys/devices/system/cpu/possible",
    "/sys/devices/system/cpu/isolated",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/perf_event_paranoid",
];
/// Lines of /proc/cpuinfo that identify the processor's model, not the individual processor.
const CPUINFO: [&str; 6] = ["vendor_id", "cpu family", "model", "model name", "stepping", "flags"];

/// The recording.
#[derive(Debug, Default)]
pub struct Recorded {
    pub files: usize,
    pub unreadable: Vec<String>,
}

struct Recorder<'a> {
    tree: &'a Tree,
    to: &'a mut Place,
    recorded: Recorded,
}

/// Copies the files that probe, knobs and meters read into a new folder, or into a new archive if
/// `to` is named like one.
pub fn record(tree: &Tree, to: &Path) -> Result<Recorded, ExitError> {
    Place::filled(to, |place| Ok(fill(tree, place)))
}

/// Copies the same files into a place.
pub fn fill(tree: &Tree, to: &mut Place) -> Recorded {
    let mut recorder = Recorder { tree, to, recorded: Recorded::default() };
    let cpus = Path::new(CPUS);
    let recorded = KNOBS.iter().map(|knob| knob.recorded);
    for directory in recorded.clone().flat_map(|of| of.directories).chain([&SHARED]) {
        recorder.directory(&cpus.join(directory), &[], DEEPEST);
    }
    for (directory, names) in KINDS.iter().flat_map(|kind| kind.recorded) {
        recorder.directory(Path::new(directory), names, DEEPEST);
    }
    for (_, cpu) in tree.numbered(CPUS, "cpu") {
        for place in recorded.clone().flat_map(|of| of.of_each_cpu).chain([&OF_EACH_CPU]) {
            let place = cpus.join(&cpu).join(place);
            // Only one of the two exists.
            recorder.directory(&place, &[], DEEPEST);
            recorder.file(&place);
        }
    }
    recorder.sensors();
    for file in FILES {
        recorder.file(Path::new(file));
    }
    recorder.processor();
    recorder.cards();
    // Stands for the boot; the real identifier is private.
    recorder.put("/proc/sys/kernel/random/boot_id", "00000000-0000-4000-8000-000000000000");
    let Recorder { recorded, to, .. } = recorder;
    to.put(Path::new("unreadable.txt"), &recorded.unreadable.join("\n"));
    recorded
}

impl Recorder<'_> {
    fn directory(&mut self, path: &Path, names: &[&str], deep: u32) {
        for name in self.tree.entries(path) {
            let below = path.join(&name);
            // Links back to the device, the subsystem and the parent are left out.
            if ["device", "subsystem", "driver", "power", "uevent"].contains(&name.as_str()) {
                continue;
            }
            if self.tree.is_directory(&below) {
                if deep > 0 {
                    self.directory(&below, names, deep - 1);
                }
            } else if names.is_empty() || names.contains(&name.as_str()) {
                self.file(&below);
            }
        }
    }

    /// Copies power channels and the name of each chip, without serial numbers of meters; other
    /// channels may belong to batteries. Some drivers leave them in the chip's device. Also copies
    /// the input voltage of supplies, and the name of each chip's device, by which the chip is
    /// identified.
    fn sensors(&mut self) {
        for (_, chip) in self.tree.numbered("/sys/class/hwmon", "hwmon") {
            let chip = Path::new("/sys/class/hwmon").join(chip);
            let recorded = chip.join(RECORDED_DEVICE);
            match self.tree.link_name(chip.join("device")) {
                Some(device) => self.put(&recorded, &device),
                None => self.file(&recorded),
            }
            for chip in [chip.clone(), chip.join("device")] {
                for name in self.tree.entries(&chip) {
                    let input = ["in0_", "in1_"].iter().any(|input| name.starts_with(input));
                    let channel = input || name.starts_with("power") && name.contains('_');
                    let identifies = name.ends_with("_number") || name.ends_with("_info");
                    if name == "name" || channel && !identifies {
                        self.file(&chip.join(name));
                    }
                }
            }
        }
    }

    fn processor(&mut self) {
        let text = self.tree.text("/proc/cpuinfo").unwrap_or_default();
        let first = text.split("\n\n").next().unwrap_or_default();
        let kept: Vec<&str> = first
            .lines()
            .filter(|line| {
                line.split_once(':').is_some_and(|(key, _)| CPUINFO.contains(&key.trim()))
            })
            .collect();
        self.put("/proc/cpuinfo", &kept.join("\n"));
    }

    fn cards(&mut self) {
        let machine = Machine::new(self.tree);
        for interface in super::interfaces::interfaces(self.tree) {
            let settings = KNOBS.iter().flat_map(|knob| (knob.recorded.of_card)(&interface));
            for setting in settings {
                if let Ok(value) = machine.read(&setting) {
                    self.put(format!("/{}", setting.to_string().replacen(':', "/", 1)), &value);
                }
            }
            self.queues(&interface);
            self.driver(&interface);
        }
    }

    /// Copies the driver of a card, and its version if it is not an in-tree driver.
    fn driver(&mut self, interface: &str) {
        let event = Path::new("/sys/class/net").join(interface).join("device/uevent");
        let Ok(text) = self.tree.text(&event) else { return };
        let Some(line) = text.lines().find(|line| line.starts_with("DRIVER=")) else { return };
        self.put(event, line);
        let version = Path::new("/sys/module").join(&line["DRIVER=".len()..]).join("version");
        if self.tree.exists(&version) {
            self.file(&version);
        }
    }

    /// Copies the receive queues of a card and the interrupts that serve them, by the names of
    /// their actions, which are directories.
    fn queues(&mut self, interface: &str) {
        let card = Path::new("/sys/class/net").join(interface);
        for (_, queue) in self.tree.numbered(card.join("queues"), "rx-") {
            self.file(&card.join("queues").join(queue).join("rps_cpus"));
        }
        for (number, file) in affinity::device_interrupts(self.tree, interface) {
            // Also needed if the interrupts belong to its bus: a record has no links to other
            // devices.
            self.file_as(&file, &card.join("device/msi_irqs").join(number.to_string()));
            let interrupt = Path::new("/proc/irq").join(number.to_string());
            self.file(&interrupt.join("smp_affinity_list"));
            for name in self.tree.entries(&interrupt) {
                if self.tree.is_directory(interrupt.join(&name)) {
                    self.put(interrupt.join(name).join("recorded"), "");
                }
            }
        }
    }

    fn file(&mut self, path: &Path) {
        self.file_as(path, path);
    }

    /// Copies a file to another place of the record.
    fn file_as(&mut self, path: &Path, to: &Path) {
        if !self.tree.is_file(path) {
            return;
        }
        match self.tree.text(path) {
            Ok(text) => self.put(to, &text),
            Err(why) => self.recorded.unreadable.push(why.to_string()),
        }
    }

    fn put(&mut self, path: impl AsRef<Path>, text: &str) {
        if self.recorded.files >= MOST_FILES {
            return;
        }
        let path = path.as_ref();
        self.to.put(path.strip_prefix("/").unwrap_or(path), &format!("{text}\n"));
        self.recorded.files += 1;
    }
}
