//! Notifies the service manager of a daemon's state (sd_notify(3)): a datagram to the socket that
//! `NOTIFY_SOCKET` names. Without this variable, nothing is sent.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// Connection to the service manager, if there is one.
#[derive(Debug, Default)]
pub struct Notifier {
    socket: Option<UnixDatagram>,
    /// Longest time between two watchdog notifications, and the time of the last one.
    alive: Option<(Duration, Instant)>,
}

impl Notifier {
    /// From the environment of this process.
    pub fn from_environment() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let Some(address) = variable("NOTIFY_SOCKET") else { return Self::default() };
        let socket = match connect(&address) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(
                    "NOTIFY_SOCKET={address}: {error}; the service manager gets no notifications"
                );
                return Self::default();
            }
        };
        let own = variable("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let micros = variable("WATCHDOG_USEC").and_then(|text| text.parse().ok());
        let period = micros.filter(|_| own).map(|micros: u64| Duration::from_micros(micros / 2));
        Self { socket: Some(socket), alive: period.map(|period| (period, Instant::now())) }
    }

    /// The daemon has started.
    pub fn ready(&self) {
        self.tell("READY=1");
    }

    /// The daemon is shutting down.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// The daemon is alive. May be called at any rate; sends only as often as the service manager
    /// asks.
    pub fn alive(&mut self, now: Instant) {
        let Some((period, last)) = &mut self.alive else { return };
        if now.saturating_duration_since(*last) >= *period / 2 {
            *last = now;
            self.tell("WATCHDOG=1");
        }
    }

    /// How long the caller may sleep.
    pub fn patience(&self) -> Option<Duration> {
        self.alive.map(|(period, _)| period / 2)
    }

    fn tell(&self, message: &str) {
        if let Some(socket) = &self.socket
            && let Err(error) = socket.send(message.as_bytes())
        {
            tracing::debug!("cannot notify the service manager: {error}");
        }
    }
}

/// Connects to a path, or to an abstract name if it begins with `@` (unix(7)).
fn connect(address: &str) -> io::Result<UnixDatagram> {
    let address = match address.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    // A manager that does not read must not stop the daemon.
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abstract_name_and_a_path_are_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let name = format!("wattline-notify-{}", std::process::id());
        let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
        for (listener, address) in [
            (UnixDatagram::bind(&path).unwrap(), path.display().to_string()),
            (UnixDatagram::bind_addr(&abstract_address).unwrap(), format!("@{name}")),
        ] {
            let socket = Some(connect(&address).unwrap());
            let last = Instant::now();
            let period = Duration::from_secs(2);
            let mut notifier = Notifier { socket, alive: Some((period, last)) };
            assert_eq!(notifier.patience(), Some(Duration::from_secs(1)));
            notifier.ready();
            notifier.alive(last + Duration::from_millis(10));
            notifier.alive(last + Duration::from_millis(1010));
            notifier.stopping();
            let told: Vec<String> = (0..3)
                .map(|_| {
                    let mut buffer = [0; 64];
                    let length = listener.recv(&mut buffer).unwrap();
                    String::from_utf8_lossy(&buffer[..length]).into_owned()
                })
                .collect();
            assert_eq!(told, ["READY=1", "WATCHDOG=1", "STOPPING=1"]);
        }
        assert!(connect("/nowhere/at/all").is_err());
    }
}
