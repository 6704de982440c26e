//! TCP's own round trips, asked for now and then by a thread of its own.

use super::heard::Heard;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use wattline_governor::latency::{LatencySource, LatencySummary, Origin, Refused};
use wattline_linux::tcp_round_trips::{RoundTrip, TcpRoundTrips};
use wattline_requests::sources::RoundTrips;
use wattline_units::{Span, Time};

/// Connections beyond so many are not looked at: the kernel walks its table for each look.
const MOST: usize = 100_000;

/// Latest result of the thread.
type Slot = Arc<Mutex<Option<Result<Vec<RoundTrip>, String>>>>;

/// Returns the message for ports without a listening server.
fn nobody(ports: &[u16]) -> String {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    format!("no server listens on TCP port {} of this machine", ports.join(", "))
}

/// The connections to a server's ports.
pub(super) struct Tcp {
    trips: RoundTrips,
    latest: Slot,
    heard: Option<Time>,
    problem: Option<String>,
    /// The thread ends when this goes.
    _running: Sender<()>,
}

impl Tcp {
    /// Begins to look at the connections to these local ports once in `period`.
    pub fn open(ports: Vec<u16>, period: Span, window: Span) -> io::Result<Self> {
        let asked = TcpRoundTrips::open()?;
        let latest = Slot::default();
        let (running, stop) = channel();
        let slot = Arc::clone(&latest);
        std::thread::Builder::new()
            .name("round trips".to_owned())
            .spawn(move || look_on(asked, &ports, period.into(), &slot, &stop))?;
        let trips = RoundTrips::new(window);
        Ok(Self { trips, latest, heard: None, problem: None, _running: running })
    }
}

fn look_on(
    mut asked: TcpRoundTrips,
    ports: &[u16],
    period: Duration,
    slot: &Slot,
    stop: &Receiver<()>,
) {
    loop {
        let began = Instant::now();
        let look = look(&mut asked, ports);
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(look);
        match stop.recv_timeout(period.saturating_sub(began.elapsed())) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return,
        }
    }
}

/// The connections to these ports. A server without connections has none; where no server listens
/// either, nobody can be measured.
fn look(asked: &mut TcpRoundTrips, ports: &[u16]) -> Result<Vec<RoundTrip>, String> {
    let failed = |error: io::Error| format!("sock_diag: {error}");
    let mut found = Vec::new();
    for port in ports {
        asked.add_to(*port, MOST, &mut found).map_err(failed)?;
    }
    if !found.is_empty() {
        return Ok(found);
    }
    for port in ports {
        if asked.listens(*port).map_err(failed)? {
            return Ok(found);
        }
    }
    Err(nobody(ports))
}

impl LatencySource for Tcp {
    fn origin(&self) -> Origin {
        self.trips.origin()
    }

    fn poll(&mut self, now: Time) {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner).take();
        match latest {
            None => {}
            Some(Err(problem)) => self.problem = Some(problem),
            Some(Ok(found)) => {
                self.problem = None;
                self.heard = Some(now);
                let connections =
                    found.into_iter().map(|one| (one.cookie, one.smoothed_micros, one.delivered));
                self.trips.take(connections, now);
            }
        }
    }

    fn summary(&self, now: Time) -> Option<LatencySummary> {
        self.trips.summary(now)
    }

    fn refused(&self) -> Refused {
        self.trips.refused()
    }
}

impl Heard for Tcp {
    fn heard(&self) -> Option<Time> {
        self.heard
    }

    fn problem(&self) -> Option<String> {
        self.problem.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn round_trips_of_a_servers_connections_come_with_their_number_and_age() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let (period, window) = (Span::from_millis(10), Span::from_millis(60_000));
        let mut tcp = Tcp::open(vec![port], period, window).unwrap();
        let began = Instant::now();
        loop {
            server.write_all(b"x").unwrap();
            client.read_exact(&mut [0]).unwrap();
            client.write_all(b"y").unwrap();
            server.read_exact(&mut [0]).unwrap();
            let now = Time::ZERO + Span::from(began.elapsed());
            tcp.poll(now);
            if let Some(problem) = tcp.problem() {
                wattline_needs::machine(&problem);
                return;
            }
            if let Some(summary) = tcp.summary(now).filter(|summary| summary.samples >= 3) {
                assert_eq!(summary.origin, Origin::RoundTrips);
                assert!(summary.mean.unwrap() < Span::from_millis(1_000), "{summary:?}");
                assert!(tcp.heard().is_some());
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(30));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A mistyped port is not a server without requests.
    #[test]
    fn a_port_on_which_nobody_listens_is_silent_and_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut asked = TcpRoundTrips::open().unwrap();
        match look(&mut asked, &[port]) {
            Ok(found) => assert!(found.is_empty(), "a server without requests: {found:?}"),
            Err(problem) => return wattline_needs::machine(problem),
        }
        drop(listener);
        let problem = look(&mut asked, &[port]).unwrap_err();
        assert!(problem.contains(&port.to_string()), "{problem}");
        let (period, window) = (Span::from_millis(10), Span::from_millis(60_000));
        let mut tcp = Tcp::open(vec![port], period, window).unwrap();
        let began = Instant::now();
        while tcp.problem().is_none() {
            tcp.poll(Time::ZERO + Span::from(began.elapsed()));
            assert!(began.elapsed() < Duration::from_secs(30));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(tcp.heard(), None);
    }
}
