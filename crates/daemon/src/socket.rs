//! The control socket: one JSON request per line, one JSON answer per line.
//!
//! `{"request":"stats"}` is answered by `{"ok":{…}}` or `{"error":"…"}`. Captures and traces send
//! more after their answer ([`super::stream`]). The socket can be opened by its owner, and by
//! members of the group `wattline` if there is one ([`super::group`]); members may read, but change
//! nothing.

pub use super::directory::directory;
use super::directory::{OF_ROOT, check, prepare};
use super::group::{self, GROUP};
pub use super::peer::connect;
use super::peer::{Peer, reach};
pub use super::pending::Pending;
use super::places::{Place, Places, Share};
pub use super::socket_error::SocketError;
use super::stream::{Inlet, Outlet};
use super::timed::Timed;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wattline_linux::privileges;
use wattline_status::{Document, Empty};

/// Longest request in bytes; a longer one ends the connection.
const LONGEST_REQUEST: u64 = 64 << 10;
/// Maximum number of connections waiting to be accepted.
const BACKLOG: i32 = 128;
/// Mode of the socket's file without access for the group.
const OWNER_ONLY: u32 = 0o600;
/// Time that the other side has for a request and its answer together. The daemon's own time does
/// not count.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause after a connection could not be accepted or served.
const PAUSE: Duration = Duration::from_millis(100);

/// A request to a daemon, which refuses unsupported ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Its counters.
    Stats,
    /// The nodes of a router with their counters, and the edges between them.
    Graph,
    /// Its counters as a text in the format of Prometheus.
    Metrics,
    /// Serve traffic with the first workers of a router; park the others.
    Active {
        /// Number of active workers, from 1.
        workers: u16,
    },
    /// Hold an operating point in place of the policy until the lease ends; its owner renews it
    /// before.
    Hold {
        /// Name of the client.
        owner: String,
        /// Number of active cores.
        cores: usize,
        /// Their frequency; 0 for the fastest.
        kilohertz: u32,
        /// Seconds until the lease ends.
        seconds: u32,
    },
    /// End a lease.
    Release {
        /// Name of the client.
        owner: String,
    },
    /// Read the configuration again.
    Reload,
    /// Drain and end.
    Stop,
    /// Drain and end; the kernel then forwards in clear the traffic that the configuration
    /// protects.
    StopAndOpen,
    /// Show state of a router.
    Show {
        /// The state to show.
        topic: Topic,
        /// Only entries that contain this address, or lie within this prefix.
        #[serde(default, with = "as_text", skip_serializing_if = "Option::is_none")]
        within: Option<IpNet>,
        /// Maximum number of entries.
        most: u32,
    },
    /// Send packets that pass a router, as a capture file.
    Capture(Look),
    /// Send the paths of packets through a router.
    Trace(Look),
    /// Compare decisions of a router with its kernel's, and send the differences.
    Audit {
        /// Only addresses within this prefix.
        #[serde(default, with = "as_text", skip_serializing_if = "Option::is_none")]
        within: Option<IpNet>,
    },
    /// Restart the displayed counters of a router at 0.
    ClearCounters,
}

/// Packets that a capture or trace records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Look {
    /// A filter, in the router's language.
    pub filter: String,
    /// Maximum number of bytes of a packet.
    pub snap: u16,
    /// Maximum number of packets per second and worker.
    pub rate: u32,
    /// Number of packets after which it ends; unlimited if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<u64>,
}

impl Request {
    /// Returns true if the request only reads.
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::Stats | Self::Graph | Self::Metrics | Self::Show { .. } => true,
            Self::Capture(_) | Self::Trace(_) | Self::Audit { .. } => true,
            Self::Active { .. } | Self::Reload | Self::ClearCounters => false,
            Self::Hold { .. } | Self::Release { .. } | Self::Stop | Self::StopAndOpen => false,
        }
    }

    /// Returns true if the answer is followed by more, until the client ends it.
    fn is_stream(&self) -> bool {
        matches!(self, Self::Capture(_) | Self::Trace(_) | Self::Audit { .. })
    }
}

/// A prefix in its usual text form.
mod as_text {
    use ipnet::IpNet;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(prefix: &Option<IpNet>, to: S) -> Result<S::Ok, S::Error> {
        match prefix {
            Some(prefix) => to.collect_str(prefix),
            None => to.serialize_none(),
        }
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Option<IpNet>, D::Error> {
        let text: Option<String> = Option::deserialize(from)?;
        text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
    }
}

/// State that can be shown: of a router, and in part of a governor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topic {
    /// Its ports, with their state and reasons.
    Ports,
    /// Routes, with their origin and state.
    Routes,
    /// Neighbours.
    Neighbours,
    /// The forwarding decision for an address.
    Fib,
    /// Flows of the application `flow_records`.
    Flows,
    /// Security associations of the application `ipsec`.
    Sas,
    /// Access lists of the application `acl`, with the matches of their rules.
    Acl,
    /// Build, configuration file and process of the daemon, which may be a governor.
    Version,
    /// Settings in force, and those that wait for a restart.
    Config,
}

/// An answer; on the wire an object with one of the two keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The result of the request.
    Ok(Value),
    /// The reason why the request was refused.
    Error(String),
}

impl Answer {
    /// Answers with a document.
    pub fn document(document: &impl Document) -> Self {
        serde_json::to_value(document).map_or_else(
            |error| Self::Error(format!("the answer cannot be written as JSON: {error}")),
            Self::Ok,
        )
    }

    /// Answers with the result of a request: a document, success, or the reason for a refusal.
    pub fn from_result(given: Result<Option<impl Document>, String>) -> Self {
        match given {
            Ok(Some(document)) => Self::document(&document),
            Ok(None) => Self::document(&Empty::default()),
            Err(why) => Self::Error(why),
        }
    }
}

/// Writer of the data that follow an answer.
pub type Body = Box<dyn FnOnce(&mut Outlet<'_>) -> io::Result<()> + Send>;

/// A daemon's reply to a request.
pub enum Reply {
    /// The whole reply.
    Answer(Answer),
    /// The value is the answer, and more follows until the connection ends.
    Stream(Value, Body),
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

/// Returns the path of the socket of a daemon that runs this configuration file in this process.
pub fn default_path(config: &Path) -> PathBuf {
    let name = config.file_stem().unwrap_or_default().to_string_lossy();
    // A path is limited to 107 bytes (unix(7)).
    let name: String = name.chars().filter(char::is_ascii).take(24).collect();
    directory().join(format!("{name}.{}.sock", std::process::id()))
}

/// Listening end; dropping it removes its file.
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
}

impl Server {
    /// Creates the socket, and its directory if that is missing. Replaces a file that a dead daemon
    /// left behind, but not that of a living one.
    ///
    /// # Errors
    /// Fails if that is impossible, or another daemon answers there.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let error = |source| SocketError::Bind { path: path.to_owned(), source };
        prepare(path)?;
        // Only a socket is ever removed: any other kind of file may be in use.
        if let Ok(found) = path.symlink_metadata() {
            if !found.file_type().is_socket() {
                let message = "a file that is not a socket exists there: name another path";
                return Err(error(io::Error::new(io::ErrorKind::AlreadyExists, message)));
            }
            if reach(path).is_ok() {
                let message = "another router or governor already uses it";
                return Err(error(io::Error::new(io::ErrorKind::AddrInUse, message)));
            }
            std::fs::remove_file(path).map_err(error)?;
        }
        if path.parent() == Some(&directory()) {
            remove_dead(&directory());
        }
        let socket = bind_closed(path).map_err(error)?;
        let server = Self { listener: UnixListener::from(socket), path: path.to_owned() };
        group::admit(path, path.parent() == Some(&directory()));
        // Only now can anyone connect: the file has its final mode and group.
        rustix::net::listen(&server.listener, BACKLOG).map_err(|errno| error(errno.into()))?;
        Ok(server)
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns another handle to the listening socket, for the thread that serves it.
    ///
    /// # Errors
    /// Fails if the process has no free descriptor.
    pub fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

/// Creates the file of a socket that only its owner may open, and that refuses connections until
/// listen(2). The kernel creates the file with the mode of the socket less the umask (bind(2) on a
/// Unix socket), so the file never has a wider mode, whatever the umask is.
fn bind_closed(path: &Path) -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::fs::fchmod(&socket, OWNER_ONLY.into())?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Removes sockets of killed daemons: they are named after a process that no longer exists, and
/// refuse connections.
fn remove_dead(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let process = name
            .to_str()
            .and_then(|name| name.strip_suffix(".sock")?.rsplit_once('.')?.1.parse::<u32>().ok());
        let is_gone = |process: u32| !Path::new("/proc").join(process.to_string()).exists();
        let is_socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
        let refused = || {
            let error = reach(&path).err();
            error.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        };
        if is_socket && process.is_some_and(is_gone) && refused() {
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// Answers all clients, in threads that end with the process and have no capabilities: one per
/// connection, so that a silent client does not keep others out. `answer` is as for [`serve`].
/// Before the process ends, it waits for the returned value.
///
/// # Errors
/// Fails if the process cannot create another thread.
pub fn serve_all<R: Into<Reply>>(
    listener: UnixListener,
    answer: impl Fn(Request) -> Option<R> + Clone + Send + 'static,
) -> io::Result<Pending> {
    let pending = Pending::default();
    let counted = pending.clone();
    std::thread::Builder::new().name("control".to_owned()).spawn(move || {
        privileges::drop_all_or_warn();
        let places = Places::default();
        for stream in listener.incoming() {
            let outcome = stream.and_then(|stream| {
                let place = match places.take(Peer::from_stream(&stream)) {
                    Ok(place) => place,
                    Err(why) => {
                        refuse(&stream, &why);
                        return Ok(());
                    }
                };
                let (answer, pending) = (answer.clone(), counted.clone());
                let serve = move || {
                    if let Err(error) = serve(&stream, &place, &pending, answer) {
                        tracing::debug!("control socket: {error}");
                    }
                };
                std::thread::Builder::new().name("control".to_owned()).spawn(serve).map(drop)
            });
            // Without free descriptors or threads it fails at once, repeatedly.
            if let Err(error) = outcome {
                tracing::debug!("control socket: {error}");
                std::thread::sleep(PAUSE);
            }
        }
    })?;
    Ok(pending)
}

/// Sends the reason to a connection that gets no place, without waiting for it.
fn refuse(stream: &UnixStream, why: &str) {
    let _ = stream.set_nonblocking(true);
    let _ = (&mut &*stream).write_all(format!("{}\n", json_error(why)).as_bytes());
}

fn json_error(message: &str) -> String {
    serde_json::json!({ "error": message }).to_string()
}

/// Answers one connection, request by request, until it ends. `answer` returns `None` if the daemon
/// has ended meanwhile.
///
/// # Errors
/// Fails if the connection fails, or the other side is too slow.
fn serve<R: Into<Reply>>(
    stream: &UnixStream,
    place: &Place,
    pending: &Pending,
    answer: impl Fn(Request) -> Option<R>,
) -> io::Result<()> {
    let may_change = place.peer().may_change;
    let mut reader = BufReader::new(Timed::new(stream, PATIENCE));
    let mut line = String::new();
    loop {
        line.clear();
        reader.get_mut().give(PATIENCE);
        if (&mut reader).take(LONGEST_REQUEST).read_line(&mut line)? == 0 {
            return Ok(());
        }
        if line.len() as u64 == LONGEST_REQUEST && !line.ends_with('\n') {
            // The rest must not be read as further requests.
            let message = format!("the request is longer than {LONGEST_REQUEST} bytes");
            reader.get_mut().write_all(format!("{}\n", json_error(&message)).as_bytes())?;
            return Ok(());
        }
        let in_flight = pending.begin();
        let read = Instant::now();
        let refused = |message: String| Reply::Answer(Answer::Error(message));
        let mut stream_share = None;
        let reply = match serde_json::from_str::<Request>(&line) {
            Ok(request) if !may_change && !request.is_read_only() => refused(format!(
                "only its owner and root may change it; members of the group {GROUP} may look"
            )),
            Ok(request) => match shares(place, &request) {
                Err(why) => refused(why),
                Ok((_turn, share)) => {
                    stream_share = share;
                    let reply = answer(request).map(Into::into);
                    reply.unwrap_or_else(|| refused("it has just ended".to_owned()))
                }
            },
            Err(error) => refused(format!("not a request: {error}")),
        };
        let (answer, body) = match reply {
            Reply::Answer(answer) => (answer, None),
            Reply::Stream(head, body) => (Answer::Ok(head), Some(body)),
        };
        let mut text = serde_json::to_string(&answer)?;
        text.push('\n');
        let timed = reader.get_mut();
        timed.extend(read.elapsed());
        timed.write_all(text.as_bytes())?;
        drop(in_flight);
        if let Some(body) = body {
            let ended = body(&mut Outlet::new(stream));
            drop(stream_share);
            return ended;
        }
    }
}

/// Resources of a member's request: a turn until its answer, and a place among captures and traces.
///
/// # Errors
/// Returns the limit that is reached.
fn shares(place: &Place, request: &Request) -> Result<(Option<Share>, Option<Share>), String> {
    let turn = place.turn(PATIENCE)?;
    let stream = if request.is_stream() { place.stream()? } else { None };
    Ok((turn, stream))
}

/// Asks the daemon at `path`.
///
/// # Errors
/// Fails if the daemon does not answer or refuses, or belongs to another user.
pub fn ask(path: &Path, request: Request) -> Result<Value, SocketError> {
    let (answer, _) = exchange(path, &request)?;
    Ok(answer)
}

/// Asks the daemon at `path` for a document of the contract.
///
/// # Errors
/// As [`ask`], and if the daemon follows another contract.
pub fn ask_for<T: Document>(path: &Path, request: Request) -> Result<T, SocketError> {
    Ok(wattline_status::read(ask(path, request)?)?)
}

/// Asks the daemon at `path` for a stream. Returns its answer and the source of the rest.
///
/// # Errors
/// As [`ask`].
pub fn listen(path: &Path, request: &Request) -> Result<(Value, Inlet), SocketError> {
    let (answer, inlet) = exchange(path, request)?;
    inlet
        .wait_without_end()
        .map_err(|source| SocketError::Silent { path: path.to_owned(), source })?;
    Ok((answer, inlet))
}

fn exchange(path: &Path, request: &Request) -> Result<(Value, Inlet), SocketError> {
    let stream = connect(path)?;
    let begin = || -> io::Result<(Answer, Inlet)> {
        // The daemon may take up to its own time limit to answer.
        stream.set_read_timeout(Some(2 * PATIENCE))?;
        let mut text = serde_json::to_string(request)?;
        text.push('\n');
        let sent = (&stream).write_all(text.as_bytes());
        let mut inlet = Inlet::new(stream);
        // A daemon without a place for this connection reports that and hangs up before it is
        // asked.
        let line = inlet.answer();
        let answer = serde_json::from_value(if line.is_err() { sent.and(line)? } else { line? })?;
        Ok((answer, inlet))
    };
    match begin().map_err(|source| SocketError::Silent { path: path.to_owned(), source })? {
        (Answer::Ok(value), inlet) => Ok((value, inlet)),
        (Answer::Error(message), _) => Err(SocketError::Refused(message)),
    }
}

/// Finds the socket of the only running daemon in the usual directories: this user's and root's.
///
/// # Errors
/// Fails if there is none, or more than one, or none that this user may ask.
pub fn find() -> Result<PathBuf, SocketError> {
    find_in(&[directory(), PathBuf::from(OF_ROOT)])
}

fn find_in(directories: &[PathBuf]) -> Result<PathBuf, SocketError> {
    let denied = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    let mut living: Vec<PathBuf> = Vec::new();
    let (mut forbidden, mut untrusted) = (None, None);
    for directory in directories {
        if let Err(error) = check(directory) {
            // Another directory may have it.
            untrusted.get_or_insert(error);
            continue;
        }
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) => {
                if denied(&error) {
                    forbidden.get_or_insert_with(|| directory.clone());
                }
                continue;
            }
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.extension().is_none_or(|it| it != "sock") || living.contains(&path) {
                continue;
            }
            match reach(&path) {
                Ok(_) => living.push(path),
                Err(error) if denied(&error) => {
                    forbidden.get_or_insert(path);
                }
                Err(_) => {}
            }
        }
    }
    match (living.len(), untrusted, forbidden) {
        (0, Some(error), _) => Err(error),
        (0, None, Some(path)) => Err(SocketError::NotAllowed { path }),
        (0, None, None) => Err(SocketError::None(directories.first().cloned().unwrap_or_default())),
        (1, ..) => Ok(living.swap_remove(0)),
        _ => Err(SocketError::Several(
            living.iter().map(|path| path.display().to_string()).collect(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places;

    #[test]
    fn only_a_dead_daemon_s_socket_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("notes.txt");
        std::fs::write(&file, "dear").unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for path in [&file, &link, &directory.path().to_path_buf()] {
            let Err(SocketError::Bind { source, .. }) = Server::bind(path) else {
                panic!("bound in place of {}", path.display())
            };
            assert!(source.to_string().contains("not a socket"), "{source}");
        }
        assert_eq!(std::fs::read(&link).unwrap(), b"dear");
        let dead = directory.path().join("dead.sock");
        drop(UnixListener::bind(&dead).unwrap());
        assert!(dead.exists());
        Server::bind(&dead).unwrap();
    }

    /// The rest of an overlong request is not read as further requests.
    #[test]
    fn request_over_the_limit_ends_the_connection() {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::bind(&directory.path().join("s.sock")).unwrap();
        let (asked, requests) = std::sync::mpsc::channel();
        let answer = move |request: Request| {
            let _ = asked.send(request);
            Some(Answer::Ok(Value::Null))
        };
        serve_all(server.listener().unwrap(), answer).unwrap();
        let mut stream = UnixStream::connect(server.path()).unwrap();
        let mut text = " ".repeat(LONGEST_REQUEST as usize);
        text += "{\"request\":\"stop\"}\n";
        // The connection may end before all is written.
        let _ = stream.write_all(text.as_bytes());
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.contains("the request is longer than 65536 bytes"), "{line}");
        assert!(matches!(reader.read_line(&mut line), Ok(0) | Err(_)), "{line}");
        assert!(requests.try_recv().is_err());
    }

    /// The time between bind(2) and the final mode and group of the file gives access to no other
    /// user.
    #[test]
    fn socket_file_is_never_open_to_others() {
        use rustix::fs::Mode;
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
        // The umask belongs to the process: other tests only get wider modes meanwhile.
        let umask = rustix::process::umask(Mode::empty());
        let path = directory.path().join("bound.sock");
        let bound = bind_closed(&path).unwrap();
        let open = directory.path().join("open.sock");
        let server = Server::bind(&open).unwrap();
        rustix::process::umask(umask);
        assert_eq!(mode(&path), 0o600);
        let refused = UnixStream::connect(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        drop(bound);
        assert!(matches!(mode(&open), 0o600 | 0o660), "{:o}", mode(&open));
        UnixStream::connect(&open).unwrap();
        drop(server);
    }

    #[test]
    fn sockets_of_killed_daemons_are_removed_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        // No process has such a number (PID_MAX_LIMIT).
        let dead = ["edge.4194305.sock", "wattline.x.4194306.sock"];
        let kept = ["edge.1.sock", "other.sock", "edge.4194305.txt"];
        for name in dead.into_iter().chain(kept) {
            drop(UnixListener::bind(at(name)).unwrap());
        }
        std::fs::write(at("notes.4194305.sock"), "dear").unwrap();
        let living = UnixListener::bind(at("edge.4194307.sock")).unwrap();
        remove_dead(directory.path());
        assert!(dead.iter().all(|name| !at(name).exists()));
        assert!(kept.iter().all(|name| at(name).exists()));
        assert!(at("notes.4194305.sock").exists() && at("edge.4194307.sock").exists());
        drop(living);
    }

    #[test]
    fn only_living_daemon_is_found_in_either_directory() {
        let (own, of_root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let both = [own.path().to_owned(), of_root.path().to_owned()];
        assert!(matches!(find_in(&both), Err(SocketError::None(path)) if path == own.path()));
        drop(UnixListener::bind(own.path().join("dead.sock")).unwrap());
        let _one = UnixListener::bind(of_root.path().join("edge.1.sock")).unwrap();
        assert_eq!(find_in(&both).unwrap(), of_root.path().join("edge.1.sock"));
        // Run by root, both are the same directory.
        let same = [both[1].clone(), both[1].clone()];
        assert_eq!(find_in(&same).unwrap(), of_root.path().join("edge.1.sock"));
        let _other = UnixListener::bind(own.path().join("edge.2.sock")).unwrap();
        assert!(matches!(find_in(&both), Err(SocketError::Several(all)) if all.len() == 2));
    }

    /// Returns the answers to a connection that sends these bytes and then nothing more.
    fn answers(bytes: &[u8]) -> Vec<u8> {
        let (here, there) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            let server = scope.spawn(move || {
                let place = Places::default().take(Peer::from_stream(&there)).unwrap();
                let _ = serve(&there, &place, &Pending::default(), |request| match request {
                    Request::Active { workers } => Some(Answer::Ok(workers.into())),
                    _ => None,
                });
            });
            let mut writer = &here;
            // The other side may have hung up, or wait until its answers are read.
            here.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
            let _ = writer.write_all(bytes);
            let _ = here.shutdown(std::net::Shutdown::Write);
            let mut answers = Vec::new();
            let _ = (&here).read_to_end(&mut answers);
            server.join().unwrap();
            answers
        })
    }

    #[test]
    fn every_line_has_one_answer() {
        const GOOD: &[u8] = b"{\"request\":\"active\",\"workers\":3}\n{\"request\":\"stats\"}\n";
        bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
            let mut mutated = GOOD.to_vec();
            for pair in bytes.chunks_exact(2) {
                let at = usize::from(pair[0]) % mutated.len();
                mutated[at] = pair[1];
            }
            for asked in [bytes, &mutated] {
                let answers = answers(asked);
                let lines: Vec<&[u8]> = answers.split_inclusive(|byte| *byte == b'\n').collect();
                for line in &lines {
                    assert!(serde_json::from_slice::<Answer>(line).is_ok(), "{line:?}");
                }
                // Invalid UTF-8 ends the connection.
                let requests = asked.split_inclusive(|byte| *byte == b'\n');
                let text = requests.take_while(|line| std::str::from_utf8(line).is_ok());
                assert_eq!(lines.len(), text.count());
            }
        });
    }

    /// Silent connections keep their places until they are cut off; others get an error.
    #[test]
    fn excess_connections_are_refused_until_silent_ones_are_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.sock");
        let server = Server::bind(&path).unwrap();
        let _pending =
            serve_all(server.listener().unwrap(), |_| Some(Answer::Ok(7.into()))).unwrap();
        assert_eq!(ask(&path, Request::Stats).unwrap(), 7);
        let crowd: Vec<_> =
            (0..2 * places::ALL).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let refused = (crowd.iter().rev()).find_map(|stream| {
            stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).ok().filter(|read| *read > 0)?;
            Some(line)
        });
        assert!(refused.unwrap().contains("64 connections are open"));
        drop(crowd);
        wattline_needs::until("there is room again", || ask(&path, Request::Stats).is_ok());
    }

    /// A process that ended in the middle of its last answer would leave the client with nothing.
    #[test]
    fn process_ends_after_its_answer() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.sock");
        let server = Server::bind(&path).unwrap();
        let (asked, was_asked) = std::sync::mpsc::channel();
        let slow = move |_| {
            asked.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(100));
            Some(Answer::Ok(7.into()))
        };
        let pending = serve_all(server.listener().unwrap(), slow).unwrap();
        let stream = UnixStream::connect(&path).unwrap();
        (&stream).write_all(b"{\"request\":\"stop\"}\n").unwrap();
        was_asked.recv().unwrap();
        pending.wait();
        // Everything sent by now can be read at once.
        stream.set_nonblocking(true).unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        assert_eq!(line, "{\"ok\":7}\n");
    }

    /// Connects as a user with only the rights of a group member.
    fn as_member<T: Send>(connect: impl FnOnce() -> T + Send) -> T {
        let other = rustix::process::Uid::from_raw(1234);
        std::thread::scope(|scope| {
            let member = || {
                rustix::thread::set_thread_res_uid(other, other, other).unwrap();
                connect()
            };
            scope.spawn(member).join().unwrap()
        })
    }

    #[test]
    fn members_of_the_group_cannot_keep_root_out() {
        use std::os::unix::fs::PermissionsExt;
        if !rustix::process::geteuid().is_root() {
            return wattline_needs::rights("root, for connections of another user");
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.sock");
        let server = Server::bind(&path).unwrap();
        for (path, mode) in [(directory.path(), 0o755), (path.as_path(), 0o666)] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        // A slow answer that is longer than a socket's buffer.
        let answer = |request| {
            std::thread::sleep(Duration::from_millis(20));
            let large = matches!(request, Request::Graph);
            Some(Answer::Ok(if large { "x".repeat(4 << 20).into() } else { 7.into() }))
        };
        let _pending = serve_all(server.listener().unwrap(), answer).unwrap();
        let texts = ["{", "{\"request\":\"graph\"}\n", "{\"request\":\"stop\"}\n"];
        let held = as_member(|| {
            let connect = |number: usize| {
                let stream = UnixStream::connect(&path).unwrap();
                // A refused connection has been closed.
                let _ = (&stream).write_all(texts[number % texts.len()].as_bytes());
                stream
            };
            (0..2 * places::ALL).map(connect).collect::<Vec<_>>()
        });
        let begun = Instant::now();
        for _ in 0..5 {
            assert_eq!(ask(&path, Request::Stop).unwrap(), 7);
        }
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
        let mut answers = Vec::new();
        for stream in held {
            stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            let mut line = String::new();
            let _ = BufReader::new(&stream).take(1000).read_line(&mut line);
            answers.push(line);
        }
        for refused in ["of this user are open", "only its owner and root may change it"] {
            assert!(answers.iter().any(|line| line.contains(refused)), "{refused}: {answers:?}");
        }
    }

    /// The time limit applies to the whole request, however often a byte comes.
    #[test]
    fn request_that_comes_byte_by_byte_is_cut_off() {
        let (here, there) = UnixStream::pair().unwrap();
        let server = std::thread::spawn(move || {
            let place = Places::default().take(Peer::from_stream(&there)).unwrap();
            let begun = Instant::now();
            let ended = serve(&there, &place, &Pending::default(), |_| Some(Answer::Ok(7.into())));
            (ended.map_err(|error| error.kind()), begun.elapsed())
        });
        while !server.is_finished() && (&here).write_all(b" ").is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
        let (ended, took) = server.join().unwrap();
        assert!(ended.is_err() && (PATIENCE..6 * PATIENCE).contains(&took), "{ended:?} {took:?}");
    }

    #[test]
    fn an_endless_request_ends() {
        let endless = vec![b'['; 3 * LONGEST_REQUEST as usize];
        let answers = answers(&endless);
        assert!(answers.starts_with(b"{\"error\":\"the request is longer than"));
    }

    #[test]
    fn requests_are_answered_and_nonsense_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sub/test.sock");
        let server = Server::bind(&path).unwrap();
        assert!(matches!(Server::bind(&path), Err(SocketError::Bind { .. })), "two at one place");
        let listener = server.listener().unwrap();
        let thread = std::thread::spawn(move || {
            // The first connection was the attempt to bind twice.
            for stream in listener.incoming().take(4) {
                let stream = stream.unwrap();
                let place = Places::default().take(Peer::from_stream(&stream)).unwrap();
                let _ = serve(&stream, &place, &Pending::default(), |request| match request {
                    Request::Active { workers } => Some(Answer::Ok(workers.into())),
                    _ => None,
                });
            }
        });
        assert_eq!(ask(&path, Request::Active { workers: 3 }).unwrap(), 3);
        assert!(matches!(ask(&path, Request::Stop), Err(SocketError::Refused(_))));
        let stream = UnixStream::connect(&path).unwrap();
        (&stream).write_all(b"{\"request\":\"dance\"}\nnonsense\n").unwrap();
        let mut lines = BufReader::new(&stream).lines();
        for _ in 0..2 {
            assert!(lines.next().unwrap().unwrap().contains("not a request"));
        }
        stream.shutdown(std::net::Shutdown::Both).unwrap();
        thread.join().unwrap();
        drop(server);
        assert!(!path.exists(), "the socket's file stays");
    }
}
