//! A service manager with a store of descriptors, and traffic whose packets are counted.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use serde_json::Value;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wattline_daemon::socket::{Request, ask};
use wattline_needs::KillOnDrop;
use wattline_router::{Extensions, Router};
use wattline_testbed::namespace::Namespace;

/// Environment variable with the path of the configuration, for the copy of the test program that
/// is the router.
const CONFIG: &str = "WATTLINE_RESTART_TEST_CONFIG";
const LIMIT: Duration = Duration::from_secs(60);

/// Runs the router if this process was started for it.
pub fn serve() {
    let Some(config) = std::env::var_os(CONFIG) else { return };
    let config = Path::new(&config);
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let extensions = Extensions { applications: &[], platforms: &[], policies: Default::default() };
    let router = Router::start(config, extensions, Box::new(|_| {})).unwrap();
    let (account, outcome) = router.run();
    let text = serde_json::to_string(&account).unwrap();
    std::fs::write(config.with_file_name("account"), text).unwrap();
    outcome.unwrap();
}

type Store = Arc<Mutex<Vec<(String, OwnedFd)>>>;

/// Starts routers in a namespace, one after another, and stores their descriptors if enabled.
pub struct Manager<'a> {
    namespace: &'a Namespace,
    folder: tempfile::TempDir,
    store: Store,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A router started by a manager.
pub struct Started {
    child: KillOnDrop,
    folder: PathBuf,
}

impl<'a> Manager<'a> {
    pub fn new(namespace: &'a Namespace, keeps: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        let (store, ends) = (Store::default(), Arc::new(AtomicBool::new(false)));
        let (its, until) = (store.clone(), ends.clone());
        let listen = move || {
            while !until.load(Ordering::Acquire) {
                let wait = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
                if poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&wait)) == Ok(1) {
                    hear(&socket, &its, keeps);
                }
            }
        };
        let thread = Some(std::thread::spawn(listen));
        Self { namespace, folder, store, ends, thread }
    }

    /// Returns the number of descriptors in the store. A message may be in flight.
    pub fn stored(&self) -> usize {
        std::thread::sleep(Duration::from_millis(50));
        self.store.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub fn start(&mut self, configuration: impl FnOnce(&Path) -> String) -> Started {
        let folder = self.folder.path();
        let text = configuration(&folder.join("socket"));
        std::fs::write(folder.join("router.toml"), text).unwrap();
        let store = self.store.lock().unwrap();
        // The shell moves the descriptors to their expected numbers and executes the program.
        let mut script = format!("export LISTEN_PID=$$ LISTEN_FDS={};", store.len());
        let names: Vec<&str> = store.iter().map(|(name, _)| name.as_str()).collect();
        script += &format!("export LISTEN_FDNAMES={}; exec \"$0\" \"$@\"", names.join(":"));
        let mut inherited = Vec::new();
        for (place, (_, descriptor)) in (3..).zip(store.iter()) {
            // Far from their final numbers, so that none overwrites another.
            let far = rustix::io::fcntl_dupfd_cloexec(descriptor, 100).unwrap();
            rustix::io::fcntl_setfd(&far, rustix::io::FdFlags::empty()).unwrap();
            script += &format!(" {place}<&{0} {0}<&-", far.as_raw_fd());
            inherited.push(far);
        }
        let program = std::env::current_exe().unwrap();
        let mut command = self.namespace.command("bash");
        command.args(["-c", &script]).arg(program);
        command.args(["--exact", "the_router", "--ignored", "--nocapture"]);
        command.env(CONFIG, folder.join("router.toml"));
        command.env("NOTIFY_SOCKET", folder.join("notify"));
        let log = std::fs::File::options().create(true).append(true).open(folder.join("log"));
        let log = log.unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log).stdin(Stdio::null());
        let mut started =
            Started { child: KillOnDrop(command.spawn().unwrap()), folder: folder.to_owned() };
        drop((store, inherited));
        let deadline = Instant::now() + LIMIT;
        while ask(&started.folder.join("socket"), Request::Stats).is_err() {
            let ended = started.child.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < deadline, "{}", started.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        started
    }
}

impl Drop for Manager<'_> {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Handles a daemon's notification, as systemd's service_notify_message().
fn hear(socket: &UnixDatagram, store: &Store, keeps: bool) {
    let mut text = [0; 512];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(&mut text)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let Ok(got) = rustix::net::recvmsg(socket, &mut into, &mut ancillary, flags) else { return };
    // Descriptors that are not stored are closed here.
    let mut descriptors: Vec<OwnedFd> = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(more) = message {
            descriptors.extend(more);
        }
    }
    let message = String::from_utf8_lossy(&text[..got.bytes]).into_owned();
    let value =
        |key: &str| message.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let Some(name) = value("FDNAME").map(str::to_owned) else { return };
    let mut store = store.lock().unwrap();
    if value("FDSTORE") == Some("1") && keeps {
        store.extend(descriptors.into_iter().map(|descriptor| (name.clone(), descriptor)));
    } else if value("FDSTOREREMOVE") == Some("1") {
        store.retain(|(of, _)| *of != name);
    }
}

impl Started {
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Stops the router in good order and returns its totals.
    pub fn stop(mut self) -> Value {
        ask(&self.folder.join("socket"), Request::Stop).unwrap();
        assert!(self.child.wait().unwrap().success(), "{}", self.log());
        let account = std::fs::read_to_string(self.folder.join("account")).unwrap();
        serde_json::from_str(&account).unwrap()
    }
}

/// Numbered packets from one namespace to another, with a limited number in flight.
pub struct Traffic {
    sent: Arc<AtomicU64>,
    heard: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// Largest number of packets in flight: a quarter of a veth's ring, the smallest queue here.
    pub const UNDER_WAY: u64 = 64;
    const PORT: u16 = 7100;
    /// Bytes of a receiver's buffer, far more than the packets in flight need.
    const BUFFER: usize = 8 << 20;
    /// Time between two packets, which are evenly spaced if the machine is fast enough.
    const PAUSE: Duration = Duration::from_micros(50);
    /// Time after which packets in flight count as lost and are replaced. It is far longer than a
    /// busy machine takes, since packets that are given up but still queued would fill the rings.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// Starts the traffic.
    pub fn start(from: &Namespace, to: &Namespace, at: IpAddr) -> Self {
        let any = if at.is_ipv4() { IpAddr::from([0; 4]) } else { Ipv6Addr::UNSPECIFIED.into() };
        let bind = |port| move || UdpSocket::bind(SocketAddr::new(any, port)).unwrap();
        let receiver = to.enter(bind(Self::PORT)).unwrap();
        let sender = from.enter(bind(0)).unwrap();
        sender.connect(SocketAddr::new(at, Self::PORT)).unwrap();
        // A short packet that passed an XDP program occupies a page: the default buffer cannot hold
        // all packets in flight while the receiver is not scheduled.
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&receiver, Self::BUFFER).unwrap();
        receiver.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let (sent, heard, ends) = <(Arc<AtomicU64>, Arc<AtomicU64>, Arc<AtomicBool>)>::default();
        let (count, until) = (heard.clone(), ends.clone());
        let hear = move || {
            let mut buffer = [0; 64];
            loop {
                match receiver.recv(&mut buffer) {
                    Ok(8) => drop(count.fetch_add(1, Ordering::AcqRel)),
                    Ok(_) => {}
                    // Packets sent before the end have had enough time.
                    Err(_) if until.load(Ordering::Acquire) => break,
                    Err(_) => {}
                }
            }
        };
        let (number, arrived, until) = (sent.clone(), heard.clone(), ends.clone());
        let send = move || {
            let mut lost = 0;
            while !until.load(Ordering::Acquire) {
                let began = Instant::now();
                let out = || number.load(Ordering::Acquire) - arrived.load(Ordering::Acquire);
                // Packets that were given up may still arrive.
                while out().saturating_sub(lost) >= Self::UNDER_WAY {
                    if began.elapsed() > Self::PATIENCE {
                        lost = out();
                    }
                    std::thread::sleep(Self::PAUSE);
                }
                // Counted before it is sent, since it may arrive before the next line is reached.
                let next = number.fetch_add(1, Ordering::AcqRel).to_be_bytes();
                // An earlier ICMP error is reported here.
                while sender.send(&next).is_err() {}
                std::thread::sleep(Self::PAUSE);
            }
        };
        let threads = vec![std::thread::spawn(hear), std::thread::spawn(send)];
        Self { sent, heard, ends, threads }
    }

    /// Waits until `more` further packets have arrived.
    pub fn wait_for(&self, more: u64) {
        let until = self.heard.load(Ordering::Acquire) + more;
        wattline_needs::until("nothing arrives any more", || {
            self.heard.load(Ordering::Acquire) >= until
        });
    }

    /// Returns the numbers of sent and of lost packets.
    pub fn end(mut self) -> (u64, u64) {
        let deadline = Instant::now() + Self::PATIENCE;
        self.ends.store(true, Ordering::Release);
        // Stops the sender first, then waits for packets in flight.
        let sender = self.threads.pop().unwrap();
        sender.join().unwrap();
        let lost = || {
            let sent = self.sent.load(Ordering::Acquire);
            sent - self.heard.load(Ordering::Acquire)
        };
        while lost() > 0 && Instant::now() < deadline + LIMIT / 60 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let result = (self.sent.load(Ordering::Acquire), lost());
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
        result
    }
}
