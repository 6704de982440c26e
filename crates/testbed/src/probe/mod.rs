//! Self-accounting traffic: UDP packets from ordinary sockets, each with its flow, number and
//! sending time, and a receiver that reads them.
//!
//! ```text
//! sender thread ── sockets in the source ── router under test ── sockets in the sink ── receiver thread
//! ```

mod live;
mod load;
mod outcome;
pub mod payload;
mod receiver;
mod sender;

pub use live::{Live, PORT};
pub use load::Load;
pub use outcome::Outcome;
pub use payload::Payload;
pub use receiver::receive_buffer_errors;

use crate::Error;
use crate::topology::Topology;
use receiver::Receiver;
use sender::{Sender, Sent};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

/// A running load through a topology.
#[derive(Debug)]
pub struct Probe {
    live: Arc<Live>,
    sender: JoinHandle<Result<Sent, Error>>,
    receiver: JoinHandle<Result<receiver::Reception, Error>>,
}

impl Probe {
    /// Begins to send `load` from the topology's source to its sink.
    ///
    /// # Errors
    /// Fails when the load is impossible or the sockets cannot be opened.
    pub fn start(topology: &Topology, load: &Load) -> Result<Self, Error> {
        let live = Arc::new(Live::default());
        let receiver = topology.sink.enter(|| Receiver::open(load.flows))??;
        let sender = topology.source.enter(|| Sender::open(load))??;
        let (hearing, sending) = (Arc::clone(&live), Arc::clone(&live));
        Ok(Self {
            live,
            receiver: std::thread::spawn(move || receiver.run(&hearing)),
            sender: std::thread::spawn(move || {
                let sent = sender.run(&sending);
                sending.all_sent.store(true, Ordering::Release);
                sent
            }),
        })
    }

    /// Returns the live counters.
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// Returns true once everything is sent and the receiver has stopped.
    pub fn is_over(&self) -> bool {
        self.receiver.is_finished()
    }

    /// Ends the sending now rather than at the load's end, then waits like [`Self::finish`].
    ///
    /// # Errors
    /// Fails as [`Self::finish`].
    pub fn stop(self) -> Result<Outcome, Error> {
        self.live.stop_sending.store(true, Ordering::Release);
        self.finish()
    }

    /// Waits for the end of the load and for packets in flight.
    ///
    /// # Errors
    /// Fails when sending or receiving failed for a reason other than packet loss.
    pub fn finish(self) -> Result<Outcome, Error> {
        let sent = self.sender.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        let heard = self.receiver.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        Ok(Outcome::new(&sent, &heard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leftovers::can_build_namespaces;
    use crate::topology::Options;
    use std::time::Duration;

    #[test]
    fn every_packet_is_accounted_for() {
        if !can_build_namespaces("every_packet_is_accounted_for") {
            return;
        }
        let topology = Topology::build(Options::default()).unwrap();
        let load = Load { rate_pps: 5_000.0, duration: Duration::from_millis(500), flows: 8 };
        let outcome = Probe::start(&topology, &load).unwrap().finish().unwrap();
        assert_eq!(outcome.offered_packets, 2_500);
        assert_eq!(outcome.received_packets + outcome.lost_packets, outcome.offered_packets);
        assert!(outcome.received_packets > 0);
        assert!(outcome.latency_p50_seconds > 0.0);
        assert!(outcome.latency_p50_seconds <= outcome.latency_p99_seconds);
    }

    #[test]
    fn packets_that_do_not_arrive_are_lost() {
        if !can_build_namespaces("packets_that_do_not_arrive_are_lost") {
            return;
        }
        // The kernel does not resolve neighbours before its own addresses are known to be unique.
        let options = Options { static_neighbours: true, ..Options::default() };
        let topology = Topology::build(options).unwrap();
        topology.router.sysctl(&[("ipv4/ip_forward", "0")]).unwrap();
        let load = Load { rate_pps: 1_000.0, duration: Duration::from_millis(200), flows: 2 };
        // One flow is IPv4, the other IPv6, which continues.
        let outcome = Probe::start(&topology, &load).unwrap().finish().unwrap();
        assert_eq!(outcome.offered_packets, 200);
        assert_eq!(outcome.lost_packets, 100);
    }
}
