//! Blocking wait of a worker: poll(2) over its ports' descriptors and a wake-up.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wattline_dataplane::port::Waiter;

/// Events with which poll(2) reports a descriptor that has failed.
const BROKEN: libc::c_short = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;

/// Blocks on any number of descriptors, a wake-up and a timeout.
///
/// A wake-up without a waiting thread is kept: the next wait returns at once. So no work is missed
/// if its producer first publishes it and then wakes.
pub struct PollWaiter {
    wake_up: Arc<OwnedFd>,
    shared: Arc<Shared>,
    /// Argument of poll(2), the wake-up first. Kept between waits: a worker under little load waits
    /// as often as packets come.
    watched: Vec<libc::pollfd>,
    keeps_broken: bool,
}

/// Wakes a [`PollWaiter`] from another thread; does not block.
#[derive(Debug, Clone)]
pub struct Waker {
    wake_up: Arc<OwnedFd>,
    shared: Arc<Shared>,
}

/// Descriptors of a waiter, which other threads change.
#[derive(Debug, Default)]
struct Shared {
    /// True if the waiter's list is out of date. Set while `lists` is locked.
    changed: AtomicBool,
    lists: Mutex<Lists>,
}

#[derive(Default)]
struct Lists {
    /// Own duplicates with the number of the port, so that a port can be closed meanwhile. The
    /// thread that replaces them closes them: a worker that never waits would keep them.
    ports: Vec<(u16, OwnedFd)>,
    /// The next list for poll(2), built by other threads so that the waiter allocates nothing.
    watched: Vec<libc::pollfd>,
}

impl fmt::Debug for Lists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lists").field("ports", &self.ports).finish_non_exhaustive()
    }
}

impl Shared {
    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PollWaiter {
    /// Creates a waiter over the given descriptors, which are duplicated: a socket stays open until
    /// the waiter, too, is dropped.
    ///
    /// # Errors
    /// When the process runs out of descriptors.
    pub fn new<'a>(descriptors: impl IntoIterator<Item = BorrowedFd<'a>>) -> Result<Self, Errno> {
        Self::for_ports(descriptors.into_iter().map(|descriptor| (0, descriptor)))
    }

    /// Does the same for descriptors of ports, each with the number of its port, so that a port's
    /// descriptors can be replaced ([`Waker::watch`]).
    ///
    /// # Errors
    /// When the process runs out of descriptors.
    pub fn for_ports<'a>(
        ports: impl IntoIterator<Item = (u16, BorrowedFd<'a>)>,
    ) -> Result<Self, Errno> {
        let wake_up = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let ports = ports
            .into_iter()
            .map(|(port, descriptor)| Ok((port, rustix::io::fcntl_dupfd_cloexec(descriptor, 0)?)))
            .collect::<Result<Vec<_>, _>>()?;
        let watched = watched(&wake_up, &ports);
        let lists = Mutex::new(Lists { ports, watched: Vec::new() });
        let shared = Arc::new(Shared { changed: AtomicBool::new(false), lists });
        Ok(Self { wake_up, shared, watched, keeps_broken: false })
    }

    /// Keeps watching descriptors in error: for sockets that recover once their owner has read the
    /// error, such as a netlink socket after an overrun.
    #[must_use]
    pub fn keeping_broken(mut self) -> Self {
        self.keeps_broken = true;
        self
    }

    /// Returns a handle to end its waits.
    pub fn waker(&self) -> Waker {
        Waker { wake_up: Arc::clone(&self.wake_up), shared: Arc::clone(&self.shared) }
    }

    /// Takes the list that others have built, and leaves the old one to them.
    #[cold]
    fn change(&mut self) {
        let mut lists = self.shared.lists();
        self.shared.changed.store(false, Ordering::Relaxed);
        std::mem::swap(&mut self.watched, &mut lists.watched);
    }

    /// Stops watching descriptors that have failed.
    #[cold]
    fn drop_broken(&mut self) {
        let mut lists = self.shared.lists();
        // The numbers may belong to other files by now.
        if self.shared.changed.load(Ordering::Relaxed) {
            return;
        }
        let mut answers = self.watched.iter().skip(1);
        lists.ports.retain(|_| answers.next().is_none_or(is_healthy));
        self.watched = watched(&self.wake_up, &lists.ports);
    }

    #[cfg(test)]
    fn ports(&self) -> Vec<u16> {
        self.shared.lists().ports.iter().map(|(port, _)| *port).collect()
    }
}

impl Waker {
    /// Ends the present wait, or the next one.
    pub fn wake(&self) {
        // The only possible failure is a counter at its maximum: a wake-up is already pending.
        let _ = rustix::io::write(&self.wake_up, &1_u64.to_ne_bytes());
    }

    /// Replaces the watched descriptors of a port from the next wait on, closes the old ones, and
    /// ends the present wait.
    pub fn watch(&self, port: u16, descriptors: Vec<OwnedFd>) {
        let mut lists = self.shared.lists();
        let Lists { ports, watched: new } = &mut *lists;
        let (old, kept): (Vec<_>, Vec<_>) = ports.drain(..).partition(|(of, _)| *of == port);
        *ports = kept;
        ports.extend(descriptors.into_iter().map(|descriptor| (port, descriptor)));
        *new = watched(&self.wake_up, ports);
        self.shared.changed.store(true, Ordering::Release);
        drop(lists);
        self.wake();
        // Last, since closing a socket takes a while. The wake-up ends a present wait.
        drop(old);
    }
}

fn is_healthy(port: &libc::pollfd) -> bool {
    port.revents & BROKEN == 0
}

fn watched(wake_up: &OwnedFd, ports: &[(u16, OwnedFd)]) -> Vec<libc::pollfd> {
    let readable = |descriptor: &OwnedFd| libc::pollfd {
        fd: descriptor.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let ports = ports.iter().map(|(_, descriptor)| descriptor);
    std::iter::once(wake_up).chain(ports).map(readable).collect()
}

/// Calls poll(2); returns false if it ended without an answer.
fn poll(watched: &mut [libc::pollfd], timeout: Duration) -> bool {
    // Times beyond the kernel's range count as forever.
    let timeout = libc::time_t::try_from(timeout.as_secs())
        .ok()
        .map(|tv_sec| libc::timespec { tv_sec, tv_nsec: timeout.subsec_nanos().into() });
    let until = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let count = watched.len() as libc::nfds_t;
    // SAFETY: the kernel reads and writes `count` entries at `watched` and reads the timeout,
    // both of which outlive the call; there is no signal mask.
    #[allow(unsafe_code)]
    let result = unsafe { libc::ppoll(watched.as_mut_ptr(), count, until, std::ptr::null()) };
    result >= 0
}

impl Waiter for PollWaiter {
    fn wait(&mut self, timeout: Duration) {
        if self.shared.changed.load(Ordering::Acquire) {
            self.change();
        }
        // A signal or an exhausted kernel ends the wait early; the worker polls its queues and
        // waits again.
        if !poll(&mut self.watched, timeout) {
            return;
        }
        let [wake_up, ports @ ..] = self.watched.as_slice() else { return };
        if wake_up.revents != 0 {
            let _ = rustix::io::read(&self.wake_up, &mut [0_u8; 8]);
        }
        if self.keeps_broken || ports.iter().all(is_healthy) {
            return;
        }
        // A failed descriptor would end every wait at once, so it is no longer watched. Its port
        // reports the failure by itself.
        self.drop_broken();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use rustix::pipe::pipe;
    use std::sync::mpsc;

    /// Longer than any test takes: a wait that does not end would hang visibly.
    const FOR_EVER: Duration = Duration::from_secs(3600);

    #[test]
    fn wake_up_before_the_wait_is_not_missed() {
        let mut waiter = PollWaiter::new([]).unwrap();
        let waker = waiter.waker();
        waker.wake();
        waker.wake();
        waiter.wait(FOR_EVER);
    }

    #[test]
    fn wake_up_from_another_thread_ends_the_wait() {
        let mut waiter = PollWaiter::new([]).unwrap();
        let waker = waiter.waker();
        let (started, start) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            started.send(()).unwrap();
            waiter.wait(FOR_EVER);
        });
        start.recv().unwrap();
        waker.wake();
        thread.join().unwrap();
    }

    #[test]
    fn readable_port_ends_the_wait_and_a_broken_port_does_so_once() {
        let (read, write) = pipe().unwrap();
        let mut waiter = PollWaiter::new([read.as_fd()]).unwrap();
        rustix::io::write(&write, &[1]).unwrap();
        waiter.wait(FOR_EVER);
        assert_eq!(waiter.ports().len(), 1);
        // The writer closes its end: reported once, then no longer watched.
        drop(write);
        waiter.wait(FOR_EVER);
        assert!(waiter.ports().is_empty());
        waiter.wait(Duration::ZERO);
    }

    /// A socket that recovers from an error, like a netlink socket after an overrun.
    #[test]
    fn socket_in_error_remains_watched_on_request() {
        let peer_address = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(peer_address).unwrap();
        let mut waiter = PollWaiter::new([socket.as_fd()]).unwrap().keeping_broken();
        socket.send(b"unanswered").unwrap();
        waiter.wait(FOR_EVER);
        assert!(socket.take_error().unwrap().is_some());
        assert_eq!(waiter.ports().len(), 1);
        let peer = std::net::UdpSocket::bind(peer_address).unwrap();
        peer.send_to(b"answer", socket.local_addr().unwrap()).unwrap();
        waiter.wait(FOR_EVER);
        assert_eq!(socket.recv(&mut [0; 16]).unwrap(), 6);
    }

    #[test]
    fn descriptors_of_a_port_are_replaced_during_a_wait() {
        let (old, _old_writer) = pipe().unwrap();
        let (other, other_writer) = pipe().unwrap();
        let (new, new_writer) = pipe().unwrap();
        let mut waiter = PollWaiter::for_ports([(0, old.as_fd()), (1, other.as_fd())]).unwrap();
        let waker = waiter.waker();
        let (started, start) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            started.send(()).unwrap();
            waiter.wait(FOR_EVER);
            // The new one is watched now, and the other port's is still watched.
            for _ in 0..2 {
                waiter.wait(FOR_EVER);
                started.send(()).unwrap();
            }
            waiter
        });
        start.recv().unwrap();
        waker.watch(0, vec![new]);
        rustix::io::write(&new_writer, &[1]).unwrap();
        start.recv().unwrap();
        rustix::io::write(&other_writer, &[1]).unwrap();
        start.recv().unwrap();
        let waiter = thread.join().unwrap();
        assert_eq!(waiter.ports(), [1, 0]);
    }

    /// A polling worker never waits: its old descriptors are closed nevertheless.
    #[test]
    fn replaced_descriptor_is_closed_at_once() {
        let (old, writer) = pipe().unwrap();
        let waiter = PollWaiter::for_ports([(0, old.as_fd())]).unwrap();
        drop(old);
        assert_eq!(rustix::io::write(&writer, &[1]), Ok(1), "still read");
        waiter.waker().watch(0, Vec::new());
        assert_eq!(rustix::io::write(&writer, &[1]), Err(Errno::PIPE));
    }

    #[test]
    fn longest_timeout_is_accepted() {
        let mut waiter = PollWaiter::new([]).unwrap();
        waiter.waker().wake();
        waiter.wait(Duration::MAX);
    }
}
