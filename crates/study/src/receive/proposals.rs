//! The paper's proposals as settings of the receive path, and their effects.

use super::cost::{Cycles, Energy};
use super::outcome::Outcome;
use super::path::{Buffers, Delivery, InvalidPath, ReceivePath};
use serde::Serialize;
use wattline_units::{Watts, named};

named! {
    /// A change of the receive path discussed in section 3.4 or 4.3.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(into = "&'static str")]
    pub enum Proposal {
        /// The unchanged server.
        None = "as it is",
        /// Packets are written into the cache, as on platforms of the time.
        DirectCacheAccess = "direct cache access",
        /// Contiguous buffers, reused at once.
        ContiguousBuffers = "contiguous buffers, reused at once",
        /// An engine copies inside the cache, which direct cache access has filled.
        CopyEngine = "copy engine with direct cache access",
        /// Packets are dropped from the cache after the copy, in addition to direct cache access.
        Invalidation = "invalidation after the copy, with direct cache access",
        /// SKB and page lines are pushed into the cache as well.
        ExtendedDirectCacheAccess = "direct cache access for SKB and page lines too",
        /// The same with the card on the processor's die.
        OnDie = "the same, card on the die",
        /// All compatible ones: contiguous buffers, direct cache access, copy engine, invalidation.
        Together = "contiguous buffers, engine, invalidation, direct cache access",
    }
}

impl From<Proposal> for &'static str {
    fn from(proposal: Proposal) -> Self {
        proposal.word()
    }
}

impl Proposal {
    /// Returns the word for it on the command line and in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::DirectCacheAccess => "direct-cache-access",
            Self::ContiguousBuffers => "contiguous-buffers",
            Self::CopyEngine => "copy-engine",
            Self::Invalidation => "invalidation",
            Self::ExtendedDirectCacheAccess => "extended-direct-cache-access",
            Self::OnDie => "on-die",
            Self::Together => "together",
        }
    }

    /// Returns the path with the proposal applied.
    pub fn apply(self, path: ReceivePath) -> ReceivePath {
        let dca = ReceivePath { delivery: Delivery::Cache, ..path };
        let extended = ReceivePath { delivery: Delivery::CacheWithMetadata, ..path };
        match self {
            Self::None => path,
            Self::DirectCacheAccess => dca,
            Self::ContiguousBuffers => ReceivePath { buffers: Buffers::Contiguous, ..path },
            Self::CopyEngine => ReceivePath { copy_engine: true, ..dca },
            Self::Invalidation => ReceivePath { invalidate: true, ..dca },
            Self::ExtendedDirectCacheAccess => extended,
            Self::OnDie => ReceivePath { on_die: true, ..extended },
            Self::Together => ReceivePath {
                buffers: Buffers::Contiguous,
                copy_engine: true,
                invalidate: true,
                ..dca
            },
        }
    }
}

/// Effect of a proposal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Effect {
    /// The proposal.
    pub proposal: Proposal,
    /// Counts of the simulation.
    #[serde(skip)]
    pub outcome: Outcome,
    /// Modelled cycles per packet.
    pub cycles: Cycles,
    /// Modelled power of the processors at line rate.
    #[serde(rename = "cpu_watts")]
    pub cpu: Watts,
    /// Modelled power of the memory at line rate.
    #[serde(rename = "memory_watts")]
    pub memory: Watts,
}

/// Simulates every proposal on `path`. `energy` computes the energy from the outcome without a
/// proposal, or returns `None` if it cannot.
///
/// # Errors
/// Fails when the path cannot be simulated.
pub fn effects(
    path: ReceivePath,
    packets: u64,
    energy: impl Fn(&Outcome) -> Option<Energy>,
) -> Result<Option<Vec<Effect>>, InvalidPath> {
    let base = path.run(packets)?;
    let Some(energy) = energy(&base) else { return Ok(None) };
    let mut all = Vec::with_capacity(Proposal::ALL.len());
    for proposal in Proposal::ALL {
        let changed = proposal.apply(path);
        let outcome = match proposal {
            Proposal::None => base.clone(),
            _ => changed.run(packets)?,
        };
        let cycles = Cycles::with(&base, &outcome, changed.copy_engine);
        let (cpu, memory) = (energy.cpu(cycles.total()), energy.memory(outcome.memory_lines()));
        all.push(Effect { proposal, outcome, cycles, cpu, memory });
    }
    Ok(Some(all))
}
