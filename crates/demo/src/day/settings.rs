//! Settings of the demonstration.

use std::time::Duration;
use wattline_policy::PolicySpec;
use wattline_server::{Application, ServerModel};
use wattline_sim::{Scenario, Setting};
use wattline_traffic::Spec;
use wattline_units::Span;

/// Number of intervals in a day, each a bit less than a quarter of an hour, after a warm-up of one
/// interval.
pub const INTERVALS: u64 = 100;

/// Length of an interval in model time: whole microseconds, at least one.
fn interval(duration: Duration, dilation: u32) -> Span {
    let micros = duration.as_micros() / u128::from(dilation.max(1)) / u128::from(INTERVALS);
    Span::from_micros(u64::try_from(micros).unwrap_or(u64::MAX).clamp(1, 1_000_000_000))
}

/// Description of the traffic of a day with this duration in real time; see [`Settings`].
pub fn traffic(load: &str, size: &str, duration: Duration, dilation: u32) -> String {
    let micros = (interval(duration, dilation) * INTERVALS).as_picos() / 1_000_000;
    format!("day:{load},size={size},duration={micros}us")
}

/// Settings of the demonstration.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The emulated server.
    pub server: ServerModel,
    /// Policies to run, one after the other.
    pub policies: Vec<PolicySpec>,
    /// Mean load, as in a description of traffic: `35%`.
    pub load: String,
    /// Lengths of packets, as in a description of traffic: `imix`.
    pub size: String,
    /// Duration of the day in real time.
    pub duration: Duration,
    /// Dilation: real time divided by model time.
    pub dilation: u32,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Settings {
    /// Application that handles each packet.
    pub const APPLICATION: Application = Application::Ipv4;

    /// Length of an interval in model time.
    pub fn interval(&self) -> Span {
        interval(self.duration, self.dilation)
    }

    /// Length of the day in model time.
    pub fn day(&self) -> Span {
        self.interval() * INTERVALS
    }

    /// Traffic, in the form of `wattline sim --traffic`.
    pub fn traffic(&self) -> String {
        traffic(&self.load, &self.size, self.duration, self.dilation)
    }

    /// Returns the simulation of the day under a policy on a server.
    pub(super) fn scenario<'a>(
        &self,
        server: &'a ServerModel,
        policy: &PolicySpec,
        traffic: &'a Spec,
    ) -> Scenario<'a> {
        let setting = Setting {
            application: Self::APPLICATION,
            warmup: self.interval(),
            interval: Some(self.interval()),
            seed: self.seed,
            ..Setting::new(server, policy.clone(), self.day())
        };
        Scenario { setting, traffic }
    }

    /// Returns the parsed description of the traffic.
    ///
    /// # Errors
    /// Returns the faults of load or sizes.
    pub fn spec(&self) -> Result<Spec, wattline_traffic::spec::SpecError> {
        Spec::parse(&self.traffic())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use wattline_policies::POLICIES;
    use wattline_server::ServerFile;

    /// Returns a short day with little traffic.
    pub(in crate::day) fn settings(
        policies: &[&str],
        dilation: u32,
        duration: Duration,
    ) -> Settings {
        let file = ServerFile::load("westmere-2010").unwrap();
        Settings {
            server: file.model().unwrap().clone(),
            policies: policies.iter().map(|text| POLICIES.parse(text).unwrap()).collect(),
            load: "10%".to_owned(),
            size: "594".to_owned(),
            duration,
            dilation,
            seed: 1,
        }
    }

    #[test]
    fn day_consists_of_whole_intervals_of_model_time() {
        let settings = settings(&["poll"], 500, Duration::from_secs(45));
        assert_eq!(settings.day(), Span::from_millis(90));
        assert_eq!(settings.interval(), Span::from_micros(900));
        assert_eq!(settings.traffic(), "day:10%,size=594,duration=90000us");
        assert!(settings.spec().is_ok());
        let short = super::tests::settings(&["poll"], u32::MAX, Duration::from_secs(1));
        assert_eq!(short.interval(), Span::from_micros(1), "never none at all");
    }
}
