//! Remarks on the figures.

use super::report::Row;
use crate::remark::DISTURBED;
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::clock::monotonic_nanos;
use wattline_testbed::cpu::CpuTime;

/// Time for which the machine is observed before a pass.
const BEFORE: Duration = Duration::from_millis(500);

/// Measures the use of the machine by other programs, in processors.
pub(super) fn background() -> Result<f64, Error> {
    let (start, before) = (monotonic_nanos(), CpuTime::now()?);
    std::thread::sleep(BEFORE);
    let seconds = (monotonic_nanos() - start) as f64 * 1e-9;
    Ok((CpuTime::now()? - before).busy_seconds() / seconds)
}

/// Returns remarks on the meaning of the figures, and on disturbances.
pub(super) fn notes(rows: &[Row]) -> Vec<String> {
    let mut notes = vec![
        "CPU: time of all processors in programs, kernel and softirq (/proc/stat) divided by the \
         packets forwarded; it includes generator and receiver, the same for every forwarder. Some \
         kernels sample it at ticks only; on mostly idle processors it is then too low."
            .to_owned(),
        "Virtual Ethernet in copy mode: this compares paths through one kernel, and says little \
         about a network card."
            .to_owned(),
    ];
    let busiest = rows.iter().map(|row| row.background_cpu_share).fold(0.0, f64::max);
    if busiest > 0.1 {
        notes.push(format!(
            "{DISTURBED}: other programs used up to {busiest:.1} processors; do not trust the CPU and \
             latency figures."
        ));
    }
    notes
}
