//! Notifies the service manager of a daemon's state (sd_notify(3)): a datagram to the socket that
//! `NOTIFY_SOCKET` names. Without this variable, nothing is sent.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};
use wattline_report::plain;

/// Maximum number of descriptors in a message: a router's port needs one, and the kernel allows
/// 253.
const MOST_DESCRIPTORS: usize = 64;
/// Attempts to send a message with descriptors to a manager whose queue is full, with pauses
/// between them: two seconds in total.
const SENDS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum length of a status in characters.
const STATUS_MAX: usize = 500;

/// Connection to the service manager, if there is one.
#[derive(Debug, Default)]
pub struct Notifier {
    socket: Option<UnixDatagram>,
    /// Longest time between two watchdog notifications, and the time of the last one.
    alive: Option<(Duration, Instant)>,
}

impl Notifier {
    /// Reads the environment of this process.
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

    /// Reports that the daemon has started.
    pub fn ready(&self) {
        self.send("READY=1");
    }

    /// Reports that the daemon begins to read its configuration again.
    pub fn reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    /// Reports that the daemon has read its configuration again, and the outcome as its status.
    pub fn reloaded(&self, outcome: &str) {
        self.send(&format!("READY=1\n{}", status_line(outcome)));
    }

    /// Reports a line about the daemon's state, for people (`systemctl status`).
    pub fn status(&self, line: &str) {
        self.send(&status_line(line));
    }

    /// Reports that the daemon is shutting down.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Leaves descriptors in the manager's store, which passes them to the daemon's next instance.
    /// A manager without a store (FileDescriptorStoreMax=) closes them. Returns false if there is
    /// no manager.
    ///
    /// # Errors
    /// Fails if the manager cannot be reached.
    pub fn store(&self, name: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<bool> {
        let Some(socket) = &self.socket else { return Ok(false) };
        // FDPOLL=0, since they never become readable.
        let message = format!("FDSTORE=1\nFDNAME={name}\nFDPOLL=0");
        for descriptors in descriptors.chunks(MOST_DESCRIPTORS) {
            send_with(socket, &message, descriptors)?;
        }
        Ok(true)
    }

    /// Makes the manager close the descriptors in its store with this name.
    pub fn forget(&self, name: &str) {
        self.send(&format!("FDSTOREREMOVE=1\nFDNAME={name}"));
    }

    /// Waits until the manager has read all messages (sd_notify_barrier(3)): it can identify their
    /// sender only while that lives. Returns false after `patience`.
    ///
    /// # Errors
    /// Fails if the manager cannot be reached.
    pub fn wait_until_read(&self, patience: Duration) -> io::Result<bool> {
        let Some(socket) = &self.socket else { return Ok(true) };
        let (reader, writer) = rustix::pipe::pipe()?;
        send_with(socket, "BARRIER=1", &[writer.as_fd()])?;
        // The manager closes its end when it reaches this message.
        drop(writer);
        let end = Instant::now() + patience;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            let mut polled = [PollFd::new(&reader, PollFlags::empty())];
            match poll(&mut polled, Some(&left)) {
                Ok(count) => return Ok(count > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Reports that the daemon is alive. May be called at any rate; sends only as often as the
    /// service manager requires.
    pub fn alive(&mut self, now: Instant) {
        let Some((period, last)) = &mut self.alive else { return };
        if now.saturating_duration_since(*last) >= *period / 2 {
            *last = now;
            self.send("WATCHDOG=1");
        }
    }

    /// Returns the longest time that the caller may sleep: half the watchdog period.
    pub fn patience(&self) -> Option<Duration> {
        self.alive.map(|(period, _)| period / 2)
    }

    fn send(&self, message: &str) {
        if let Some(socket) = &self.socket
            && let Err(error) = socket.send(message.as_bytes())
        {
            tracing::debug!("cannot notify the service manager: {error}");
        }
    }
}

/// Sends a message with descriptors. Unlike other messages it may wait for a busy manager, since it
/// is sent when the daemon has nothing else to do.
fn send_with(
    socket: &UnixDatagram,
    message: &str,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors for one message"));
    }
    let bytes = [IoSlice::new(message.as_bytes())];
    for _ in 0..SENDS {
        match rustix::net::sendmsg(socket, &bytes, &mut ancillary, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::AGAIN) => std::thread::sleep(PAUSE),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Returns the message that sets the status: one line of plain characters.
fn status_line(text: &str) -> String {
    let line: String = text.chars().map(|it| if it == '\n' { ' ' } else { it }).collect();
    let line: String = plain(&line).chars().take(STATUS_MAX).collect();
    format!("STATUS={line}")
}

/// Connects to a path, or to an abstract name if it begins with `@` (unix(7)).
fn connect(address: &str) -> io::Result<UnixDatagram> {
    let address = match address.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    // A manager that does not read must not block the daemon.
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abstract_names_and_paths_are_distinguished() {
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
            notifier.status("as it should be");
            notifier.alive(last + Duration::from_millis(10));
            notifier.alive(last + Duration::from_millis(1010));
            notifier.stopping();
            let received: Vec<String> = (0..4)
                .map(|_| {
                    let mut buffer = [0; 64];
                    let length = listener.recv(&mut buffer).unwrap();
                    String::from_utf8_lossy(&buffer[..length]).into_owned()
                })
                .collect();
            let expected = ["READY=1", "STATUS=as it should be", "WATCHDOG=1", "STOPPING=1"];
            assert_eq!(received, expected);
        }
        assert!(connect("/nowhere/at/all").is_err());
    }

    #[test]
    fn outcome_of_a_reload_is_one_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let socket = Some(connect(&path.display().to_string()).unwrap());
        let notifier = Notifier { socket, alive: None };
        notifier.reloading();
        notifier.reloaded("refused:\nREADY=0\u{1b}");
        let read = || {
            let mut buffer = [0; 128];
            let length = manager.recv(&mut buffer).unwrap();
            String::from_utf8_lossy(&buffer[..length]).into_owned()
        };
        assert!(read().starts_with("RELOADING=1\nMONOTONIC_USEC="));
        assert_eq!(read(), "READY=1\nSTATUS=refused: READY=0\\u001b");
    }

    #[test]
    fn descriptors_are_left_and_the_manager_is_waited_for() {
        use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
        use std::os::fd::OwnedFd;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let socket = Some(connect(&path.display().to_string()).unwrap());
        let notifier = Notifier { socket, alive: None };
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        assert!(notifier.store("a-name", &[writer.as_fd()]).unwrap());
        drop(writer);
        let read = || -> (String, Vec<OwnedFd>) {
            let mut text = [0; 128];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut into = [std::io::IoSliceMut::new(&mut text)];
            let flags = RecvFlags::empty();
            let got = rustix::net::recvmsg(&manager, &mut into, &mut ancillary, flags).unwrap();
            let descriptors = ancillary.drain().filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            });
            let descriptors = descriptors.flatten().collect();
            (String::from_utf8_lossy(&text[..got.bytes]).into_owned(), descriptors)
        };
        let (text, stored) = read();
        assert_eq!(text, "FDSTORE=1\nFDNAME=a-name\nFDPOLL=0");
        rustix::io::write(&stored[0], b"x").unwrap();
        assert_eq!(
            rustix::io::read(&reader, &mut [0; 8]).unwrap(),
            1,
            "it is the one that was left"
        );

        assert!(!notifier.wait_until_read(Duration::from_millis(10)).unwrap(), "it has not read");
        assert_eq!(read().0, "BARRIER=1");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| notifier.wait_until_read(Duration::from_secs(60)).unwrap());
            assert_eq!(read().0, "BARRIER=1");
            assert!(waits.join().unwrap());
        });
        notifier.forget("a-name");
        assert_eq!(read().0, "FDSTOREREMOVE=1\nFDNAME=a-name");

        let alone = Notifier::default();
        assert!(!alone.store("a-name", &[reader.as_fd()]).unwrap());
        assert!(alone.wait_until_read(Duration::ZERO).unwrap());
    }
}
