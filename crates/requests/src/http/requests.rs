//! Requests for pages.

use super::answer::HttpParser;
use super::url::{Url, UrlError};
use crate::protocol::{Outcome, Protocol, ProtocolError, Step};
use std::net::SocketAddr;
use std::sync::Arc;

/// Options of HTTP requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpOptions {
    /// Pages; each connection requests the pages of its server in turn.
    pub urls: Vec<Url>,
    /// `HEAD` instead of `GET`.
    pub head: bool,
    /// Additional header fields, as `Name: value`.
    pub fields: Vec<String>,
}

/// The requests for all servers, ready to be sent; all threads share them.
#[derive(Debug)]
pub struct HttpRequests {
    head: bool,
    targets: Vec<Target>,
}

#[derive(Debug)]
struct Target {
    authority: String,
    address: SocketAddr,
    requests: Vec<Vec<u8>>,
}

impl HttpRequests {
    /// Writes the requests; URLs of one host and port are one target.
    ///
    /// # Errors
    /// Fails when a host has no address.
    pub fn new(options: &HttpOptions) -> Result<Self, UrlError> {
        let mut targets: Vec<Target> = Vec::new();
        let method = if options.head { "HEAD" } else { "GET" };
        for url in &options.urls {
            let mut request = format!(
                "{method} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: wattline/{}\r\nAccept: */*\r\n",
                url.path,
                url.authority,
                env!("CARGO_PKG_VERSION"),
            );
            for field in &options.fields {
                request.push_str(field);
                request.push_str("\r\n");
            }
            request.push_str("\r\n");
            let request = request.into_bytes();
            match targets.iter_mut().find(|target| target.authority == url.authority) {
                Some(target) => target.requests.push(request),
                None => targets.push(Target {
                    authority: url.authority.clone(),
                    address: url.resolve()?,
                    requests: vec![request],
                }),
            }
        }
        Ok(Self { head: options.head, targets })
    }

    /// Returns the addresses of the targets, in the order of their numbers.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.targets.iter().map(|target| target.address).collect()
    }
}

/// Returns true if a header field may be sent as it is: it has a name, a colon, and no line end.
pub(super) fn usable_field(field: &str) -> bool {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let framing = ["content-length", "transfer-encoding", "connection", "host"];
    field.split_once(':').is_some_and(|(name, value)| {
        !name.is_empty()
            && name.chars().all(token)
            && !framing.contains(&name.to_ascii_lowercase().as_str())
            && value.chars().all(|c| c == '\t' || !c.is_ascii_control())
    })
}

impl HttpOptions {
    /// Parses a header field of a command line.
    ///
    /// # Errors
    /// Fails when the text is no header field, when the generator writes this field itself, and
    /// when the field changes the framing of the request.
    pub fn field(text: &str) -> Result<String, String> {
        if usable_field(text) {
            return Ok(text.to_owned());
        }
        Err("expected NAME: VALUE on one line, and none of Host, Connection, Content-Length and \
             Transfer-Encoding"
            .into())
    }
}

/// Requests of one thread.
#[derive(Debug)]
pub struct Http {
    requests: Arc<HttpRequests>,
    /// Next request of each target.
    next: Vec<usize>,
}

impl Http {
    /// Creates the requests of a thread; each thread begins with another page.
    pub fn new(requests: Arc<HttpRequests>, thread: usize) -> Self {
        let next = requests.targets.iter().map(|target| thread % target.requests.len()).collect();
        Self { requests, next }
    }
}

impl Protocol for Http {
    type Parser = HttpParser;
    type Expect = ();
    const OPERATIONS: &'static [&'static str] = &["request"];

    fn request(&mut self, target: usize, out: &mut Vec<u8>) {
        let requests = &self.requests.targets[target].requests;
        let next = &mut self.next[target];
        out.extend_from_slice(&requests[*next]);
        *next = (*next + 1) % requests.len();
    }

    fn operation((): ()) -> usize {
        0
    }

    fn read(
        &self,
        parser: &mut HttpParser,
        (): (),
        input: &mut &[u8],
    ) -> Result<Step, ProtocolError> {
        parser.read(self.requests.head, input)
    }

    fn closed(&self, parser: &HttpParser) -> Option<Outcome> {
        parser.closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_written_once_and_taken_in_turn() {
        let url = |text: &str| text.parse::<Url>().unwrap();
        let options = HttpOptions {
            urls: ["http://127.0.0.1:81/a", "http://127.0.0.1:82/", "http://127.0.0.1:81/b"]
                .map(url)
                .to_vec(),
            head: false,
            fields: vec!["X-Test: 1".into()],
        };
        let requests = Arc::new(HttpRequests::new(&options).unwrap());
        assert_eq!(requests.addresses().len(), 2);
        let mut http = Http::new(requests, 0);
        let mut out = Vec::new();
        for _ in 0..3 {
            http.request(0, &mut out);
        }
        let text = String::from_utf8(out).unwrap();
        let paths: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("GET ")).collect();
        assert_eq!(paths, ["/a HTTP/1.1", "/b HTTP/1.1", "/a HTTP/1.1"]);
        assert_eq!(text.matches("\r\nX-Test: 1\r\n\r\n").count(), 3);
        assert_eq!(text.matches("\r\nHost: 127.0.0.1:81\r\n").count(), 3);
    }

    #[test]
    fn fields_that_would_break_the_framing_are_refused() {
        assert!(HttpOptions::field("Accept-Language: en").is_ok());
        for wrong in ["no colon", ": x", "a b: c", "A: b\r\nC: d", "content-length: 5", "Host: x"] {
            assert!(HttpOptions::field(wrong).is_err(), "{wrong}");
        }
    }
}
