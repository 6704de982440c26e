//! One reading of a meter.

use crate::output::note;
use wattline_meters::{Meter, Reading, Rejection};
use wattline_units::Time;

/// Reads a meter, and notes on standard error the parts that the figure leaves out.
pub(super) fn reading(meter: &mut dyn Meter, now: Time) -> Result<Reading, Rejection> {
    let result = meter.read(now);
    for mistake in meter.mistakes() {
        note!("wattline: left out: {mistake}");
    }
    result
}
