//! Read-only HTTP/1.1: `GET` and `HEAD`, one answer per connection.
//!
//! HTTP clients must not slow down a daemon that forwards packets. So everything here is bounded:
//! connections, the head of a request, the time that either side may take. httparse parses the
//! heads (RFC 9112); bodies are never read, since no request here has one.

mod answer;
mod host;
mod places;
mod request;

pub use answer::{Answer, Client};
pub use host::Hosts;
pub use request::Asked;

use places::Places;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wattline_linux::privileges;

/// Limits on clients: connections, bytes and time.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum number of connections; a further one takes the place of the oldest.
    pub connections: usize,
    /// Bytes of a request's head.
    pub head: usize,
    /// Time for a client to send its head and take the answer, together; for a stream, to take each
    /// event.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 32, head: 8 << 10, patience: Duration::from_secs(5) }
    }
}

/// Listens at an address. If the machine does not have the address, the error says what to do about
/// it: in a new network namespace not even 127.0.0.1 is available, since its `lo` is down.
///
/// # Errors
/// As binding fails, of the same kind.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| match error.kind() {
        io::ErrorKind::AddrNotAvailable => {
            let ip = address.ip();
            let message = format!(
                "{ip} is no address of this machine or namespace; for 127.0.0.1 in a namespace: \
                 `ip link set lo up`"
            );
            io::Error::new(error.kind(), message)
        }
        _ => error,
    })
}

/// Serves all clients, in threads that end with the process. `answer` is called for every `GET` and
/// `HEAD` from a host that `hosts` allows.
///
/// # Errors
/// Fails if the process cannot create another thread.
pub fn serve(
    name: &str,
    listener: TcpListener,
    hosts: Hosts,
    limits: Limits,
    answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
) -> io::Result<()> {
    let places = Places::new(limits.connections);
    let served = Arc::new(Served { hosts, limits, answer, places });
    let thread_name = name.to_owned();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        privileges::drop_all_or_warn();
        loop {
            match listener.accept() {
                Ok((stream, from)) => accept(&served, stream, from, &thread_name),
                // Without free descriptors accept fails at once, repeatedly.
                Err(error) => {
                    tracing::debug!("{thread_name}: {error}");
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    })?;
    Ok(())
}

struct Served<F> {
    hosts: Hosts,
    limits: Limits,
    answer: F,
    places: Arc<Places>,
}

fn accept<F>(served: &Arc<Served<F>>, stream: TcpStream, from: SocketAddr, name: &str)
where
    F: Fn(&Asked) -> Answer + Send + Sync + 'static,
{
    let stream = Arc::new(stream);
    let Some(place) = served.places.take(&stream, from.ip()) else {
        // A new socket has room for this, so the write does not block.
        let _ = stream.set_nonblocking(true);
        let busy = Answer::refusal(503, "too many readers: try again later");
        let _ = busy.send(&mut Client::new(&stream, Instant::now()), false);
        return;
    };
    let served = Arc::clone(served);
    let connection = std::thread::Builder::new().name(name.to_owned());
    let spawned = connection.spawn(move || {
        let _ = stream.set_nodelay(true);
        let mut deadline = Instant::now() + served.limits.patience;
        let (answer, head_only) = match request::read(&stream, served.limits.head, deadline) {
            Ok(asked) => {
                let read = Instant::now();
                let answer = place.asking(|| decide(&served, &asked));
                // The daemon's own time does not count against the client.
                deadline += read.elapsed();
                (answer, asked.head_only)
            }
            // The client went away, or never sent anything.
            Err(request::Refusal::Gone) => return,
            Err(request::Refusal::Answer(status, why)) => {
                deadline = Instant::now() + served.limits.patience;
                (Answer::refusal(status, why), false)
            }
        };
        let mut client = Client::new(&stream, deadline);
        if answer.send(&mut client, head_only).is_ok() {
            request::linger(&stream);
        }
    });
    if let Err(error) = spawned {
        tracing::debug!("{error}");
    }
}

fn decide<F: Fn(&Asked) -> Answer>(served: &Served<F>, asked: &Asked) -> Answer {
    if let Some(why) = served.hosts.refuse(asked) {
        return Answer::refusal(421, why);
    }
    if asked.is_foreign() {
        return Answer::refusal(403, "pages of other origins may not read this");
    }
    (served.answer)(asked)
}

#[cfg(test)]
mod tests;
