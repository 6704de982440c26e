//! Identity of the other end of a control socket.

use super::socket_error::SocketError;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use rustix::process::{Uid, geteuid};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Longest wait for a daemon whose queue of connections is full.
const PATIENCE: Duration = Duration::from_secs(10);

/// A user at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Number of the user; `None` if the kernel does not report it.
    pub user: Option<u32>,
    /// True for root and the user who runs this process.
    pub may_change: bool,
}

impl Peer {
    /// Asks the kernel (SO_PEERCRED, unix(7)).
    pub fn from_stream(stream: &UnixStream) -> Self {
        match socket_peercred(stream) {
            Ok(peer) => Self { user: Some(peer.uid.as_raw()), may_change: is_trusted(peer.uid) },
            Err(_) => Self { user: None, may_change: false },
        }
    }
}

fn is_trusted(user: Uid) -> bool {
    user.is_root() || user == geteuid()
}

/// Connects to the daemon at `path`. It has to belong to root or this user; other users' daemons
/// are neither sent requests nor trusted.
///
/// # Errors
/// Fails if no daemon answers there, or if it belongs to another user.
pub fn connect(path: &Path) -> Result<UnixStream, SocketError> {
    let stream =
        reach(path).map_err(|source| SocketError::Silent { path: path.to_owned(), source })?;
    let Peer { user, may_change } = Peer::from_stream(&stream);
    match may_change {
        true => Ok(stream),
        false => {
            let user = user.map_or_else(|| "an unknown user".to_owned(), |it| format!("user {it}"));
            Err(SocketError::Foreign { path: path.to_owned(), user })
        }
    }
}

/// Connects to any listener at `path`.
pub(crate) fn reach(path: &Path) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn own_daemon_is_reached() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.sock");
        assert!(matches!(connect(&path), Err(SocketError::Silent { .. })));
        let _listener = UnixListener::bind(&path).unwrap();
        let stream = connect(&path).unwrap();
        let expected = Peer { user: Some(geteuid().as_raw()), may_change: true };
        assert_eq!(Peer::from_stream(&stream), expected);
    }

    #[test]
    fn daemon_of_another_user_is_refused() {
        if !geteuid().is_root() {
            return wattline_needs::rights("root, for a daemon of another user");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.sock");
        let other = Uid::from_raw(1234);
        // Drops the rights of this thread alone; the kernel records those of the caller of
        // listen(2).
        let listener = std::thread::scope(|scope| {
            let listen = || {
                let socket = socket_with(
                    AddressFamily::UNIX,
                    SocketType::STREAM,
                    SocketFlags::CLOEXEC,
                    None,
                )
                .unwrap();
                rustix::net::bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
                rustix::thread::set_thread_res_uid(other, other, other).unwrap();
                rustix::net::listen(&socket, 4).unwrap();
                socket
            };
            scope.spawn(listen).join().unwrap()
        });
        let error = connect(&path).unwrap_err();
        assert!(error.to_string().contains("belongs to user 1234"), "{error}");
        drop(listener);
    }
}
