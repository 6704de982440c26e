//! The metrics endpoint: `GET /metrics` over HTTP.

use std::io;
use std::net::SocketAddr;
use tiny_http::{Header, Method, Response, Server};

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Serves `metrics` at this address, in a thread that ends with the process; gives the address
/// in use, which names the port where 0 was asked for. `metrics` gives nothing once the daemon
/// has ended.
///
/// # Errors
/// When the address cannot be listened on.
pub fn serve(
    address: SocketAddr,
    metrics: impl Fn() -> Option<String> + Send + 'static,
) -> io::Result<SocketAddr> {
    let server = Server::http(address).map_err(io::Error::other)?;
    let bound = server.server_addr().to_ip().unwrap_or(address);
    std::thread::Builder::new().name("metrics".to_owned()).spawn(move || {
        for request in server.incoming_requests() {
            let path = request.url().split('?').next().unwrap_or_default();
            let (status, text) = match (request.method(), path) {
                (Method::Get | Method::Head, "/metrics") => match metrics() {
                    Some(text) => (200, text),
                    None => (503, "it has ended\n".to_owned()),
                },
                (Method::Get | Method::Head, _) => (404, "metrics are at /metrics\n".to_owned()),
                _ => (405, "only GET is answered\n".to_owned()),
            };
            let mut response = Response::from_string(text).with_status_code(status);
            if let Ok(header) = Header::from_bytes("Content-Type", TEXT) {
                response.add_header(header);
            }
            // Whoever asked may have gone.
            let _ = request.respond(response);
        }
    })?;
    Ok(bound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn get(address: SocketAddr, line: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn one_path_is_served_and_others_say_where_it_is() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let address = serve(any, || Some("wattline_uptime_seconds 1\n".to_owned())).unwrap();
        let answer = get(address, "GET /metrics");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains(TEXT) && answer.ends_with("wattline_uptime_seconds 1\n"));
        assert!(get(address, "GET /").starts_with("HTTP/1.1 404"));
        assert!(get(address, "POST /metrics").starts_with("HTTP/1.1 405"));
        assert!(serve(address, || None).is_err(), "the address is in use");
    }
}
