//! The threads of one trial: each sends, receives, or does both in turn, on one queue.

use super::account::Account;
use super::live::LiveSender;
use super::opened_queue::OpenedQueue;
use super::outcome::Parts;
use super::receiver;
use super::role::{Counter, Placement, Progress, Role};
use super::sender::{Sender, Sent, Turn};
use super::sink::Sink;
use crate::Error;
use crate::clock::monotonic_nanos;
use crate::cpu::thread_cpu_seconds;
use std::panic::resume_unwind;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Longest time between two checks of a thread for its end.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Time until the next packet above which a sender sleeps; below, it spins.
const SPIN_NANOS: u64 = 30_000;
/// Time in which a queue must send its packets.
const FLUSH_NANOS: u64 = 1_000_000_000;

/// Task of one thread.
pub(super) struct Task<'a> {
    pub role: Role,
    pub work: Work<'a>,
}

/// Subject of a task.
pub(super) enum Work<'a> {
    /// One queue, by a socket.
    Queue(Box<Queue<'a>>),
    /// One stream of live frames, in this direction.
    Live(usize, LiveSender),
}

/// Task of one queue.
pub(super) struct Queue<'a> {
    pub opened: &'a mut OpenedQueue,
    /// Sender with its direction.
    pub sends: Option<(usize, Sender)>,
    /// Account of received packets, with its direction.
    pub receives: Option<(usize, Account)>,
}

impl Task<'_> {
    fn sends(&self) -> bool {
        match &self.work {
            Work::Queue(queue) => queue.sends.is_some(),
            Work::Live(..) => true,
        }
    }
}

/// A direction accounted for by a program in the driver.
pub(super) struct Driver<'a> {
    pub direction: usize,
    pub sink: &'a Sink,
}

/// Counts a sender as done when dropped, also on a panic, so that no thread waits for it in vain.
struct Done<'a>(&'a AtomicU64);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// State shared by all threads.
struct Shared<'a> {
    /// Counters by direction and thread.
    counters: Vec<Vec<Counter>>,
    senders: u64,
    all_sent: AtomicU64,
    drain_nanos: u64,
    stop: &'a AtomicBool,
    placement: Placement<'a>,
    /// Barrier after the placement of all threads, which takes longer than a packet may be late.
    placed: Barrier,
    /// Common time at which queues begin to send.
    start: AtomicU64,
}

impl Shared<'_> {
    fn total(&self, direction: usize) -> Progress {
        let sum = |of: fn(&Counter) -> &AtomicU64| {
            self.counters[direction].iter().map(|it| of(it).load(Ordering::Relaxed)).sum()
        };
        Progress { sent: sum(|it| &it.sent), received: sum(|it| &it.received) }
    }

    fn all(&self) -> Progress {
        let totals = (0..self.counters.len()).map(|direction| self.total(direction));
        totals.fold(Progress::default(), |sum, it| Progress {
            sent: sum.sent + it.sent,
            received: sum.received + it.received,
        })
    }

    fn all_is_sent(&self) -> bool {
        self.all_sent.load(Ordering::Acquire) >= self.senders
    }

    /// Returns true if everything has arrived, or nothing for a while.
    fn over(&self, direction: usize, quiet_since: u64, now: u64) -> bool {
        if !self.all_is_sent() {
            return false;
        }
        let Progress { sent, received } = self.total(direction);
        received >= sent || now.saturating_sub(quiet_since) > self.drain_nanos
    }
}

/// Runs all tasks; returns the results by direction.
pub(super) fn run(
    tasks: Vec<Task<'_>>,
    drivers: &[Driver<'_>],
    directions: usize,
    drain: Duration,
    placement: Placement<'_>,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Progress),
) -> Result<Vec<Parts>, Error> {
    // The last counter is the driver's.
    let counters = || (0..=tasks.len()).map(|_| Counter::default()).collect();
    let shared = Shared {
        counters: (0..directions).map(|_| counters()).collect(),
        senders: tasks.iter().filter(|task| task.sends()).count() as u64,
        all_sent: AtomicU64::new(0),
        drain_nanos: u64::try_from(drain.as_nanos()).unwrap_or(u64::MAX),
        stop,
        placement,
        placed: Barrier::new(tasks.len()),
        start: AtomicU64::new(0),
    };
    let shared = &shared;
    let watches: Vec<_> = tasks
        .iter()
        .enumerate()
        .filter_map(|(index, task)| match &task.work {
            Work::Live(direction, sender) => Some((index, *direction, sender.watch())),
            Work::Queue(_) => None,
        })
        .collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = tasks
            .into_iter()
            .enumerate()
            .map(|(index, task)| scope.spawn(move || work(index, task, shared)))
            .collect();
        let follow = |stop: &AtomicBool| {
            for (index, direction, watch) in &watches {
                let sent = watch.poll(stop.load(Ordering::Relaxed));
                // The thread may have reported all packets meanwhile.
                shared.counters[*direction][*index].sent.fetch_max(sent, Ordering::Relaxed);
            }
        };
        let mut progress: Vec<_> =
            drivers.iter().map(|driver| DriverProgress::new(driver, shared)).collect();
        while !shared.all_is_sent() {
            std::thread::sleep(POLL_INTERVAL);
            all_are_over(&mut progress);
            if !shared.all_is_sent() {
                follow(stop);
            }
            watch(shared.all());
        }
        while !all_are_over(&mut progress) {
            std::thread::sleep(POLL_INTERVAL);
            watch(shared.all());
        }
        let mut parts: Vec<Parts> = (0..directions).map(|_| Parts::default()).collect();
        for driver in drivers {
            parts[driver.direction].accounts = driver.sink.accounts()?;
        }
        for thread in threads {
            let ended = thread.join().unwrap_or_else(|panic| resume_unwind(panic))?;
            if let Some((direction, sent)) = ended.sent {
                parts[direction].sent.push(sent);
                parts[direction].sender_cpu_seconds += ended.sending_cpu_seconds;
            }
            if let Some((direction, account)) = ended.account {
                parts[direction].accounts.push(account);
                parts[direction].receiver_cpu_seconds += ended.receiving_cpu_seconds;
            }
        }
        watch(shared.all());
        Ok(parts)
    })
}

/// Progress of a driver's account.
struct DriverProgress<'a> {
    driver: &'a Driver<'a>,
    shared: &'a Shared<'a>,
    received: u64,
    quiet_since: u64,
}

impl<'a> DriverProgress<'a> {
    fn new(driver: &'a Driver<'a>, shared: &'a Shared<'a>) -> Self {
        Self { driver, shared, received: 0, quiet_since: monotonic_nanos() }
    }

    /// Returns true if the direction is over.
    fn is_over(&mut self) -> bool {
        let now = monotonic_nanos();
        let direction = self.driver.direction;
        // An error here is repeated at the end, where it is reported.
        let received = self.driver.sink.received().unwrap_or(self.received);
        if received != self.received || !self.shared.all_is_sent() {
            self.quiet_since = now;
        }
        self.received = received;
        if let Some(counter) = self.shared.counters[direction].last() {
            counter.received.store(received, Ordering::Relaxed);
        }
        self.shared.over(direction, self.quiet_since, now)
    }
}

/// Reads all drivers' accounts; returns true if all their directions are over.
fn all_are_over(drivers: &mut [DriverProgress<'_>]) -> bool {
    let running = drivers.iter_mut().filter_map(|driver| (!driver.is_over()).then_some(()));
    running.count() == 0
}

struct TaskResult {
    sent: Option<(usize, Sent)>,
    account: Option<(usize, Account)>,
    /// Processor time until everything was sent; for a thread that also receives, it covers both.
    sending_cpu_seconds: f64,
    /// Processor time of receiving only, if necessary after sending.
    receiving_cpu_seconds: f64,
}

fn work(index: usize, task: Task<'_>, shared: &Shared<'_>) -> Result<TaskResult, Error> {
    let Task { role, work } = task;
    let placed = (shared.placement)(role);
    if shared.placed.wait().is_leader() {
        shared.start.store(monotonic_nanos(), Ordering::Release);
    }
    shared.placed.wait();
    let counter = |direction: usize| &shared.counters[direction][index];
    let mut sent = None;
    let Queue { opened, sends, mut receives } = match work {
        Work::Queue(queue) => *queue,
        Work::Live(direction, sender) => {
            let done = Done(&shared.all_sent);
            let packets = sender.run(counter(direction), shared.stop)?;
            drop(done);
            let sent = Some((direction, packets));
            let sending_cpu_seconds = thread_cpu_seconds();
            return placed.map(|()| TaskResult {
                sent,
                account: None,
                sending_cpu_seconds,
                receiving_cpu_seconds: 0.0,
            });
        }
    };
    if let Some((direction, mut sender)) = sends {
        let done = Done(&shared.all_sent);
        let own = counter(direction);
        sender.begin(shared.start.load(Ordering::Acquire));
        let mut account = receives.as_mut().map(|(from, account)| (counter(*from), account));
        send(
            opened,
            &mut sender,
            account.as_mut().map(|(at, it)| (*at, &mut **it)),
            own,
            shared.stop,
        );
        let stuck = flush(opened, account.map(|(_, account)| account));
        let packets = sender.finish(stuck);
        own.sent.store(packets.packets, Ordering::Relaxed);
        drop(done);
        sent = Some((direction, packets));
    }
    let sending_cpu_seconds = thread_cpu_seconds();
    if let Some((direction, account)) = &mut receives {
        receive(opened, account, counter(*direction), |quiet_since, now| {
            shared.over(*direction, quiet_since, now)
        });
    }
    let spent = if sent.is_some() { sending_cpu_seconds } else { 0.0 };
    let receiving_cpu_seconds = thread_cpu_seconds() - spent;
    placed.map(|()| TaskResult {
        sent,
        account: receives,
        sending_cpu_seconds,
        receiving_cpu_seconds,
    })
}

/// Sends everything, and also receives if there is an account.
fn send(
    opened: &mut OpenedQueue,
    sender: &mut Sender,
    mut receives: Option<(&Counter, &mut Account)>,
    counter: &Counter,
    stop: &AtomicBool,
) {
    loop {
        let turn = sender.turn(&mut opened.pool, &mut *opened.queue);
        counter.sent.store(sender.sequence(), Ordering::Relaxed);
        let mut received = 0;
        if let Some((heard, account)) = &mut receives {
            received = receiver::turn(account, &mut opened.pool, &mut *opened.queue);
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
                    let nap = Duration::from_nanos(ahead - SPIN_NANOS / 3).min(POLL_INTERVAL);
                    if receives.is_some() { opened.wait(nap) } else { std::thread::sleep(nap) }
                }
            }
        }
        if stop.load(Ordering::Relaxed) {
            sender.stop();
            return;
        }
    }
}

/// Waits until the kernel has sent all queued packets; returns the number of packets that it never
/// sends.
fn flush(opened: &mut OpenedQueue, mut account: Option<&mut Account>) -> u64 {
    let deadline = monotonic_nanos() + FLUSH_NANOS;
    loop {
        opened.queue.recycle(&mut opened.pool);
        if let Some(account) = account.as_deref_mut() {
            while receiver::turn(account, &mut opened.pool, &mut *opened.queue) > 0 {}
        }
        let stuck = opened.queue.pending() as u64;
        if stuck == 0 || monotonic_nanos() > deadline {
            return stuck;
        }
        std::thread::yield_now();
    }
}

/// Receives until the direction is over.
fn receive(
    opened: &mut OpenedQueue,
    account: &mut Account,
    counter: &Counter,
    over: impl Fn(u64, u64) -> bool,
) {
    let mut quiet_since = monotonic_nanos();
    loop {
        if receiver::turn(account, &mut opened.pool, &mut *opened.queue) > 0 {
            counter.received.store(account.received, Ordering::Relaxed);
            quiet_since = monotonic_nanos();
            continue;
        }
        let now = monotonic_nanos();
        if over(quiet_since, now) {
            return;
        }
        opened.wait(POLL_INTERVAL);
    }
}
