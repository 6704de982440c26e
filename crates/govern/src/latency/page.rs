//! The application's metrics, read periodically by a separate thread.

use super::source::{Latest, Source};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use wattline_governor::latency::LatencySource;
use wattline_requests::http::Url;
use wattline_requests::sources::{PrometheusHistogram, Selector};
use wattline_units::Span;

/// Time without an answer after which an application is given up until the next reading.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest page accepted.
const LONGEST: u64 = 16 << 20;

/// Starts reading the page once per `period`.
pub(super) fn open(
    url: Url,
    histogram: Selector,
    unit: f64,
    period: Span,
) -> io::Result<Source<PrometheusHistogram>> {
    let read =
        move || get(&url).map_err(|error| format!("http://{}{}: {error}", url.authority, url.path));
    let latest = Latest::start("latency", period, read)?;
    Ok(Source::new(PrometheusHistogram::new(histogram, unit), move |histogram, now| {
        let text = match latest.take()? {
            Err(problem) => return Some((false, Some(problem))),
            Ok(text) => text,
        };
        let refused = histogram.refused().total();
        let is_heard = histogram.take(&text, now);
        let is_there = is_heard || histogram.refused().total() > refused;
        let missing = || "the page does not have this histogram".to_owned();
        Some((is_heard, (!is_there).then(missing)))
    }))
}

/// Returns the body of a page. HTTP/1.0, so the answer ends with the connection and is not chunked
/// (RFC 1945).
fn get(url: &Url) -> io::Result<String> {
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let address = url.resolve().map_err(|error| wrong(error.to_string()))?;
    let end = Instant::now() + PATIENCE;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = format!(
        "GET {} HTTP/1.0\r\nHost: {}\r\nUser-Agent: wattline\r\nAccept: text/plain\r\n\r\n",
        url.path, url.authority
    );
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        // A trickling server is as bad as a silent one.
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(more) => answer.extend_from_slice(&buffer[..more]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if answer.len() as u64 > LONGEST {
            return Err(wrong(format!("the page is longer than {LONGEST} bytes")));
        }
    }
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut fields);
    let parsed = response.parse(&answer).map_err(|error| wrong(error.to_string()))?;
    let httparse::Status::Complete(length) = parsed else {
        return Err(wrong("the answer ends within its head".to_owned()));
    };
    match response.code {
        Some(200) => {}
        code => return Err(wrong(format!("answers {}", code.unwrap_or(0)))),
    }
    let body = answer.split_off(length);
    String::from_utf8(body).map_err(|_| wrong("the page is not UTF-8 text".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::source::Heard;
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};
    use wattline_units::Time;

    /// Answers one request with each of these; returns the address.
    fn server(answers: Vec<String>) -> Url {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut buffer = [0; 1024];
                let _ = stream.read(&mut buffer);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        url.parse().unwrap()
    }

    fn page(body: &str) -> String {
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{body}")
    }

    #[test]
    fn a_page_is_read_and_every_other_answer_is_a_reason() {
        assert_eq!(get(&server(vec![page("x 1\n")])).unwrap(), "x 1\n");
        for (answer, says) in [
            ("HTTP/1.1 404 Not Found\r\n\r\n".to_owned(), "answers 404"),
            ("HTTP/1.1 200 OK\r\n".to_owned(), "ends within its head"),
            ("SSH-2.0-x\r\n".to_owned(), "invalid"),
            (String::new(), "ends within its head"),
        ] {
            let error = get(&server(vec![answer])).unwrap_err().to_string();
            assert!(error.contains(says), "{says}: {error}");
        }
    }

    /// A page that a test changes once its content has been seen.
    struct Turned {
        url: Url,
        shown: Arc<Mutex<Option<String>>>,
        server: std::thread::JoinHandle<()>,
    }

    impl Turned {
        /// Serves this page to every client.
        fn new(first: String) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let url = format!("http://{address}/metrics").parse().unwrap();
            let shown = Arc::new(Mutex::new(Some(first)));
            let now = Arc::clone(&shown);
            let server = std::thread::spawn(move || {
                loop {
                    let (mut stream, _) = listener.accept().unwrap();
                    let Some(answer) = now.lock().unwrap().clone() else { return };
                    let _ = stream.read(&mut [0; 1024]);
                    let _ = stream.write_all(answer.as_bytes());
                }
            });
            Self { url, shown, server }
        }

        fn turn(&self, page: String) {
            *self.shown.lock().unwrap() = Some(page);
        }

        /// Stops answering.
        fn close(self) {
            *self.shown.lock().unwrap() = None;
            // The next client, the page's own thread or this one, ends it.
            let _ = TcpStream::connect(self.url.resolve().unwrap());
            self.server.join().unwrap();
        }
    }

    /// Every page is served until it has been seen, however long that takes: the reading thread
    /// runs on its own, and drops results that are not taken before its next reading.
    #[test]
    fn a_histogram_is_followed_and_a_page_without_it_is_no_sign_of_life() {
        let body = |count: u32| {
            page(&format!(
                "x_bucket{{le=\"0.001\"}} 0\nx_bucket{{le=\"0.01\"}} {count}\n\
                 x_bucket{{le=\"+Inf\"}} {count}\nx_count {count}\n"
            ))
        };
        let pages = Turned::new(page("y 1\n"));
        let period = Span::from_millis(5);
        let mut source = open(pages.url.clone(), "x".parse().unwrap(), 1.0, period).unwrap();
        let began = Instant::now();
        let mut until = |event: &str, so: &dyn Fn(&dyn Heard, Time) -> bool| {
            loop {
                let now = Time::ZERO + Span::from(began.elapsed());
                source.poll(now);
                if so(&source, now) {
                    return;
                }
                assert!(
                    began.elapsed() < Duration::from_secs(60),
                    "{event}: {:?}",
                    source.problem()
                );
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let says = |source: &dyn Heard, words: &str| {
            source.problem().is_some_and(|problem| problem.contains(words))
        };
        until("no histogram", &|source, _| {
            assert!(source.heard().is_none(), "a page without it is no sign of life");
            says(source, "does not have this histogram")
        });
        pages.turn(body(10));
        until("the first counts", &|source, now| {
            assert_eq!(
                source.figures().summary(now).map_or(0, |known| known.samples),
                0,
                "all are old"
            );
            source.heard().is_some() && source.problem().is_none()
        });
        pages.turn(body(110));
        until("the new counts", &|source, now| {
            let samples = source.figures().summary(now).map_or(0, |known| known.samples);
            assert!(samples == 0 || samples == 100, "{samples}");
            samples == 100
        });
        pages.close();
        until("no answer", &|source, _| says(source, "refused"));
    }
}
