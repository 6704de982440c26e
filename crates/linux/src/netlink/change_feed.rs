//! Changes of the kernel's links, addresses, neighbours and routes, without gaps.

use super::dump::Dump;
use super::event_decoder::EventDecoder;
use super::link_states::LinkStates;
use super::model::Event;
use super::nexthop;
use super::socket::Socket;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// RTNLGRP_LINK, NEIGH, IPV4_IFADDR, IPV4_ROUTE, IPV6_IFADDR, IPV6_ROUTE
/// (include/uapi/linux/rtnetlink.h).
const GROUPS: [u32; 6] = [1, 3, 5, 7, 9, 11];

/// Receive buffer for notifications. A route that is withdrawn needs some 300 bytes, so it holds
/// about 200 000 of them; beyond that the kernel reports an overrun, and a new dump is taken.
const RECEIVE_BUFFER_BYTES: usize = 64 << 20;

/// Timeout of the socket until it is switched to non-blocking reads.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Time that one call may spend on a dump (plus the piece that it has begun), so that the caller
/// gets to its other work: a full table of the Internet takes seconds.
const DUMPING_PER_POLL: Duration = Duration::from_millis(5);

/// IPv4 routes vanish silently when their link or source address goes: fib_flush() sends no
/// notification. The dump that finds the loss is taken after this delay, so that one dump serves
/// many changes.
const SETTLE: Duration = Duration::from_millis(100);

/// Datagrams read in one call, so that the caller gets to its other work.
const DATAGRAMS_PER_POLL: usize = 256;

/// Delivers the kernel's links, addresses, neighbours and routes of the main table, and every
/// change of them.
pub struct ChangeFeed {
    notifications: Socket,
    /// Whether a dump has been completed and no notification has been lost since.
    dumped: bool,
    /// The dump that is being taken.
    dumping: Option<Dump>,
    /// When the next dump is due, to find routes that vanished silently.
    dump_due: Option<Instant>,
    decoder: EventDecoder,
    links: LinkStates,
    /// Dumps so far.
    dumps: u64,
}

impl ChangeFeed {
    /// Subscribes; the first [`Self::poll`] gives the dump.
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
        notifications.subscribe(&GROUPS, bytes)?;
        notifications.subscribe_if_there(nexthop::GROUP);
        Ok(Self {
            notifications,
            dumped: false,
            dumping: None,
            dump_due: None,
            decoder: EventDecoder::default(),
            links: LinkStates::default(),
            dumps: 0,
        })
    }

    /// Becomes readable when [`Self::poll`] has something to read.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.notifications.descriptor()
    }

    /// When [`Self::poll`] has to be called even if the descriptor has not become readable.
    pub fn deadline(&self) -> Option<Instant> {
        match &self.dumping {
            Some(_) => Some(Instant::now()),
            None => self.dump_due,
        }
    }

    /// Number of complete dumps so far; more than one tells of overruns or silent changes.
    pub fn dumps(&self) -> u64 {
        self.dumps
    }

    /// Number of messages that could not be decoded and were skipped.
    pub fn unreadable(&self) -> u64 {
        self.decoder.unreadable
    }

    /// Makes the next [`Self::poll`] take a new dump, for a receiver that may have ignored some of
    /// the earlier events.
    pub fn request_dump(&mut self, now: Instant) {
        self.dump_due = Some(now);
    }

    /// Whether a dump is being taken or has to be taken: until it is complete, entries may be
    /// missing.
    pub fn is_dumping(&self) -> bool {
        !self.dumped || self.dumping.is_some()
    }

    /// Calls `each` for every event since the last call and does not wait for more. True if more
    /// events may be ready at once: a long dump takes several calls.
    ///
    /// # Errors
    /// When the kernel refuses a dump or the socket fails.
    pub fn poll(&mut self, now: Instant, each: &mut dyn FnMut(Event)) -> io::Result<bool> {
        if self.dumping.is_none() && !self.dumped {
            // After an overrun the waiting notifications are older than the dump and would undo it.
            self.discard_notifications()?;
            self.dumping = Some(Dump::begin(&mut self.decoder, each));
        } else if self.dumping.is_none() && self.dump_due.is_some_and(|due| due <= now) {
            // Read before the dump, because a dump does not show that a link was removed and
            // another one created with the same index.
            if self.read_notifications(now, each)? {
                return Ok(true);
            }
            self.dumping = Some(Dump::begin(&mut self.decoder, each));
        }
        // `take` drops a dump that fails, so the next call begins a new one.
        if let Some(mut dump) = self.dumping.take() {
            let until = Instant::now() + DUMPING_PER_POLL;
            if !dump.go_on(until, (&mut self.decoder, &mut self.links), each)? {
                self.dumping = Some(dump);
                return Ok(true);
            }
            (self.dumped, self.dump_due) = (true, None);
            self.dumps += 1;
        }
        self.read_notifications(now, each)
    }

    /// Reads some of the waiting notifications; true if there may be more, or if some were lost.
    fn read_notifications(
        &mut self,
        now: Instant,
        each: &mut dyn FnMut(Event),
    ) -> io::Result<bool> {
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
