//! Interrupt moderation of a network card, as `ethtool -C` and `ethtool -Q` set it.

use crate::access::AccessError;
use crate::session::Change;
use crate::setting::Setting;
use wattline_linux::ethtool::Coalesce;
use wattline_units::Span;

/// The writes that fix the moderation of received packets, of one queue or of the whole card:
/// adaptive moderation off where it is on, since it would move what is set, then the time.
///
/// # Errors
/// [`AccessError`] where the driver has no moderation.
pub fn receive(
    read: impl Fn(&Setting) -> Result<String, AccessError>,
    interface: &str,
    queue: Option<u32>,
    wait: Span,
) -> Result<Vec<Change>, AccessError> {
    let micros = wait.as_picos() / 1_000_000;
    let what = match queue {
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
            why: format!("adaptive moderation of {what} would override the time"),
        });
    }
    let time = of(Coalesce::RxUsecs);
    read(&time)?;
    let why = format!("receive interrupts of {what} wait {micros} us");
    changes.push(Change { setting: time, value: micros.to_string(), why });
    Ok(changes)
}

/// One parameter of one interface.
pub fn setting(interface: &str, parameter: Coalesce) -> Setting {
    Setting::Coalesce { interface: interface.to_string(), parameter }
}

/// One parameter of one receive queue.
pub fn queue_setting(interface: &str, queue: u32, parameter: Coalesce) -> Setting {
    Setting::QueueCoalesce { interface: interface.to_string(), queue, parameter }
}
