//! Receiver: reads everything, keeps only figures.

use super::live::{Live, PORT};
use super::payload::Payload;
use crate::Error;
use crate::clock::monotonic_nanos;
use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use std::fs::File;
use std::io::{Read, Seek};
use std::net::{Ipv6Addr, UdpSocket};
use std::sync::atomic::Ordering;

const RECEIVE_BUFFER: usize = 32 << 20;
/// Time without a packet, after the last one was sent, at which the experiment is over.
const SILENCE_NANOS: u64 = 500_000_000;
/// Longest recorded latency, ten seconds; longer ones are recorded as this.
const LONGEST_NANOS: u64 = 10_000_000_000;

/// Receiver of one load.
#[derive(Debug)]
pub(super) struct Receiver {
    socket: UdpSocket,
    statistics: Statistics,
    heard: Reception,
}

/// Received packets.
#[derive(Debug)]
pub(super) struct Reception {
    /// Probe packets.
    pub packets: u64,
    /// Probe packets that arrived after a later one of their flow (RFC 4737 section 3.3).
    pub reordered: u64,
    /// Nanoseconds from sending to reading.
    pub latency: Histogram<u64>,
    /// Longest time between two packets.
    pub longest_gap_nanos: u64,
    /// Packets that found no room because this end was too slow to read.
    pub overflow: u64,
    next_sequence: Vec<u64>,
    last_nanos: Option<u64>,
}

impl Receiver {
    /// Opens the sockets, in the namespace of the calling thread.
    pub fn open(flows: u16) -> Result<Self, Error> {
        let latency = Histogram::new_with_bounds(1, LONGEST_NANOS, 3).map_err(|error| {
            Error::Data { path: "latency histogram".into(), reason: error.to_string() }
        })?;
        Ok(Self {
            socket: open()?,
            statistics: Statistics::open()?,
            heard: Reception {
                packets: 0,
                reordered: 0,
                latency,
                longest_gap_nanos: 0,
                overflow: 0,
                next_sequence: vec![0; usize::from(flows)],
                last_nanos: None,
            },
        })
    }

    /// Reads until all is sent and no packet arrives any more.
    pub fn run(mut self, live: &Live) -> Result<Reception, Error> {
        let mut buffer = [0_u8; 2_048];
        let mut quiet_since = monotonic_nanos();
        loop {
            let mut any = false;
            while let Ok(length) = self.socket.recv(&mut buffer) {
                any = true;
                if let Some(payload) = Payload::parse(&buffer[..length]) {
                    self.heard.take(payload, monotonic_nanos());
                    live.received.store(self.heard.packets, Ordering::Relaxed);
                }
            }
            let now = monotonic_nanos();
            if any || !live.all_sent.load(Ordering::Acquire) {
                quiet_since = now;
            } else if now - quiet_since > SILENCE_NANOS {
                break;
            }
            if !any {
                self.wait()?;
            }
        }
        self.heard.overflow = self.statistics.overflow()?;
        Ok(self.heard)
    }

    fn wait(&self) -> Result<(), Error> {
        let mut descriptors = [PollFd::new(&self.socket, PollFlags::IN)];
        let limit = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        match poll(&mut descriptors, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(source) => Err(Error::io("waiting for probe packets", source)),
        }
    }
}

impl Reception {
    fn take(&mut self, payload: Payload, now: u64) {
        let Some(next) = self.next_sequence.get_mut(usize::from(payload.flow)) else {
            return;
        };
        self.packets += 1;
        if payload.sequence < *next {
            self.reordered += 1;
        } else {
            *next = payload.sequence + 1;
        }
        self.latency.saturating_record(now.saturating_sub(payload.nanos).max(1));
        if let Some(last) = self.last_nanos {
            self.longest_gap_nanos = self.longest_gap_nanos.max(now.saturating_sub(last));
        }
        self.last_nanos = Some(now);
    }
}

/// Opens one socket for both families: an IPv6 socket also receives IPv4 packets (ipv6(7)).
fn open() -> Result<UdpSocket, Error> {
    let failed = |action: &str, source: std::io::Error| {
        Error::io(format!("{action} the probe receiver on UDP port {PORT}"), source)
    };
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, PORT))
        .map_err(|source| failed("opening", source))?;
    socket.set_nonblocking(true).map_err(|source| failed("setting up", source))?;
    set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER)
        .map_err(|source| failed("enlarging the buffer of", source.into()))?;
    Ok(socket)
}

/// UDP counters of a namespace. The files show the namespace in which they were opened, in any
/// reading thread.
#[derive(Debug)]
struct Statistics {
    files: [File; 2],
    at_start: u64,
}

impl Statistics {
    fn open() -> Result<Self, Error> {
        let open = |path: &str| File::open(path).map_err(|source| Error::io(path, source));
        let files = [open("/proc/thread-self/net/snmp")?, open("/proc/thread-self/net/snmp6")?];
        let mut statistics = Self { files, at_start: 0 };
        statistics.at_start = statistics.overflow()?;
        Ok(statistics)
    }

    /// Returns the datagrams dropped since [`Self::open`] because a socket's buffer was full.
    fn overflow(&mut self) -> Result<u64, Error> {
        let mut text = String::new();
        for file in &mut self.files {
            file.rewind()
                .and_then(|()| file.read_to_string(&mut text))
                .map_err(|source| Error::io("reading the UDP counters", source))?;
        }
        Ok(receive_buffer_errors(&text) - self.at_start)
    }
}

/// Parses the datagrams of both families dropped at full socket buffers from the text of
/// `/proc/net/snmp` and `snmp6`: a column below its name in the one, a line in the other.
pub fn receive_buffer_errors(text: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let v4 = lines.next().zip(lines.next()).and_then(|(names, values)| {
        let column = names.split_whitespace().position(|name| name == "RcvbufErrors")?;
        values.split_whitespace().nth(column)?.parse::<u64>().ok()
    });
    let v6 = text.lines().find_map(|line| {
        line.strip_prefix("Udp6RcvbufErrors").and_then(|value| value.trim().parse::<u64>().ok())
    });
    v4.unwrap_or(0) + v6.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflows_of_both_families_are_added() {
        let text = "Ip: a b\nIp: 1 2\nUdp: InDatagrams RcvbufErrors SndbufErrors\n\
                    Udp: 10 7 3\nUdp6InErrors   \t5\nUdp6RcvbufErrors  \t4\n";
        assert_eq!(receive_buffer_errors(text), 11);
        assert_eq!(receive_buffer_errors(""), 0);
    }

    #[test]
    fn this_machine_has_the_counters() {
        let mut statistics = Statistics::open().unwrap();
        assert!(statistics.overflow().is_ok());
        let text = std::fs::read_to_string("/proc/net/snmp").unwrap();
        assert!(text.contains("RcvbufErrors"));
    }
}
