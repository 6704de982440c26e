//! Dumps of any kind of netlink, message by message.

use super::super::exchange::Exchange;
use super::super::frame::Request;
use netlink_packet_core::NLM_F_DUMP;
use netlink_sys::protocols::NETLINK_NETFILTER;
use std::io;

/// More than the kernel puts into one datagram of a dump.
const BUFFER_BYTES: usize = 64 << 10;

/// Requests everything of type `kind` with this body; calls `each` for the bodies of the answers.
///
/// # Errors
/// Errors of the kernel, and a missing answer.
pub(super) fn dump(
    protocol: isize,
    kind: u16,
    body: &[u8],
    mut each: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut request = Request::new(kind, NLM_F_DUMP);
    request.put(body);
    dump_while(protocol, request, |answer| {
        each(answer);
        true
    })
}

fn dump_while(
    protocol: isize,
    request: Request,
    mut each: impl FnMut(&[u8]) -> bool,
) -> io::Result<()> {
    let mut exchange = Exchange::open(protocol)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let answered = exchange.ask_while(request, &mut buffer, |frame| each(frame.payload));
    answered.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            io::Error::new(io::ErrorKind::TimedOut, "the kernel does not answer")
        }
        _ => error,
    })
}

/// Dumps of a ruleset of nftables. Each answer names its generation (`res_id` of `struct nfgenmsg`).
#[derive(Default)]
pub(super) struct RulesetDumps {
    generation: Option<[u8; 2]>,
    /// True if the ruleset has changed between two answers.
    pub is_torn: bool,
}

impl RulesetDumps {
    /// Requests everything of `kind` in tables of `family` (0: all) with these names, until `each`
    /// returns false for the body of an answer.
    ///
    /// # Errors
    /// As [`dump`].
    pub fn dump(
        &mut self,
        kind: u16,
        family: u8,
        names: &[(u16, &str)],
        mut each: impl FnMut(&[u8]) -> bool,
    ) -> io::Result<()> {
        let mut request = Request::new(kind, NLM_F_DUMP);
        request.put(&[family, 0, 0, 0]);
        for (kind, name) in names {
            request.attribute(*kind, &[name.as_bytes(), b"\0"].concat());
        }
        dump_while(NETLINK_NETFILTER, request, |answer| {
            let generation = answer.get(2..).and_then(|rest| rest.first_chunk().copied());
            self.is_torn |= generation.is_some_and(|it| *self.generation.get_or_insert(it) != it);
            each(answer)
        })
    }
}
