//! Inputs that several figures share.

use crate::printed::printed;
use wattline_server::bolla::{BollaModel, Chi, FrequencyPoint};
use wattline_units::{Hertz, PacketsPerSecond, Watts};

/// Returns the packets per second that one Xeon core forwards at 3 GHz (section IV.B).
pub(super) fn xeon_max_pps() -> f64 {
    1e3 * printed("BO-053")
}

/// A core with round parameters, for checks that must hold for any parameters.
pub(super) fn arbitrary(gamma: Vec<f64>) -> BollaModel {
    let point = |gigahertz: f64, idle: f64, active: f64, kpps: f64| FrequencyPoint {
        frequency: Hertz::from_gigahertz(gigahertz),
        idle: Watts(idle),
        active: Watts(active),
        max_rate: PacketsPerSecond(kpps * 1e3),
    };
    BollaModel {
        name: "arbitrary".into(),
        base: Watts::ZERO,
        frequencies: vec![point(1.0, 8.0, 20.0, 400.0), point(2.0, 10.0, 30.0, 750.0)],
        gamma,
        chi: Chi::printed(),
    }
}
