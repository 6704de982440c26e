//! What a worker blocks on: poll(2) over its ports' descriptors and a wake-up.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::sync::Arc;
use std::time::Duration;
use wattline_dataplane::port::Waiter;

/// What poll(2) says of a descriptor that has failed.
const BROKEN: libc::c_short = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;

/// Blocks on any number of descriptors, a wake-up and a timeout.
///
/// A wake-up that is rung while nobody waits is kept: the next wait returns at once. So
/// whoever hands over work first publishes it and then rings, and none is missed.
pub struct PollWaiter {
    wake_up: Arc<OwnedFd>,
    /// Our own duplicates, so that a port that is closed meanwhile does no harm.
    ports: Vec<OwnedFd>,
    /// What poll(2) is given, the wake-up first. Kept, for a worker under little load waits as
    /// often as packets come.
    watched: Vec<libc::pollfd>,
    keeps_broken: bool,
}

/// Rings a [`PollWaiter`] from another thread; does not block.
#[derive(Debug, Clone)]
pub struct Waker(Arc<OwnedFd>);

impl PollWaiter {
    /// A waiter over the given descriptors, which are duplicated: a socket stays open
    /// until the waiter, too, is dropped.
    ///
    /// # Errors
    /// When the process runs out of descriptors.
    pub fn new<'a>(ports: impl IntoIterator<Item = BorrowedFd<'a>>) -> Result<Self, Errno> {
        let wake_up = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let ports = ports
            .into_iter()
            .map(|port| rustix::io::fcntl_dupfd_cloexec(port, 0))
            .collect::<Result<Vec<_>, _>>()?;
        let watched = watched(&wake_up, &ports);
        Ok(Self { wake_up, ports, watched, keeps_broken: false })
    }

    /// Goes on watching descriptors in error: for those that are well again once their owner has
    /// read the error, such as a netlink socket that was overrun.
    #[must_use]
    pub fn keeping_broken(mut self) -> Self {
        self.keeps_broken = true;
        self
    }

    /// A handle to end its waits.
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.wake_up))
    }
}

impl Waker {
    /// Ends the wait that is on, or the next one.
    pub fn wake(&self) {
        // The only possible failure is a counter at its maximum: it is rung already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

fn watched(wake_up: &OwnedFd, ports: &[OwnedFd]) -> Vec<libc::pollfd> {
    let readable = |descriptor: &OwnedFd| libc::pollfd {
        fd: descriptor.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    std::iter::once(wake_up).chain(ports).map(readable).collect()
}

/// poll(2); false when it ended without an answer.
fn poll(watched: &mut [libc::pollfd], timeout: Duration) -> bool {
    // Longer than the kernel can count is as good as for ever.
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
        // A signal or an exhausted kernel ends the wait early; the worker looks and waits again.
        if !poll(&mut self.watched, timeout) {
            return;
        }
        let [wake_up, ports @ ..] = self.watched.as_slice() else { return };
        if wake_up.revents != 0 {
            let _ = rustix::io::read(&self.wake_up, &mut [0_u8; 8]);
        }
        let healthy = |port: &libc::pollfd| port.revents & BROKEN == 0;
        if self.keeps_broken || ports.iter().all(healthy) {
            return;
        }
        // It would end every wait at once: it is watched no more, and its port reports the
        // failure by itself.
        let mut ports = ports.iter();
        self.ports.retain(|_| ports.next().is_none_or(healthy));
        self.watched = watched(&self.wake_up, &self.ports);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use rustix::pipe::pipe;
    use std::sync::mpsc;

    /// Longer than any test takes: a wait that is not ended would hang visibly.
    const FOR_EVER: Duration = Duration::from_secs(3600);

    #[test]
    fn a_wake_up_rung_before_the_wait_is_not_missed() {
        let mut waiter = PollWaiter::new([]).unwrap();
        let waker = waiter.waker();
        waker.wake();
        waker.wake();
        waiter.wait(FOR_EVER);
    }

    #[test]
    fn a_wake_up_from_another_thread_ends_the_wait() {
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
    fn a_readable_port_ends_the_wait_and_a_broken_one_does_so_once() {
        let (read, write) = pipe().unwrap();
        let mut waiter = PollWaiter::new([read.as_fd()]).unwrap();
        rustix::io::write(&write, &[1]).unwrap();
        waiter.wait(FOR_EVER);
        assert_eq!(waiter.ports.len(), 1);
        // The writer hangs up: reported once, then no longer watched.
        drop(write);
        waiter.wait(FOR_EVER);
        assert!(waiter.ports.is_empty());
        waiter.wait(Duration::ZERO);
    }

    /// A socket in error that is well again, as a netlink socket is after an overrun.
    #[test]
    fn a_socket_whose_error_is_read_is_watched_on_where_that_is_asked_for() {
        let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(nobody).unwrap();
        let mut waiter = PollWaiter::new([socket.as_fd()]).unwrap().keeping_broken();
        socket.send(b"to nobody").unwrap();
        waiter.wait(FOR_EVER);
        assert!(socket.take_error().unwrap().is_some());
        assert_eq!(waiter.ports.len(), 1);
        let somebody = std::net::UdpSocket::bind(nobody).unwrap();
        somebody.send_to(b"answer", socket.local_addr().unwrap()).unwrap();
        waiter.wait(FOR_EVER);
        assert_eq!(socket.recv(&mut [0; 16]).unwrap(), 6);
    }

    #[test]
    fn the_longest_timeout_is_accepted() {
        let mut waiter = PollWaiter::new([]).unwrap();
        waiter.waker().wake();
        waiter.wait(Duration::MAX);
    }
}
