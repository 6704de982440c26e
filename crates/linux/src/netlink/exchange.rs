//! Questions to the kernel and its answers, of any netlink protocol.

use super::frame::{Frame, Request, error, frames};
use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP};
use netlink_sys::{Socket, SocketAddr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// The kernel answers within the call that asks; longer than this and it never will.
const PATIENCE: Duration = Duration::from_secs(2);
/// Datagrams of an answer at most: a dump of a million entries needs fewer.
const MOST_DATAGRAMS: usize = 1 << 16;

/// A socket that questions are asked by, of the network namespace in which it was opened.
pub(crate) struct Exchange {
    socket: Socket,
    sequence: u32,
}

impl Exchange {
    /// Opens a socket of a protocol, `NETLINK_*`.
    pub fn open(protocol: isize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        let receive = rustix::net::sockopt::Timeout::Recv;
        rustix::net::sockopt::set_socket_timeout(socket.as_fd(), receive, Some(PATIENCE))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// The socket.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Asks, and calls `each` for the messages of the answer until the kernel says that it is
    /// whole. `buffer` is for what is received; a datagram that does not fit is cut.
    ///
    /// # Errors
    /// The kernel's, and those of the socket; `TimedOut` for an answer without an end.
    pub fn ask(
        &mut self,
        request: Request,
        buffer: &mut [u8],
        mut each: impl FnMut(&Frame<'_>),
    ) -> io::Result<()> {
        self.ask_while(request, buffer, |frame| {
            each(frame);
            true
        })
    }

    /// Does the same until `each` returns false. The rest of the answer stays in the socket.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub fn ask_while(
        &mut self,
        mut request: Request,
        buffer: &mut [u8],
        mut each: impl FnMut(&Frame<'_>) -> bool,
    ) -> io::Result<()> {
        // A dump has an end of its own.
        if request.flags() & NLM_F_DUMP != NLM_F_DUMP {
            request.set_flags(NLM_F_ACK);
        }
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = self.sequence;
        self.socket.send(&request.finish(sequence), 0)?;
        for _ in 0..MOST_DATAGRAMS {
            let length = match self.socket.recv(&mut &mut buffer[..], 0) {
                Err(failure) if failure.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            let received = buffer.get(..length).ok_or_else(|| error(libc::EMSGSIZE))?;
            for frame in frames(received).filter(|frame| frame.sequence == sequence) {
                match frame.verdict() {
                    Some(verdict) => return verdict,
                    None if each(&frame) => {}
                    None => return Ok(()),
                }
            }
        }
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the kernel did not complete its answer in time",
        ))
    }
}
