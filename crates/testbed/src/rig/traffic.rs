//! Traffic for the guest from outside: frames into the cable of one card and out of the other's.

use crate::Error;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

/// Number of source addresses, each of which is a flow; enough for every queue.
const FLOWS: u16 = 64;
/// UDP source port of all sent frames, by which they are recognised.
const PORT: u16 = 0x7761;
/// Silence after which no frames are in flight any more: an emulated machine stands still while
/// other programs have its processors.
const QUIET: Duration = Duration::from_secs(10);
/// Ethernet address of the guest's `eth0`, and of the neighbours of its two cards.
const TO: [u8; 6] = [2, 0, 0, 0, 0, 1];
const FROM: [u8; 6] = [2, 0, 0, 0, 1, 1];
/// The neighbour at `eth1`, 10.2.0.2.
pub const SINK: [u8; 6] = [2, 0, 0, 0, 2, 2];

/// Counts of a period of traffic.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct TrafficCounts {
    /// Frames that the first card accepted.
    pub sent: u64,
    /// Frames that its cable refused: the guest was too slow.
    pub refused: u64,
    /// Frames from the second card with a router's changes of addresses and time to live.
    pub forwarded: u64,
    /// Other frames from the second card.
    pub odd: u64,
    /// Duration of sending.
    pub seconds: f64,
}

/// Sends `rate` frames per second for `time` into `into`, and counts frames from `out`.
///
/// # Errors
/// Fails when a cable breaks.
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

/// Receives all waiting frames.
fn receive(out: &UnixDatagram, counts: &mut TrafficCounts) -> Result<(), Error> {
    let mut buffer = [0; 2048];
    loop {
        match out.recv(&mut buffer) {
            Ok(length) => match verdict(&buffer[..length]) {
                Some(true) => counts.forwarded += 1,
                Some(false) => counts.odd += 1,
                // Frames of the guest's kernel itself.
                None => {}
            },
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(Error::io("receiving from a cable", error)),
        }
    }
}

/// Discards waiting frames, so that the far end is not blocked.
fn drain(wire: &UnixDatagram) -> Result<(), Error> {
    receive(wire, &mut TrafficCounts::default())
}

/// Returns true if a frame of this traffic was forwarded correctly; `None` for other frames.
fn verdict(frame: &[u8]) -> Option<bool> {
    let headers = etherparse::SlicedPacket::from_ethernet(frame).ok()?;
    let Some(etherparse::TransportSlice::Udp(udp)) = &headers.transport else { return None };
    let Some(etherparse::NetSlice::Ipv4(ip)) = &headers.net else { return None };
    (udp.source_port() == PORT).then(|| {
        frame[..6] == SINK && ip.header().ttl() == 63 && ip.header().destination() == [10, 2, 0, 2]
    })
}

/// Returns the source address of a flow. All 16 bits of the host number vary. If only a few bits
/// varied, all flows could land on one of two queues: the hash is linear, and the guest's driver
/// draws its key at each start.
fn source(flow: u16) -> [u8; 4] {
    let [high, low] = (0x0102 + flow * 997).to_be_bytes();
    [10, 1, high, low]
}

/// Returns the frame of a flow: 64 bytes of Ethernet minus four for the checksum.
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
    fn frames_are_recognised() {
        assert_eq!(frame(0).len(), 60);
        assert_ne!(frame(0), frame(1));
        assert_eq!(verdict(&forwarded()), Some(true));
        assert_eq!(verdict(&frame(3)), Some(false), "not rewritten");
        for other in [&[][..], &[0; 60], &forwarded()[..30]] {
            assert_eq!(verdict(other), None);
        }
    }

    #[test]
    fn flows_vary_in_every_bit_of_the_host_number() {
        // Gaussian elimination over the field of two elements, on the differences from the first
        // flow.
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
        // Neither the guest's own address nor broadcast.
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
        // An empty datagram ends the test.
        into.send(&[]).unwrap();
        router.join().unwrap();
    }
}
