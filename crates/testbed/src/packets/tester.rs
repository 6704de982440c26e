//! The generator with its interfaces open: trial after trial.

use super::account::Account;
use super::flows::{Addresses, Flow};
use super::lane::{InterfaceFacts, Lane, open};
use super::load::Load;
use super::outcome::{Outcome, Parts, thread_cpu_seconds};
use super::receiver;
use super::sender::{Sender, Turn};
use super::stamp::SEQUENCE_MAX;
use crate::Error;
use crate::clock::monotonic_nanos;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use wattline_linux::namespace::enter_thread;

/// An interface, in a namespace or this process's own.
#[derive(Debug, Clone, Copy)]
pub struct End<'a> {
    /// Its name, as `ip netns` knows it; none for the namespace of the process.
    pub namespace: Option<&'a str>,
    /// Name of the interface.
    pub interface: &'a str,
}

/// `[NAMESPACE/]INTERFACE`.
impl<'a> From<&'a str> for End<'a> {
    fn from(text: &'a str) -> Self {
        match text.split_once('/') {
            Some((namespace, interface)) => Self { namespace: Some(namespace), interface },
            None => Self { namespace: None, interface: text },
        }
    }
}

impl End<'_> {
    fn open(self, queues: u32, receives: bool) -> Result<(Vec<Lane>, InterfaceFacts), Error> {
        let Some(namespace) = self.namespace else { return open(self.interface, queues, receives) };
        // On a thread of its own, which does not come back from the namespace.
        std::thread::scope(|scope| {
            let opening = scope.spawn(|| {
                enter_thread(namespace)?;
                open(self.interface, queues, receives)
            });
            opening.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }
}

/// What a thread of the generator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Sends, from the queue of this number; receives too where one interface does both.
    Sends(u32),
    /// Receives, at the queue of this number.
    Receives(u32),
}

/// Called on each thread of the generator before a trial begins: where it runs, and before whom.
pub type Placement<'a> = &'a (dyn Fn(Role) -> Result<(), Error> + Sync);

/// What all threads have counted so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Packets sent.
    pub sent: u64,
    /// Different packets received.
    pub received: u64,
}

/// Two interfaces, or one, open for trials.
pub struct Tester {
    senders: Vec<Lane>,
    /// None where the senders receive as well.
    receivers: Vec<Lane>,
    /// The sending interface.
    pub from: InterfaceFacts,
    /// The receiving interface.
    pub to: InterfaceFacts,
    run: u8,
}

/// A thread's counters; nothing else is in its cache lines.
#[derive(Default)]
#[repr(align(128))]
struct Counter {
    sent: AtomicU64,
    received: AtomicU64,
}

/// Counts a sender as done when it is dropped, also where it panics: nobody waits for it in vain.
struct Done<'a>(&'a AtomicU64);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// How often a thread looks whether it should stop, at least.
const LOOK: Duration = Duration::from_millis(5);
/// A sender that has more time than this until its next packet sleeps; else it spins.
const SPIN_NANOS: u64 = 30_000;
/// Time for all threads to begin.
const LEAD_NANOS: u64 = 5_000_000;
/// How long a queue may take to send what it was given.
const FLUSH_NANOS: u64 = 1_000_000_000;

impl Tester {
    /// Opens the first `queues` queues of both ends; `to` is none where what is sent comes back
    /// to the interface that sent it.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, without such interfaces or so many queues.
    pub fn open(from: End<'_>, to: Option<End<'_>>, queues: u32) -> Result<Self, Error> {
        let (senders, from) = from.open(queues, to.is_none())?;
        let (receivers, to) = match to {
            Some(to) => to.open(queues, true)?,
            None => (Vec::new(), from.clone()),
        };
        Ok(Self { senders, receivers, from, to, run: 0 })
    }

    #[cfg(test)]
    pub(super) fn in_memory(sender: Lane, receiver: Lane) -> Self {
        let facts =
            InterfaceFacts { name: "memory".into(), mac: [2; 6], queues: 1, zero_copy: false };
        Self {
            senders: vec![sender],
            receivers: vec![receiver],
            from: facts.clone(),
            to: facts,
            run: 0,
        }
    }

    /// One trial. `watch` is called some hundred times a second with what was counted so far;
    /// `stop` ends the sending early.
    ///
    /// # Errors
    /// An impossible load, or what `placement` says.
    pub fn trial(
        &mut self,
        addresses: &Addresses,
        load: &Load,
        placement: Placement<'_>,
        stop: &AtomicBool,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<Outcome, Error> {
        let queues = self.senders.len() as u64;
        load.check(addresses.destination.is_ipv6(), self.senders.len() as u32)
            .map_err(|reason| Error::Data { path: "offered load".into(), reason })?;
        self.run = self.run.wrapping_add(1);
        let run = self.run;
        let one_end = self.receivers.is_empty();

        let flows: Vec<Vec<Flow>> = (0..queues)
            .map(|queue| {
                let mine = (queue..u64::from(load.flows)).step_by(queues as usize);
                mine.map(|number| Flow::new(addresses, number as u32)).collect()
            })
            .collect();
        let capacity = load.capacity().div_ceil(queues).min(SEQUENCE_MAX);
        let streams: Vec<_> = flows.iter().map(|flows| (flows.len(), capacity)).collect();
        let empty = || {
            Account::new(run, &streams).map_err(|_| Error::Data {
                path: "offered load".into(),
                reason: "more packets than this machine can tell apart".into(),
            })
        };
        let ends = if one_end { &mut self.senders } else { &mut self.receivers };
        ends.iter_mut().for_each(Lane::refresh);
        let overflow_before: u64 = ends.iter().map(Lane::overflow).sum();

        let counters: Vec<Counter> = (0..queues * 2).map(|_| Counter::default()).collect();
        let (sending, receiving) = counters.split_at(queues as usize);
        let all_sent = AtomicU64::new(0);
        let drain_nanos = u64::try_from(load.drain.as_nanos()).unwrap_or(u64::MAX);
        let total = || Progress {
            sent: counters.iter().map(|counter| counter.sent.load(Ordering::Relaxed)).sum(),
            received: counters.iter().map(|counter| counter.received.load(Ordering::Relaxed)).sum(),
        };
        let start = monotonic_nanos() + LEAD_NANOS;
        let mut senders: Vec<Sender> = flows
            .into_iter()
            .enumerate()
            .map(|(index, flows)| {
                let schedule = load.schedule().share(index as u64, queues);
                // At most 256 queues.
                Sender::new((run, index as u8), flows.into(), &load.sizes, schedule, start)
            })
            .collect();
        let accounts: Vec<Account> = (0..queues).map(|_| empty()).collect::<Result<_, _>>()?;

        let (all_sent, total) = (&all_sent, &total);
        // All is over when everything came, or nothing did for a while.
        let over = move |quiet_since: u64, now: u64| {
            if all_sent.load(Ordering::Acquire) < queues {
                return false;
            }
            let Progress { sent, received } = total();
            received >= sent || now.saturating_sub(quiet_since) > drain_nanos
        };
        let over = &over;
        let parts = std::thread::scope(|scope| {
            let mut sender_threads = Vec::new();
            let mut receiver_threads = Vec::new();
            let mut accounts = accounts.into_iter();
            for (index, (lane, mut sender)) in
                self.senders.iter_mut().zip(senders.drain(..)).enumerate()
            {
                let (counter, heard) = (&sending[index], &receiving[index]);
                let account = if one_end { accounts.next() } else { None };
                sender_threads.push(scope.spawn(move || {
                    let placed = placement(Role::Sends(index as u32));
                    let done = Done(all_sent);
                    let mut account = account;
                    send(lane, &mut sender, account.as_mut(), (counter, heard), stop);
                    let stuck = flush(lane, account.as_mut());
                    let sent = sender.finish(stuck);
                    counter.sent.store(sent.packets, Ordering::Relaxed);
                    drop(done);
                    let cpu = thread_cpu_seconds();
                    if let Some(account) = account.as_mut() {
                        receive(lane, account, heard, over);
                    }
                    placed.map(|()| (sent, cpu, account))
                }));
            }
            for (index, (lane, mut account)) in self.receivers.iter_mut().zip(accounts).enumerate()
            {
                let heard = &receiving[index];
                receiver_threads.push(scope.spawn(move || {
                    let placed = placement(Role::Receives(index as u32));
                    receive(lane, &mut account, heard, over);
                    placed.map(|()| (account, thread_cpu_seconds()))
                }));
            }
            while all_sent.load(Ordering::Acquire) < queues {
                std::thread::sleep(LOOK);
                watch(total());
            }
            let mut parts = Parts::default();
            for thread in sender_threads {
                let (sent, cpu, account) =
                    thread.join().unwrap_or_else(|panic| resume_unwind(panic))?;
                parts.sent.push(sent);
                parts.sender_cpu_seconds += cpu;
                parts.accounts.extend(account);
            }
            for thread in receiver_threads {
                let (account, cpu) = thread.join().unwrap_or_else(|panic| resume_unwind(panic))?;
                parts.accounts.push(account);
                parts.receiver_cpu_seconds += cpu;
            }
            Ok::<_, Error>(parts)
        })?;
        let ends = if one_end { &mut self.senders } else { &mut self.receivers };
        ends.iter_mut().for_each(Lane::refresh);
        let overflow: u64 = ends.iter().map(Lane::overflow).sum();
        Ok(Outcome::new(load, parts, overflow - overflow_before))
    }
}

/// Sends all, and receives beside it where an account is given.
fn send(
    lane: &mut Lane,
    sender: &mut Sender,
    mut account: Option<&mut Account>,
    (sent, heard): (&Counter, &Counter),
    stop: &AtomicBool,
) {
    loop {
        let turn = sender.turn(&mut lane.pool, &mut *lane.queue);
        sent.sent.store(sender.sequence(), Ordering::Relaxed);
        let mut received = 0;
        if let Some(account) = account.as_deref_mut() {
            received = receiver::turn(account, &mut lane.pool, &mut *lane.queue);
            heard.received.store(account.received, Ordering::Relaxed);
        }
        match turn {
            Turn::Over => return,
            Turn::Busy => {}
            Turn::IdleUntil(due) => {
                let ahead = due.saturating_sub(monotonic_nanos());
                if received > 0 || ahead <= SPIN_NANOS {
                    std::hint::spin_loop();
                } else {
                    let nap = Duration::from_nanos(ahead - SPIN_NANOS / 3).min(LOOK);
                    if account.is_some() { lane.wait(nap) } else { std::thread::sleep(nap) }
                }
            }
        }
        if stop.load(Ordering::Relaxed) {
            sender.stop();
            return;
        }
    }
}

/// Waits until the kernel has sent what it was given; packets that it never will.
fn flush(lane: &mut Lane, mut account: Option<&mut Account>) -> u64 {
    let deadline = monotonic_nanos() + FLUSH_NANOS;
    loop {
        lane.queue.recycle(&mut lane.pool);
        if let Some(account) = account.as_deref_mut() {
            while receiver::turn(account, &mut lane.pool, &mut *lane.queue) > 0 {}
        }
        let stuck = lane.queue.pending() as u64;
        if stuck == 0 || monotonic_nanos() > deadline {
            return stuck;
        }
        std::thread::yield_now();
    }
}

/// Receives until all is over.
fn receive(
    lane: &mut Lane,
    account: &mut Account,
    counter: &Counter,
    over: &(dyn Fn(u64, u64) -> bool + Sync),
) {
    let mut quiet_since = monotonic_nanos();
    loop {
        if receiver::turn(account, &mut lane.pool, &mut *lane.queue) > 0 {
            counter.received.store(account.received, Ordering::Relaxed);
            quiet_since = monotonic_nanos();
            continue;
        }
        let now = monotonic_nanos();
        if over(quiet_since, now) {
            return;
        }
        lane.wait(LOOK);
    }
}

/// Leaves all threads where they are.
pub fn anywhere(_role: Role) -> Result<(), Error> {
    Ok(())
}

/// Where packets go on a plain link from `from` to `to`: benchmark addresses (RFC 2544, C.2.2).
pub fn plain_link(from: &InterfaceFacts, to: &InterfaceFacts) -> Addresses {
    Addresses {
        source_mac: from.mac,
        destination_mac: to.mac,
        source: [198, 18, 0, 2].into(),
        destination: [198, 19, 0, 1].into(),
        destinations: 1,
    }
}
