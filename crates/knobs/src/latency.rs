//! Limits of the wake-up latency: per CPU, and for the whole machine
//! (Documentation/power/pm_qos_interface.rst).

use crate::change::Change;
use crate::conflict;
use crate::registration::{Found, Probe, Recorded, Registration};
use crate::setting::Setting;
use std::fs::File;
use std::io::Write;
use wattline_linux::missing::Missing;
use wattline_linux::sysfs::{ReadError, Tree};
use wattline_units::Span;

/// The machine-wide limit; it lasts as long as the file is open.
pub const DEVICE: &str = "/dev/cpu_dma_latency";

/// Longest time that a CPU may take to wake up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumeLatency {
    /// No limit on idle states.
    Any,
    /// At most this long; the kernel counts whole microseconds.
    AtMost(Span),
    /// No time at all: the CPU polls instead of sleeping.
    None,
}

impl ResumeLatency {
    /// Returns true if a CPU under this limit enters idle states of this exit latency.
    pub fn allows(self, exit_latency: Span) -> bool {
        match self {
            Self::Any => true,
            Self::AtMost(longest) => exit_latency <= longest,
            Self::None => exit_latency == Span::ZERO,
        }
    }
}

/// Returns the present limit of one CPU; `None` if it has no such setting.
pub fn cpu_limit(tree: &Tree, cpu: u32) -> Option<ResumeLatency> {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us");
    match tree.text(file).ok()?.as_str() {
        "0" => Some(ResumeLatency::Any),
        "n/a" => Some(ResumeLatency::None),
        micros => micros.parse().ok().map(|it| ResumeLatency::AtMost(Span::from_micros(it))),
    }
}

/// Returns the write that limits one CPU. Other writers of the same file override it: there is one
/// slot per CPU.
pub fn limit_cpu(cpu: u32, latency: ResumeLatency) -> Change {
    // Easy to invert: 0 means no limit, `n/a` means none is allowed.
    let (value, why) = match latency {
        ResumeLatency::Any => ("0".to_string(), "any wake-up latency".to_string()),
        ResumeLatency::None => ("n/a".to_string(), "no wake-up latency".to_string()),
        ResumeLatency::AtMost(span) => {
            // A limit below a microsecond would become 0, which is no limit.
            let micros = (span.as_picos() / 1_000_000).max(1);
            (micros.to_string(), format!("wake up within {micros} us"))
        }
    };
    let setting = Setting::cpu(format_args!("cpu{cpu}/power/pm_qos_resume_latency_us"));
    Change { setting, value, why }
}

/// A machine-wide limit while it is held. The kernel drops it when this is dropped, or when the
/// process dies in any way: it needs no journal.
#[derive(Debug)]
pub struct DmaLatency {
    // Keeps the file open, and with it the limit.
    _file: File,
}

impl DmaLatency {
    /// Limits the wake-up latency of all CPUs to `longest`, in whole microseconds.
    ///
    /// # Errors
    /// [`ReadError`]; a recording has no such device.
    pub fn hold(tree: &Tree, longest: Span) -> Result<Self, ReadError> {
        let path = tree.path(DEVICE);
        if !tree.is_live() {
            return Err(ReadError::Missing(path));
        }
        let failed = |error: std::io::Error| ReadError::of(&path, &error);
        let micros = i32::try_from(longest.as_picos() / 1_000_000).unwrap_or(i32::MAX);
        let mut file = File::options().write(true).open(&path).map_err(failed)?;
        file.write_all(&micros.to_ne_bytes()).map_err(failed)?;
        Ok(Self { _file: file })
    }

    /// Returns the limit that all holders together request.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn present(tree: &Tree) -> Result<Span, ReadError> {
        use std::io::Read;
        let mut bytes = [0; 4];
        tree.open(DEVICE)
            .and_then(|mut file| file.read_exact(&mut bytes))
            .map_err(|error| ReadError::of(&tree.path(DEVICE), &error))?;
        let micros = u64::try_from(i32::from_ne_bytes(bytes)).unwrap_or(0);
        Ok(Span::from_micros(micros))
    }
}

/// The limit of one CPU.
pub const OF_CPU: Registration = Registration {
    name: "wake-up latency of a CPU",
    label: "idle",
    files: "`cpuN/power/pm_qos_resume_latency_us`",
    values: "us",
    conflicts: &[conflict::TUNED.sets("idle latency")],
    notes: "`0` is no limit, `n/a` none allowed; one slot per CPU, shared by all writers",
    owns: |setting| setting.is_cpu_file("/power/pm_qos_resume_latency_us"),
    probe: show_of_cpu,
    recorded: Recorded { of_each_cpu: &["power/pm_qos_resume_latency_us"], ..Recorded::NOTHING },
    ..Registration::NOTHING
};

/// The limit of the whole machine.
pub const OF_MACHINE: Registration = Registration {
    name: "wake-up latency of the machine",
    label: "idle",
    files: "`/dev/cpu_dma_latency`",
    values: "us",
    conflicts: &[conflict::TUNED.sets("idle latency")],
    notes: "held open; the kernel drops it with the process",
    probe: show_of_machine,
    ..Registration::NOTHING
};

fn show_of_cpu(probe: &Probe<'_>, found: &mut Found) {
    match probe.tree.text("/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us") {
        Ok(text) => {
            let state = match text.as_str() {
                "0" => "CPU 0: no limit".to_string(),
                "n/a" => "CPU 0: no latency allowed".to_string(),
                micros => format!("CPU 0: {micros} us"),
            };
            found.has("wake-up latency per CPU", state);
        }
        Err(why) => found.missing.push(Missing::new("wake-up latency per CPU", &why)),
    }
}

fn show_of_machine(probe: &Probe<'_>, found: &mut Found) {
    match DmaLatency::present(probe.tree) {
        Ok(limit) => {
            let state = format!("{} s at most", limit.as_seconds());
            found.has("wake-up latency of the machine", state);
        }
        // A recording has no device files.
        Err(_) if !probe.tree.is_live() => {}
        Err(why) => found.missing.push(Missing::new(DEVICE, &why)),
    }
}
