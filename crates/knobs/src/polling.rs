//! Polling of a receive queue (Documentation/networking/napi.rst, "IRQ mitigation").

use crate::registration::Registration;
use crate::setting::Setting;
use wattline_linux::napi::Napi;

/// Returns a setting of the NAPI instance that serves a receive queue.
pub fn setting(interface: &str, queue: u32, setting: Napi) -> Setting {
    Setting::Napi { interface: interface.to_string(), queue, setting }
}

/// Time that interrupts stay off for a queue whose worker polls.
pub const KNOB: Registration = Registration {
    name: "polling of a queue",
    label: "napi",
    files: "netdev netlink, per NAPI instance: `defer-hard-irqs`, `gro-flush-timeout`, \
            `irq-suspend-timeout`",
    values: "a number; ns",
    notes: "found by queue at each access, since instances are renumbered when an interface \
            goes up; Linux 6.13",
    owns: |setting| matches!(setting, Setting::Napi { .. }),
    ..Registration::NOTHING
};
