//! Offered load: rate, duration, flows.

use crate::Error;
use std::time::Duration;

/// An offered load, of frames of the simple IMIX.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Packets per second in an open loop: lost or late packets do not delay the others.
    pub rate_pps: f64,
    /// Duration.
    pub duration: Duration,
    /// Number of flows (one source port each), sent round robin: even ones IPv4, odd ones IPv6.
    pub flows: u16,
}

impl Load {
    /// Returns the number of packets.
    pub fn packets(&self) -> u64 {
        // `as` saturates; `check` limits the number.
        (self.rate_pps * self.duration.as_secs_f64()).round() as u64
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let wrong = |reason: String| Err(Error::Data { path: "offered load".into(), reason });
        if !(self.rate_pps > 0.0 && self.rate_pps <= 1e7) {
            return wrong(format!(
                "{} packets per second; 1 to 10,000,000 can be offered",
                self.rate_pps
            ));
        }
        if self.flows == 0 || self.flows > 4096 {
            return wrong(format!("{} flows; 1 to 4096 can be offered", self.flows));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_loads_are_refused() {
        let good = Load { rate_pps: 20_000.0, duration: Duration::from_secs(2), flows: 64 };
        for load in [
            Load { rate_pps: 0.0, ..good },
            Load { rate_pps: f64::NAN, ..good },
            Load { flows: 0, ..good },
        ] {
            assert!(load.check().is_err(), "{load:?}");
        }
        assert!(good.check().is_ok());
        assert_eq!(good.packets(), 40_000);
    }
}
