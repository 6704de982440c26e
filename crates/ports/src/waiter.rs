//! What a worker blocks on: poll(2) over its ports' descriptors and a wake-up.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::sync::Arc;
use std::time::Duration;
use wattline_dataplane::port::Waiter;

/// Blocks on any number of descriptors, a wake-up and a timeout.
///
/// A wake-up that is rung while nobody waits is kept: the next wait returns at once. So
/// whoever hands over work first publishes it and then rings, and none is missed.
pub struct PollWaiter {
    wake_up: Arc<OwnedFd>,
    /// Our own duplicates, so that a port that is closed meanwhile does no harm.
    ports: Vec<OwnedFd>,
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
            .collect::<Result<_, _>>()?;
        Ok(Self { wake_up, ports })
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

impl Waiter for PollWaiter {
    fn wait(&mut self, timeout: Duration) {
        let mut watched: Vec<PollFd<'_>> = std::iter::once(&*self.wake_up)
            .chain(&self.ports)
            .map(|descriptor| PollFd::from_borrowed_fd(descriptor.as_fd(), PollFlags::IN))
            .collect();
        // Longer than the kernel can count is as good as for ever.
        let timeout = Timespec::try_from(timeout).ok();
        // A signal or an exhausted kernel ends the wait early; the worker looks and waits again.
        if poll(&mut watched, timeout.as_ref()).is_err() {
            return;
        }
        let rung = !watched[0].revents().is_empty();
        // A descriptor in error would end every wait at once: it is watched no more, and its
        // port reports the failure by itself.
        let broken = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        let healthy: Vec<bool> =
            watched[1..].iter().map(|port| !port.revents().intersects(broken)).collect();
        drop(watched);
        if rung {
            let _ = rustix::io::read(&self.wake_up, &mut [0_u8; 8]);
        }
        if healthy.contains(&false) {
            let mut healthy = healthy.into_iter();
            self.ports.retain(|_| healthy.next().unwrap_or(true));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn the_longest_timeout_is_accepted() {
        let mut waiter = PollWaiter::new([]).unwrap();
        waiter.waker().wake();
        waiter.wait(Duration::MAX);
    }
}
