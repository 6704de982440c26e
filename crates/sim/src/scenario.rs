//! A full description of a simulation, traffic included; commands and sweeps run it.

use crate::engine::check_polls;
use crate::error::SimError;
use crate::knobs::KnobBehaviour;
use crate::report::Report;
use crate::run::{play, run_on};
use crate::setting::Setting;
use crate::tally::{Tally, tallied};
use wattline_cores::{ModelError, platform_of};
use wattline_policy::{BuildContext, Policy, PolicySpec, build};
use wattline_server::{Application, ServerModel};
use wattline_traffic::{Source, Spec};
use wattline_units::Span;

/// One simulation. The same scenario gives the same report, except for real time.
#[derive(Debug, Clone)]
pub struct Scenario<'a> {
    /// The server.
    pub server: &'a ServerModel,
    /// Application that handles each packet.
    pub application: Application,
    /// Policy that governs the server.
    pub policy: PolicySpec,
    /// Description of the traffic.
    pub traffic: &'a Spec,
    /// Simulated time that is reported on.
    pub duration: Span,
    /// Simulated time before the reported span.
    pub warmup: Span,
    /// Length of the reported intervals; `None` for a total only.
    pub interval: Option<Span>,
    /// Whether packets leave through output links of the server's rate, with one port per flow.
    /// Otherwise a packet has left when its core has finished it.
    pub output_links: bool,
    /// Seed of traffic, policy and service times.
    pub seed: u64,
    /// Whether to measure the real time of the simulator's parts.
    pub profile: bool,
}

/// Mean length in bytes for policies if the description does not give one.
const UNKNOWN_MEAN_BYTES: u32 = 64;

impl Scenario<'_> {
    /// Runs the simulation.
    ///
    /// # Errors
    /// Fails when the scenario contradicts itself or its packets cannot be read.
    pub fn run(&self) -> Result<Report, SimError> {
        self.run_on(KnobBehaviour::default())
    }

    /// Runs the simulation on a server with knobs of this behaviour.
    ///
    /// # Errors
    /// Fails like [`Self::run`].
    pub fn run_on(&self, knobs: KnobBehaviour) -> Result<Report, SimError> {
        self.check_links()?;
        let mut source = self.traffic.build(self.seed)?;
        let setting = self.setting();
        self.measured(run_on(&setting, knobs, source.as_mut(), |context| {
            Ok(build(&setting.policy, context).map_err(ModelError::from)?)
        })?)
    }

    /// Runs the simulation with a policy of the caller instead, and counts the packets that took
    /// longer than `late_after` ([`Report::late_packets`]).
    ///
    /// # Errors
    /// Fails like [`Self::run`], or when `make` fails.
    pub fn run_counting_late(
        &self,
        late_after: Span,
        make: impl FnOnce(&BuildContext<'_>) -> Result<Box<dyn Policy>, SimError>,
    ) -> Result<Report, SimError> {
        self.run_counting_late_on(KnobBehaviour::default(), late_after, make)
    }

    /// The same on a server with knobs of this behaviour.
    ///
    /// # Errors
    /// Fails like [`Self::run`], or when `make` fails.
    pub fn run_counting_late_on(
        &self,
        knobs: KnobBehaviour,
        late_after: Span,
        make: impl FnOnce(&BuildContext<'_>) -> Result<Box<dyn Policy>, SimError>,
    ) -> Result<Report, SimError> {
        self.check_links()?;
        let mut source = self.traffic.build(self.seed)?;
        self.measured(play(&self.setting(), knobs, source.as_mut(), &[late_after], make)?)
    }

    /// Runs the scenario's policy once and counts the packets above each of several bounds: above
    /// the first in [`Report::late_packets`], above the others in
    /// [`Report::late_packets_further`].
    ///
    /// # Errors
    /// Fails like [`Self::run`].
    pub fn run_counting_late_by(&self, late_after: &[Span]) -> Result<Report, SimError> {
        self.check_links()?;
        let mut source = self.traffic.build(self.seed)?;
        let setting = self.setting();
        let knobs = KnobBehaviour::default();
        self.measured(play(&setting, knobs, source.as_mut(), late_after, |context| {
            Ok(build(&setting.policy, context).map_err(ModelError::from)?)
        })?)
    }

    /// Runs it on a server whose knobs behave like this, under a policy of the caller's own, with
    /// the packets that `watch` lets through: so a caller shows progress, or ends the run by an
    /// error of its source.
    ///
    /// # Errors
    /// As [`Self::run`], and those of `make` and of the watched source.
    pub fn run_watched(
        &self,
        knobs: KnobBehaviour,
        watch: impl FnOnce(Box<dyn Source>) -> Box<dyn Source>,
        make: impl FnOnce(&BuildContext<'_>) -> Result<Box<dyn Policy>, SimError>,
    ) -> Result<Report, SimError> {
        self.check_links()?;
        let mut source = watch(self.traffic.build(self.seed)?);
        self.measured(run_on(&self.setting(), knobs, source.as_mut(), make)?)
    }

    /// Runs the simulation with a policy and packets of the caller, and tallies every span of length
    /// `every`.
    ///
    /// # Errors
    /// Fails like [`Self::run`], or when `make` fails.
    pub fn run_tallied(
        &self,
        source: &mut dyn Source,
        late_after: Span,
        every: Span,
        make: impl FnOnce(&BuildContext<'_>) -> Result<Box<dyn Policy>, SimError>,
    ) -> Result<(Report, Vec<Tally>), SimError> {
        self.check_links()?;
        tallied(&self.setting(), source, late_after, every, make)
    }

    /// Whether the times can be simulated, and the links carry what is known of the traffic: what can
    /// be told before a run. No capture is opened.
    ///
    /// # Errors
    /// [`SimError::Duration`] and [`SimError::BeyondLinks`], as a run gives them.
    pub fn check(&self) -> Result<(), SimError> {
        self.setting().check()?;
        self.check_links()
    }

    /// Whether the policy can be made for the server, as a run makes it.
    ///
    /// # Errors
    /// What the policy lacks.
    pub fn check_policy(&self) -> Result<(), SimError> {
        let platform = platform_of(self.server);
        platform.check().map_err(ModelError::from)?;
        let setting = self.setting();
        let policy = build(&setting.policy, &setting.context(&platform));
        check_polls(&mut *policy.map_err(ModelError::from)?, self.server, &platform)
    }

    /// The report, unless a capture was to be replayed and its packets miss the measured time: idle power
    /// would pass for its result. Described traffic may be as slow as it likes.
    fn measured(&self, report: Report) -> Result<Report, SimError> {
        if report.offered_packets > 0 || !self.traffic.replays() {
            return Ok(report);
        }
        Err(SimError::NothingMeasured {
            from_seconds: self.warmup.as_seconds(),
            until_seconds: (self.warmup + self.duration).as_seconds(),
        })
    }

    fn setting(&self) -> Setting<'_> {
        Setting {
            server: self.server,
            application: self.application,
            policy: self.policy.clone(),
            mean_bytes: self.mean_bytes(),
            duration: self.duration,
            warmup: self.warmup,
            interval: self.interval,
            output_links: self.output_links,
            seed: self.seed,
            log_states: false,
            profile: self.profile,
        }
    }

    /// Mean length of a packet in bytes, as given to policies.
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
        let nic = &self.server.nic;
        let most = nic.link.0 * nic.ports as f64;
        if offered.0 <= most * (1.0 + 1e-9) {
            return Ok(());
        }
        Err(SimError::BeyondLinks {
            offered_gbps: offered.0 / 1e9,
            most_gbps: most / 1e9,
            ports: nic.ports,
            server: self.server.name.clone(),
        })
    }
}
