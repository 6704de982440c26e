//! Figures of a machine between two observations.

use wattline_policy::{CoreView, MAX_IDLE_STATES, Observation, QueueView, Trigger};
use wattline_units::{Hertz, Time};

/// The counters of a machine at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    pub at: Time,
    pub queues: Vec<QueueView>,
    pub cores: Vec<CoreView>,
    /// Packets summed over all entries of the tables.
    pub entries: u64,
}

impl Snapshot {
    pub fn new(now: Time, seen: &Observation<'_>) -> Self {
        Self {
            at: now,
            queues: seen.queues.to_vec(),
            cores: seen.cores.to_vec(),
            entries: seen.entries.iter().sum(),
        }
    }

    pub fn arrivals(&self) -> u64 {
        self.queues.iter().map(|queue| queue.arrivals).sum()
    }

    pub fn bytes(&self) -> u64 {
        self.queues.iter().filter_map(|queue| queue.bytes).sum()
    }
}

/// Sums over single observations.
#[derive(Debug, Clone, Default)]
pub(super) struct Sums {
    pub samples: u64,
    pub late: u64,
    /// Latency of all samples.
    pub latency_seconds: f64,
    pub joules: f64,
    pub powered_seconds: f64,
    pub batches: u64,
    pub taken: u64,
    pub most_taken: u32,
    pub fills: u64,
    pub empty_polls: u64,
    pub streaks: u64,
    pub silences: u64,
    /// Queues seen with packets, and those with a known age of the oldest packet.
    pub filled: u64,
    pub aged: u64,
    pub oldest_seconds: f64,
}

impl Sums {
    pub fn add(&mut self, seen: &Observation<'_>) {
        if let Some(latency) = seen.latency {
            self.samples += latency.samples;
            self.late += latency.late;
            self.latency_seconds += latency.mean.as_seconds() * latency.samples as f64;
        }
        if let Some(power) = seen.power {
            self.joules += power.watts.0 * power.over.as_seconds();
            self.powered_seconds += power.over.as_seconds();
        }
        match seen.trigger {
            Trigger::Batch { taken, batches, .. } => {
                self.batches += u64::from(batches);
                self.taken += u64::from(taken) * u64::from(batches);
                self.most_taken = self.most_taken.max(taken);
            }
            Trigger::Fill { .. } => self.fills += 1,
            Trigger::EmptyPolls { .. } => self.empty_polls += 1,
            Trigger::Streak { .. } => self.streaks += 1,
            Trigger::Silence { .. } => self.silences += 1,
            Trigger::Start | Trigger::Timer => {}
        }
        for queue in seen.queues.iter().filter(|queue| queue.fill > 0) {
            self.filled += 1;
            self.aged += u64::from(queue.oldest.is_some());
            let age = queue.oldest.map_or(0.0, |age| age.as_seconds());
            self.oldest_seconds = self.oldest_seconds.max(age);
        }
    }

    pub fn mean_latency(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.latency_seconds / self.samples as f64)
    }

    pub fn watts(&self) -> Option<f64> {
        (self.powered_seconds > 0.0).then(|| self.joules / self.powered_seconds)
    }
}

/// Work of a core, in seconds and packets.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CoreWork {
    pub useful: f64,
    pub empty: f64,
    pub asleep: f64,
    pub sleeps: u64,
    pub packets: u64,
    /// Arrivals at its queues.
    pub arrivals: u64,
    pub softirq: f64,
    pub residency: Option<[f64; MAX_IDLE_STATES]>,
    /// Frequency at the end of the period.
    pub frequency: Option<Hertz>,
}

/// A period.
#[derive(Debug, Clone, Default)]
pub(super) struct Period {
    pub seconds: f64,
    pub cores: Vec<CoreWork>,
    pub arrivals: u64,
    pub bytes: u64,
    pub entries: u64,
    pub sums: Sums,
}

impl Period {
    /// Creates the period between two looks; `core_of` returns the core of a queue.
    pub fn between(
        from: &Snapshot,
        to: &Snapshot,
        sums: Sums,
        core_of: impl Fn(usize) -> usize,
    ) -> Self {
        let mut cores: Vec<CoreWork> = from.cores.iter().zip(&to.cores).map(core_work).collect();
        for (number, (before, now)) in from.queues.iter().zip(&to.queues).enumerate() {
            if let Some(core) = cores.get_mut(core_of(number)) {
                core.arrivals += now.arrivals.saturating_sub(before.arrivals);
            }
        }
        Self {
            seconds: to.at.since(from.at).as_seconds(),
            cores,
            arrivals: to.arrivals().saturating_sub(from.arrivals()),
            bytes: to.bytes().saturating_sub(from.bytes()),
            entries: to.entries.saturating_sub(from.entries),
            sums,
        }
    }

    fn sum(&self, of: impl Fn(&CoreWork) -> f64) -> f64 {
        self.cores.iter().map(of).sum()
    }

    pub fn packets(&self) -> u64 {
        self.cores.iter().map(|core| core.packets).sum()
    }

    pub fn sleeps(&self) -> u64 {
        self.cores.iter().map(|core| core.sleeps).sum()
    }

    /// Returns the seconds of work per packet.
    pub fn seconds_per_packet(&self) -> Option<f64> {
        let packets = self.packets();
        (packets > 0).then(|| self.sum(|core| core.useful) / packets as f64)
    }

    /// Returns the seconds per sleep.
    pub fn seconds_per_sleep(&self) -> Option<f64> {
        let sleeps = self.sleeps();
        (sleeps > 0).then(|| self.sum(|core| core.asleep) / sleeps as f64)
    }

    /// Returns these seconds as a share of all cores' time.
    fn share(&self, seconds: f64) -> f64 {
        seconds / (self.seconds * self.cores.len() as f64)
    }

    pub fn asleep(&self) -> f64 {
        self.share(self.sum(|core| core.asleep))
    }

    pub fn empty(&self) -> f64 {
        self.share(self.sum(|core| core.empty))
    }

    pub fn softirq(&self) -> f64 {
        self.sum(|core| core.softirq)
    }

    /// Returns the share of one idle state; `None` if it is not shown.
    pub fn resident(&self, state: usize) -> Option<f64> {
        let spent: Option<f64> =
            self.cores.iter().map(|core| core.residency?.get(state).copied()).sum();
        spent.map(|spent| self.share(spent))
    }

    /// Returns the share of all idle states.
    pub fn resident_at_all(&self) -> Option<f64> {
        (0..MAX_IDLE_STATES).map(|state| self.resident(state)).sum()
    }

    /// Returns the share of packets that arrived at the first core.
    pub fn first_core(&self) -> Option<f64> {
        let first = self.cores.first()?.arrivals;
        (self.arrivals > 0).then(|| first as f64 / self.arrivals as f64)
    }
}

fn core_work((from, to): (&CoreView, &CoreView)) -> CoreWork {
    // An unobserved core has spent no time.
    let residency = to.residency.map(|to| {
        let mut spent = [0.0; MAX_IDLE_STATES];
        let from = from.residency.unwrap_or_default();
        let both = from.iter().zip(&to);
        spent.iter_mut().zip(both).for_each(|(s, (from, to))| *s = (*to - *from).as_seconds());
        spent
    });
    let softirq = from.softirq.zip(to.softirq).map_or(0.0, |(from, to)| (to - from).as_seconds());
    CoreWork {
        useful: (to.useful - from.useful).as_seconds(),
        empty: (to.empty - from.empty).as_seconds(),
        asleep: (to.asleep - from.asleep).as_seconds(),
        sleeps: to.sleeps.saturating_sub(from.sleeps),
        packets: to.packets.saturating_sub(from.packets),
        arrivals: 0,
        softirq,
        residency,
        frequency: to.frequency,
    }
}
