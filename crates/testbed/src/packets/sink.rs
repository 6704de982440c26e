//! Receiver of an interface by a program in its driver.

use super::account::{Account, Counted};
use crate::Error;
use std::time::Duration;
use wattline_linux::ethtool;
use wattline_xdp::bpf::BpfError;
use wattline_xdp::measured::{MeasuredReceiver, MeasuredTrial, PACKETS_MAX};

/// An interface with a program that accounts for received packets.
#[derive(Debug)]
pub(super) struct Sink {
    receiver: MeasuredReceiver,
    /// Flows of each stream in this trial.
    streams: Vec<usize>,
    run: u8,
}

impl Sink {
    /// Attaches the program to an interface of this thread's namespace, at least `queues` of whose
    /// queues are used.
    pub fn open(interface: &str, ifindex: u32, queues: u32) -> Result<Self, BpfError> {
        // Packets may arrive at any queue of the driver.
        let has = ethtool::channels(interface).map_or(0, |found| found.receive + found.combined);
        let receiver = MeasuredReceiver::attach(ifindex, queues.max(has))?;
        Ok(Self { receiver, streams: Vec::new(), run: 0 })
    }

    /// Begins a trial; each stream has its number of flows and its largest number of packets.
    pub fn begin(&mut self, run: u8, streams: &[(usize, u64)]) -> Result<(), Error> {
        let packets = streams.iter().map(|(_, packets)| *packets).max().unwrap_or(0);
        let all = packets.saturating_mul(streams.len() as u64);
        if all > PACKETS_MAX {
            return Err(Error::Data {
                path: "offered load".into(),
                reason: format!(
                    "{all} packets are more than a program in the driver tells apart \
                     ({PACKETS_MAX}): shorten the trial, or receive by sockets"
                ),
            });
        }
        self.streams = streams.iter().map(|(flows, _)| *flows).collect();
        self.run = run;
        // At most 2^20 flows and 256 streams.
        let flows = self.streams.iter().sum::<usize>() as u32;
        let trial = MeasuredTrial { run, streams: streams.len() as u32, flows, packets };
        self.receiver.begin(&trial).map_err(refused)
    }

    /// Returns the number of packets received so far, without duplicates.
    pub fn received(&self) -> Result<u64, Error> {
        let totals = self.receiver.totals().map_err(refused)?;
        Ok(totals.iter().map(|total| total.received).sum())
    }

    /// Returns the accounts of all queues.
    pub fn accounts(&self) -> Result<Vec<Account>, Error> {
        let totals = self.receiver.totals().map_err(refused)?;
        let flows = self.receiver.flows().map_err(refused)?;
        let latencies = self.receiver.latencies().map_err(refused)?;
        let queues = totals.into_iter().zip(flows).zip(latencies);
        let account = |((total, flows), latencies): ((_, Vec<_>), Vec<u64>)| {
            let counted = Counted { total, flows: &flows, latencies: &latencies };
            Account::counted(self.run, &self.streams, &counted)
        };
        queues.map(account).collect::<Result<_, _>>().map_err(|_| Error::Data {
            path: "account of the program in the driver".into(),
            reason: "cannot be read".into(),
        })
    }

    /// Returns the median time of the program for each of these frames.
    pub fn cost(&self, frames: &[Vec<u8>]) -> Result<Duration, Error> {
        let each = frames.iter().map(|frame| self.receiver.cost_nanos(frame).map_err(refused));
        let mut nanos = each.collect::<Result<Vec<_>, _>>()?;
        nanos.sort_unstable();
        Ok(Duration::from_nanos(nanos.get(nanos.len() / 2).copied().unwrap_or(0)))
    }
}

/// Returns the number of frames that found no room in the ring of a card or veth in this thread's
/// namespace; 0 if the kernel does not report it.
pub(super) fn refused_frames(interface: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    dropped(&text, interface)
}

/// Parses the frames of an interface dropped while receiving. Some drivers count them as dropped,
/// some as FIFO errors, some as both.
fn dropped(table: &str, interface: &str) -> u64 {
    let line = table.lines().find_map(|line| {
        let (name, numbers) = line.split_once(':')?;
        (name.trim() == interface).then_some(numbers)
    });
    let mut numbers = line.unwrap_or_default().split_whitespace();
    // Bytes, packets, errors, drop, fifo.
    let drop = numbers.nth(3).and_then(|text| text.parse().ok()).unwrap_or(0_u64);
    drop.max(numbers.next().and_then(|text| text.parse().ok()).unwrap_or(0_u64))
}

fn refused(error: BpfError) -> Error {
    let action = "accounting for packets in the driver";
    Error::io(action, std::io::Error::other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::dropped;

    #[test]
    fn dropped_frames_are_those_of_the_interface() {
        let table = "Inter-|   Receive                            |  Transmit\n \
                     face |bytes    packets errs drop fifo frame compressed multicast|bytes\n    \
                     lo:  176       2    0    1    0     0          0         0      176\n \
                     uplink:  9 8 7 60 5 4 3 2 1\n";
        assert_eq!((dropped(table, "uplink"), dropped(table, "lo")), (60, 1));
        for (table, name) in [(table, "up"), ("", "lo"), ("lo: 1 2", "lo"), ("lo: x y z a b", "lo")]
        {
            assert_eq!(dropped(table, name), 0);
        }
    }
}
