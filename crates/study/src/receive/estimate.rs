//! Cycles, cores and watts of a receive path at a rate, calibrated with the paper's server.

use super::cost::{CLOCK, Cycles, Energy, packets};
use super::outcome::Outcome;
use super::path::{InvalidPath, ReceivePath};
use serde::Serialize;
use wattline_server::components::{ComponentFile, Direction};
use wattline_units::{BitsPerSecond, Watts};

/// The paper's server: its misses, and the energy of its cycles and lines of memory.
#[derive(Debug, Clone)]
pub struct Calibration {
    base: Outcome,
    energy: Energy,
}

/// A receive path at a rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// Counts of the simulation.
    #[serde(skip)]
    pub outcome: Outcome,
    /// Modelled cycles per packet: the paper's, with the stalls of this path.
    pub cycles: Cycles,
    /// Cores of the paper's clock that the rate keeps busy.
    pub busy_cores: f64,
    /// Modelled power of the processors.
    #[serde(rename = "cpu_watts")]
    pub cpu: Watts,
    /// Modelled power of the memory.
    #[serde(rename = "memory_watts")]
    pub memory: Watts,
}

impl Energy {
    /// Computes the energy from the receiving measurement of `host` with the largest I/O, and the
    /// lines per packet in `base`; `None` if `host` lacks power or throughput.
    pub fn measured_on(host: &ComponentFile, base: &Outcome) -> Option<Self> {
        let receiving = host.scenarios.iter().filter(|it| it.direction == Direction::Receive);
        let large = receiving.max_by_key(|scenario| scenario.io_bytes)?;
        Some(Self::from(large.cpu?, large.memory?, large.throughput?, base))
    }
}

impl Calibration {
    /// Simulates the paper's path; `None` if `host` lacks power or throughput.
    ///
    /// # Errors
    /// Never for the paper's path, which can be simulated.
    pub fn new(host: &ComponentFile, packets: u64) -> Result<Option<Self>, InvalidPath> {
        let base = ReceivePath::default().run(packets)?;
        Ok(Energy::measured_on(host, &base).map(|energy| Self { base, energy }))
    }

    /// Simulates a path and estimates its cost at a goodput.
    ///
    /// # Errors
    /// Fails when the path cannot be simulated.
    pub fn estimate(
        &self,
        path: &ReceivePath,
        count: u64,
        goodput: BitsPerSecond,
    ) -> Result<Estimate, InvalidPath> {
        let outcome = path.run(count)?;
        let cycles = Cycles::with(&self.base, &outcome, path.copy_engine);
        let rate = packets(goodput);
        let energy = Energy { rate, ..self.energy };
        Ok(Estimate {
            cycles,
            busy_cores: cycles.total() * rate.0 / CLOCK.0,
            cpu: energy.cpu(cycles.total()),
            memory: energy.memory(outcome.memory_lines()),
            outcome,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receive::cost::{ONE_CORE, total_cycles};
    use crate::receive::proposals::Proposal;

    const PACKETS: u64 = 6_000;

    #[test]
    fn papers_path_has_the_printed_cost() {
        let host = ComponentFile::load("liao-2011-host").unwrap();
        let calibration = Calibration::new(&host, PACKETS).unwrap().unwrap();
        let at = |path: &ReceivePath, rate| calibration.estimate(path, PACKETS, rate).unwrap();
        let base = at(&ReceivePath::default(), ONE_CORE);
        assert!((base.cycles.total() - total_cycles()).abs() < 1e-6, "{base:?}");
        assert!((base.busy_cores - 1.0).abs() < 1e-9, "one core carries {ONE_CORE:?}");
        // Twice the rate takes twice the watts, and a larger cache fewer cycles.
        let twice = at(&ReceivePath::default(), ONE_CORE * 2.0);
        assert!((twice.cpu.0 / base.cpu.0 - 2.0).abs() < 1e-9);
        assert!((twice.memory.0 / base.memory.0 - 2.0).abs() < 1e-9);
        let large = at(&ReceivePath { llc_bytes: 32 << 20, ..ReceivePath::default() }, ONE_CORE);
        assert!(large.cycles.total() < base.cycles.total() && large.memory < base.memory);
        let engine = at(&Proposal::Together.apply(ReceivePath::default()), ONE_CORE);
        assert!(engine.busy_cores < 0.7, "{engine:?}");
    }

    #[test]
    fn shipped_receive_paths_match_the_proposals() {
        let host = ComponentFile::load("liao-2011-host").unwrap();
        let calibration = Calibration::new(&host, PACKETS).unwrap().unwrap();
        for shipped in &host.receive_paths {
            let of_name = |proposal: &Proposal| proposal.word() == shipped.name;
            let proposal = Proposal::ALL.into_iter().find(of_name).unwrap_or(Proposal::None);
            assert_eq!(proposal == Proposal::None, shipped.name == "published");
            let path = proposal.apply(ReceivePath::default());
            let cycles = calibration.estimate(&path, PACKETS, ONE_CORE).unwrap().cycles;
            // The file has the cycles of ten times as many packets.
            for (simulated, shipped) in
                [(cycles.driver, shipped.driver), (cycles.release, shipped.release)]
            {
                assert!(
                    (simulated / shipped - 1.0).abs() < 0.03,
                    "{proposal:?}: {simulated}, not {shipped}"
                );
            }
        }
    }
}
