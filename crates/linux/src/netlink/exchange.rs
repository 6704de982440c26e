//! Requests to the kernel and its answers, for any netlink protocol.

use super::frame::{Frame, Request, error, frames};
use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP};
use netlink_sys::{Socket, SocketAddr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Longest wait for an answer: the kernel answers during the request.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most datagrams of an answer: a dump of a million entries needs fewer.
const MOST_DATAGRAMS: usize = 1 << 16;

/// A socket for requests, in the network namespace in which it was opened.
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

    /// Returns the socket.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends a request, and calls `each` for the messages of the answer until its end. `buffer` is
    /// for the received datagrams; a datagram that does not fit is cut.
    ///
    /// # Errors
    /// Errors of the kernel and of the socket; `TimedOut` for an answer without an end.
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

    /// As [`Self::ask`], until `each` returns false. The rest of the answer stays in the socket.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub fn ask_while(
        &mut self,
        mut request: Request,
        buffer: &mut [u8],
        mut each: impl FnMut(&Frame<'_>) -> bool,
    ) -> io::Result<()> {
        // A dump has its own end message.
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
