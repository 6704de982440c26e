//! Changes of the kernel's links, addresses, neighbours and routes, without gaps.

use super::dump::Dump;
use super::event_decoder::EventDecoder;
use super::link_states::LinkStates;
use super::model::Event;
use super::socket::Socket;
use super::{netconf, nexthop};
use rustix::event::epoll;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// RTNLGRP_LINK, IPV4_IFADDR, IPV4_ROUTE, IPV6_IFADDR, IPV6_ROUTE
/// (include/uapi/linux/rtnetlink.h).
const GROUPS: [u32; 5] = [1, 5, 7, 9, 11];
/// RTNLGRP_NEIGH.
const NEIGHBOURS: [u32; 1] = [3];

/// Receive buffer for notifications. A withdrawn route needs some 300 bytes, so it holds about 200
/// 000 of them. Beyond that the kernel reports an overrun, and a new dump is taken.
const RECEIVE_BUFFER_BYTES: usize = 64 << 20;

/// Timeout of the socket until it is switched to non-blocking reads.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Longest time that one call spends on a dump, apart from the piece in progress, so that the
/// caller returns to its other work: a full table of the Internet takes seconds.
const DUMPING_PER_POLL: Duration = Duration::from_millis(5);

/// IPv4 routes vanish silently with their link or source address: fib_flush() sends no
/// notification. The dump that finds the loss is taken after this delay, so that one dump serves
/// many changes.
const SETTLE: Duration = Duration::from_millis(100);

/// Shortest time between two dumps of the neighbours because of overruns. A scan of a connected
/// prefix causes thousands of notifications per second for as long as it lasts.
const BETWEEN_NEIGHBOUR_DUMPS: Duration = Duration::from_secs(1);

/// Pause after a dump before the next one because of an overrun, in multiples of the dump's
/// duration. Dumps then take little of the caller's time even if each of them causes an overrun.
const PAUSE_AFTER_DUMP: u32 = 4;

/// Datagrams read in one call, so that the caller returns to its other work.
const DATAGRAMS_PER_POLL: usize = 256;

/// Delivers the kernel's links, addresses, neighbours and routes, and every change of them.
pub struct ChangeFeed {
    notifications: Socket,
    /// Notifications of neighbours. Any sender of packets can raise their number, so an overrun
    /// here must not lose other notifications.
    neighbours: Socket,
    /// Readable when one of the sockets is (epoll(7)).
    either: OwnedFd,
    /// True if a dump has been completed and no notification has been lost since.
    dumped: bool,
    /// Dump in progress.
    dumping: Option<Dump>,
    /// Time of the next dump, to find routes that vanished silently.
    dump_due: Option<Instant>,
    /// Start of the dump in progress.
    begun: Instant,
    /// Earliest start of a dump because of an overrun.
    not_before: Instant,
    /// Time of the next dump of neighbours because of an overrun.
    neighbours_due: Option<Instant>,
    /// Earliest start of a dump of neighbours.
    neighbours_not_before: Instant,
    decoder: EventDecoder,
    links: LinkStates,
    /// Number of dumps so far.
    dumps: u64,
}

impl ChangeFeed {
    /// Subscribes; the first [`Self::poll`] delivers the dump.
    ///
    /// # Errors
    /// When the kernel refuses a socket.
    pub fn new() -> io::Result<Self> {
        Self::with_buffer(RECEIVE_BUFFER_BYTES)
    }

    /// [`Self::new`] with a receive buffer of `bytes` for notifications.
    ///
    /// # Errors
    /// When the kernel refuses a socket.
    pub fn with_buffer(bytes: usize) -> io::Result<Self> {
        // Subscribed before anything is dumped, so that no change falls between.
        let mut notifications = Socket::open(TIMEOUT)?;
        let groups = [&GROUPS[..], &[nexthop::GROUP], &netconf::GROUPS].concat();
        notifications.subscribe(&groups, bytes)?;
        let mut neighbours = Socket::open(TIMEOUT)?;
        neighbours.subscribe(&NEIGHBOURS, bytes)?;
        let either = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for socket in [&notifications, &neighbours] {
            let data = epoll::EventData::new_u64(0);
            epoll::add(&either, socket.descriptor(), data, epoll::EventFlags::IN)?;
        }
        let now = Instant::now();
        Ok(Self {
            notifications,
            neighbours,
            either,
            dumped: false,
            dumping: None,
            dump_due: None,
            begun: now,
            not_before: now,
            neighbours_due: None,
            neighbours_not_before: now,
            decoder: EventDecoder::default(),
            links: LinkStates::default(),
            dumps: 0,
        })
    }

    /// Becomes readable when [`Self::poll`] has something to read.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.either.as_fd()
    }

    /// Returns the time at which [`Self::poll`] must be called even if the descriptor has not
    /// become readable.
    pub fn deadline(&self) -> Option<Instant> {
        if self.dumping.is_some() {
            return Some(Instant::now());
        }
        let overrun = (!self.dumped).then_some(self.not_before);
        [overrun, self.dump_due, self.neighbours_due].into_iter().flatten().min()
    }

    /// Returns the number of complete dumps so far; more than one means overruns or silent changes.
    pub fn dumps(&self) -> u64 {
        self.dumps
    }

    /// Returns the number of messages that could not be decoded and were skipped.
    pub fn unreadable(&self) -> u64 {
        self.decoder.unreadable
    }

    /// Makes the next [`Self::poll`] take a new dump, for a receiver that may have ignored some of
    /// the earlier events.
    pub fn request_dump(&mut self, now: Instant) {
        self.dump_due = Some(now.max(self.not_before));
    }

    /// Returns true if a dump is in progress or due: until it is complete, entries may be missing.
    /// Dumps of neighbours alone do not count.
    pub fn is_dumping(&self) -> bool {
        !self.dumped || self.dumping.is_some()
    }

    /// Returns true if no dump is in progress or due, so that the events so far are complete.
    pub fn is_complete(&self) -> bool {
        !self.is_dumping() && self.dump_due.is_none()
    }

    /// Calls `each` for every event since the last call and does not wait for more. Returns true if
    /// more events may be ready at once: a long dump takes several calls.
    ///
    /// # Errors
    /// When the kernel refuses a dump or the socket fails.
    pub fn poll(&mut self, now: Instant, each: &mut dyn FnMut(Event)) -> io::Result<bool> {
        if self.dumping.is_none() && !self.dumped && self.not_before <= now {
            // After an overrun the waiting notifications are older than the dump and would undo it.
            self.discard_notifications()?;
            self.begin_dump(each);
        } else if self.dumping.is_none() && self.dump_due.is_some_and(|due| due <= now) {
            // Read before the dump, because a dump does not show that a link was removed and
            // another one created with the same index.
            if self.read_notifications(now, each)? {
                return Ok(true);
            }
            self.begin_dump(each);
        } else if self.dumping.is_none() && self.neighbours_due.is_some_and(|due| due <= now) {
            // Read before the dump: they are older, and would undo it if others were lost.
            if self.read_notifications(now, each)? {
                return Ok(true);
            }
            Dump::of_neighbours(&mut self.decoder, &mut self.links, each)?;
            self.neighbours_dumped();
        }
        // `take` drops a dump that fails, so the next call begins a new one.
        if let Some(mut dump) = self.dumping.take() {
            let until = Instant::now() + DUMPING_PER_POLL;
            if !dump.go_on(until, (&mut self.decoder, &mut self.links), each)? {
                self.dumping = Some(dump);
                self.read_neighbours(now, each)?;
                return Ok(true);
            }
            (self.dumped, self.dump_due) = (true, None);
            self.dumps += 1;
            self.not_before = Instant::now() + self.begun.elapsed() * PAUSE_AFTER_DUMP;
            self.neighbours_dumped();
        }
        self.read_notifications(now, each)
    }

    fn begin_dump(&mut self, each: &mut dyn FnMut(Event)) {
        self.begun = Instant::now();
        self.dumping = Some(Dump::begin(&mut self.decoder, each));
    }

    fn neighbours_dumped(&mut self) {
        self.neighbours_due = None;
        self.neighbours_not_before = Instant::now() + BETWEEN_NEIGHBOUR_DUMPS;
    }

    /// Reads some of the waiting notifications. Returns true if there may be more, or if some other
    /// than of neighbours were lost.
    fn read_notifications(
        &mut self,
        now: Instant,
        each: &mut dyn FnMut(Event),
    ) -> io::Result<bool> {
        // Links first, since neighbours refer to them.
        Ok(self.read_others(now, each)? | self.read_neighbours(now, each)?)
    }

    /// Reads some of the waiting notifications of neighbours; returns true if there may be more.
    fn read_neighbours(&mut self, now: Instant, each: &mut dyn FnMut(Event)) -> io::Result<bool> {
        let Self { neighbours, decoder, neighbours_due, neighbours_not_before, .. } = self;
        for _ in 0..DATAGRAMS_PER_POLL {
            let received =
                neighbours.receive(|received| decoder.decode(received, &mut false, each));
            match received {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if is_overrun(&error) => {
                    neighbours_due.get_or_insert(now.max(*neighbours_not_before));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn read_others(&mut self, now: Instant, each: &mut dyn FnMut(Event)) -> io::Result<bool> {
        for _ in 0..DATAGRAMS_PER_POLL {
            match self.receive(now, each) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if is_overrun(&error) => {
                    self.dumped = false;
                    return Ok(true);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn receive(&mut self, now: Instant, each: &mut dyn FnMut(Event)) -> io::Result<()> {
        let Self { notifications, decoder, links, dump_due, .. } = self;
        notifications.receive(|received| {
            let (mut doubt, mut vanished) = (false, false);
            let named = !decoder.nexthops.is_empty();
            decoder.decode(received, &mut doubt, &mut |event| {
                vanished |= links.may_lose_routes(named, &event);
                each(event);
            });
            if doubt || vanished {
                dump_due.get_or_insert(now + SETTLE);
            }
        })
    }

    fn discard_notifications(&mut self) -> io::Result<()> {
        loop {
            match self.notifications.receive(|_| {}) {
                Ok(()) => {}
                Err(error) if is_overrun(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

fn is_overrun(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOBUFS)
}
