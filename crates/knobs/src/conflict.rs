//! Other programs that may set a knob: programs of distributions, and the driver's own logic. A
//! knob's registration lists its contenders; [`crate::rivals`] searches a machine for them.

use crate::setting::Setting;

/// A program or driver that sets knobs itself.
#[derive(Debug)]
pub struct Contender {
    /// The name.
    pub name: &'static str,
    /// The sign of its presence.
    pub sign: Sign,
    /// The remedy; for an interface, with `INTERFACE` for its name.
    pub remedy: &'static str,
}

/// Sign that a contender is present.
#[derive(Debug)]
pub enum Sign {
    /// A process with this name in `/proc/PID/comm` (at most 15 bytes); for an interpreted program,
    /// the last part of a word of its command line.
    Process(&'static str),
    /// Files that it leaves; one is enough.
    Files(&'static [&'static str]),
    /// A setting of an interface that is not 0.
    Interface(fn(&str) -> Setting),
    /// A scheduler that the kernel says is loaded, or a process that loads one.
    Scheduler,
    /// CPUs to which a top-level control group is confined.
    Cpuset,
}

/// Settings of a knob that a contender changes.
#[derive(Debug, Clone, Copy)]
pub struct Conflict {
    /// The contender.
    pub with: &'static Contender,
    /// The settings, in words.
    pub sets: &'static str,
}

impl Contender {
    /// Returns a conflict with this contender.
    pub const fn sets(&'static self, sets: &'static str) -> Conflict {
        Conflict { with: self, sets }
    }
}

/// Its `cpu` plugin, in most profiles.
pub static TUNED: Contender = Contender {
    name: "TuneD",
    sign: Sign::Process("tuned"),
    remedy: "systemctl disable --now tuned",
};
/// Service from which desktops request a profile.
pub static POWER_PROFILES: Contender = Contender {
    name: "power-profiles-daemon",
    sign: Sign::Process("power-profiles-daemon"),
    remedy: "systemctl disable --now power-profiles-daemon",
};
/// Written in Python.
pub static AUTO_CPUFREQ: Contender = Contender {
    name: "auto-cpufreq",
    sign: Sign::Process("auto-cpufreq"),
    remedy: "systemctl disable --now auto-cpufreq",
};
/// Spreads interrupts over CPUs.
pub static IRQBALANCE: Contender = Contender {
    name: "irqbalance",
    sign: Sign::Process("irqbalance"),
    remedy: "systemctl disable --now irqbalance",
};
/// Keeps Intel's laptops cool.
pub static THERMALD: Contender = Contender {
    name: "thermald",
    sign: Sign::Process("thermald"),
    remedy: "systemctl disable --now thermald",
};
/// The kernel's own tool, as a service.
pub static CPUPOWER: Contender = Contender {
    name: "cpupower",
    sign: Sign::Process("cpupower"),
    remedy: "systemctl disable --now cpupower",
};
/// A default of Fedora on Intel's laptops.
pub static LPMD: Contender = Contender {
    name: "intel_lpmd",
    sign: Sign::Process("intel_lpmd"),
    remedy: "systemctl disable --now intel_lpmd",
};
/// Sets governors and preferences by rules.
pub static WATT: Contender =
    Contender { name: "watt", sign: Sign::Process("watt"), remedy: "systemctl disable --now watt" };
/// Profiles of Pop!_OS.
pub static SYSTEM76: Contender = Contender {
    name: "system76-power",
    sign: Sign::Process("system76-power"),
    remedy: "systemctl disable --now com.system76.PowerDaemon",
};
/// Schedulers in BPF ask for the speed of each CPU.
pub static SCHED_EXT: Contender = Contender {
    name: "sched_ext",
    sign: Sign::Scheduler,
    remedy: "systemctl disable --now scx, or end the process that loaded it",
};
/// Programs that move work to few CPUs.
pub static CPUSET: Contender = Contender {
    name: "cpuset",
    sign: Sign::Cpuset,
    remedy: "systemctl revert UNIT, or stop what sets AllowedCPUs",
};
/// Leaves no process behind.
pub static TLP: Contender = Contender {
    name: "TLP",
    sign: Sign::Files(&["/run/tlp/last_pwr", "/run/tlp/lock_tlp"]),
    remedy: "systemctl disable --now tlp, and tlp-stat -s to check",
};
