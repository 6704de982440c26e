//! A non-blocking connection.

use crate::clock::Nanos;
use crate::protocol::Protocol;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};
use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

/// Delay before a connection that failed to open, or was closed unused, is opened again. It
const FIRST_RETRY: Nanos = 10_000_000;
/// doubles with each failure up to this limit.
const LAST_RETRY: Nanos = 1_000_000_000;

/// A request that was sent, or is about to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending<E> {
    /// Time at which the request was due.
    pub intended: Nanos,
    /// Time at which a slot for it was free.
    pub freed: Nanos,
    /// Time at which it was handed to the kernel.
    pub sent: Nanos,
    /// State needed to read the answer.
    pub expect: E,
}

/// State of a connection.
#[derive(Debug)]
pub(super) enum State {
    /// Closed; to be opened at this time.
    Closed { retry_at: Nanos },
    /// Connecting since this time.
    Connecting { stream: TcpStream, since: Nanos },
    /// Established.
    Open { stream: TcpStream },
}

/// A connection with the requests under way on it.
#[derive(Debug)]
pub(super) struct Connection<P: Protocol> {
    /// Number of its server.
    pub target: usize,
    /// State of the connection.
    pub state: State,
    /// Incremented each time the connection is opened.
    pub generation: u32,
    /// Requests under way, the oldest first.
    pub pending: VecDeque<Pending<P::Expect>>,
    /// Number of the youngest requests in `out` that no write has been attempted for.
    pub fresh: usize,
    /// Parser of the answers.
    pub parser: P::Parser,
    out: Vec<u8>,
    written: usize,
    wants_write: bool,
    /// True if a request was answered since the connection was opened.
    pub useful: bool,
    delay: Nanos,
}

impl<P: Protocol> Connection<P> {
    /// Creates a connection that is not opened yet.
    pub fn new(target: usize) -> Self {
        Self {
            target,
            state: State::Closed { retry_at: 0 },
            generation: 0,
            pending: VecDeque::new(),
            fresh: 0,
            parser: P::Parser::default(),
            out: Vec::new(),
            written: 0,
            wants_write: false,
            useful: false,
            delay: 0,
        }
    }

    /// Begins to connect.
    pub fn connect(
        &mut self,
        epoll: &OwnedFd,
        number: u32,
        address: &SocketAddr,
        now: Nanos,
    ) -> io::Result<()> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        match rustix::net::connect(&socket, address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        epoll::add(epoll, &stream, EventData::new_u64(u64::from(number)), EventFlags::OUT)?;
        self.state = State::Connecting { stream, since: now };
        Ok(())
    }

    /// Completes the connect after an event, or returns its error.
    pub fn finish_connect(&mut self, epoll: &OwnedFd, number: u32) -> io::Result<()> {
        let closed = State::Closed { retry_at: Nanos::MAX };
        let State::Connecting { stream, .. } = std::mem::replace(&mut self.state, closed) else {
            return Ok(());
        };
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        // An event without error and without a peer: hung up at once.
        stream.peer_addr()?;
        epoll::modify(epoll, &stream, EventData::new_u64(u64::from(number)), EventFlags::IN)?;
        self.state = State::Open { stream };
        self.generation = self.generation.wrapping_add(1);
        Ok(())
    }

    /// Closes the connection and schedules its reopening: at once if a request was answered,
    /// otherwise with exponential backoff, so that a server that accepts and hangs up is not
    /// flooded. The caller must end the pending requests.
    pub fn close(&mut self, now: Nanos) {
        self.delay = if self.useful { 0 } else { (self.delay * 2).clamp(FIRST_RETRY, LAST_RETRY) };
        self.useful = false;
        let retry_at = now + self.delay;
        // Dropping the stream takes it out of epoll.
        self.state = State::Closed { retry_at };
        self.generation = self.generation.wrapping_add(1);
        self.out.clear();
        self.written = 0;
        self.fresh = 0;
        self.wants_write = false;
        self.parser = P::Parser::default();
    }

    /// Appends a request, to be written by [`Self::flush`].
    pub fn append(&mut self, protocol: &mut P, intended: Nanos, freed: Nanos) {
        let expect = protocol.request(self.target, &mut self.out);
        self.pending.push_back(Pending { intended, freed, sent: 0, expect });
        self.fresh += 1;
    }

    /// Writes as much as the kernel accepts; epoll reports when the rest can be written.
    pub fn flush(&mut self, epoll: &OwnedFd, number: u32) -> io::Result<()> {
        let State::Open { stream } = &mut self.state else { return Ok(()) };
        while self.written < self.out.len() {
            match stream.write(&self.out[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(length) => self.written += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let rest = self.written < self.out.len();
        if !rest {
            self.out.clear();
            self.written = 0;
        }
        if rest != self.wants_write {
            self.wants_write = rest;
            let flags = if rest { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
            epoll::modify(epoll, stream, EventData::new_u64(u64::from(number)), flags)?;
        }
        Ok(())
    }

    /// Reads once; `None` if there is nothing to read.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let State::Open { stream } = &mut self.state else { return Ok(None) };
        match stream.read(buffer) {
            Ok(length) => Ok(Some(length)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
