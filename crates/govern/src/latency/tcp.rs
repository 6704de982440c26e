//! TCP's own round trips, queried periodically by a separate thread.

use super::source::{Latest, Source};
use std::io;
use wattline_linux::tcp_round_trips::{RoundTrip, TcpRoundTrips};
use wattline_requests::sources::RoundTrips;
use wattline_units::Span;

/// Most connections examined per look: the kernel walks its table for each look.
const MOST: usize = 100_000;

/// Starts looking at the connections to these local ports once per `period`.
pub(super) fn open(ports: Vec<u16>, period: Span, window: Span) -> io::Result<Source<RoundTrips>> {
    let mut asked = TcpRoundTrips::open()?;
    let latest = Latest::start("round trips", period, move || look(&mut asked, &ports))?;
    Ok(Source::new(RoundTrips::new(window), move |trips, now| match latest.take()? {
        Err(problem) => Some((false, Some(problem))),
        Ok(found) => {
            let connection = |one: RoundTrip| (one.cookie, one.smoothed_micros, one.delivered);
            trips.take(found.into_iter().map(connection), now);
            Some((true, None))
        }
    }))
}

/// Returns the connections to these ports; none for a server without connections. Fails if no
/// server listens either: there is nothing to measure.
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
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    Err(format!("no server listens on TCP port {} of this machine", ports.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::source::Heard;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};
    use wattline_governor::latency::Origin;
    use wattline_units::Time;

    #[test]
    fn round_trips_of_a_servers_connections_come_with_their_number_and_age() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let (period, window) = (Span::from_millis(10), Span::from_millis(60_000));
        let mut tcp = open(vec![port], period, window).unwrap();
        let began = Instant::now();
        loop {
            server.write_all(b"x").unwrap();
            client.read_exact(&mut [0]).unwrap();
            client.write_all(b"y").unwrap();
            server.read_exact(&mut [0]).unwrap();
            let now = Time::ZERO + Span::from(began.elapsed());
            tcp.poll(now);
            if let Some(problem) = tcp.problem() {
                wattline_needs::machine(problem);
                return;
            }
            if let Some(summary) = tcp.figures().summary(now).filter(|summary| summary.samples >= 3)
            {
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
    fn port_without_a_server_is_silent_and_named() {
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
        let mut tcp = open(vec![port], period, window).unwrap();
        let began = Instant::now();
        while tcp.problem().is_none() {
            tcp.poll(Time::ZERO + Span::from(began.elapsed()));
            assert!(began.elapsed() < Duration::from_secs(30));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(tcp.heard(), None);
    }
}
