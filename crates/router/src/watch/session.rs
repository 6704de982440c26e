//! One running capture or trace.

use super::form::Form;
use super::rounds::Rounds;
use crate::inbox::InboxSender;
use crate::taps::watchers::{Watchers, WorkerTaps};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wattline_daemon::stream::Outlet;
use wattline_status::WatchEnd;
use wattline_xdp::Copies;

/// Pause of the reader when there is nothing to read.
const REST: Duration = Duration::from_millis(10);
/// Longest time for workers to give their taps back, and for reading the rest of the rings.
const LAST_WAIT: Duration = Duration::from_millis(200);

/// See the module. It ends when this is dropped.
pub(super) struct Session {
    pub watchers: Watchers,
    pub inbox_sender: InboxSender,
    pub slot: usize,
    pub worker_taps: Vec<WorkerTaps>,
    pub rounds: Rounds,
    pub most: u64,
    /// The maps of copies, and the number of copies lost before the start.
    pub copies: Option<(Arc<Copies>, u64)>,
}

impl Session {
    /// Sends records until the client disconnects or enough packets were seen.
    pub fn run(mut self, form: &mut dyn Form, out: &mut Outlet<'_>) -> io::Result<()> {
        let began = Instant::now();
        form.begin(out)?;
        let mut packets = 0;
        while packets < self.most && out.is_wanted() {
            let rounds = self.rounds.read();
            if rounds.is_empty() {
                std::thread::sleep(REST);
            }
            for round in rounds {
                packets += form.round(&round, out)?;
                if packets >= self.most {
                    break;
                }
            }
        }
        if self.copies.is_some() {
            // Packets that programs have copied by now are still shown.
            std::thread::sleep(REST);
        }
        self.take_back();
        let end = Instant::now() + LAST_WAIT;
        while packets < self.most && Instant::now() < end {
            let rounds = self.rounds.read();
            if rounds.is_empty() {
                std::thread::sleep(REST);
            }
            for round in rounds {
                packets += form.round(&round, out)?;
            }
        }
        let (matched, missed) = self.rounds.counted();
        packets += form.end(matched, missed, out)?;
        out.end(&WatchEnd {
            packets,
            matched,
            missed,
            uncopied: self.uncopied(),
            duration_seconds: began.elapsed().as_secs_f64(),
        })
    }

    /// Returns the number of packets that XDP programs could not copy since the start.
    fn uncopied(&self) -> u64 {
        let Some((copies, before)) = &self.copies else { return 0 };
        copies.uncopied().unwrap_or_default().saturating_sub(*before)
    }

    fn take_back(&self) {
        for worker in &self.worker_taps {
            worker.slots.take(self.slot);
            worker.wake();
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.take_back();
        self.watchers.give_slot_back(self.slot);
        // The control thread ends the copies.
        self.inbox_sender.wake();
    }
}
