//! Traffic for the guest from outside: frames into the cable of one card, and what comes out
//! of the other's.

use crate::Error;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

/// Source addresses, of which each makes a flow: enough for every queue to get some.
const FLOWS: u16 = 64;
/// UDP source port of all that is sent, by which it is known again.
const PORT: u16 = 0x7761;
/// Silence after which no frames are under way any more: an emulated machine stands still while
/// others have its processors.
const QUIET: Duration = Duration::from_secs(10);
/// The guest's `eth0`, and what is behind its two cards.
const TO: [u8; 6] = [2, 0, 0, 0, 0, 1];
const FROM: [u8; 6] = [2, 0, 0, 0, 1, 1];
/// The neighbour behind `eth1`, 10.2.0.2.
pub const SINK: [u8; 6] = [2, 0, 0, 0, 2, 2];

/// Counts of a stretch of traffic.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct TrafficCounts {
    /// Frames that the first card took.
    pub sent: u64,
    /// Frames that its cable refused: the guest was too slow.
    pub refused: u64,
    /// Frames that came out of the second card, addressed and counted down as a router does.
    pub forwarded: u64,
    /// Frames that came out otherwise.
    pub odd: u64,
    /// Duration of sending.
    pub seconds: f64,
}

/// Sends `rate` frames a second for `time` into `into`, and counts what comes out of `out`.
///
/// # Errors
/// When a cable breaks.
pub fn pass(
    into: &UnixDatagram,
    out: &UnixDatagram,
    rate: f64,
    time: Duration,
) -> Result<TrafficCounts, Error> {
    let mut counts = TrafficCounts::default();
    drain(into)?;
    let started = Instant::now();
    let mut due = 0_u64;
    while started.elapsed() < time {
        let owed = (started.elapsed().as_secs_f64() * rate) as u64;
        while due < owed {
            let frame = frame((due % u64::from(FLOWS)) as u16);
            due += 1;
            match into.send(&frame) {
                Ok(_) => counts.sent += 1,
                Err(error) if is_full(&error) => counts.refused += 1,
                Err(error) => return Err(Error::io("sending into a cable", error)),
            }
            receive(out, &mut counts)?;
        }
        receive(out, &mut counts)?;
        std::thread::sleep(Duration::from_micros(500));
    }
    counts.seconds = started.elapsed().as_secs_f64();
    let (mut came, mut last) = (counts.forwarded + counts.odd, Instant::now());
    while came < counts.sent && last.elapsed() < QUIET {
        receive(out, &mut counts)?;
        if came < counts.forwarded + counts.odd {
            (came, last) = (counts.forwarded + counts.odd, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(counts)
}

fn is_full(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::WouldBlock
        || error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error())
}

/// Takes all frames that wait.
fn receive(out: &UnixDatagram, counts: &mut TrafficCounts) -> Result<(), Error> {
    let mut buffer = [0; 2048];
    loop {
        match out.recv(&mut buffer) {
            Ok(length) => match verdict(&buffer[..length]) {
                Some(true) => counts.forwarded += 1,
                Some(false) => counts.odd += 1,
                // What the guest's kernel says by itself.
                None => {}
            },
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(Error::io("receiving from a cable", error)),
        }
    }
}

/// Throws away what waits: the far end must not be kept from sending.
fn drain(wire: &UnixDatagram) -> Result<(), Error> {
    receive(wire, &mut TrafficCounts::default())
}

/// Whether a frame is one of ours as a router hands it on; `None` where it is none of ours.
fn verdict(frame: &[u8]) -> Option<bool> {
    let headers = etherparse::SlicedPacket::from_ethernet(frame).ok()?;
    let Some(etherparse::TransportSlice::Udp(udp)) = &headers.transport else { return None };
    let Some(etherparse::NetSlice::Ipv4(ip)) = &headers.net else { return None };
    (udp.source_port() == PORT).then(|| {
        frame[..6] == SINK && ip.header().ttl() == 63 && ip.header().destination() == [10, 2, 0, 2]
    })
}

/// The source address of a flow. Addresses that differ in a few bits only may all have one value of
/// the hash's bit that chooses between two queues: the guest's driver draws the key of its hash, which is
/// linear, at each start. In these all 16 bits vary.
fn source(flow: u16) -> [u8; 4] {
    let [high, low] = (0x0102 + flow * 997).to_be_bytes();
    [10, 1, high, low]
}

/// The frame of a flow: 64 bytes of Ethernet without its checksum's four.
fn frame(flow: u16) -> Vec<u8> {
    let builder = etherparse::PacketBuilder::ethernet2(FROM, TO)
        .ipv4(source(flow), [10, 2, 0, 2], 64)
        .udp(PORT, 9);
    let mut bytes = Vec::with_capacity(64);
    // Writing to a vector cannot fail.
    let _ = builder.write(&mut bytes, &[0; 18]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarded() -> Vec<u8> {
        let mut frame = frame(3);
        frame[..6].copy_from_slice(&SINK);
        frame[22] = 63;
        frame
    }

    #[test]
    fn frames_are_known_again() {
        assert_eq!(frame(0).len(), 60);
        assert_ne!(frame(0), frame(1));
        assert_eq!(verdict(&forwarded()), Some(true));
        assert_eq!(verdict(&frame(3)), Some(false), "not rewritten");
        for other in [&[][..], &[0; 60], &forwarded()[..30]] {
            assert_eq!(verdict(other), None);
        }
    }

    #[test]
    fn the_flows_vary_in_every_bit_of_their_hosts_number() {
        // Gauss over the field of two elements, on the differences to the first flow.
        let number = |flow| u16::from_be_bytes([source(flow)[2], source(flow)[3]]);
        let mut basis: Vec<u16> = Vec::new();
        for flow in 1..FLOWS {
            let rest =
                basis.iter().fold(number(flow) ^ number(0), |rest, one| rest.min(rest ^ one));
            if rest != 0 {
                basis.push(rest);
                basis.sort_unstable_by(|one, other| other.cmp(one));
            }
        }
        assert_eq!(basis.len(), 16);
        // Neither the guest's own address nor one of all hosts.
        assert!((0..FLOWS).all(|flow| ![1, 0, 0xffff].contains(&number(flow))));
    }

    #[test]
    fn forwarded_frames_are_counted() {
        let (into, inner) = UnixDatagram::pair().unwrap();
        let (outer, out) = UnixDatagram::pair().unwrap();
        for socket in [&into, &out] {
            socket.set_nonblocking(true).unwrap();
        }
        let router = std::thread::spawn(move || {
            let mut buffer = [0; 2048];
            while inner.recv(&mut buffer).is_ok_and(|length| length > 0) {
                outer.send(&forwarded()).unwrap();
            }
        });
        let counts = pass(&into, &out, 500.0, Duration::from_millis(100)).unwrap();
        assert_eq!(counts.forwarded, counts.sent);
        assert!(counts.sent > 0 && counts.odd == 0, "{counts:?}");
        // An empty one ends it.
        into.send(&[]).unwrap();
        router.join().unwrap();
    }
}
