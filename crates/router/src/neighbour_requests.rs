//! Requests to the kernel to resolve neighbours.
//!
//! Workers ask for each unresolved neighbour that they have a packet for, so a scan of a connected
//! prefix asks for thousands per second (RFC 6583). [`fair_share`] limits the number of requests
//! and divides them among the links; [`NeighbourRequests`] makes room in the kernel's table.

use crate::stats::KernelStats;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use wattline_dataplane::nodes::NeighbourRequest;
use wattline_linux::netlink::{Event, Requester};

/// Largest number of requests in [`INTERVAL`], which makes 51,200 a second.
const BATCH: usize = 512;
/// Shortest time between two batches of requests.
pub(super) const INTERVAL: Duration = Duration::from_millis(10);
/// Smallest number of entries that are removed from a full table: the kernel searches the whole
/// table for room before it refuses a request.
const ROOM: usize = 256;
/// Largest number of unanswered requests that are remembered; limits the memory that a scan uses.
const UNANSWERED: usize = 16_384;

/// Shortest time between two warnings that the kernel's table is full.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(60);

/// A neighbour by its link.
type Neighbour = (u32, IpAddr);

/// Requests of workers that are passed on together.
pub(super) struct Batch {
    pub requests: Vec<NeighbourRequest>,
    /// Number of requests that were left out.
    pub left_out: u64,
}

/// Selects the latest requests, equally many of each link, if there are more than [`BATCH`].
pub(super) fn fair_share(mut waiting: Vec<NeighbourRequest>) -> Batch {
    let count = waiting.len();
    if count > BATCH {
        let mut by_link: BTreeMap<_, Vec<NeighbourRequest>> = BTreeMap::new();
        for request in waiting.drain(..) {
            by_link.entry((request.port, request.vlan)).or_default().push(request);
        }
        while waiting.len() < BATCH {
            let round = by_link.values_mut().filter_map(Vec::pop);
            waiting.extend(round.take(BATCH - waiting.len()));
        }
    }
    let left_out = (count - waiting.len()) as u64;
    Batch { requests: waiting, left_out }
}

/// Asks the kernel for neighbours. When its table is full, the oldest unanswered requests are
/// removed. A scan thus shortens the time for answers, but prevents no request.
pub(super) struct NeighbourRequests {
    requester: Requester,
    /// Requests with their numbers, oldest first. Answered requests, and those followed by another
    /// for the same neighbour, are skipped.
    order: VecDeque<(u64, Neighbour)>,
    /// Number of the latest request for each neighbour that has not answered.
    unanswered: HashMap<Neighbour, u64>,
    /// Number of requests so far.
    sent: u64,
    refused: u64,
    left_out: u64,
    warned: Option<Instant>,
}

impl NeighbourRequests {
    /// Opens a socket for requests.
    ///
    /// # Errors
    /// When the kernel refuses a socket.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            requester: Requester::new()?,
            order: VecDeque::new(),
            unanswered: HashMap::new(),
            sent: 0,
            refused: 0,
            left_out: 0,
            warned: None,
        })
    }

    /// Asks for neighbours that workers have packets for.
    pub fn resolve(&mut self, neighbours: &[Neighbour], left_out: u64) {
        self.left_out += left_out;
        if let Err(error) = self.ask(neighbours) {
            tracing::warn!("cannot ask the kernel for neighbours: {error}");
        }
    }

    /// Asks for neighbours that routes need, or that the kernel is about to forget. They keep their
    /// places in its table.
    pub fn confirm(&mut self, neighbours: &[Neighbour]) {
        self.sent += neighbours.len() as u64;
        if let Err(error) = self.confirm_all(neighbours) {
            tracing::warn!("cannot ask the kernel for neighbours: {error}");
        }
    }

    /// Asks for any number of neighbours: the buffer of the socket has room for about 4000 at a time.
    fn confirm_all(&mut self, neighbours: &[Neighbour]) -> io::Result<()> {
        neighbours.chunks(BATCH).try_for_each(|some| self.requester.use_neighbours(some).map(drop))
    }

    fn ask(&mut self, neighbours: &[Neighbour]) -> io::Result<()> {
        let refused = self.requester.use_neighbours(neighbours)?;
        neighbours.iter().for_each(|neighbour| self.note(*neighbour));
        if refused.is_empty() {
            return Ok(());
        }
        self.warn();
        let again: Vec<Neighbour> = refused.into_iter().map(|place| neighbours[place]).collect();
        let given_up = self.give_up(again.len().max(ROOM), neighbours);
        self.requester.forget_neighbours(&given_up)?;
        self.refused += self.requester.use_neighbours(&again)?.len() as u64;
        Ok(())
    }

    fn warn(&mut self) {
        if self.warned.is_none_or(|warned| warned.elapsed() >= BETWEEN_WARNINGS) {
            self.warned = Some(Instant::now());
            tracing::warn!(
                "the kernel's table of neighbours is full, so the oldest requests without an answer \
                 are given up: something may scan a connected prefix; a larger \
                 net.ipv4.neigh.default.gc_thresh3, or net.ipv6..., gives more room"
            );
        }
    }

    fn note(&mut self, neighbour: Neighbour) {
        self.sent += 1;
        self.order.push_back((self.sent, neighbour));
        self.unanswered.insert(neighbour, self.sent);
        while self.order.len() > UNANSWERED {
            self.take_oldest();
        }
    }

    /// Takes the oldest request; returns its neighbour if that has not answered.
    fn take_oldest(&mut self) -> Option<Neighbour> {
        let (number, neighbour) = self.order.pop_front()?;
        let is_latest = self.unanswered.get(&neighbour) == Some(&number);
        is_latest.then(|| self.unanswered.remove(&neighbour)).map(|_| neighbour)
    }

    /// Takes the oldest unanswered requests, but not those for `kept`, which are the latest.
    fn give_up(&mut self, count: usize, kept: &[Neighbour]) -> Vec<Neighbour> {
        let mut given_up = Vec::with_capacity(count);
        while given_up.len() < count && self.order.len() > kept.len() {
            given_up.extend(self.take_oldest());
        }
        given_up
    }

    /// Notes that a neighbour has answered, or that the kernel has given it up.
    pub fn follow(&mut self, event: &Event) {
        if let Event::Neighbour(neighbour) = event {
            self.unanswered.remove(&(neighbour.link, neighbour.address));
        }
    }

    /// Returns the neighbours that have been asked for and have neither answered nor failed.
    pub fn unanswered(&self) -> impl Iterator<Item = Neighbour> {
        self.unanswered.keys().copied()
    }

    /// Adds the counters to the statistics.
    pub fn add_to(&self, stats: KernelStats) -> KernelStats {
        KernelStats {
            neighbour_requests: self.sent,
            neighbour_requests_refused: self.refused,
            neighbour_requests_dropped: self.left_out,
            ..stats
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_dataplane::port::PortId;

    fn neighbour(host: u8) -> Neighbour {
        // No machine has such a link: requests change nothing.
        (u32::MAX >> 1, IpAddr::from([192, 0, 2, host]))
    }

    #[test]
    fn any_number_of_neighbours_is_confirmed() {
        let mut requests = NeighbourRequests::new().unwrap();
        for count in [0, 1, 20_000] {
            let neighbours: Vec<_> = (0..count).map(|it| neighbour(it as u8)).collect();
            requests.confirm_all(&neighbours).unwrap_or_else(|error| panic!("{count}: {error}"));
        }
    }

    #[test]
    fn scanned_link_leaves_their_share_to_others() {
        let request = |port: u16, number: usize| NeighbourRequest {
            port: PortId(port),
            vlan: 0,
            address: IpAddr::from([10, port as u8, (number >> 8) as u8, number as u8]),
        };
        let few: Vec<_> = (0..BATCH).map(|number| request(1, number)).collect();
        assert_eq!(fair_share(few.clone()).requests, few);
        let mut many: Vec<_> = (0..5).map(|number| request(2, number)).collect();
        many.extend((0..4000).map(|number| request(1, number)));
        many.extend((0..4000).map(|number| request(3, number)));
        let Batch { requests, left_out } = fair_share(many);
        let of = |port: u16| requests.iter().filter(|it| it.port == PortId(port)).count();
        assert_eq!((of(2), requests.len(), left_out), (5, BATCH, 8005 - BATCH as u64));
        assert!(of(1).abs_diff(of(3)) <= 1, "{} and {}", of(1), of(3));
    }

    #[test]
    fn oldest_unanswered_requests_give_way() {
        let mut requests = NeighbourRequests::new().unwrap();
        (0..10).for_each(|host| requests.note(neighbour(host)));
        requests.note(neighbour(0));
        let (link, address) = neighbour(1);
        let answer =
            wattline_linux::netlink::Neighbour { link, address, mac: Some([2; 6]), stale: false };
        requests.follow(&Event::Neighbour(answer));
        let given_up = requests.give_up(3, &[]);
        assert_eq!(given_up, [2, 3, 4].map(neighbour), "asked again, answered, and then in order");
        let rest = requests.give_up(100, &[neighbour(9), neighbour(0)]);
        assert_eq!(rest, [5, 6, 7, 8].map(neighbour), "not those that are asked for now");
    }

    #[test]
    fn memory_for_unanswered_requests_is_bounded() {
        let mut requests = NeighbourRequests::new().unwrap();
        for number in 0..3 * UNANSWERED as u32 {
            requests.note((1, IpAddr::from(number.to_be_bytes())));
        }
        assert_eq!((requests.order.len(), requests.unanswered.len()), (UNANSWERED, UNANSWERED));
    }
}
