//! Reports to the kernel on its SAs while they are used here. The IKE daemon then sees traffic and
//! replaces keys in time, and the kernel can continue when Wattline ends.

use crate::esp::association::Common;
use std::io;
use std::time::{Duration, Instant};
use wattline_linux::netlink::xfrm::{Association, Current, Report};

/// Interval of the reports. If Wattline is killed, the kernel sends again with the numbers used
/// since the last report, and the far end drops those packets.
const PERIOD: Duration = Duration::from_secs(1);

/// Progress of an SA.
pub(super) struct Progress<'c> {
    pub common: &'c Common,
    pub sent: u64,
    pub received: u64,
    pub expiring: bool,
    pub ended: bool,
}

/// An SA in the kernel.
pub(super) struct Origin {
    /// The kernel's counts when the SA was taken over.
    base: Current,
    report: Report,
    reported: Option<(Instant, u64)>,
    asked: bool,
    ended: bool,
    refused: bool,
}

impl Origin {
    pub fn new(association: &Association) -> Self {
        let report = Report::new(association);
        let base = report.current;
        Self { base, report, reported: None, asked: false, ended: false, refused: false }
    }

    /// Reports changes; if `last`, without waiting for the interval.
    pub fn report(&mut self, progress: &Progress, now: Instant, last: bool) {
        let Progress { common, sent, received, expiring, ended } = *progress;
        let packets = common.counters.packets();
        let news = packets > self.reported.map_or(0, |(_, packets)| packets);
        let due = self.reported.is_none_or(|(at, _)| now.saturating_duration_since(at) >= PERIOD);
        if news && (due || last || expiring || ended) {
            self.reported = Some((now, packets));
            (self.report.sent, self.report.received) = (sent, received);
            let current = &mut self.report.current;
            current.packets = self.base.packets.saturating_add(packets);
            current.bytes = self.base.bytes.saturating_add(common.counters.bytes());
            if current.used == 0 {
                let time = std::time::SystemTime::UNIX_EPOCH.elapsed();
                current.used = time.map_or(0, |time| time.as_secs());
            }
            let result = self.report.send();
            self.note(common, result);
        }
        if expiring && !self.asked {
            self.asked = true;
            let result = self.report.expire(false);
            self.note(common, result);
        }
        if ended && !self.ended {
            self.ended = true;
            let result = self.report.expire(true);
            self.note(common, result);
        }
    }

    fn note(&mut self, common: &Common, result: io::Result<()>) {
        match result {
            // The SA was deleted meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if !self.refused => {
                self.refused = true;
                tracing::warn!(
                    "ipsec {} (spi {:#010x}): the kernel does not accept its sequence numbers: {error}",
                    common.name,
                    common.spi
                );
            }
            _ => {}
        }
    }
}
