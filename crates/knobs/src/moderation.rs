//! Interrupt moderation of a network card, as set by `ethtool -C` and `ethtool -Q`.

use crate::access::{Access, AccessError};
use crate::change::Change;
use crate::conflict::{Contender, Sign};
use crate::registration::{Found, Probe, Recorded, Registration};
use crate::setting::Setting;
use wattline_linux::ethtool::Coalesce;
use wattline_units::Span;

/// Returns the writes that fix the moderation of received packets, of one queue or of the whole
/// card: first adaptive moderation off if it is on, since it would move the time, then the time.
///
/// # Errors
/// [`AccessError`] if the driver has no moderation.
pub fn receive(
    read: impl Fn(&Setting) -> Result<String, AccessError>,
    interface: &str,
    queue: Option<u32>,
    wait: Span,
) -> Result<Vec<Change>, AccessError> {
    let micros = wait.as_picos() / 1_000_000;
    let subject = match queue {
        Some(queue) => format!("queue {queue} of {interface}"),
        None => interface.to_string(),
    };
    let of = |parameter| match queue {
        Some(queue) => queue_setting(interface, queue, parameter),
        None => setting(interface, parameter),
    };
    let mut changes = Vec::new();
    if read(&of(Coalesce::AdaptiveRx))? != "0" {
        changes.push(Change {
            setting: of(Coalesce::AdaptiveRx),
            value: "0".to_string(),
            why: format!("adaptive moderation of {subject} would override the time"),
        });
    }
    let time = of(Coalesce::RxUsecs);
    read(&time)?;
    let why = format!("receive interrupts of {subject} wait {micros} us");
    changes.push(Change { setting: time, value: micros.to_string(), why });
    Ok(changes)
}

/// Returns the setting of one parameter of one interface.
pub fn setting(interface: &str, parameter: Coalesce) -> Setting {
    Setting::Coalesce { interface: interface.to_string(), parameter }
}

/// Returns the setting of one parameter of one receive queue.
pub fn queue_setting(interface: &str, queue: u32, parameter: Coalesce) -> Setting {
    Setting::QueueCoalesce { interface: interface.to_string(), queue, parameter }
}

/// Time between interrupts.
pub const KNOB: Registration = Registration {
    name: "interrupt moderation",
    label: "moderation",
    files: "ethtool coalescing of an interface, or of one receive queue",
    values: "us; adaptive 0, 1",
    conflicts: &[ADAPTIVE.sets("receive interrupt moderation")],
    notes: "adaptive moderation is switched off first; an interface is set by netlink, which changes one parameter alone; a queue is set by ioctl",
    owns: |setting| matches!(setting, Setting::Coalesce { .. } | Setting::QueueCoalesce { .. }),
    probe: show,
    recorded: Recorded {
        of_card: |interface| {
            Coalesce::ALL.into_iter().map(|parameter| setting(interface, parameter)).collect()
        },
        ..Recorded::NOTHING
    },
    ..Registration::NOTHING
};

/// The driver's own logic.
static ADAPTIVE: Contender = Contender {
    name: "adaptive moderation",
    sign: Sign::Interface(|interface| setting(interface, Coalesce::AdaptiveRx)),
    remedy: "ethtool -C INTERFACE adaptive-rx off",
};

fn show(probe: &Probe<'_>, found: &mut Found) {
    for interface in probe.interfaces {
        let value = |parameter| probe.machine.read(&setting(interface, parameter));
        match (value(Coalesce::RxUsecs), value(Coalesce::AdaptiveRx)) {
            (Ok(micros), Ok(adaptive)) => {
                let adaptive = if adaptive == "0" { "off" } else { "on" };
                let state = format!("{micros} us, adaptive {adaptive}");
                found.has(format!("interrupt moderation {interface}"), state);
            }
            (Err(why), _) | (_, Err(why)) => {
                let subject = format!("interrupt moderation of {interface}");
                found.lacks(&subject, &why.to_string(), "use a card whose driver has `ethtool -C`");
            }
        }
    }
}
