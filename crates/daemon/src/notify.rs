//! Telling the service manager how a daemon is (sd_notify(3)): a datagram to the socket that
//! `NOTIFY_SOCKET` names. Without one, nothing is told.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// The service manager, if there is one that wants to know.
#[derive(Debug, Default)]
pub struct Notifier {
    socket: Option<UnixDatagram>,
    /// How often it wants to hear that the daemon is alive, and when it was told last.
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
                    "NOTIFY_SOCKET={address}: {error}; the service manager hears nothing"
                );
                return Self::default();
            }
        };
        let own = variable("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let micros = variable("WATCHDOG_USEC").and_then(|text| text.parse().ok());
        let period = micros.filter(|_| own).map(|micros: u64| Duration::from_micros(micros / 2));
        Self { socket: Some(socket), alive: period.map(|period| (period, Instant::now())) }
    }

    /// The daemon does its work.
    pub fn ready(&self) {
        self.tell("READY=1");
    }

    /// The daemon is on its way out.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// The daemon is alive: told as often as is wanted, however often this is called.
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
            tracing::debug!("the service manager does not listen: {error}");
        }
    }
}

/// A name that begins with `@` is none of the file system.
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
