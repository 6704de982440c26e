//! One capture or trace while it lasts.

use super::form::Form;
use super::rounds::Rounds;
use super::watchers::{Watchers, WorkerTaps};
use crate::inbox::InboxSender;
use std::io;
use std::time::{Duration, Instant};
use wattline_daemon::stream::Outlet;
use wattline_status::WatchEnd;

/// Pause of the reader when there is nothing to read.
const REST: Duration = Duration::from_millis(10);
/// Longest time for workers to give their taps back, and for reading the rest of the rings.
const LAST_LOOK: Duration = Duration::from_millis(200);

/// See the module; it ends with the value.
pub(super) struct Session {
    pub watchers: Watchers,
    pub inbox_sender: InboxSender,
    pub slot: usize,
    pub diverts: bool,
    pub worker_taps: Vec<WorkerTaps>,
    pub rounds: Rounds,
    pub most: u64,
}

impl Session {
    /// Sends what is seen until nobody wants it any more, or enough packets have been.
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
        self.take_back();
        let end = Instant::now() + LAST_LOOK;
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
        out.end(&end_of(packets, matched, missed, began))
    }

    fn take_back(&self) {
        for worker in &self.worker_taps {
            worker.slots.take(self.slot);
            worker.waker.wake();
        }
    }
}

fn end_of(packets: u64, matched: u64, missed: u64, began: Instant) -> WatchEnd {
    WatchEnd { packets, matched, missed, duration_seconds: began.elapsed().as_secs_f64() }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.take_back();
        if self.diverts {
            self.watchers.count_diverting(false);
        }
        self.watchers.give_slot_back(self.slot);
        // The control thread lets XDP programs forward again.
        self.inbox_sender.wake();
    }
}
