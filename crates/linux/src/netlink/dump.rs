//! A dump of links, addresses, neighbours, next hops and routes, taken piece by piece.
//!
//! The kernel writes each piece when the previous one has been read (netlink_dump()), so other work
//! can run between the pieces of a table of any length. Notifications, which are read after the
//! dump, report changes between the pieces. The kernel marks pieces that a change has made
//! inconsistent.

use super::event_decoder::EventDecoder;
use super::link_states::LinkStates;
use super::model::Event;
use super::socket::{Received, Socket, error_of};
use super::{netconf, nexthop};
use netlink_packet_core::{NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkPayload};
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::neighbour::NeighbourMessage;
use netlink_packet_route::route::{RouteHeader, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::io;
use std::time::{Duration, Instant};

/// Longest wait for a piece: the kernel writes it during the request.
const PIECE_TIMEOUT: Duration = Duration::from_secs(2);

/// Number of dumps that are tried when changes make them inconsistent.
const MOST_DUMPS: usize = 10;

/// A dump that has begun.
pub(super) struct Dump {
    /// Number of the request that is in progress or sent next: first for next-hop objects, then
    /// those of [`requests`].
    question: usize,
    /// Socket for the answer, while a request is in progress.
    answer: Option<Socket>,
    consistent: bool,
    begun: usize,
}

/// Result of a step.
enum Step {
    More,
    Whole,
}

impl Dump {
    /// Begins a dump.
    pub fn begin(decoder: &mut EventDecoder, each: &mut dyn FnMut(Event)) -> Self {
        let mut dump = Self { question: 0, answer: None, consistent: true, begun: 0 };
        dump.begin_again(decoder, each);
        dump
    }

    /// Takes a dump of neighbours alone, at once: it is only as long as the kernel's table of them.
    ///
    /// # Errors
    /// When the kernel refuses, or does not answer.
    pub fn of_neighbours(
        decoder: &mut EventDecoder,
        links: &mut LinkStates,
        each: &mut dyn FnMut(Event),
    ) -> io::Result<()> {
        let mut dump = Self { question: NEIGHBOURS, answer: None, consistent: true, begun: 1 };
        each(Event::NeighbourDumpBegin);
        while matches!(dump.step(decoder, links, each)?, Step::More) {}
        each(Event::NeighbourDumpEnd);
        Ok(())
    }

    fn begin_again(&mut self, decoder: &mut EventDecoder, each: &mut dyn FnMut(Event)) {
        (self.question, self.consistent) = (0, true);
        self.begun += 1;
        decoder.nexthops.clear();
        each(Event::DumpBegin);
    }

    /// Takes pieces until `until`, at least one; returns true once the dump is complete.
    ///
    /// # Errors
    /// When the kernel refuses a part, or does not answer.
    pub fn go_on(
        &mut self,
        until: Instant,
        (decoder, links): (&mut EventDecoder, &mut LinkStates),
        each: &mut dyn FnMut(Event),
    ) -> io::Result<bool> {
        loop {
            match self.step(decoder, links, each)? {
                Step::More => {}
                Step::Whole if self.consistent || self.begun >= MOST_DUMPS => {
                    // An inconsistent dump may lack entries. After so many attempts it is accepted
                    // nevertheless: the changes that disturb it are also notified.
                    each(Event::DumpEnd);
                    return Ok(true);
                }
                Step::Whole => self.begin_again(decoder, each),
            }
            // Notifications of neighbours are read between two pieces, but not between two pieces
            // of the neighbours, which may be older.
            if Instant::now() >= until && self.question < NEIGHBOURS {
                return Ok(false);
            }
        }
    }

    /// Sends the next request, or takes one piece of the answer.
    fn step(
        &mut self,
        decoder: &mut EventDecoder,
        links: &mut LinkStates,
        each: &mut dyn FnMut(Event),
    ) -> io::Result<Step> {
        let Some(socket) = &mut self.answer else {
            match ask(self.question)? {
                Some(socket) => self.answer = Some(socket),
                None => return Ok(Step::Whole),
            }
            return Ok(Step::More);
        };
        let mut result = None;
        let consistent = &mut self.consistent;
        socket.receive(|received| {
            match &received {
                Received::Message(message) => {
                    *consistent &= message.header.flags & NLM_F_DUMP_INTR == 0;
                    if let Some(error) = error_of(message) {
                        result = Some(Err(error));
                    } else if matches!(message.payload, NetlinkPayload::Done(_)) {
                        result = Some(Ok(()));
                    }
                }
                Received::Nexthop { flags, .. } => *consistent &= flags & NLM_F_DUMP_INTR == 0,
                Received::Netconf(_) | Received::Unreadable(_) => {}
            }
            let mut doubt = false;
            decoder.decode(received, &mut doubt, &mut |event| {
                links.may_lose_routes(false, &event);
                each(event);
            });
            *consistent &= !doubt;
        })?;
        match result {
            None => return Ok(Step::More),
            Some(Err(error)) if is_absent(self.question, &error) => {
                tracing::debug!("dump {} of the kernel's tables: {error}", self.question);
            }
            Some(other) => other?,
        }
        self.answer = None;
        self.question += 1;
        Ok(Step::More)
    }
}

/// Number of the request for next-hop objects.
const NEXT_HOPS: usize = 0;

/// Numbers of the requests for parameters of links, of IPv4 and IPv6.
const PARAMETERS: [usize; 2] = [1, 2];

/// Number of the first request from [`requests`].
const FIRST: usize = 3;

/// Number of the first request for neighbours; only such requests follow.
const NEIGHBOURS: usize = FIRST + 2 + TABLES.len();

/// Tables that lookups reach without rules. The last one does not exist before its first route.
const TABLES: [(AddressFamily, u8); 5] = [
    (AddressFamily::Inet, libc::RT_TABLE_LOCAL),
    (AddressFamily::Inet6, libc::RT_TABLE_LOCAL),
    (AddressFamily::Inet, RouteHeader::RT_TABLE_MAIN),
    (AddressFamily::Inet6, RouteHeader::RT_TABLE_MAIN),
    (AddressFamily::Inet, libc::RT_TABLE_DEFAULT),
];

/// Returns true if an error means that the kernel has no such objects.
fn is_absent(question: usize, error: &io::Error) -> bool {
    match error.raw_os_error() {
        // Some kernels have no IPv6.
        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::EAFNOSUPPORT) => question < FIRST,
        Some(libc::ENOENT) => question > FIRST && question < NEIGHBOURS,
        _ => question == NEXT_HOPS,
    }
}

/// Sends a request on its own socket; `None` after the last one.
fn ask(question: usize) -> io::Result<Option<Socket>> {
    let request = match question.checked_sub(FIRST) {
        None => None,
        Some(place) => match requests().into_iter().nth(place) {
            Some(request) => Some(request),
            None => return Ok(None),
        },
    };
    let mut socket = Socket::open(PIECE_TIMEOUT)?;
    socket.check_strictly()?;
    let flags = NLM_F_REQUEST | NLM_F_DUMP;
    let family = |number: i32| [number as u8, 0, 0, 0];
    match request {
        Some(request) => drop(socket.send(request, flags)?),
        None if question == PARAMETERS[0] => {
            socket.ask(netconf::GET, &family(libc::AF_INET), flags)?;
        }
        None if question == PARAMETERS[1] => {
            socket.ask(netconf::GET, &family(libc::AF_INET6), flags)?;
        }
        None => socket.ask(nexthop::GET, &[0; nexthop::HEADER], flags)?,
    }
    Ok(Some(socket))
}

/// Lists the requests: links first, since all other objects refer to them.
fn requests() -> Vec<RouteNetlinkMessage> {
    let mut requests = vec![RouteNetlinkMessage::GetLink(LinkMessage::default())];
    requests.push(RouteNetlinkMessage::GetAddress(AddressMessage::default()));
    requests.extend(TABLES.map(|(family, table)| {
        let mut routes = RouteMessage::default();
        routes.header.address_family = family;
        routes.header.table = table;
        RouteNetlinkMessage::GetRoute(routes)
    }));
    debug_assert_eq!(requests.len() + FIRST, NEIGHBOURS);
    requests.extend([AddressFamily::Inet, AddressFamily::Inet6].map(|family| {
        let mut neighbours = NeighbourMessage::default();
        neighbours.header.family = family;
        RouteNetlinkMessage::GetNeighbour(neighbours)
    }));
    requests
}
