//! The unbroken story of what the kernel knows.

use super::decode;
use super::model::{Address, Event, Link};
use super::nexthop::{self, Nexthops};
use super::socket::{Received, Socket, error_of};
use netlink_packet_core::NetlinkPayload;
use netlink_packet_core::{NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REPLACE, NLM_F_REQUEST};
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::neighbour::NeighbourMessage;
use netlink_packet_route::route::{RouteHeader, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// RTNLGRP_LINK, NEIGH, IPV4_IFADDR, IPV4_ROUTE, IPV6_IFADDR, IPV6_ROUTE
/// (include/uapi/linux/rtnetlink.h).
const GROUPS: [u32; 6] = [1, 3, 5, 7, 9, 11];

/// Room for notifications: a full table withdrawn at once needs some 300 bytes per route, so
/// this holds about 200 000; beyond that comes an overrun and with it a new dump.
const RECEIVE_BUFFER_BYTES: usize = 64 << 20;

/// The kernel answers a dump at once; longer than this and it never will.
const DUMP_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a dump is begun again that changes have made inconsistent.
const MOST_DUMPS: usize = 10;

/// IPv4 routes vanish silently when their link or source address goes (fib_flush() notifies
/// nobody); the dump that finds out waits this long, so that many changes need only one.
const SETTLE: Duration = Duration::from_millis(100);

/// Datagrams taken in one call, so that the caller gets to its other work.
const DATAGRAMS_PER_POLL: usize = 256;

/// Follows links, addresses, neighbours and the routes of the main table.
pub struct Follower {
    notifications: Socket,
    dumped: bool,
    /// When to look for what vanished silently.
    dump_due: Option<Instant>,
    /// Which links are enabled, and which have a carrier too, to notice the change.
    links: HashMap<u32, (bool, bool)>,
    /// Next hops that have numbers.
    nexthops: Nexthops,
    /// Dumps so far, and messages that could not be decoded.
    dumps: u64,
    unreadable: u64,
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
        let mut notifications = Socket::open(DUMP_TIMEOUT)?;
        notifications.subscribe(&GROUPS, bytes)?;
        notifications.subscribe_if_there(nexthop::GROUP);
        Ok(Self {
            notifications,
            dumped: false,
            dump_due: None,
            links: HashMap::new(),
            nexthops: Nexthops::default(),
            dumps: 0,
            unreadable: 0,
        })
    }

    /// Becomes readable when there is something to [`Self::poll`].
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.notifications.descriptor()
    }

    /// When [`Self::poll`] wants to be called even if nothing has become readable.
    pub fn deadline(&self) -> Option<Instant> {
        self.dump_due
    }

    /// Number of complete dumps so far; more than one tells of overruns or silent changes.
    pub fn dumps(&self) -> u64 {
        self.dumps
    }

    /// Number of messages that could not be decoded and were passed over.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Calls `each` for what has happened since the last call, without waiting for more. True
    /// when there may be more right now.
    ///
    /// # Errors
    /// When the kernel refuses a dump or the socket fails.
    pub fn poll(&mut self, now: Instant, each: &mut dyn FnMut(Event)) -> io::Result<bool> {
        if !self.dumped || self.dump_due.is_some_and(|due| due <= now) {
            // Notifications that wait are of changes before the dump. Those of a story without
            // gaps would only be repeated, but after an overrun they would undo what it says.
            self.discard_waiting()?;
            self.dump(each)?;
        }
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
        let Self { notifications, links, nexthops, unreadable, dump_due, .. } = self;
        notifications.receive(|received| {
            let (mut doubt, mut vanished) = (false, false);
            let named = !nexthops.is_empty();
            told(received, nexthops, unreadable, &mut doubt, &mut |event| {
                vanished |= may_lose_routes(links, named, &event);
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

    fn dump(&mut self, each: &mut dyn FnMut(Event)) -> io::Result<()> {
        for _ in 0..MOST_DUMPS {
            each(Event::DumpBegin);
            let mut consistent = true;
            self.nexthops.clear();
            consistent &= self.dump_one(None, each)?;
            for request in requests().into_iter().map(Some) {
                consistent &= self.dump_one(request, each)?;
            }
            if consistent {
                break;
            }
        }
        // An inconsistent dump may lack entries; after so many tries what it has is the best
        // that there is, and the changes that disturb it are themselves notified.
        each(Event::DumpEnd);
        self.dumped = true;
        self.dump_due = None;
        self.dumps += 1;
        Ok(())
    }

    /// Dumps what a request asks for, without one the next hops with numbers. False when entries
    /// changed meanwhile so that some may be missing (NLM_F_DUMP_INTR).
    fn dump_one(
        &mut self,
        request: Option<RouteNetlinkMessage>,
        each: &mut dyn FnMut(Event),
    ) -> io::Result<bool> {
        let mut socket = Socket::open(DUMP_TIMEOUT)?;
        // Kernels before 4.20 do not know it: they dump all tables, and decoding filters.
        let _ = socket.check_strictly();
        let flags = NLM_F_REQUEST | NLM_F_DUMP;
        let is_of_nexthops = request.is_none();
        match request {
            Some(request) => drop(socket.send(request, flags)?),
            None => socket.ask(nexthop::GET, nexthop::HEADER, flags)?,
        }
        let mut consistent = true;
        let mut result = None;
        let Self { links, nexthops, unreadable, .. } = self;
        while result.is_none() {
            socket.receive(|received| {
                match &received {
                    Received::Message(message) => {
                        consistent &= message.header.flags & NLM_F_DUMP_INTR == 0;
                        if let Some(error) = error_of(message) {
                            result = Some(Err(error));
                        } else if matches!(message.payload, NetlinkPayload::Done(_)) {
                            result = Some(Ok(()));
                        }
                    }
                    Received::Nexthop { flags, .. } => consistent &= flags & NLM_F_DUMP_INTR == 0,
                    Received::Unreadable(_) => {}
                }
                let mut doubt = false;
                told(received, nexthops, unreadable, &mut doubt, &mut |event| {
                    may_lose_routes(links, false, &event);
                    each(event);
                });
                consistent &= !doubt;
            })?;
        }
        match result.unwrap_or(Ok(())) {
            // Kernels before 5.3 have no such thing.
            Err(error) if is_of_nexthops => {
                tracing::debug!("cannot read next-hop objects: {error}");
                Ok(consistent)
            }
            other => other.map(|()| consistent),
        }
    }
}

/// Calls `each` for what was received. `doubt` is set where a route names a next hop that nothing is
/// known of.
fn told(
    received: Received,
    nexthops: &mut Nexthops,
    unreadable: &mut u64,
    doubt: &mut bool,
    each: &mut dyn FnMut(Event),
) {
    match received {
        Received::Message(message) => {
            // In a dump this bit has another meaning, but there nothing is replaced anyway.
            let replace = message.header.flags & NLM_F_REPLACE != 0;
            let NetlinkPayload::InnerMessage(inner) = &message.payload else { return };
            let Some(mut event) = decode::event(inner, replace) else { return };
            match &mut event {
                Event::Route { route, .. } => *doubt |= !nexthops.resolve(route),
                // One that is gone is found by its prefix and metric, too.
                Event::RouteGone(route) => drop(nexthops.resolve(route)),
                _ => {}
            }
            each(event);
        }
        Received::Nexthop { change, .. } => nexthops.apply(change, each),
        Received::Unreadable(reason) => {
            *unreadable += 1;
            tracing::debug!("skipped a netlink message: {reason}");
        }
    }
}

/// Whether routes may have vanished with this event without being mentioned: IPv4 routes with
/// their link or address (fib_flush()), and where next hops with numbers are `named`, those with the
/// carrier too (nexthop_flush_dev()). How links are is remembered in `links`.
fn may_lose_routes(links: &mut HashMap<u32, (bool, bool)>, named: bool, event: &Event) -> bool {
    match event {
        Event::Link(Link { index, enabled, running, .. }) => {
            let before = links.insert(*index, (*enabled, *running));
            let (was_enabled, was_running) = before.unwrap_or_default();
            was_enabled && !enabled || was_running && !running && named
        }
        Event::LinkGone(index) => links.remove(index).is_some(),
        Event::AddressGone(Address { address, .. }) => address.addr().is_ipv4(),
        _ => false,
    }
}

fn is_overrun(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOBUFS)
}

/// Links first, as all else names them.
fn requests() -> Vec<RouteNetlinkMessage> {
    let mut requests = vec![RouteNetlinkMessage::GetLink(LinkMessage::default())];
    requests.push(RouteNetlinkMessage::GetAddress(AddressMessage::default()));
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut neighbours = NeighbourMessage::default();
        neighbours.header.family = family;
        requests.push(RouteNetlinkMessage::GetNeighbour(neighbours));
        let mut routes = RouteMessage::default();
        routes.header.address_family = family;
        routes.header.table = RouteHeader::RT_TABLE_MAIN;
        requests.push(RouteNetlinkMessage::GetRoute(routes));
    }
    requests
}
