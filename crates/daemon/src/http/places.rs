//! Places for connections: if all are taken, a new client gets that of the oldest one.
//!
//! Clients that are slow or silent, by mistake or by intention, would otherwise keep others out
//! until their time is over. The latest client is served, since its request is on the way; a source
//! of many connections loses its own first.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Open connections, by age.
pub(super) struct Places {
    most: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    all: BTreeMap<u64, Connection>,
}

struct Connection {
    source: IpAddr,
    stream: Arc<TcpStream>,
    /// True while its thread waits for the daemon: closing the connection would not end the thread.
    is_asking: bool,
}

/// A place, until this is dropped or another client needs it.
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
}

impl Places {
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, open: Mutex::default() })
    }

    /// Takes a place; `None` if all are taken by clients whose answers are being made.
    pub fn take(self: &Arc<Self>, stream: &Arc<TcpStream>, address: IpAddr) -> Option<Place> {
        let source = source(address);
        let mut open = self.lock();
        let own = open.all.values().filter(|it| it.source == source).count();
        // A source leaves half of the places to others.
        if own >= self.most.div_ceil(2) {
            open.close_oldest(|it| it == source)?;
        } else if open.all.len() >= self.most {
            let largest = open.largest_source()?;
            open.close_oldest(|it| it == largest)?;
        }
        let number = open.next;
        open.next += 1;
        let stream = Arc::clone(stream);
        open.all.insert(number, Connection { source, stream, is_asking: false });
        Some(Place { places: Arc::clone(self), number })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Returns the source with the most connections that can be closed.
    fn largest_source(&self) -> Option<IpAddr> {
        let mut counts = BTreeMap::<IpAddr, usize>::new();
        for connection in self.all.values().filter(|it| !it.is_asking) {
            *counts.entry(connection.source).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(source, _)| source)
    }

    fn close_oldest(&mut self, is_of: impl Fn(IpAddr) -> bool) -> Option<()> {
        let mut closable = self.all.iter().filter(|(_, it)| !it.is_asking && is_of(it.source));
        let number = *closable.next()?.0;
        let connection = self.all.remove(&number)?;
        // Its thread notices that at its next read or write, and ends. If this fails, the thread
        // has ended.
        let _ = connection.stream.shutdown(Shutdown::Both);
        Some(())
    }
}

impl Place {
    /// Runs `ask`, which closing the connection cannot interrupt.
    pub fn asking<T>(&self, ask: impl FnOnce() -> T) -> T {
        self.set_asking(true);
        let answer = ask();
        self.set_asking(false);
        answer
    }

    fn set_asking(&self, is_asking: bool) {
        if let Some(connection) = self.places.lock().all.get_mut(&self.number) {
            connection.is_asking = is_asking;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().all.remove(&self.number);
    }
}

/// Returns the network of an address: a host with one IPv6 address has its whole /64.
fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    struct Bench {
        places: Arc<Places>,
        listener: TcpListener,
    }

    impl Bench {
        fn new(most: usize) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            Self { places: Places::new(most), listener }
        }

        /// Connects a client with the given source address; returns it and its place.
        fn connect(&self, from: &str) -> (TcpStream, Option<Place>) {
            let client = TcpStream::connect(self.listener.local_addr().unwrap()).unwrap();
            let stream = Arc::new(self.listener.accept().unwrap().0);
            let place = self.places.take(&stream, from.parse().unwrap());
            // Kept open, as a thread would.
            std::mem::forget(stream);
            (client, place)
        }
    }

    fn is_closed(mut client: &TcpStream) -> bool {
        client.set_nonblocking(true).unwrap();
        // Closing may take a moment.
        std::thread::sleep(std::time::Duration::from_millis(20));
        client.read(&mut [0; 1]).is_ok()
    }

    #[test]
    fn largest_source_loses_its_oldest_connection() {
        let bench = Bench::new(4);
        let crowd = ["192.0.2.1", "192.0.2.1"].map(|from| bench.connect(from));
        let others = ["192.0.2.2", "192.0.2.3"].map(|from| bench.connect(from));
        let late = bench.connect("192.0.2.4");
        assert!(late.1.is_some() && is_closed(&crowd[0].0) && !is_closed(&crowd[1].0));
        assert!(others.iter().all(|(client, _)| !is_closed(client)));
    }

    #[test]
    fn source_has_half_of_the_places() {
        let bench = Bench::new(4);
        let crowd = ["2001:db8::1", "2001:db8::2", "2001:db8::3"].map(|from| bench.connect(from));
        assert!(crowd.iter().all(|(_, place)| place.is_some()));
        assert_eq!(crowd.each_ref().map(|(client, _)| is_closed(client)), [true, false, false]);
    }

    #[test]
    fn connection_whose_answer_is_being_made_stays() {
        let bench = Bench::new(2);
        let (client, place) = bench.connect("192.0.2.1");
        place.as_ref().unwrap().asking(|| {
            assert!(bench.connect("192.0.2.1").1.is_none(), "no place of this source is free");
            let (other, its) = bench.connect("192.0.2.2");
            assert!(its.is_some());
            assert!(bench.connect("192.0.2.3").1.is_some() && is_closed(&other));
        });
        assert!(!is_closed(&client));
    }
}
