//! Access with a time limit, whatever a driver does.
//!
//! The file of a hung driver keeps its caller inside the kernel, where it cannot be interrupted. So
//! each call is made by a separate thread, and the requester goes on after a while. The setting is
//! then *stuck*: requests fail at once until that call has returned, so that no second call waits
//! behind it or overtakes it.

use crate::access::{Access, AccessError};
use crate::setting::Setting;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time limit of a call outside of loops: a card in a reset, as when its XDP program goes, delays
/// all accesses to its settings.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time limit of a call in a loop. Firmware answers within tens of milliseconds.
const IN_A_LOOP: Duration = Duration::from_secs(1);
/// The time limit halves with each stuck setting, down to this: if a driver hangs, its other files
/// mostly hang too, and all together must not cost much more than the first.
const LEAST_PATIENCE: Duration = Duration::from_millis(20);
/// Largest number of stuck settings: each holds a thread. Beyond it, all requests fail.
const MOST_STUCK: usize = 256;
const STACK_BYTES: usize = 256 << 10;

/// Another access, with a time limit for each call. Copies share the time limit and the stuck
/// settings: a second session does not wait again for settings that hung in the first.
#[derive(Debug, Clone)]
pub struct Bounded<A> {
    access: A,
    patience: Duration,
    in_a_loop: Duration,
    hurries: Arc<AtomicBool>,
    calls: Arc<Mutex<Calls>>,
}

#[derive(Debug, Default)]
struct Calls {
    /// The thread that made the last call.
    idle: Option<Caller>,
    stuck: BTreeMap<Setting, Stuck>,
}

#[derive(Debug)]
struct Stuck {
    caller: Caller,
    since: Instant,
    /// Time that its caller waited.
    waited: Duration,
}

/// A thread that makes one call at a time; it ends with this value and its call.
#[derive(Debug)]
struct Caller {
    calls: Sender<Call>,
    answers: Receiver<Answer>,
}

#[derive(Debug)]
enum Call {
    Read(Setting),
    Write(Setting, String),
    /// One call, since switching threads costs more than a read.
    Set(Setting, String),
}

/// Results of a write and of a read.
type Answer = (Result<(), AccessError>, Result<String, AccessError>);

impl<A: Access + Clone + Send + 'static> Bounded<A> {
    /// Limits waits for `access` to 20 s, and to 1 s in a hurry.
    pub fn new(access: A) -> Self {
        Self { in_a_loop: IN_A_LOOP, ..Self::within(access, PATIENCE) }
    }

    /// Limits waits for `access` to `patience`.
    pub fn within(access: A, patience: Duration) -> Self {
        let (hurries, calls) = (Arc::default(), Arc::default());
        Self { access, patience, in_a_loop: patience, hurries, calls }
    }

    fn call(&self, setting: &Setting, call: Call) -> Result<Answer, AccessError> {
        let refused = |reason: String| AccessError::Refused { setting: setting.clone(), reason };
        let patience = self.patience();
        let mut calls = self.calls();
        if let Some(stuck) = calls.stuck.get(setting) {
            // Possibly given up in a hurry: a patient caller waits for the remaining time.
            let hurries = self.hurries.load(Ordering::Relaxed);
            let waited = if hurries { stuck.waited } else { patience };
            let rest = if hurries { Duration::ZERO } else { patience };
            let rest = rest.saturating_sub(stuck.since.elapsed());
            if stuck.caller.answers.recv_timeout(rest).is_err() {
                return Err(AccessError::Stuck { setting: setting.clone(), waited });
            }
            calls.stuck.remove(setting);
        }
        if calls.stuck.len() >= MOST_STUCK {
            return Err(refused(format!("{MOST_STUCK} other settings hang already")));
        }
        let caller = match calls.idle.take() {
            Some(caller) => caller,
            None => Caller::start(self.access.clone())
                .map_err(|error| refused(format!("no thread to ask the kernel: {error}")))?,
        };
        let halvings = u32::try_from(calls.stuck.len()).unwrap_or(u32::MAX).min(31);
        let least = LEAST_PATIENCE.min(patience);
        let patience = (patience / (1 << halvings)).max(least);
        let since = Instant::now();
        // A thread that has died cannot answer either.
        let _ = caller.calls.send(call);
        match caller.answers.recv_timeout(patience) {
            Ok(answer) => {
                calls.idle = Some(caller);
                Ok(answer)
            }
            Err(RecvTimeoutError::Timeout) => {
                let stuck = Stuck { caller, since, waited: patience };
                calls.stuck.insert(setting.clone(), stuck);
                Err(AccessError::Stuck { setting: setting.clone(), waited: patience })
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(refused("the thread that asks the kernel has died: this is a defect".into()))
            }
        }
    }
}

impl<A> Bounded<A> {
    /// Selects the short time limit, for loops that must not stall, or the long one.
    pub fn hurry(&self, hurries: bool) {
        self.hurries.store(hurries, Ordering::Relaxed);
    }

    fn patience(&self) -> Duration {
        if self.hurries.load(Ordering::Relaxed) { self.in_a_loop } else { self.patience }
    }

    /// Returns the calls, after removing those that have come back.
    fn calls(&self) -> MutexGuard<'_, Calls> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        // The requester does not know the outcome; the next read shows it.
        calls.stuck.retain(|_, stuck| stuck.caller.answers.try_recv() == Err(TryRecvError::Empty));
        calls
    }
}

impl<A: Access + Clone + Send + 'static> Access for Bounded<A> {
    fn read(&self, setting: &Setting) -> Result<String, AccessError> {
        self.call(setting, Call::Read(setting.clone()))?.1
    }

    fn write(&mut self, setting: &Setting, value: &str) -> Result<(), AccessError> {
        self.call(setting, Call::Write(setting.clone(), value.to_owned()))?.0
    }

    fn set(&mut self, setting: &Setting, value: &str) -> Answer {
        let answer = self.call(setting, Call::Set(setting.clone(), value.to_owned()));
        answer.unwrap_or_else(|error| (Err(error.clone()), Err(error)))
    }

    fn tidy(&self, setting: &Setting) {
        self.access.tidy(setting);
    }

    fn stuck(&self) -> Vec<(Setting, Duration)> {
        let calls = self.calls();
        calls.stuck.iter().map(|(setting, it)| (setting.clone(), it.since.elapsed())).collect()
    }
}

impl Caller {
    fn start(mut access: impl Access + Send + 'static) -> io::Result<Self> {
        let (calls, asked) = channel::<Call>();
        let (reply, answers) = channel();
        let work = move || {
            while let Ok(call) = asked.recv() {
                let answer = match call {
                    Call::Read(setting) => (Ok(()), access.read(&setting)),
                    Call::Write(setting, value) => {
                        (access.write(&setting, &value), Ok(String::new()))
                    }
                    Call::Set(setting, value) => access.set(&setting, &value),
                };
                if reply.send(answer).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("knobs".into()).stack_size(STACK_BYTES).spawn(work)?;
        Ok(Self { calls, answers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Blocks readers and writers of `stuck` until a permit comes.
    #[derive(Clone)]
    struct Hanging {
        permits: Arc<Mutex<Receiver<()>>>,
        values: Arc<Mutex<BTreeMap<Setting, String>>>,
    }

    impl Hanging {
        fn wait(&self, setting: &Setting) {
            if setting.to_string().ends_with("stuck") {
                let _ = self.permits.lock().unwrap().recv();
            }
        }
    }

    impl Access for Hanging {
        fn read(&self, setting: &Setting) -> Result<String, AccessError> {
            self.wait(setting);
            let value = self.values.lock().unwrap().get(setting).cloned();
            value.ok_or_else(|| AccessError::Missing(setting.clone()))
        }
        fn write(&mut self, setting: &Setting, value: &str) -> Result<(), AccessError> {
            self.wait(setting);
            self.values.lock().unwrap().insert(setting.clone(), value.to_owned());
            Ok(())
        }
    }

    #[test]
    fn hanging_call_is_named_and_the_others_go_on() {
        let (permit, permits) = channel();
        let access = Hanging { permits: Arc::new(Mutex::new(permits)), values: Arc::default() };
        let (stuck, other) = (Setting::cpu("cpu0/stuck"), Setting::cpu("cpu0/other"));
        let mut bounded = Bounded::within(access, Duration::from_millis(40));
        let waited = Duration::from_millis(40);
        let named = AccessError::Stuck { setting: stuck.clone(), waited };
        assert_eq!(bounded.write(&stuck, "1"), Err(named.clone()));
        assert!(named.to_string().contains("cpu0/stuck: has not answered for 0.04 s"), "{named}");
        // No second call waits behind the first.
        assert_eq!(bounded.read(&stuck), Err(named));
        assert_eq!(bounded.write(&other, "2"), Ok(()));
        assert_eq!(bounded.read(&other), Ok("2".into()));
        let [(setting, since)] = &bounded.stuck()[..] else { panic!("one is stuck") };
        assert!(*setting == stuck && *since >= waited);
        // The write comes back after all.
        permit.send(()).unwrap();
        while !bounded.stuck().is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        permit.send(()).unwrap();
        assert_eq!(bounded.read(&stuck), Ok("1".into()));
    }

    #[test]
    fn copy_does_not_wait_for_hanging_settings() {
        let (_permit, permits) = channel();
        let access = Hanging { permits: Arc::new(Mutex::new(permits)), values: Arc::default() };
        let stuck = Setting::cpu("cpu0/stuck");
        let first = Bounded::within(access, Duration::from_millis(40));
        assert!(matches!(first.read(&stuck), Err(AccessError::Stuck { .. })));
        let second = first.clone();
        drop(first);
        second.hurry(true);
        let begun = Instant::now();
        for _ in 0..1000 {
            assert!(matches!(second.read(&stuck), Err(AccessError::Stuck { .. })));
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        assert_eq!(second.stuck().len(), 1, "one thread waits, however often it is asked");
    }
}
