//! One thread per collector, so that a slow collector delays neither the control thread nor others.

use super::account::Account;
use super::session::Session;
use crate::section::{CollectorAddress, FlowRecordsSettings};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wattline_linux::privileges;
use wattline_packet::ipfix::FlowRecord;
use wattline_status::applications::{CollectorState, CollectorStats, FlowCounts};

/// Largest number of batches that wait for a collector.
const QUEUE: usize = 64;
/// Interval of polling for the end of a thread, and for room in a full queue.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The control thread's end of the queue to a collector's thread.
pub(super) struct Exporter {
    collector: CollectorAddress,
    account: Arc<Account>,
    queue: Option<SyncSender<Arc<[FlowRecord]>>>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Starts the thread.
    pub fn start(
        collector: CollectorAddress,
        settings: &FlowRecordsSettings,
    ) -> std::io::Result<Self> {
        let account = Arc::new(Account::default());
        let (queue, records) = sync_channel(QUEUE);
        let session = Session::new(collector, settings, account.clone());
        let thread = std::thread::Builder::new().name("collector".to_owned()).spawn(move || {
            // The thread opens only unprivileged sockets.
            if let Err(error) = privileges::drop_all() {
                tracing::debug!(
                    "flow records: cannot drop the capabilities of the export thread: {error}"
                );
            }
            run(session, &records);
        })?;
        Ok(Self { collector, account, queue: Some(queue), thread: Some(thread) })
    }

    /// Queues records. Waits for room until `until`, or not at all. Records without room are
    /// counted as lost.
    pub fn send(&self, mut records: Arc<[FlowRecord]>, until: Option<Instant>) {
        let Some(queue) = &self.queue else { return };
        loop {
            match queue.try_send(records) {
                Ok(()) => return,
                Err(TrySendError::Full(back)) if until.is_some_and(|end| Instant::now() < end) => {
                    records = back;
                    std::thread::sleep(POLL_INTERVAL);
                }
                Err(TrySendError::Full(back) | TrySendError::Disconnected(back)) => {
                    self.account.lose(&back);
                    return;
                }
            }
        }
    }

    /// Stores the counts of records that were lost before the queue.
    pub fn lost_before(&self, totals: &FlowCounts) {
        let counts = [totals.lost_records, totals.lost_packets, totals.lost_bytes];
        self.account.before.iter().zip(counts).for_each(|(to, count)| to.store(count, Relaxed));
    }

    /// Closes the queue.
    pub fn close(&mut self) {
        self.queue = None;
    }

    /// Waits until the thread has sent its records, but no longer than `until`.
    pub fn join(&mut self, until: Instant) {
        let Some(thread) = self.thread.take() else { return };
        while !thread.is_finished() {
            if Instant::now() >= until {
                tracing::warn!(
                    "flow records: {} did not take the last records in time; they are lost",
                    self.collector
                );
                return;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        if thread.join().is_err() {
            tracing::error!(
                "flow records: the export to {} has panicked, which is a defect of Wattline",
                self.collector
            );
        }
    }

    /// Returns the collector's name.
    pub fn name(&self) -> String {
        self.collector.to_string()
    }

    /// Returns the number of records sent to it.
    pub fn sent(&self) -> u64 {
        self.account.counts.records.load(Relaxed)
    }

    /// Returns the number of records that it did not take.
    pub fn lost(&self) -> u64 {
        self.account.counts.lost_records.load(Relaxed)
    }

    /// Returns the counters of the collector.
    pub fn stats(&self) -> CollectorStats {
        let is_up = self.account.up.load(Relaxed);
        CollectorStats {
            collector: self.name(),
            state: if is_up { CollectorState::Up } else { CollectorState::Down },
            counts: self.account.counts.map(|count| count.load(Relaxed)),
        }
    }
}

fn run(mut session: Session, records: &Receiver<Arc<[FlowRecord]>>) {
    loop {
        let wait = session.next_refresh().saturating_duration_since(Instant::now());
        match records.recv_timeout(wait) {
            Ok(records) => session.export(&records),
            Err(RecvTimeoutError::Timeout) => session.refresh(),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    session.end();
}
