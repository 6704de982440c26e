//! Interrupt moderation of a network card, as `ethtool -C` sets it.

use crate::session::Change;
use crate::setting::{Access, AccessError, Setting};
use wattline_kernel::ethtool::Coalesce;
use wattline_units::Span;

/// The writes that fix the moderation of received packets: adaptive moderation off where it is
/// on, since it would move what is set, then the time.
///
/// # Errors
/// [`AccessError`] where the driver has no moderation.
pub fn receive(
    access: &impl Access,
    interface: &str,
    wait: Span,
) -> Result<Vec<Change>, AccessError> {
    let micros = wait.as_picos() / 1_000_000;
    let why = format!("receive interrupts of {interface} wait {micros} us");
    let mut changes = Vec::new();
    if access.read(&setting(interface, Coalesce::AdaptiveRx))? != "0" {
        changes.push(Change {
            setting: setting(interface, Coalesce::AdaptiveRx),
            value: "0".to_string(),
            why: format!("adaptive moderation of {interface} would override the time"),
        });
    }
    let time = setting(interface, Coalesce::RxUsecs);
    access.read(&time)?;
    changes.push(Change { setting: time, value: micros.to_string(), why });
    Ok(changes)
}

/// One parameter of one interface.
pub fn setting(interface: &str, parameter: Coalesce) -> Setting {
    Setting::Coalesce { interface: interface.to_string(), parameter }
}
