//! Description of the machine that a policy governs.

use crate::{Asks, CoreSet, MAX_CORES, Sees, Waits};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use wattline_units::{Hertz, Span};

/// Cores that change their frequency together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrequencyDomain {
    /// Each core has its own frequency.
    Core,
    /// All cores have one frequency: the fastest that any core requests.
    Chip,
    /// Groups of n neighbours have one frequency each: cores 0 to n - 1, n to 2n - 1 and so on. It
    /// is the fastest that an active core of the group requests.
    Cluster(std::num::NonZeroU8),
}

impl FrequencyDomain {
    /// Returns the cores that share a frequency with `core`, itself included, on a platform of
    /// `cores`.
    pub fn sharers(self, core: usize, cores: usize) -> CoreSet {
        match self {
            Self::Core => CoreSet::only(core),
            Self::Chip => CoreSet::first(cores),
            Self::Cluster(size) => {
                let size = usize::from(size.get());
                let first = core / size * size;
                (first..(first + size).min(cores)).collect()
            }
        }
    }
}

/// An idle state of a core.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IdleState {
    /// Name of the state, such as `C1`.
    pub name: String,
    /// Mean time from an interrupt until the core executes again, from the machine's tables or the
    /// server model.
    pub exit_latency: Span,
    /// Exit latency as measured on this machine.
    pub exit_latency_measured: Option<Span>,
}

impl IdleState {
    /// Returns the mean time from an interrupt until the core executes again: the measured one, if
    /// known.
    pub fn wakes_within(&self) -> Span {
        self.exit_latency_measured.unwrap_or(self.exit_latency)
    }
}

/// A receive queue: its port, and the core that serves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Port, numbered from 0.
    pub port: usize,
    /// Core that gets its interrupt and polls it.
    pub core: usize,
}

/// Knobs of the platform, and the figures and events that it reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Can {
    /// Cores can be removed from the indirection table and added again.
    pub set_cores: bool,
    /// Frequencies can be chosen.
    pub set_frequency: bool,
    /// The deepest idle state can be limited.
    pub limit_idle: bool,
    /// Interrupt moderation can be set, per queue.
    pub set_moderation: bool,
    /// The shares of active cores in the indirection table can be chosen.
    pub set_weights: bool,
    /// The number of packets that a core takes from a queue at once can be chosen.
    #[serde(default)]
    pub set_batch: bool,
    /// The upper limit of the uncore's frequency can be chosen.
    pub set_uncore: bool,
    /// A queue's moderation can be left to a rule of the driver ([`crate::moderation`]).
    #[serde(default)]
    pub driver_rules: bool,
    /// The wait modes that cores can be given.
    pub waits: Waits,
    /// Figures that it reports.
    pub sees: Sees,
    /// Events at which it can ask, with their accuracy.
    pub asks: Asks,
}

impl Can {
    /// No abilities.
    pub const NOTHING: Self = Self {
        set_cores: false,
        set_frequency: false,
        limit_idle: false,
        set_moderation: false,
        set_weights: false,
        set_batch: false,
        set_uncore: false,
        driver_rules: false,
        waits: Waits::NONE,
        sees: Sees::NOTHING,
        asks: Asks::NOTHING,
    };
    /// Every knob, and every event exactly; reports queues and cores only.
    pub const EVERY_KNOB: Self = Self {
        set_cores: true,
        set_frequency: true,
        limit_idle: true,
        set_moderation: true,
        set_weights: true,
        set_batch: true,
        set_uncore: true,
        driver_rules: false,
        waits: Waits::ALL,
        sees: Sees::NOTHING,
        asks: Asks::EXACT,
    };
}

/// The machine, as described to a policy; constant during a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Platform {
    /// Number of cores that can forward packets, 1 to [`MAX_CORES`].
    pub cores: usize,
    /// Frequencies in ascending order: index 0 is the slowest P-state.
    pub frequencies: Vec<Hertz>,
    /// Cores that share a frequency.
    pub domain: FrequencyDomain,
    /// Time that a change of frequency takes; zero if it is not known.
    pub frequency_transition: Span,
    /// Upper limits that the uncore (caches, mesh, memory controllers) can be given, ascending;
    /// empty if it cannot be set.
    pub uncore: Vec<Hertz>,
    /// Idle states in descending order of power: index 0 is the lightest.
    pub idle_states: Vec<IdleState>,
    /// Receive queues; the index is the queue's number everywhere.
    pub queues: Vec<Queue>,
    /// Description of the hardware that is the same at every start; empty for a machine that is not
    /// real.
    pub hardware: Vec<String>,
    /// Packets that one receive ring holds; `None` if it has no limit.
    pub ring_size: Option<usize>,
    /// Maximum number of packets that a core can take from a queue at once; `None` if there is no
    /// limit.
    #[serde(default)]
    pub batch_max: Option<u32>,
    /// Shortest and longest span between two interrupts of a queue that can be set.
    pub moderation: (Span, Span),
    /// Span set by the drivers before it was first changed; `None` if unknown or absent.
    pub moderation_found: Option<Span>,
    /// Abilities of the platform.
    pub can: Can,
}

/// Reason why no policy can work on a platform.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlatformError {
    /// The number of cores is out of range.
    #[error("platform has {0} cores; 1 to {MAX_CORES} are supported")]
    Cores(usize),
    /// No frequency, or not in ascending order.
    #[error("platform frequencies must be given in ascending order, at least one")]
    Frequencies,
    /// No idle state.
    #[error("platform needs at least one idle state (the lightest, such as C1)")]
    IdleStates,
    /// A queue refers to a core that does not exist.
    #[error("queue {queue} belongs to core {core}, but there are {cores} cores")]
    Queue {
        /// The queue.
        queue: usize,
        /// Its core.
        core: usize,
        /// Number of cores.
        cores: usize,
    },
}

impl Platform {
    /// One core without any knob. Descriptions start from it and add the platform's abilities.
    pub const BARE: Self = Self {
        cores: 1,
        frequencies: Vec::new(),
        domain: FrequencyDomain::Core,
        frequency_transition: Span::ZERO,
        uncore: Vec::new(),
        idle_states: Vec::new(),
        queues: Vec::new(),
        hardware: Vec::new(),
        ring_size: None,
        batch_max: None,
        moderation: (Span::ZERO, Span::ZERO),
        moderation_found: None,
        can: Can::NOTHING,
    };

    /// Checks the description, so that policies can rely on it.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn check(&self) -> Result<(), PlatformError> {
        if self.cores == 0 || self.cores > MAX_CORES {
            return Err(PlatformError::Cores(self.cores));
        }
        if self.frequencies.is_empty() || self.frequencies.windows(2).any(|f| f[0] >= f[1]) {
            return Err(PlatformError::Frequencies);
        }
        if self.idle_states.is_empty() {
            return Err(PlatformError::IdleStates);
        }
        match self.queues.iter().enumerate().find(|(_, queue)| queue.core >= self.cores) {
            Some((queue, at)) => {
                Err(PlatformError::Queue { queue, core: at.core, cores: self.cores })
            }
            None => Ok(()),
        }
    }

    /// Returns the moderation of a queue for which none is chosen: the driver's original one, or no
    /// moderation if that is unknown.
    pub fn default_moderation(&self) -> Span {
        self.moderation_found.unwrap_or(self.moderation.0)
    }

    /// Returns all cores.
    pub fn all_cores(&self) -> CoreSet {
        CoreSet::first(self.cores)
    }
    /// Returns the index of the fastest frequency.
    pub fn fastest(&self) -> usize {
        self.frequencies.len().saturating_sub(1)
    }
    /// Returns the index of the deepest idle state.
    pub fn deepest(&self) -> usize {
        self.idle_states.len().saturating_sub(1)
    }
    /// Returns the index of the slowest frequency that is not below `wanted`; of the fastest if
    /// none is.
    pub fn at_least(&self, wanted: Hertz) -> usize {
        self.frequencies.iter().position(|&f| f >= wanted).unwrap_or(self.fastest())
    }
    /// Returns the index of the fastest frequency that is not above `wanted`; of the slowest if
    /// none is.
    pub fn at_most(&self, wanted: Hertz) -> usize {
        self.frequencies.iter().rposition(|&f| f <= wanted).unwrap_or(0)
    }
    /// Returns the index of the frequency nearest to `wanted`, the faster of two equally near.
    pub fn closest(&self, wanted: Hertz) -> usize {
        let (below, above) = (self.at_most(wanted), self.at_least(wanted));
        let gap = |index: usize| (self.frequencies[index].0 - wanted.0).abs();
        if gap(below) < gap(above) { below } else { above }
    }
    /// Returns the index of the idle state with this name, ignoring case.
    pub fn idle_state(&self, name: &str) -> Option<usize> {
        self.idle_states.iter().position(|state| state.name.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::westmere;

    #[test]
    fn relations_to_a_wanted_frequency() {
        let platform = westmere();
        assert_eq!(platform.at_least(Hertz(1.7e9)), 1);
        assert_eq!(platform.at_most(Hertz(1.7e9)), 0);
        assert_eq!(platform.closest(Hertz(1.64e9)), 0);
        assert_eq!(platform.closest(Hertz(9e9)), 13);
        assert_eq!(platform.at_least(Hertz(9e9)), 13);
        assert_eq!(platform.idle_state("c6"), Some(2));
    }

    #[test]
    fn cores_that_share_a_frequency() {
        let cluster = FrequencyDomain::Cluster(std::num::NonZeroU8::new(4).unwrap());
        assert_eq!(FrequencyDomain::Core.sharers(3, 6), CoreSet::only(3));
        assert_eq!(FrequencyDomain::Chip.sharers(3, 6), CoreSet::first(6));
        assert_eq!(cluster.sharers(3, 6), CoreSet::first(4));
        assert_eq!(cluster.sharers(4, 6), (4..6).collect(), "the last cluster may be smaller");
    }

    #[test]
    fn contradictions_are_named() {
        let mut platform = westmere();
        platform.queues[3].core = 12;
        let error = platform.check().unwrap_err();
        assert_eq!(error, PlatformError::Queue { queue: 3, core: 12, cores: 12 });
        platform.frequencies.swap(0, 1);
        assert_eq!(platform.check(), Err(PlatformError::Frequencies));
        platform.cores = 0;
        assert_eq!(platform.check(), Err(PlatformError::Cores(0)));
    }
}
