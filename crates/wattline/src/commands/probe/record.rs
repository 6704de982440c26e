//! Recording the files of a machine, so that others can test against it.

use crate::exit::ExitError;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use wattline_knobs::{Access, Machine, Setting, moderation, redirect};
use wattline_linux::ethtool::Coalesce;
use wattline_linux::sysfs::Tree;

/// How deep sysfs is followed, and how many files a recording has at most: a cycle of links
/// or a machine of thousands of CPUs must end somewhere.
const DEEPEST: u32 = 6;
const MOST_FILES: usize = 200_000;

/// Directories, and which names below them are taken (all files where none is given).
const DIRECTORIES: [(&str, &[&str]); 8] = [
    ("/sys/devices/system/cpu/cpufreq", &[]),
    ("/sys/devices/system/cpu/cpuidle", &[]),
    ("/sys/devices/system/cpu/intel_pstate", &[]),
    ("/sys/devices/system/cpu/amd_pstate", &[]),
    ("/sys/devices/system/cpu/intel_uncore_frequency", &[]),
    ("/sys/devices/system/cpu/smt", &[]),
    ("/sys/class/powercap", &["name", "energy_uj", "max_energy_range_uj", "enabled"]),
    ("/sys/bus/event_source/devices/power", &[]),
];
/// Below each CPU.
const OF_CPU: [&str; 2] = ["cpuidle", "topology"];
const FILES: [&str; 6] = [
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/present",
    "/sys/devices/system/cpu/possible",
    "/sys/devices/system/cpu/isolated",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/perf_event_paranoid",
];
/// Lines of /proc/cpuinfo that say what processor it is, not which one.
const CPUINFO: [&str; 6] = ["vendor_id", "cpu family", "model", "model name", "stepping", "flags"];

/// What was recorded.
#[derive(Debug, Default)]
pub struct Recorded {
    pub files: usize,
    pub unreadable: Vec<String>,
}

struct Recorder<'a> {
    tree: &'a Tree,
    to: &'a Path,
    recorded: Recorded,
}

/// Copies what probe, knobs and meters read.
pub fn record(tree: &Tree, to: &Path) -> Result<Recorded, ExitError> {
    fs::create_dir(to).map_err(|error| {
        let code = match error.kind() {
            io::ErrorKind::PermissionDenied => ExitError::NO_PERMISSION,
            _ => ExitError::IO,
        };
        ExitError::new(code, format_args!("{}: {error}; it must be new", to.display()))
    })?;
    let mut recorder = Recorder { tree, to, recorded: Recorded::default() };
    for (directory, names) in DIRECTORIES {
        recorder.directory(Path::new(directory), names, DEEPEST)?;
    }
    for (_, cpu) in tree.numbered("/sys/devices/system/cpu", "cpu") {
        let cpu = Path::new("/sys/devices/system/cpu").join(cpu);
        for directory in OF_CPU {
            recorder.directory(&cpu.join(directory), &[], DEEPEST)?;
        }
        recorder.file(&cpu.join("power/pm_qos_resume_latency_us"))?;
    }
    recorder.sensors()?;
    for file in FILES {
        recorder.file(Path::new(file))?;
    }
    recorder.processor()?;
    recorder.cards()?;
    // Stands for the boot; which one it was is nobody's business.
    recorder.put("/proc/sys/kernel/random/boot_id", "00000000-0000-4000-8000-000000000000")?;
    let Recorder { recorded, .. } = recorder;
    fs::write(to.join("unreadable.txt"), recorded.unreadable.join("\n"))?;
    Ok(recorded)
}

impl Recorder<'_> {
    fn directory(&mut self, path: &Path, names: &[&str], deep: u32) -> Result<(), ExitError> {
        for name in self.tree.entries(path) {
            let below = path.join(&name);
            let real = self.tree.path(&below);
            // The way back to the device, the subsystem and the parent: not part of this.
            if ["device", "subsystem", "driver", "power", "uevent"].contains(&name.as_str()) {
                continue;
            }
            if real.is_dir() {
                if deep > 0 {
                    self.directory(&below, names, deep - 1)?;
                }
            } else if names.is_empty() || names.contains(&name.as_str()) {
                self.file(&below)?;
            }
        }
        Ok(())
    }

    /// Power channels and the name of each chip, without serial numbers of meters; other
    /// channels can hold those of batteries. Some drivers leave them with the chip's device.
    fn sensors(&mut self) -> Result<(), ExitError> {
        for (_, chip) in self.tree.numbered("/sys/class/hwmon", "hwmon") {
            let chip = Path::new("/sys/class/hwmon").join(chip);
            for chip in [chip.clone(), chip.join("device")] {
                for name in self.tree.entries(&chip) {
                    let channel = name.starts_with("power") && name.contains('_');
                    let identifies = name.ends_with("_number") || name.ends_with("_info");
                    if name == "name" || channel && !identifies {
                        self.file(&chip.join(name))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn processor(&mut self) -> Result<(), ExitError> {
        let text = self.tree.text("/proc/cpuinfo").unwrap_or_default();
        let first = text.split("\n\n").next().unwrap_or_default();
        let kept: Vec<&str> = first
            .lines()
            .filter(|line| {
                line.split_once(':').is_some_and(|(key, _)| CPUINFO.contains(&key.trim()))
            })
            .collect();
        self.put("/proc/cpuinfo", &kept.join("\n"))
    }

    fn cards(&mut self) -> Result<(), ExitError> {
        let machine = Machine::new(self.tree);
        for interface in super::knobs::interfaces(self.tree) {
            for parameter in Coalesce::ALL {
                if let Ok(value) = machine.read(&moderation::setting(&interface, parameter)) {
                    self.put(format!("/ethtool/{interface}/{parameter}"), &value)?;
                }
            }
            let channels = Setting::Channels { interface: interface.clone() };
            for setting in [redirect::setting(&interface), channels] {
                if let Ok(value) = machine.read(&setting) {
                    self.put(format!("/{}", setting.to_string().replacen(':', "/", 1)), &value)?;
                }
            }
            self.queues(&interface)?;
        }
        Ok(())
    }

    /// The receive queues of a card, and which interrupts serve them: by the names of their
    /// actions, which are directories.
    fn queues(&mut self, interface: &str) -> Result<(), ExitError> {
        let card = Path::new("/sys/class/net").join(interface);
        for (_, queue) in self.tree.numbered(card.join("queues"), "rx-") {
            self.file(&card.join("queues").join(queue).join("rps_cpus"))?;
        }
        let interrupts = card.join("device/msi_irqs");
        for (_, number) in self.tree.numbered(&interrupts, "") {
            self.file(&interrupts.join(&number))?;
            let interrupt = Path::new("/proc/irq").join(&number);
            self.file(&interrupt.join("smp_affinity_list"))?;
            for name in self.tree.entries(&interrupt) {
                if self.tree.path(interrupt.join(&name)).is_dir() {
                    self.put(interrupt.join(name).join("recorded"), "")?;
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Result<(), ExitError> {
        if !self.tree.path(path).is_file() {
            return Ok(());
        }
        match self.tree.text(path) {
            Ok(text) => self.put(path, &text),
            Err(why) => {
                self.recorded.unreadable.push(why.to_string());
                Ok(())
            }
        }
    }

    fn put(&mut self, path: impl AsRef<Path>, text: &str) -> Result<(), ExitError> {
        if self.recorded.files >= MOST_FILES {
            return Ok(());
        }
        let path = path.as_ref();
        let target: PathBuf = self.to.join(path.strip_prefix("/").unwrap_or(path));
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(target, format!("{text}\n"))?;
        self.recorded.files += 1;
        Ok(())
    }
}
