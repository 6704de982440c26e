//! HTTP/1.1 for those who only look: `GET` and `HEAD`, one answer per connection.
//!
//! A daemon that forwards packets must not be slowed down by whoever looks at it. So everything here
//! is bounded: connections, the head of a request, the time that either side may take. httparse
//! reads the heads (RFC 9112); bodies are never read, since nothing here takes any.

mod answer;
mod host;
mod request;

pub use answer::{Answer, Client};
pub use host::Hosts;
pub use request::Asked;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What whoever asks may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at a time; further ones are told to come back.
    pub connections: usize,
    /// Bytes of a request's head.
    pub head: usize,
    /// How long a client may take to send its head, and how long to take each answer.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 32, head: 8 << 10, patience: Duration::from_secs(5) }
    }
}

/// Listens at an address. An address that is not here is told with what to do about it: in a new
/// network namespace even 127.0.0.1 is not, since its `lo` is down.
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

/// Serves whoever connects, in threads that end with the process. `answer` is asked for every `GET`
/// and `HEAD` from a host that `hosts` allows.
///
/// # Errors
/// When the process may have no further thread.
pub fn serve(
    name: &str,
    listener: TcpListener,
    hosts: Hosts,
    limits: Limits,
    answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
) -> io::Result<()> {
    let served = Arc::new(Served { hosts, limits, answer, open: AtomicUsize::new(0) });
    let thread_name = name.to_owned();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => accept(&served, stream, &thread_name),
                // Without descriptors accept fails at once, again and again.
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
    /// Connections that are being served.
    open: AtomicUsize,
}

/// One of the connections that are allowed at a time, until it is dropped.
struct Place<F>(Arc<Served<F>>);

impl<F> Place<F> {
    fn take(served: &Arc<Served<F>>) -> Option<Self> {
        let most = served.limits.connections;
        let more = |open| (open < most).then_some(open + 1);
        served.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(Self(Arc::clone(served)))
    }
}

impl<F> Drop for Place<F> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

fn accept<F>(served: &Arc<Served<F>>, stream: TcpStream, name: &str)
where
    F: Fn(&Asked) -> Answer + Send + Sync + 'static,
{
    let Some(place) = Place::take(served) else {
        // A new socket has room for this: nobody is waited for.
        let _ = stream.set_nonblocking(true);
        let busy = Answer::refusal(503, "too many look at once: try again in a while");
        let _ = busy.send(&mut Client::new(&stream, Instant::now()), false);
        return;
    };
    let connection = std::thread::Builder::new().name(name.to_owned());
    let spawned = connection.spawn(move || {
        let served = &place.0;
        let _ = stream.set_nodelay(true);
        let deadline = Instant::now() + served.limits.patience;
        let (answer, head_only) = match request::read(&stream, served.limits.head, deadline) {
            Ok(asked) => (decide(served, &asked), asked.head_only),
            // It went away, or never said anything: there is nobody to answer.
            Err(request::Refusal::Gone) => return,
            Err(request::Refusal::Answer(status, why)) => (Answer::refusal(status, why), false),
        };
        let deadline = Instant::now() + served.limits.patience;
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
