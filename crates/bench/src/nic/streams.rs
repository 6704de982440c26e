//! TCP streams between two interfaces of this machine, each in its own network namespace.

use serde::Serialize;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;
use wattline_linux::namespace::own_number;
use wattline_testbed::Error;
use wattline_testbed::packets::End;
use wattline_units::named;

/// Streams of the paper's measurement.
const STREAMS: usize = 5;
/// Time for the other end to answer.
const CONNECT: Duration = Duration::from_secs(5);
/// Bytes of each write and read.
const BLOCK: usize = 128 << 10;
/// Port for route lookups; no packet is sent to it.
const DISCARD: u16 = 9;

named! {
    /// A state that is measured.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Traffic {
        /// Powered, links connected, drivers loaded, no data.
        Idle = "idle",
        /// Five streams from the first interface to the second.
        Forward = "forward",
        /// Five streams from the second interface to the first.
        Back = "back",
        /// Five streams with data both ways: the paper's active state.
        Both = "both",
    }
}

/// Running streams; ended when dropped.
pub(super) struct Streams {
    sockets: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
    received: [Arc<AtomicU64>; 2],
}

impl Streams {
    /// Connects the two interfaces and begins to send.
    pub fn start([from, to]: [End; 2], traffic: Traffic) -> Result<Self, Error> {
        let address = to.ipv4()?;
        let io = |error| Error::io(format!("a TCP stream to {address}"), error);
        let listener = to.within(|| TcpListener::bind((address, 0)).map_err(io))?;
        let target = listener.local_addr().map_err(io)?;
        let mut streams =
            Self { sockets: Vec::new(), threads: Vec::new(), received: Default::default() };
        for _ in 0..STREAMS {
            let connect = || TcpStream::connect_timeout(&target, CONNECT).map_err(io);
            let near = from.within(connect)?;
            let (far, _) = listener.accept().map_err(io)?;
            for (other, sender, receiver, direction) in
                [(Traffic::Back, &near, &far, 0), (Traffic::Forward, &far, &near, 1)]
            {
                if traffic != other {
                    let (sender, receiver) = (sender.try_clone(), receiver.try_clone());
                    streams.one_way(sender.map_err(io)?, receiver.map_err(io)?, direction);
                }
            }
            streams.sockets.extend([near, far]);
        }
        Ok(streams)
    }

    fn one_way(&mut self, mut sender: TcpStream, mut receiver: TcpStream, direction: usize) {
        let received = Arc::clone(&self.received[direction]);
        let block = vec![0; BLOCK];
        self.threads.push(spawn(move || while sender.write_all(&block).is_ok() {}));
        self.threads.push(spawn(move || {
            let mut block = vec![0; BLOCK];
            while let Ok(bytes @ 1..) = receiver.read(&mut block) {
                received.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        }));
    }

    /// Returns the bytes of payload received so far, forward and back.
    ///
    /// # Errors
    /// Fails once a stream has broken.
    pub fn received(&self) -> Result<[u64; 2], Error> {
        if self.threads.iter().any(JoinHandle::is_finished) {
            return Err(Error::io("a TCP stream", std::io::ErrorKind::BrokenPipe));
        }
        Ok([0, 1].map(|direction| self.received[direction].load(Ordering::Relaxed)))
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        for socket in &self.sockets {
            let _ = socket.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Fails if the kernel would route the streams by a path other than these two interfaces.
pub(super) fn check([from, to]: [End; 2]) -> Result<(), Error> {
    let number = |end: End| end.within(|| own_number().map_err(|it| Error::io("namespaces", it)));
    let wrong = |reason| {
        let path = format!("{} and {}", from.interface, to.interface).into();
        Err(Error::Data { path, reason })
    };
    let [near, far] = [from.ipv4()?, to.ipv4()?];
    if number(from)? == number(to)? {
        return wrong(format!(
            "both are in one network namespace, where TCP goes by the loopback; move one: ip netns \
             add far; ip link set {0} netns far; ip -n far address add {far}/24 dev {0}; ip -n far \
             link set {0} up; then --to far/{0}",
            to.interface
        ));
    }
    for (end, own, other) in [(from, near, far), (to, far, near)] {
        let source = || {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.connect((other, DISCARD))?;
            Ok(socket.local_addr()?.ip())
        };
        let route = |error: std::io::Error| {
            Error::io(format!("a route from {} to {other}", end.interface), error)
        };
        if end.within(|| source().map_err(route))? != own {
            return wrong(format!(
                "packets to {other} do not leave by {}; give both addresses of a subnet of their own",
                end.interface
            ));
        }
    }
    Ok(())
}
