//! A full description of a simulation, traffic included; commands and sweeps run it.

use crate::engine::check_polls;
use crate::error::SimError;
use crate::report::Report;
use crate::run::run_with;
use crate::setting::Setting;
use crate::tally::{Tally, tallied};
use wattline_cores::{ModelError, platform_of};
use wattline_policy::{BuildContext, Policy, build};
use wattline_traffic::{Source, Spec};
use wattline_units::Span;

/// One simulation. The same scenario gives the same report, except for real time.
#[derive(Debug, Clone)]
pub struct Scenario<'a> {
    /// All settings except the packets; the seed also applies to the traffic, and the mean length
    /// of packets follows from the traffic.
    pub setting: Setting<'a>,
    /// Description of the traffic.
    pub traffic: &'a Spec,
}

/// Mean length in bytes for policies if the description does not give one.
const UNKNOWN_MEAN_BYTES: u32 = 64;

impl Scenario<'_> {
    /// Runs the simulation.
    ///
    /// # Errors
    /// Fails when the scenario contradicts itself or its packets cannot be read.
    pub fn run(&self) -> Result<Report, SimError> {
        self.run_with(|context| Ok(build(&self.setting.policy, context).map_err(ModelError::from)?))
    }

    /// Runs the simulation with the caller's policy.
    ///
    /// # Errors
    /// Fails like [`Self::run`], or when `make` fails.
    pub fn run_with(
        &self,
        make: impl FnOnce(&BuildContext<'_>) -> Result<Box<dyn Policy>, SimError>,
    ) -> Result<Report, SimError> {
        self.run_watched(|source| source, make)
    }

    /// Like [`Self::run_with`], with the packets that `watch` passes on: a caller can show
    /// progress, or end the run by an error of its source.
    ///
    /// # Errors
    /// As [`Self::run_with`], and those of the watched source.
    pub fn run_watched(
        &self,
        watch: impl FnOnce(Box<dyn Source>) -> Box<dyn Source>,
        make: impl FnOnce(&BuildContext<'_>) -> Result<Box<dyn Policy>, SimError>,
    ) -> Result<Report, SimError> {
        self.check_links()?;
        let mut source = watch(self.traffic.build(self.setting.seed)?);
        self.measured(run_with(&self.setting(), source.as_mut(), make)?)
    }

    /// Runs the simulation with the caller's policy and packets, and tallies every span of length
    /// `every`.
    ///
    /// # Errors
    /// Fails like [`Self::run_with`].
    pub fn run_tallied(
        &self,
        source: &mut dyn Source,
        every: Span,
        make: impl FnOnce(&BuildContext<'_>) -> Result<Box<dyn Policy>, SimError>,
    ) -> Result<(Report, Vec<Tally>), SimError> {
        self.check_links()?;
        tallied(&self.setting(), source, every, make)
    }

    /// Checks before a run that the times can be simulated, and that the links carry the traffic as
    /// far as it is known. No capture is opened.
    ///
    /// # Errors
    /// Returns [`SimError::Duration`] and [`SimError::BeyondLinks`], as a run does.
    pub fn check(&self) -> Result<(), SimError> {
        self.setting.check()?;
        self.check_links()
    }

    /// Checks that the policy can be built for the server, as in a run.
    ///
    /// # Errors
    /// Describes the unmet needs of the policy.
    pub fn check_policy(&self) -> Result<(), SimError> {
        let platform = platform_of(self.setting.server);
        platform.check().map_err(ModelError::from)?;
        let setting = self.setting();
        let policy = build(&setting.policy, &setting.context(&platform));
        check_polls(&mut *policy.map_err(ModelError::from)?, self.setting.server, &platform)
    }

    /// Returns the report, unless a replayed capture has no packets in the measured span: idle
    /// power would pass for its result. Described traffic may have any rate.
    fn measured(&self, report: Report) -> Result<Report, SimError> {
        if report.offered_packets > 0 || !self.traffic.replays() {
            return Ok(report);
        }
        Err(SimError::NothingMeasured {
            from_seconds: self.setting.warmup.as_seconds(),
            until_seconds: (self.setting.warmup + self.setting.duration).as_seconds(),
        })
    }

    fn setting(&self) -> Setting<'_> {
        Setting { mean_bytes: self.mean_bytes(), ..self.setting.clone() }
    }

    /// Returns the mean length of a packet in bytes, as given to policies.
    pub fn mean_bytes(&self) -> u32 {
        match (self.traffic.bit_rate(), self.traffic.packet_rate()) {
            (Some(bits), Some(packets)) if packets.0 > 0.0 => {
                (bits.0 / packets.0 / 8.0).round() as u32
            }
            _ => UNKNOWN_MEAN_BYTES,
        }
    }

    /// Refuses traffic that the links cannot carry even without preambles and gaps, which papers do
    /// not count. Packets lost to preambles and gaps are reported as `beyond_link_packets`.
    fn check_links(&self) -> Result<(), SimError> {
        let Some(offered) = self.traffic.bit_rate() else { return Ok(()) };
        let nic = &self.setting.server.nic;
        let most = nic.link.0 * nic.ports as f64;
        if offered.0 <= most * (1.0 + 1e-9) {
            return Ok(());
        }
        Err(SimError::BeyondLinks {
            offered_gbps: offered.0 / 1e9,
            most_gbps: most / 1e9,
            ports: nic.ports,
            server: self.setting.server.name.clone(),
        })
    }
}
