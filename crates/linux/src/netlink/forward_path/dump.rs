//! Dumps of any kind of netlink, message by message.

use super::super::exchange::Exchange;
use super::super::frame::Request;
use netlink_packet_core::NLM_F_DUMP;
use std::io;

/// As much as the kernel puts into one datagram of a dump, and some.
const BUFFER_BYTES: usize = 64 << 10;

/// Asks for everything by a request of type `kind` with this body; calls `each` for the bodies of
/// the answers.
///
/// # Errors
/// What the kernel answers, or that it does not.
pub(super) fn dump(
    protocol: isize,
    kind: u16,
    body: &[u8],
    mut each: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut request = Request::new(kind, NLM_F_DUMP);
    request.put(body);
    let mut exchange = Exchange::open(protocol)?;
    let answered = exchange.ask(request, &mut vec![0; BUFFER_BYTES], |frame| each(frame.payload));
    answered.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            io::Error::new(io::ErrorKind::TimedOut, "the kernel does not answer")
        }
        _ => error,
    })
}
