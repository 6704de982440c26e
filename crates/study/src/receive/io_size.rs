//! Throughput and power as functions of the size of an application's reads and writes (Figures 10
//! to 13).
//!
//! The figures are lost. The text preserves their ends, the flat range above 2 kB, and one peak.
//! Between known sizes, power is **interpolated** over the logarithm of the size and marked as
//! such.

use serde::Serialize;
use wattline_server::components::{ComponentFile, Direction, Scenario};
use wattline_units::{BitsPerSecond, Watts};

use super::cost::line_rate;

/// Size in bytes above which receiving is flat (section 4.2).
const FLAT_FROM: f64 = 2048.0;

/// Origin of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Printed for this size.
    Published,
    /// Interpolated between two printed sizes.
    Interpolated,
}

/// Dynamic power at one size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Power {
    /// Power at the wall.
    pub total: Watts,
    /// Power of the processors.
    pub cpu: Option<Watts>,
    /// Power of the memory.
    pub memory: Option<Watts>,
    /// Power of the card.
    pub nic: Option<Watts>,
    /// Origin of the values.
    pub basis: Basis,
}

/// Returns the throughput if each system call takes as long as at the smallest measured size: bytes
/// divided by `call_seconds`, at most the goodput of the link.
pub fn throughput(io_bytes: u32, call_seconds: f64, link: BitsPerSecond) -> BitsPerSecond {
    let most = line_rate(link).0;
    BitsPerSecond((f64::from(io_bytes) * 8.0 / call_seconds).min(most))
}

/// Returns the duration of a call, from the throughput at a size that the link does not limit.
pub fn call_seconds(io_bytes: u32, throughput: BitsPerSecond) -> f64 {
    f64::from(io_bytes) * 8.0 / throughput.0
}

/// Returns the size in bytes from which the link is the limit.
pub fn boundary_bytes(call_seconds: f64, link: BitsPerSecond) -> f64 {
    line_rate(link).0 * call_seconds / 8.0
}

/// Returns the dynamic power at a size; `None` if the data has fewer than two sizes of that
/// direction.
pub fn power(data: &ComponentFile, direction: Direction, io_bytes: u32) -> Option<Power> {
    let mut known: Vec<&Scenario> =
        data.scenarios.iter().filter(|scenario| scenario.direction == direction).collect();
    known.sort_by_key(|scenario| scenario.io_bytes);
    let (first, last) = (*known.first()?, *known.last()?);
    let position = |scenario: &Scenario| {
        let flat = direction == Direction::Receive && scenario.io_bytes == last.io_bytes;
        if flat { FLAT_FROM.log2() } else { f64::from(scenario.io_bytes).log2() }
    };
    let flat_or_known = |scenario: &&Scenario| scenario.io_bytes == io_bytes;
    let at = f64::from(io_bytes.max(1)).log2().clamp(position(first), position(last));
    let published = known.iter().any(flat_or_known)
        || (direction == Direction::Receive && f64::from(io_bytes) >= FLAT_FROM);
    // Each quantity is interpolated between the nearest sizes at which it is known.
    let of = |read: &dyn Fn(&Scenario) -> Option<Watts>| -> Option<Watts> {
        let points: Vec<(f64, f64)> =
            known.iter().filter_map(|s| Some((position(s), read(s)?.0))).collect();
        let below = *points.iter().rev().find(|point| point.0 <= at)?;
        let above = *points.iter().find(|point| point.0 >= at)?;
        let span = above.0 - below.0;
        let share = if span > 0.0 { (at - below.0) / span } else { 0.0 };
        Some(Watts(below.1 + (above.1 - below.1) * share))
    };
    Some(Power {
        total: of(&|scenario| Some(scenario.total))?,
        cpu: of(&|scenario| scenario.cpu),
        memory: of(&|scenario| scenario.memory),
        nic: of(&|scenario| scenario.nic),
        basis: if published { Basis::Published } else { Basis::Interpolated },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_sizes_are_published_and_others_interpolated() {
        let data = ComponentFile::load("liao-2011-host").unwrap();
        let receive = |io| power(&data, Direction::Receive, io).unwrap();
        assert_eq!((receive(64).total.0, receive(64).basis), (23.0, Basis::Published));
        assert_eq!((receive(65_536).total.0, receive(4096).total.0), (17.0, 17.0));
        let middle = receive(512);
        assert_eq!(middle.basis, Basis::Interpolated);
        assert!(middle.total.0 < 23.0 && middle.total.0 > 17.0);
        let peak = power(&data, Direction::Transmit, 1024).unwrap();
        assert_eq!(peak.total.0, 24.2);
        // At the peak only the total is printed; the parts are interpolated.
        assert!(peak.cpu.unwrap().0 < 18.0 && peak.cpu.unwrap().0 > 13.0);
    }
}
