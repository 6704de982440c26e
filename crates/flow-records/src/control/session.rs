//! The session with one collector: connecting, sending, and recovery from failures.
//!
//! A collector that is down loses only its own records. They are counted as lost, the failure is
//! logged once, and a new connection is tried after a second, then after twice as long each time,
//! up to a minute. Over UDP, the kernel reports a message that was refused when the *next* one is
//! sent; only then are the records of the earlier message counted as lost.

use super::account::Account;
use crate::nodes::Sampling;
use crate::section::{CollectorAddress, FlowRecordsSettings, Transport};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use wattline_packet::ipfix::{Encoder, FlowRecord, Sampler, Version};

/// Longest time for a collector to accept a connection, or data.
const PATIENCE: Duration = Duration::from_secs(2);
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Number of UDP messages sent without a pause, so that receivers can keep up.
const BURST: u32 = 16;
const BURST_PAUSE: Duration = Duration::from_millis(1);
/// Time for the kernel to report an error of the last UDP message.
const LAST_ERROR: Duration = Duration::from_millis(20);

enum Socket {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl Socket {
    /// Connects, from `source` if it is of the collector's family.
    fn connect(collector: CollectorAddress, source: Option<IpAddr>) -> io::Result<Self> {
        let address = collector.address;
        let source = source.filter(|source| source.is_ipv4() == address.is_ipv4());
        if collector.transport == Transport::IpfixTcp {
            let stream = match source {
                Some(source) => connect_from(source, address)?,
                None => TcpStream::connect_timeout(&address, PATIENCE)?,
            };
            stream.set_write_timeout(Some(PATIENCE))?;
            stream.set_nodelay(true)?;
            return Ok(Self::Tcp(stream));
        }
        let any: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((source.unwrap_or(any), 0))?;
        socket.connect(address)?;
        Ok(Self::Udp(socket))
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self {
            Self::Udp(socket) => socket.send(message).map(|_| ()),
            Self::Tcp(stream) => {
                // A collector never sends data, so a readable socket means the end of the
                // connection.
                stream.set_nonblocking(true)?;
                let read = stream.read(&mut [0]);
                stream.set_nonblocking(false)?;
                match read {
                    Ok(0) => Err(io::Error::other("the collector has closed the connection")),
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
                    _ => stream.write_all(message),
                }
            }
        }
    }
}

/// Connects over TCP from an address: the standard library has no bind before connect.
fn connect_from(source: IpAddr, address: SocketAddr) -> io::Result<TcpStream> {
    let family = if source.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    net::bind(&socket, &SocketAddr::new(source, 0))?;
    match net::connect(&socket, &address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
            let mut ready = [PollFd::new(&socket, PollFlags::OUT)];
            if poll(&mut ready, Some(&patience))? == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            net::sockopt::socket_error(&socket)??;
        }
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Numbers of records, packets and bytes in a message.
type Content = [u64; 3];

fn content(records: &[FlowRecord]) -> Content {
    let sum = |of: fn(&FlowRecord) -> u64| records.iter().map(of).sum();
    [records.len() as u64, sum(|record| record.packets), sum(|record| record.bytes)]
}

/// The session with one collector.
pub(super) struct Session {
    collector: CollectorAddress,
    source: Option<IpAddr>,
    socket: Option<Socket>,
    encoder: Encoder,
    sampler: Option<Sampler>,
    account: Arc<Account>,
    template_interval: Duration,
    /// Time at which templates are due.
    refresh: Instant,
    /// Time of the next connection attempt, and the pause after that.
    retry: Instant,
    pause: Duration,
    /// True if the collector is known to be down, which has been logged.
    down: bool,
    /// Contents of the last UDP message, while the kernel may still report its loss.
    last: Content,
    burst: u32,
    /// True if templates have been sent in this session.
    has_templates: bool,
}

fn unix_millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

impl Session {
    /// Makes a session without a connection.
    pub fn new(
        collector: CollectorAddress,
        settings: &FlowRecordsSettings,
        account: Arc<Account>,
    ) -> Self {
        let version = match collector.transport {
            Transport::IpfixUdp | Transport::IpfixTcp => Version::Ipfix,
            Transport::Netflow9 => Version::Netflow9,
        };
        let now = Instant::now();
        let interval = settings.sampling_interval;
        let random = settings.sampling == Sampling::Random;
        Self {
            collector,
            source: settings.source,
            socket: None,
            encoder: Encoder::new(version, settings.domain, unix_millis(), settings.message_bytes),
            sampler: (interval > 1).then_some(Sampler { interval, random }),
            account,
            template_interval: settings.template_interval,
            refresh: now,
            retry: now,
            pause: SHORTEST_PAUSE,
            down: false,
            last: Content::default(),
            burst: 0,
            has_templates: false,
        }
    }

    /// Returns the time at which [`Self::refresh`] is due.
    pub fn next_refresh(&self) -> Instant {
        if self.socket.is_some() { self.refresh } else { self.retry.max(self.refresh) }
    }

    /// Sends templates and options; connects first if necessary.
    pub fn refresh(&mut self) {
        if self.is_ready() {
            self.send_templates();
        }
    }

    /// Sends records, or counts them as lost.
    pub fn export(&mut self, mut records: &[FlowRecord]) {
        let due = |session: &Self| session.down || Instant::now() >= session.refresh;
        if !self.is_ready() || due(self) && !self.send_templates() {
            self.account.lose(records);
            return;
        }
        while !records.is_empty() {
            let (taken, message) = self.encoder.records(unix_millis(), records);
            let message = message.to_vec();
            let (now, later) = records.split_at(taken);
            if !self.send(&message, content(now)) {
                self.account.lose(records);
                return;
            }
            records = later;
        }
    }

    /// Sends a last status and waits for the last error.
    pub fn end(&mut self) {
        if self.socket.is_some() && !self.down {
            self.send_templates();
        }
        if let Some(Socket::Udp(socket)) = &self.socket {
            std::thread::sleep(LAST_ERROR);
            if let Ok(Some(error)) = socket.take_error() {
                self.refused(&error);
            }
        }
    }

    fn is_ready(&mut self) -> bool {
        if self.socket.is_some() {
            return true;
        }
        if Instant::now() < self.retry {
            return false;
        }
        match Socket::connect(self.collector, self.source) {
            Ok(socket) => {
                // UDP gives no answer, so the collector counts as up until the kernel reports an
                // error.
                let tcp = matches!(socket, Socket::Tcp(_));
                self.socket = Some(socket);
                self.encoder.restart();
                self.has_templates = false;
                self.refresh = Instant::now();
                self.pause = SHORTEST_PAUSE;
                if tcp || !self.down {
                    self.is_up();
                }
                true
            }
            Err(error) => {
                self.fail(&error);
                false
            }
        }
    }

    fn is_up(&mut self) {
        if std::mem::take(&mut self.down) {
            tracing::info!("flow records: {} can be reached again", self.collector);
        }
        self.account.up.store(true, Relaxed);
    }

    fn is_down(&mut self, error: &io::Error) {
        self.account.counts.errors.fetch_add(1, Relaxed);
        self.account.up.store(false, Relaxed);
        if !std::mem::replace(&mut self.down, true) {
            tracing::warn!(
                "flow records: {} cannot be reached: {error}; its records are lost until it can",
                self.collector
            );
        }
    }

    /// Ends the session; a new one begins after a pause.
    fn fail(&mut self, error: &io::Error) {
        self.is_down(error);
        self.socket = None;
        self.last = Content::default();
        self.retry = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Handles the refusal of the last UDP message.
    fn refused(&mut self, error: &io::Error) {
        self.is_down(error);
        let [records, packets, bytes] = std::mem::take(&mut self.last);
        let counts = &self.account.counts;
        for (sent, lost, count) in [
            (&counts.records, &counts.lost_records, records),
            (&counts.flow_packets, &counts.lost_packets, packets),
            (&counts.flow_bytes, &counts.lost_bytes, bytes),
        ] {
            sent.fetch_sub(count, Relaxed);
            lost.fetch_add(count, Relaxed);
        }
    }

    fn send_templates(&mut self) -> bool {
        let status = self.account.status();
        let (now, sampler) = (unix_millis(), self.sampler);
        let again = std::mem::replace(&mut self.has_templates, true);
        // A TCP connection loses nothing, so it needs the templates only once.
        let message = match &self.socket {
            Some(Socket::Tcp(_)) if again => self.encoder.options(now, &status, sampler),
            _ => self.encoder.templates(now, &status, sampler),
        };
        let message = message.to_vec();
        self.refresh = Instant::now() + self.template_interval;
        self.send(&message, Content::default())
    }

    /// Sends a message; false if the session has ended.
    fn send(&mut self, message: &[u8], content: Content) -> bool {
        let Some(socket) = &mut self.socket else { return false };
        let udp = matches!(socket, Socket::Udp(_));
        let mut result = socket.send(message);
        if udp && let Err(error) = &result {
            if error.kind() == io::ErrorKind::ConnectionRefused {
                let error = io::Error::from(io::ErrorKind::ConnectionRefused);
                self.refused(&error);
                // The error was about the previous message; this one has not been tried yet.
                result = match &mut self.socket {
                    Some(socket) => socket.send(message),
                    None => return false,
                };
            }
        } else if udp && self.last[0] > 0 && self.down {
            // A whole message with records was sent and not refused.
            self.is_up();
        }
        if let Err(error) = result {
            self.fail(&error);
            return false;
        }
        self.last = if udp { content } else { Content::default() };
        let counts = &self.account.counts;
        counts.messages.fetch_add(1, Relaxed);
        counts.message_bytes.fetch_add(message.len() as u64, Relaxed);
        counts.records.fetch_add(content[0], Relaxed);
        counts.flow_packets.fetch_add(content[1], Relaxed);
        counts.flow_bytes.fetch_add(content[2], Relaxed);
        self.burst += 1;
        if udp && self.burst.is_multiple_of(BURST) {
            std::thread::sleep(BURST_PAUSE);
        }
        true
    }
}
