//! The observer: counts of the BPF programs in the terms of the policies.

use crate::drivers::FullPoll;
use crate::places::{Place, Places};
use rustix::fd::{AsFd, BorrowedFd};
use std::collections::BTreeMap;
use wattline_linux::sysfs::Tree;
use wattline_policy::{
    Asks, BeyondPolls, Level, OperatingPoint, QueueView, StreakReset, Streaks, Timing,
};
use wattline_units::{Span, Time};
use wattline_xdp::bpf::BpfError;
use wattline_xdp::polls::{
    CPUS_MAX, InstanceId, PollCounts, PollLevel, PollRule, PolledInstance, PollingCore, Polls,
};

const PICOS_PER_NANO: u128 = 1_000;
/// Number of polls by whose packets a queue's counters may lag behind, since both are read at
/// different times.
const LAG: u64 = 16;

/// Reason why polls cannot be observed. All other functions continue with `/proc`.
#[derive(Debug, thiserror::Error)]
#[error(
    "the kernel's polls are not observed, so busy time comes in ticks and streaks are unknown: {0}"
)]
pub struct Unavailable(#[from] BpfError);

/// Reason why a policy's rule for streaks cannot be applied on this path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Polls do not show the quantities that the rule needs.
    #[error(transparent)]
    Polls(#[from] BeyondPolls),
    /// The rule has no bit for the CPU.
    #[error("CPU {0}: only CPUs below {CPUS_MAX} count streaks")]
    Cpu(u32),
    /// The kernel refused the rule.
    #[error("the kernel refused the rule for streaks")]
    Kernel,
}

/// End of a streak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreakEnd {
    /// Time of the poll that ended it.
    pub at: Time,
    /// The instance.
    pub napi: u32,
    /// The CPU that polled it.
    pub cpu: u32,
    /// True if it was above the upper level, false if below the lower one.
    pub above: bool,
}

/// Counts of a CPU, since the start of the observer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuSample {
    /// Time of the last sample of a streak, from which silence is counted; `None` without one.
    pub last: Option<Time>,
    /// Ends of streaks that were lost because the ring was full.
    pub lost: u64,
    /// Polls of instances for which the table had no room.
    pub unlisted: u64,
}

/// Counts of a receive queue, since the start of the observer.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueSample<'a> {
    /// The queue.
    pub place: &'a Place,
    /// Polls and packets on all CPUs.
    pub counts: PollCounts,
    /// The same by CPU, for the CPUs that polled it.
    pub cpus: BTreeMap<u32, PollCounts>,
    /// Processor time of the thread that polls it since it was started, if it has one.
    pub thread: Option<Span>,
}

impl QueueSample<'_> {
    /// Returns the queue as a policy sees it. `counted` are arrivals and drops by the queue's own
    /// counters since the start of the observer, if the driver has any: they win. `fill` and
    /// `oldest` are not measured on this path, and neither are drops without counters.
    pub fn view(&self, counted: Option<(u64, u64)>) -> QueueView {
        let (arrivals, drops) = counted.unwrap_or((self.counts.packets, 0));
        QueueView { arrivals, drops, ..QueueView::default() }
    }

    /// Returns true if a streak above the upper level indicates waiting packets: if the driver's
    /// full polls are full of packets, or the queue's counters (without drops) agree with the
    /// packets of the polls. Without counters, drivers of [`FullPoll::Unfinished`] and unknown ones
    /// are not trusted.
    pub fn trusts_full_polls(&self, received: Option<u64>) -> bool {
        let packets = self.place.work.is_some_and(|work| work.full == FullPoll::Packets);
        let agrees = |received: u64| {
            let lag = LAG * u64::from(OperatingPoint::NAPI_BUDGET) + self.counts.packets / 64;
            self.counts.packets <= received.saturating_add(lag)
        };
        received.map_or(packets, agrees)
    }
}

/// The attached BPF program, until dropped. Its descriptor becomes readable only at the end of a
/// streak.
#[derive(Debug)]
pub struct Observer {
    polls: Polls,
    tree: Tree,
    /// Nanoseconds of the monotonic clock at [`Time::ZERO`].
    origin: u64,
}

impl Observer {
    /// Events at which this path can ask the policy. Batches and empty polls would wake the
    /// governor at each poll.
    pub const ASKS: Asks = Asks { streaks: Timing::Exact, ..Asks::NOTHING };

    /// Begins to count; `now` is the time of this call on the clock of the policies.
    ///
    /// # Errors
    /// Without CAP_BPF or CAP_PERFMON, without type information of the kernel, without the tracepoint.
    pub fn begin(now: Time) -> Result<Self, Unavailable> {
        let origin = origin_of(now);
        Ok(Self { polls: Polls::observe()?, tree: Tree::live(), origin })
    }

    /// Compares the clock of the policies, which was read as `now`, with the kernel's. A delay
    /// between the two readings makes polls seem older than they are, so the comparison with the
    /// shortest delay counts.
    pub fn set_clock(&mut self, now: Time) {
        let origin = origin_of(now);
        // Both may be before the machine's start.
        if origin.wrapping_sub(self.origin).cast_signed() < 0 {
            self.origin = origin;
        }
    }

    /// Counts streaks of these queues by the rule of a policy from now on; `cpus` are the CPUs of
    /// its cores, by number. Without cores there are no streaks. Has to be called again when places
    /// have changed.
    ///
    /// # Errors
    /// When the rule cannot be applied on this path; the previous rule remains.
    pub fn set_streaks(
        &mut self,
        now: Time,
        streaks: &Streaks,
        cpus: &[u32],
        places: &Places,
    ) -> Result<(), Denied> {
        let rule = if streaks.cores.is_empty() {
            None
        } else {
            let since = self.origin.wrapping_add(nanos(now.since(Time::ZERO)));
            Some(poll_rule(since, streaks, cpus, places.instances())?)
        };
        self.polls.set_rule(rule.as_ref()).map_err(|_| Denied::Kernel)
    }

    /// Passes the ends of streaks since the last call to `with`, and returns their number.
    pub fn streaks(&mut self, mut with: impl FnMut(StreakEnd)) -> usize {
        let origin = self.origin;
        self.polls.ends(|end| {
            let at = time(origin, end.time);
            with(StreakEnd { at, napi: end.id.napi, cpu: end.cpu, above: end.above });
        })
    }

    /// Returns all CPUs, by number.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn cpus(&self) -> Result<Vec<CpuSample>, BpfError> {
        let sample = |core: PollingCore| CpuSample {
            last: (core.last != 0).then(|| time(self.origin, core.last)),
            lost: core.lost,
            unlisted: core.unlisted,
        };
        Ok(self.polls.cores()?.into_iter().map(sample).collect())
    }

    /// Returns the polled instances of all network namespaces.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn instances(&self) -> Result<Vec<PolledInstance>, BpfError> {
        self.polls.instances()
    }

    /// Returns these queues, including queues that were not polled yet.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn queues<'a>(&self, places: &'a Places) -> Result<Vec<QueueSample<'a>>, BpfError> {
        let polled = self.instances()?;
        let sample = |place: &'a Place| {
            let counts = polled.iter().find(|it| it.id.napi == place.napi);
            let counts = counts.map(|it| it.cpus.as_slice()).unwrap_or_default();
            let cpus = (0..).zip(counts.iter().copied()).filter(|(_, it)| it.polls > 0).collect();
            let thread = place.thread.and_then(|thread| self.thread_time(thread));
            QueueSample { place, counts: sum(&cpus), cpus, thread }
        };
        Ok(places.all().iter().map(sample).collect())
    }

    /// Returns the processor time of a thread (Documentation/scheduler/sched-stats.rst).
    fn thread_time(&self, thread: u32) -> Option<Span> {
        let text = self.tree.text(format!("/proc/{thread}/schedstat")).ok()?;
        text.split_ascii_whitespace().next()?.parse().ok().map(Span::from_nanos)
    }
}

impl AsFd for Observer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.polls.as_fd()
    }
}

fn sum(cpus: &BTreeMap<u32, PollCounts>) -> PollCounts {
    cpus.values().fold(PollCounts::default(), |sum, cpu| PollCounts {
        polls: sum.polls + cpu.polls,
        packets: sum.packets + cpu.packets,
        full: sum.full + cpu.full,
    })
}

/// Converts a policy's rule for the BPF program; `since` is its start in nanoseconds of the
/// monotonic clock, `napis` are the instances that count.
///
/// # Errors
/// When polls do not show the quantities that the rule needs.
pub fn poll_rule(
    since: u64,
    streaks: &Streaks,
    cpus: &[u32],
    napis: impl Iterator<Item = u32>,
) -> Result<PollRule, Denied> {
    let rule = &streaks.rule;
    streaks.check_polls()?;
    let cpus: Vec<u32> = streaks.cores.iter().filter_map(|core| cpus.get(core).copied()).collect();
    if let Some(cpu) = cpus.iter().find(|cpu| **cpu >= CPUS_MAX) {
        return Err(Denied::Cpu(*cpu));
    }
    let level = |level: Level, reported| PollLevel {
        packets: level.packets,
        samples: level.samples,
        worth: level.most_of_a_sample(),
        reported,
    };
    Ok(PollRule {
        since,
        look: nanos(rule.look),
        silence: nanos(rule.silence),
        above: level(rule.above, streaks.at_above),
        below: level(rule.below, streaks.at_below),
        own: rule.reset == StreakReset::Own,
        cpus,
        instances: napis.map(|napi| InstanceId { napi, ifindex: 0 }).collect(),
    })
}

/// Returns the nanoseconds of a span, rounded up so that no span becomes zero.
fn nanos(span: Span) -> u64 {
    u64::try_from(u128::from(span.as_picos()).div_ceil(PICOS_PER_NANO)).unwrap_or(u64::MAX)
}

fn time(origin: u64, nanos: u64) -> Time {
    Time::ZERO + Span::from_nanos(nanos.wrapping_sub(origin))
}

fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns the nanoseconds of the monotonic clock at [`Time::ZERO`], if it is `now` on the clock of
/// the policies.
fn origin_of(now: Time) -> u64 {
    monotonic().wrapping_sub(nanos(now.since(Time::ZERO)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drivers::meaning;
    use std::time::{Duration, Instant};
    use wattline_policy::{CoreSet, FillRead, StreakRule};

    fn streaks(rule: StreakRule) -> Streaks {
        let cores = CoreSet::only(1);
        Streaks { cores, rule, at_above: true, at_below: true, at_silence: false }
    }

    #[test]
    fn rules_that_polls_cannot_answer_are_denied() {
        let rule = StreakRule { above: Level { packets: 63, samples: 7 }, ..StreakRule::NEVER };
        let denied = |rule, cpus: &[u32]| poll_rule(0, &streaks(rule), cpus, [].into_iter()).err();
        assert_eq!(denied(rule, &[4, 5]), None);
        let counted = poll_rule(0, &streaks(rule), &[4, 5], [9].into_iter()).unwrap();
        assert_eq!((counted.cpus, counted.instances.len()), (vec![5], 1));
        let after = StreakRule { read: FillRead::After, ..rule };
        assert_eq!(denied(after, &[4, 5]), Some(Denied::Polls(BeyondPolls::Read)));
        let high = StreakRule { above: Level { packets: 64, samples: 7 }, ..rule };
        assert_eq!(denied(high, &[4, 5]), Some(Denied::Polls(BeyondPolls::Level(64))));
        assert_eq!(denied(rule, &[4, 5000]), Some(Denied::Cpu(5000)));
    }

    #[test]
    fn delayed_clock_comparisons_make_no_poll_older() {
        let began = Instant::now();
        let mut observer = match Observer::begin(Time::ZERO) {
            Ok(observer) => observer,
            Err(error) => return wattline_needs::rights(error),
        };
        let (origin, held_up) = (observer.origin, Duration::from_secs(1));
        std::thread::sleep(held_up);
        observer.set_clock(Time::ZERO);
        assert_eq!(observer.origin, origin);
        // The first origin may be from before the program was loaded.
        observer.origin += nanos(held_up.into());
        observer.set_clock(Time::ZERO + Span::from(began.elapsed()));
        assert!(observer.origin < origin + nanos(held_up.into()) / 2);
    }

    #[test]
    fn counters_of_a_queue_win_over_polls() {
        let place = |driver| Place {
            napi: 9,
            interface: "eth0".to_owned(),
            queue: 0,
            interrupts: Vec::new(),
            cpus: Vec::new(),
            thread: None,
            work: meaning(driver),
        };
        let counts = PollCounts { polls: 20_000, packets: 1_000_000, full: 10_000 };
        let (igb, veth) = (place("igb"), place("veth"));
        let sample = |place| QueueSample { place, counts, cpus: BTreeMap::new(), thread: None };
        assert_eq!(sample(&igb).view(Some((600_000, 5))).arrivals, 600_000);
        assert_eq!(sample(&igb).view(None).arrivals, 1_000_000);
        // Polls that only cleaned sent frames seem full of packets.
        assert!(!sample(&igb).trusts_full_polls(Some(600_000)));
        assert!(sample(&igb).trusts_full_polls(Some(999_000)));
        assert!(!sample(&igb).trusts_full_polls(None));
        assert!(sample(&veth).trusts_full_polls(None));
    }
}
