//! Power of a server by the busy time of its cores, for machines that count busy time and have no
//! meter.

use crate::file::ServerFile;
use crate::input::Incomplete;
use crate::model::ServerModel;
use crate::requests::RequestServer;
use wattline_units::{Hertz, Watts};

/// A model of power by busy time.
///
/// Each core executes for a share of the time at one frequency and is in the deepest idle state for
/// the rest. The cores' busy times are assumed to be independent, which determines the time that
/// their shared part is awake. Traffic is ignored.
#[derive(Debug, Clone, PartialEq)]
pub enum BusyTimePower {
    /// The processor's package, by the section `[requests]` of a server file.
    Package(Box<RequestServer>),
    /// The whole server.
    Whole(Box<ServerModel>),
}

impl BusyTimePower {
    /// Creates the model from the section `[requests]` of a file if it has one, otherwise from its
    /// router.
    ///
    /// # Errors
    /// When both lack figures.
    pub fn from_file(file: &ServerFile) -> Result<Self, Incomplete> {
        match file.requests() {
            Ok(server) => Ok(Self::Package(Box::new(server.clone()))),
            Err(_) => Ok(Self::Whole(Box::new(file.model()?.clone()))),
        }
    }

    /// Returns the name of the model and the scope of its watts.
    pub fn name(&self) -> String {
        match self {
            Self::Package(server) => format!("{}, its package", server.name),
            Self::Whole(server) => format!("{}, the whole server", server.name),
        }
    }

    /// Returns the mean power if the cores execute for these shares of the time, from 0 to 1, at a
    /// frequency. A frequency that the model lacks counts as its nearest.
    pub fn watts(&self, frequency: Hertz, busy: &[f64]) -> Watts {
        let share = |share: &f64| if share.is_nan() { 1.0 } else { share.clamp(0.0, 1.0) };
        let awake: f64 = busy.iter().map(share).sum();
        let all_idle: f64 = busy.iter().map(|busy| 1.0 - share(busy)).product();
        let idle = busy.len() as f64 - awake;
        match self {
            Self::Package(server) => {
                let frequency = server.processor.nearest_frequency(frequency);
                let states = &server.processor.frequencies;
                let state = states.iter().position(|one| *one == frequency).unwrap_or_default();
                let power = &server.power;
                let resting = server.idle_states.last().map_or(Watts::ZERO, |deepest| {
                    deepest.power + power.core_static(state) * deepest.static_share
                });
                let uncore = power.uncore.get(state).copied().unwrap_or_default();
                power.package
                    + power.core_awake(state, frequency) * awake
                    + resting * idle
                    + uncore * (1.0 - all_idle)
            }
            Self::Whole(server) => {
                let frequency = server.processor.nearest_frequency(frequency);
                server.power.base.total()
                    + server.power.awake_core(frequency) * awake
                    + server.power.uncore(frequency) * (1.0 - all_idle)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_rises_with_busy_time_and_frequency() {
        for (name, of) in [("westmere-2010", "whole server"), ("xeon-silver-4108", "package")] {
            let model = BusyTimePower::from_file(&ServerFile::load(name).unwrap()).unwrap();
            assert!(model.name().contains(name) && model.name().contains(of), "{}", model.name());
            let processor = match &model {
                BusyTimePower::Package(server) => &server.processor,
                BusyTimePower::Whole(server) => &server.processor,
            };
            let (low, high) = (processor.lowest_frequency(), processor.highest_frequency());
            let watts = |frequency, busy: &[f64]| model.watts(frequency, busy).0;
            assert!(watts(high, &[0.1; 4]) > watts(high, &[0.0; 4]));
            assert!(watts(high, &[0.1; 4]) > watts(low, &[0.1; 4]));
            assert!(watts(low, &[0.2, 0.3]) < watts(low, &[0.5, 0.5]));
            // The choice of the busy core does not matter.
            assert_eq!(watts(low, &[1.0, 0.0]), watts(low, &[0.0, 1.0]));
            // Frequencies beyond the model count as the nearest; invalid shares count as busy and
            // are bounded.
            assert_eq!(watts(Hertz(high.0 * 9.0), &[2.0]), watts(high, &[1.0]));
            assert_eq!(watts(high, &[f64::NAN]), watts(high, &[1.0]));
        }
    }

    #[test]
    fn whole_server_is_base_plus_busy_cores_plus_shared_part_once() {
        let model = BusyTimePower::from_file(&ServerFile::load("westmere-2010").unwrap()).unwrap();
        let BusyTimePower::Whole(server) = &model else { panic!("{model:?}") };
        let low = server.processor.lowest_frequency();
        let base = server.power.base.total();
        assert_eq!(model.watts(low, &[0.0; 6]), base);
        let expected = base + server.power.awake_core(low) * 2.0 + server.power.uncore(low);
        assert!((model.watts(low, &[1.0, 1.0, 0.0]) - expected).0.abs() < 1e-9);
    }
}
