//! Local socket for the reports of clients.

use super::ClientReports;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use wattline_units::Time;

/// Longest accepted datagram.
const LONGEST: usize = 65_536;
/// Datagrams that are read at once, so that a flood cannot occupy the reader.
const AT_ONCE: usize = 1_024;
/// Owner and group may report.
const MODE: u32 = 0o660;

/// A datagram socket in the file system; dropping it removes the file.
#[derive(Debug)]
pub struct ReportSocket {
    socket: UnixDatagram,
    path: PathBuf,
    buffer: Vec<u8>,
}

impl ReportSocket {
    /// Creates the socket. Replaces an abandoned socket file.
    ///
    /// # Errors
    /// Fails when the file is a socket in use or not a socket, or cannot be created.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let socket = match UnixDatagram::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && abandoned(path) => {
                std::fs::remove_file(path)?;
                UnixDatagram::bind(path)?
            }
            other => other?,
        };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(MODE))?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, path: path.to_owned(), buffer: vec![0; LONGEST + 1] })
    }

    /// Passes received datagrams on and returns their number, at most 1,024; then more may be
    /// waiting.
    ///
    /// # Errors
    /// Fails when the socket fails.
    pub fn drain(
        &mut self,
        reports: &mut ClientReports,
        now: Time,
        unix_seconds: f64,
    ) -> io::Result<usize> {
        for taken in 0..AT_ONCE {
            match self.socket.recv(&mut self.buffer) {
                Ok(length) if length > LONGEST => reports.too_long(),
                Ok(length) => reports.take(&self.buffer[..length], now, unix_seconds),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(taken),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(AT_ONCE)
    }
}

impl Drop for ReportSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns true if a file is a socket that no process has bound any more. The kernel also refuses
/// connections to a file that is not a socket, so the type is checked too.
fn abandoned(path: &Path) -> bool {
    if !path.symlink_metadata().is_ok_and(|file| file.file_type().is_socket()) {
        return false;
    }
    let Ok(probe) = UnixDatagram::unbound() else { return false };
    probe.connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::LatencySource as _;
    use wattline_units::Span;

    #[test]
    fn socket_takes_reports_and_is_removed_with_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("latency");
        // Left behind by a process that was killed.
        drop(UnixDatagram::bind(&path).unwrap());
        assert!(path.exists());
        let mut socket = ReportSocket::bind(&path).unwrap();
        assert!(ReportSocket::bind(&path).is_err(), "a socket in use is not taken over");

        let client = UnixDatagram::unbound().unwrap();
        client.send_to(b"{\"latency_seconds\":[[0.002,5]]}", &path).unwrap();
        client.send_to(&vec![b' '; LONGEST + 10], &path).unwrap();
        client.send_to(b"", &path).unwrap();
        let mut reports = ClientReports::new(Span::from_millis(1_000));
        let now = Time::ZERO + Span::from_millis(50);
        assert_eq!(socket.drain(&mut reports, now, 0.0).unwrap(), 3);
        assert_eq!(reports.summary(now).unwrap().samples, 5);
        assert_eq!((reports.refused().absurd, reports.refused().total()), (1, 1));
        assert_eq!(socket.drain(&mut reports, now, 0.0).unwrap(), 0);
        drop(socket);
        assert!(!path.exists());
        std::fs::write(&path, "a file").unwrap();
        assert!(ReportSocket::bind(&path).is_err());
        assert!(path.exists(), "a file of somebody else is left alone");
    }
}
