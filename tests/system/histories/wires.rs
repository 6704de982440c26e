//! Far ends of a router's links: they send probes, answer for every neighbour, and record every
//! probe that leaves the router.

use etherparse::PacketBuilder;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use wattline_testbed::namespace::Namespace;
use wattline_testbed::raw::{FRAME_MAX, RawSocket};

/// Begin of the payload of a probe; its number follows.
const MARK: &[u8] = b"wattline history";
/// UDP ports of a probe.
const PORTS: (u16, u16) = (4241, 4242);

/// A packet for a router.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    pub source: IpAddr,
    pub destination: IpAddr,
    /// Bytes of its payload.
    pub length: usize,
}

/// A frame that came out of a link.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Output {
    pub link: &'static str,
    pub frame: Vec<u8>,
}

/// The far ends, each with a thread.
pub struct Wires {
    pub namespace: Namespace,
    ingress: RawSocket,
    noted: Arc<Mutex<Vec<(u32, Output)>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Wires {
    /// Serves the far ends of these links. Probes are sent to the first.
    pub fn start(namespace: Namespace, links: &[&'static str]) -> Self {
        let noted = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let open = |link: &str| RawSocket::open(&namespace, &format!("{link}1")).unwrap();
        let serve = |link: &'static str| {
            let (socket, noted, stop) = (open(link), Arc::clone(&noted), Arc::clone(&stop));
            std::thread::spawn(move || {
                let mut buffer = vec![0; FRAME_MAX];
                while !stop.load(Ordering::Acquire) {
                    let Some(length) = socket.receive(&mut buffer, 50) else { continue };
                    let frame = &buffer[..length];
                    if let Some(number) = number_of(frame) {
                        let output = Output { link, frame: comparable(frame) };
                        noted.lock().unwrap().push((number, output));
                    } else if let Some(answer) = answer(frame) {
                        // A link that goes down meanwhile takes nothing.
                        let _ = socket.send(&answer);
                    }
                }
            })
        };
        let threads = links.iter().copied().map(serve).collect();
        let ingress = open(links[0]);
        Self { namespace, ingress, noted, stop, threads }
    }

    /// Sends probes, numbered from `first` on, to the router's Ethernet address.
    pub fn send(&self, probes: &[Probe], first: u32, router: [u8; 6]) {
        self.noted.lock().unwrap().clear();
        for (number, probe) in (first..).zip(probes) {
            assert!(self.ingress.send(&probe.frame(number, router)).unwrap());
        }
    }

    /// Returns the frames that resulted so far from each of `count` probes from `first` on.
    pub fn outputs(&self, first: u32, count: usize) -> Vec<Vec<Output>> {
        let mut outputs = vec![Vec::new(); count];
        for (number, output) in self.noted.lock().unwrap().iter() {
            let place = number.wrapping_sub(first) as usize;
            if let Some(of) = outputs.get_mut(place) {
                of.push(output.clone());
            }
        }
        outputs.iter_mut().for_each(|of| of.sort());
        outputs
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Probe {
    fn frame(&self, number: u32, router: [u8; 6]) -> Vec<u8> {
        let mut payload = MARK.to_vec();
        payload.extend(number.to_be_bytes());
        payload.resize(self.length, 0);
        let ethernet = PacketBuilder::ethernet2(mac_of(self.source), router);
        let ip = match (self.source, self.destination) {
            (IpAddr::V4(from), IpAddr::V4(to)) => ethernet.ipv4(from.octets(), to.octets(), 64),
            (IpAddr::V6(from), IpAddr::V6(to)) => ethernet.ipv6(from.octets(), to.octets(), 64),
            _ => unreachable!("both of one family"),
        };
        let mut frame = Vec::new();
        ip.udp(PORTS.0, PORTS.1).write(&mut frame, &payload).unwrap();
        frame
    }
}

/// Returns the number of the probe that a frame carries or quotes.
fn number_of(frame: &[u8]) -> Option<u32> {
    let place = frame.windows(MARK.len()).position(|bytes| bytes == MARK)?;
    frame.get(place + MARK.len()..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Returns type and code of an ICMP error, the only ICMP messages here.
pub fn error_of(frame: &[u8]) -> Option<[u8; 2]> {
    match (frame.get(12..14)?, frame.get(23)?, frame.get(20)?) {
        ([0x08, 0x00], 1, _) => frame.get(34..36)?.try_into().ok(),
        ([0x86, 0xdd], _, 58) => frame.get(54..56)?.try_into().ok(),
        _ => None,
    }
}

/// Returns a frame without the bytes that the sender of an ICMP error may choose. Linux quotes a packet that is
/// too long for the MTU of a route alone with its time to live already reduced.
fn comparable(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if error_of(&frame).is_some() {
        let free: &[std::ops::Range<usize>] = if frame[12] == 0x08 {
            // Identification and fragmentation, header checksum, ICMP checksum; then, quoted, time to live and
            // header checksum.
            &[18..22, 24..26, 36..38, 50..51, 52..54]
        } else {
            // Flow label, ICMP checksum, quoted hop limit.
            frame[15] &= 0xf0;
            &[16..18, 56..58, 69..70]
        };
        for place in free {
            frame[place.clone()].fill(0);
        }
    }
    frame
}

/// Returns the Ethernet address of a neighbour; histories set the same ones.
pub fn mac_of(address: IpAddr) -> [u8; 6] {
    match address {
        IpAddr::V4(it) => {
            let [first, second, third, fourth] = it.octets();
            [2, 0, first ^ 192, second, third, fourth]
        }
        IpAddr::V6(it) => {
            let bytes = it.octets();
            [2, 1, bytes[6], bytes[7], bytes[5], bytes[15]]
        }
    }
}

/// Returns the answer to an ARP request or a neighbour solicitation.
fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    let asker: [u8; 6] = frame.get(6..12)?.try_into().ok()?;
    let mut answer = Vec::new();
    match frame.get(12..14)? {
        [0x08, 0x06] => {
            let wanted: [u8; 4] = frame.get(38..42)?.try_into().ok()?;
            let by: [u8; 4] = frame.get(28..32)?.try_into().ok()?;
            if frame.get(20..22)? != [0, 1] || by == wanted {
                return None;
            }
            let mac = mac_of(wanted.into());
            answer.extend([&asker[..], &mac, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]].concat());
            answer.extend([&mac[..], &wanted, &asker, &by].concat());
        }
        [0x86, 0xdd] if frame.get(20) == Some(&58) && frame.get(54) == Some(&135) => {
            let wanted: [u8; 16] = frame.get(62..78)?.try_into().ok()?;
            let by: [u8; 16] = frame.get(22..38)?.try_into().ok()?;
            // Detection of duplicate addresses.
            if by == [0; 16] {
                return None;
            }
            let mac = mac_of(wanted.into());
            // Solicited, and it overrides.
            let message = PacketBuilder::ethernet2(mac, asker).ipv6(wanted, by, 255).icmpv6_raw(
                136,
                0,
                [0x60, 0, 0, 0],
            );
            let payload = [&wanted[..], &[2, 1], &mac].concat();
            message.write(&mut answer, &payload).ok()?;
        }
        _ => return None,
    }
    Some(answer)
}
