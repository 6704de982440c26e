//! Writes numbers to disk on a thread of its own: a slow or hanging disk delays the numbers that
//! wait for it, and nothing else.

use super::store::Numbers;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::time::Duration;

/// Longest wait for the first number, and for the last one.
const PATIENCE: Duration = Duration::from_secs(2);

/// Durable store for a number.
pub(super) trait Keep: Send + 'static {
    /// Returns the number written last.
    fn value(&self) -> u64;
    /// Writes another number, which is on disk when this returns.
    fn write(&mut self, value: u64) -> Result<(), String>;
}

impl Keep for Numbers {
    fn value(&self) -> u64 {
        self.value()
    }
    fn write(&mut self, value: u64) -> Result<(), String> {
        self.write(value)
    }
}

/// Store after a write, and the result of the write.
type Written = (Box<dyn Keep>, Result<(), String>);

enum State {
    Idle(Box<dyn Keep>),
    Writing(Receiver<Written>),
    /// The writing thread is gone.
    Lost,
}

/// See the module.
pub(super) struct Reservation {
    state: State,
    written: u64,
}

impl Reservation {
    pub fn new(keeper: impl Keep) -> Self {
        Self { written: keeper.value(), state: State::Idle(Box::new(keeper)) }
    }

    /// Returns the number that is known to be on disk.
    pub fn value(&self) -> u64 {
        self.written
    }

    /// Begins to write a number, unless a write is in progress.
    ///
    /// # Errors
    /// When no thread can be started, or the last one is gone.
    pub fn begin(&mut self, value: u64) -> Result<(), String> {
        let keeper = match std::mem::replace(&mut self.state, State::Lost) {
            State::Idle(keeper) => keeper,
            State::Lost => return Err(self.lose()),
            writing @ State::Writing(_) => {
                self.state = writing;
                return Ok(());
            }
        };
        let (sender, receiver) = sync_channel(1);
        // Sent through a channel, so that the keeper is not lost if no thread can be started.
        let (hand, taken) = sync_channel::<Box<dyn Keep>>(1);
        let work = move || {
            let Ok(mut keeper) = taken.recv() else { return };
            let result = keeper.write(value);
            // The receiver may be gone.
            let _ = sender.send((keeper, result));
        };
        match std::thread::Builder::new().name("sequence".to_owned()).spawn(work) {
            Ok(_) => {
                // The thread waits for the keeper.
                let _ = hand.send(keeper);
                self.state = State::Writing(receiver);
                Ok(())
            }
            Err(error) => {
                self.state = State::Idle(keeper);
                Err(format!("cannot start a thread that writes sequence numbers: {error}"))
            }
        }
    }

    /// Returns the number that has been written meanwhile, if any.
    ///
    /// # Errors
    /// When the write failed; the previous number is still valid.
    pub fn poll(&mut self) -> Result<Option<u64>, String> {
        let State::Writing(receiver) = &self.state else { return Ok(None) };
        match receiver.try_recv() {
            Ok(written) => self.finish(written).map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(self.lose()),
        }
    }

    /// Writes a number, and waits until it is on disk.
    ///
    /// # Errors
    /// When it could not be written, or the disk does not answer.
    pub fn write(&mut self, value: u64) -> Result<(), String> {
        self.wait()?;
        self.begin(value)?;
        self.wait()
    }

    fn wait(&mut self) -> Result<(), String> {
        let State::Writing(receiver) = &self.state else { return Ok(()) };
        match receiver.recv_timeout(PATIENCE) {
            Ok(written) => self.finish(written).map(|_| ()),
            Err(RecvTimeoutError::Timeout) => {
                let seconds = PATIENCE.as_secs();
                Err(format!("the disk of [ipsec] state has not answered for {seconds} s"))
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.lose()),
        }
    }

    fn finish(&mut self, (keeper, result): Written) -> Result<u64, String> {
        self.written = keeper.value();
        self.state = State::Idle(keeper);
        result.map(|()| self.written)
    }

    fn lose(&mut self) -> String {
        self.state = State::Lost;
        "the thread that writes sequence numbers is gone".to_owned()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::sync::mpsc::SyncSender;
    use std::time::Instant;

    /// A disk that writes only when the test allows it, or fails.
    pub struct Disk {
        value: u64,
        lets: Receiver<bool>,
    }

    impl Keep for Disk {
        fn value(&self) -> u64 {
            self.value
        }
        fn write(&mut self, value: u64) -> Result<(), String> {
            match self.lets.recv() {
                Ok(true) => {
                    self.value = value;
                    Ok(())
                }
                _ => Err("full".to_owned()),
            }
        }
    }

    /// Returns a disk, and the sender that allows its writes.
    pub fn disk() -> (Disk, SyncSender<bool>) {
        let (sender, lets) = sync_channel(9);
        (Disk { value: 0, lets }, sender)
    }

    #[test]
    fn hanging_disk_holds_up_only_the_last_write() {
        let (disk, lets) = disk();
        let mut reservation = Reservation::new(disk);
        reservation.begin(7).unwrap();
        // It hangs: neither is waited for.
        reservation.begin(8).unwrap();
        assert_eq!((reservation.poll(), reservation.value()), (Ok(None), 0));
        lets.send(true).unwrap();
        let written = wattline_needs::until("it is written", || reservation.poll().unwrap());
        assert_eq!((written, reservation.value()), (7, 7));
        // At the end it is waited for, but not for ever.
        let began = Instant::now();
        assert!(reservation.write(9).unwrap_err().contains("has not answered"));
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn failed_write_is_reported_and_tried_again() {
        let (disk, lets) = disk();
        let mut reservation = Reservation::new(disk);
        lets.send(false).unwrap();
        assert_eq!(reservation.write(7), Err("full".to_owned()));
        assert_eq!(reservation.value(), 0);
        lets.send(true).unwrap();
        reservation.write(7).unwrap();
        assert_eq!(reservation.value(), 7);
    }
}
