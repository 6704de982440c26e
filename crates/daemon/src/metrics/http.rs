//! The metrics endpoint: `GET /metrics` over HTTP.

use crate::http::{self, Answer, Hosts, Limits};
use std::io;
use std::net::SocketAddr;

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Serves `metrics` at this address, in a thread that ends with the process. Returns the address in
/// use, including the port if 0 was requested. `metrics` returns `None` once the daemon has ended.
///
/// # Errors
/// Fails if the address cannot be listened on.
pub fn serve(
    address: SocketAddr,
    metrics: impl Fn() -> Option<String> + Send + Sync + 'static,
) -> io::Result<SocketAddr> {
    let hosts = Hosts::for_metrics(address);
    let listener = http::listen(address)?;
    let bound = listener.local_addr()?;
    http::serve("metrics", listener, hosts, Limits::default(), move |asked| {
        if asked.path != "/metrics" {
            return Answer::refusal(404, "metrics are at /metrics");
        }
        match metrics() {
            Some(text) => Answer::text(TEXT, text),
            None => Answer::refusal(503, "it has ended"),
        }
    })?;
    Ok(bound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn get(address: SocketAddr, line: &str, host: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn one_path_is_served_and_others_point_to_it() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let address = serve(any, || Some("wattline_uptime_seconds 1\n".to_owned())).unwrap();
        let answer = get(address, "GET /metrics", "localhost");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains(TEXT) && answer.ends_with("wattline_uptime_seconds 1\n"));
        assert!(get(address, "GET /", "localhost").starts_with("HTTP/1.1 404"));
        assert!(get(address, "POST /metrics", "localhost").starts_with("HTTP/1.1 405"));
        assert!(get(address, "GET /metrics", "evil.example").starts_with("HTTP/1.1 421"));
        assert!(serve(address, || None).is_err(), "the address is in use");
    }
}
