//! The unbroken story of what the kernel knows.

use super::dump::Dump;
use super::model::Event;
use super::nexthop;
use super::socket::Socket;
use super::story::{Links, Story};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// RTNLGRP_LINK, NEIGH, IPV4_IFADDR, IPV4_ROUTE, IPV6_IFADDR, IPV6_ROUTE
/// (include/uapi/linux/rtnetlink.h).
const GROUPS: [u32; 6] = [1, 3, 5, 7, 9, 11];

/// Room for notifications: a full table withdrawn at once needs some 300 bytes per route, so
/// this holds about 200 000; beyond that comes an overrun and with it a new dump.
const RECEIVE_BUFFER_BYTES: usize = 64 << 20;

/// Notifications are read without waiting; this holds only before that is set.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A call takes no longer over a dump, or by one piece of it, so that the caller gets to its other
/// work: a full table of the Internet takes seconds.
const DUMPING_PER_POLL: Duration = Duration::from_millis(5);

/// IPv4 routes vanish silently when their link or source address goes (fib_flush() notifies
/// nobody); the dump that finds out waits this long, so that many changes need only one.
const SETTLE: Duration = Duration::from_millis(100);

/// Datagrams taken in one call, so that the caller gets to its other work.
const DATAGRAMS_PER_POLL: usize = 256;

/// Follows links, addresses, neighbours and the routes of the main table.
pub struct Follower {
    notifications: Socket,
    /// Whether the story has begun: a dump was whole, and no notification was lost since.
    dumped: bool,
    /// The dump that is being taken.
    dumping: Option<Dump>,
    /// When to look for what vanished silently.
    dump_due: Option<Instant>,
    story: Story,
    links: Links,
    /// Dumps so far.
    dumps: u64,
}

impl Follower {
    /// Subscribes; the first [`Self::poll`] gives the dump.
    ///
    /// # Errors
    /// When the kernel refuses a socket.
    pub fn new() -> io::Result<Self> {
        Self::with_buffer(RECEIVE_BUFFER_BYTES)
    }

    /// The same with so many bytes for notifications that wait.
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
            story: Story::default(),
            links: Links::default(),
            dumps: 0,
        })
    }

    /// Becomes readable when there is something to [`Self::poll`].
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.notifications.descriptor()
    }

    /// When [`Self::poll`] wants to be called even if nothing has become readable.
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

    /// Number of messages that could not be decoded and were passed over.
    pub fn unreadable(&self) -> u64 {
        self.story.unreadable
    }

    /// Has all be told again with the next [`Self::poll`]: what was told before may have been of no
    /// interest then.
    pub fn tell_again(&mut self, now: Instant) {
        self.dump_due = Some(now);
    }

    /// Whether a dump has begun and is not whole yet, or has to begin: what is known may lack
    /// something.
    pub fn is_dumping(&self) -> bool {
        !self.dumped || self.dumping.is_some()
    }

    /// Calls `each` for what has happened since the last call, without waiting for more. True
    /// when there may be more right now: a long dump is told in several calls.
    ///
    /// # Errors
    /// When the kernel refuses a dump or the socket fails.
    pub fn poll(&mut self, now: Instant, each: &mut dyn FnMut(Event)) -> io::Result<bool> {
        if self.dumping.is_none() && !self.dumped {
            // After an overrun they would undo what the dump says.
            self.discard_waiting()?;
            self.dumping = Some(Dump::begin(&mut self.story, each));
        } else if self.dumping.is_none() && self.dump_due.is_some_and(|due| due <= now) {
            // Told before the dump, which cannot say that a link went and came back with its number.
            if self.tell_waiting(now, each)? {
                return Ok(true);
            }
            self.dumping = Some(Dump::begin(&mut self.story, each));
        }
        // One that fails is not gone on with, but begun again.
        if let Some(mut dump) = self.dumping.take() {
            let until = Instant::now() + DUMPING_PER_POLL;
            if !dump.go_on(until, (&mut self.story, &mut self.links), each)? {
                self.dumping = Some(dump);
                return Ok(true);
            }
            (self.dumped, self.dump_due) = (true, None);
            self.dumps += 1;
        }
        self.tell_waiting(now, each)
    }

    /// Takes some of the notifications that wait; true when there may be more, or when some were lost.
    fn tell_waiting(&mut self, now: Instant, each: &mut dyn FnMut(Event)) -> io::Result<bool> {
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
        let Self { notifications, story, links, dump_due, .. } = self;
        notifications.receive(|received| {
            let (mut doubt, mut vanished) = (false, false);
            let named = !story.nexthops.is_empty();
            story.tell(received, &mut doubt, &mut |event| {
                vanished |= links.may_lose_routes(named, &event);
                each(event);
            });
            if doubt || vanished {
                dump_due.get_or_insert(now + SETTLE);
            }
        })
    }

    fn discard_waiting(&mut self) -> io::Result<()> {
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
