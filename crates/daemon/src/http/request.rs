//! The head of a request, from a client that may be hostile.

use std::io::{ErrorKind, Read};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// Maximum number of header fields: browsers send about 15.
const FIELDS: usize = 64;
/// Time during which further input of a client is read after an answer, since closing at once would
/// destroy the answer on its way (RFC 9112 section 9.6).
const LINGER: Duration = Duration::from_millis(500);
/// Maximum number of bytes read in that time.
const LINGER_BYTES: usize = 256 << 10;

/// A client's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The path, without the query.
    pub path: String,
    /// True if only the head of the answer is requested.
    pub head_only: bool,
    /// The field `Host`.
    pub host: Option<String>,
    /// The field `Origin`: the page of the requesting script.
    pub origin: Option<String>,
    /// The field `Sec-Fetch-Site`: relation between that page and this server, as seen by the
    /// browser.
    pub site: Option<String>,
}

/// Reason why no request was read.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The client went away.
    Gone,
    /// The client gets this status, and this explanation.
    Answer(u16, &'static str),
}

impl Asked {
    /// Returns true if a script of another page asks. Following a link to the page itself does not
    /// count.
    pub fn is_foreign(&self) -> bool {
        let host = self.host.as_deref().unwrap_or_default();
        let foreign = |origin: &str| origin.strip_prefix("http://") != Some(host);
        let of_other_site = matches!(self.site.as_deref(), Some("cross-site" | "same-site"));
        self.origin.as_deref().is_some_and(foreign) || (of_other_site && self.path != "/")
    }
}

/// Reads a head of at most `most` bytes until `deadline`.
pub fn read(mut stream: &TcpStream, most: usize, deadline: Instant) -> Result<Asked, Refusal> {
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let late = Refusal::Answer(408, "the request took too long");
        if left.is_zero() {
            return Err(late);
        }
        stream.set_read_timeout(Some(left)).map_err(|_| Refusal::Gone)?;
        let count = match stream.read(&mut chunk) {
            Ok(0) => return Err(Refusal::Gone),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(late);
            }
            Err(_) => return Err(Refusal::Gone),
        };
        head.extend_from_slice(&chunk[..count]);
        if let Some(asked) = parse(&head)? {
            return Ok(asked);
        }
        if head.len() >= most {
            return Err(Refusal::Answer(431, "the head of the request is too long"));
        }
    }
}

/// Parses a head; `None` while it is incomplete.
pub fn parse(bytes: &[u8]) -> Result<Option<Asked>, Refusal> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Refusal::Answer(431, "the request has too many header fields"));
        }
        Err(_) => return Err(Refusal::Answer(400, "this is no HTTP request")),
    }
    let head_only = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => {
            return Err(Refusal::Answer(
                405,
                "only GET and HEAD are answered: nothing can be changed here",
            ));
        }
    };
    let field = |name: &str| -> Result<Option<String>, Refusal> {
        let mut found =
            request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        let Some(first) = found.next() else { return Ok(None) };
        if found.next().is_some() {
            return Err(Refusal::Answer(400, "a header field is there twice"));
        }
        let text = std::str::from_utf8(first.value);
        text.map(|text| Some(text.trim().to_owned()))
            .map_err(|_| Refusal::Answer(400, "a header field is no text"))
    };
    let path = request.path.unwrap_or_default();
    Ok(Some(Asked {
        path: path.split(['?', '#']).next().unwrap_or_default().to_owned(),
        head_only,
        host: field("Host")?,
        origin: field("Origin")?,
        site: field("Sec-Fetch-Site")?,
    }))
}

/// Waits until the client has closed too, within limits.
pub fn linger(mut stream: &TcpStream) {
    if stream.shutdown(Shutdown::Write).is_err() {
        return;
    }
    let deadline = Instant::now() + LINGER;
    let mut chunk = [0; 4096];
    let mut taken = 0;
    while taken < LINGER_BYTES {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return;
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(count) => taken += count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_and_nonsense_is_refused() {
        let asked = parse(b"GET /events?x=1 HTTP/1.1\r\nhost: a:1\r\nOrigin: http://a:1\r\n\r\n");
        let asked = asked.unwrap().unwrap();
        assert_eq!((asked.path.as_str(), asked.host.as_deref()), ("/events", Some("a:1")));
        assert!(!asked.is_foreign() && !asked.head_only);
        assert_eq!(parse(b"GET / HTTP/1.1\r\nHost: a\r\n"), Ok(None));
        for (head, status) in [
            (&b"POST / HTTP/1.1\r\n\r\n"[..], 405),
            (b"DELETE / HTTP/1.1\r\n\r\n", 405),
            (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n", 400),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        ] {
            let Err(Refusal::Answer(found, _)) = parse(head) else { panic!("{head:?}") };
            assert_eq!(found, status, "{head:?}");
        }
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(FIELDS + 1));
        assert!(matches!(parse(many.as_bytes()), Err(Refusal::Answer(431, _))));
    }

    #[test]
    fn scripts_of_other_pages_are_foreign_and_links_are_not() {
        let asked = |path: &str, more: &str| {
            let head = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:9418\r\n{more}\r\n");
            parse(head.as_bytes()).unwrap().unwrap().is_foreign()
        };
        assert!(asked("/events", "Origin: http://evil.example\r\n"));
        assert!(asked("/events", "Origin: null\r\n"));
        assert!(asked("/events", "Sec-Fetch-Site: cross-site\r\n"));
        assert!(!asked("/", "Sec-Fetch-Site: cross-site\r\n"), "a link on another page");
        assert!(!asked("/events", "Sec-Fetch-Site: same-origin\r\n"));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
            let _ = parse(bytes);
            let mut head = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec();
            for pair in bytes.chunks_exact(2) {
                let at = usize::from(pair[0]) % head.len();
                head[at] = pair[1];
            }
            let _ = parse(&head).map(|asked| asked.map(|asked| asked.is_foreign()));
        });
    }
}
