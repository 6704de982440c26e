//! Answers, and sending to a client that may not read.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Header fields of every answer. The page may only load its own parts, must not be framed, and
/// cannot be read by pages of other origins: there are no CORS fields.
const SAFETY: &str = "Content-Security-Policy: default-src 'none'; script-src 'self'; \
    style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'\r\n\
    X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
    Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n\
    Cache-Control: no-store\r\nConnection: close\r\n";

/// Writes events until the client goes away or there are no more.
type Stream = Box<dyn FnOnce(&mut Client<'_>) -> io::Result<()>>;

/// Answer to a request.
pub struct Answer {
    status: u16,
    kind: &'static str,
    body: Body,
}

enum Body {
    Whole(Cow<'static, str>),
    Stream(Stream),
}

impl Answer {
    /// Returns a text with its media type.
    pub fn text(kind: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        Self { status: 200, kind, body: Body::Whole(text.into()) }
    }

    /// Returns an error status of RFC 9110, with the reason for people.
    pub fn refusal(status: u16, why: &str) -> Self {
        let text = format!("{why}\n").into();
        Self { status, kind: "text/plain; charset=utf-8", body: Body::Whole(text) }
    }

    /// Returns a stream of events (`text/event-stream` of the HTML standard, section 9.2).
    pub fn events(write: impl FnOnce(&mut Client<'_>) -> io::Result<()> + 'static) -> Self {
        Self { status: 200, kind: "text/event-stream", body: Body::Stream(Box::new(write)) }
    }

    /// Returns the status.
    pub fn status(&self) -> u16 {
        self.status
    }

    pub(super) fn send(self, client: &mut Client<'_>, head_only: bool) -> io::Result<()> {
        let Self { status, kind, body } = self;
        let phrase = match status {
            200 => "OK",
            400 => "Bad Request",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            408 => "Request Timeout",
            421 => "Misdirected Request",
            431 => "Request Header Fields Too Large",
            _ => "Service Unavailable",
        };
        let length = match &body {
            Body::Whole(text) => format!("Content-Length: {}\r\n", text.len()),
            Body::Stream(_) => String::new(),
        };
        let allow = if status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {status} {phrase}\r\nContent-Type: {kind}\r\n{length}{allow}{SAFETY}\r\n"
        );
        client.send(head.as_bytes())?;
        match body {
            _ if head_only => Ok(()),
            Body::Whole(text) => client.send(text.as_bytes()),
            Body::Stream(write) => write(client),
        }
    }
}

/// Connection to a client.
pub struct Client<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl<'a> Client<'a> {
    /// Creates a client that has to take everything until `deadline`.
    pub(super) fn new(stream: &'a TcpStream, deadline: Instant) -> Self {
        Self { stream, deadline }
    }

    /// Sets the client's deadline to `patience` from now.
    pub fn give(&mut self, patience: Duration) {
        self.deadline = Instant::now() + patience;
    }

    /// Sends all bytes.
    ///
    /// # Errors
    /// Fails if the client has gone, or has not taken all by its deadline, however slowly it reads.
    pub fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            // A socket's timeout must not be zero; a non-blocking write returns at once.
            let left = self.deadline.saturating_duration_since(Instant::now());
            self.stream.set_write_timeout(Some(left.max(Duration::from_millis(1))))?;
            match self.stream.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if Instant::now() > self.deadline && !bytes.is_empty() {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }
}
