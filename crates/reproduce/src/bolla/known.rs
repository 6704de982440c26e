//! Inputs that several figures share.

use wattline_server::bolla::{BollaModel, Chi, FrequencyPoint};
use wattline_units::{Hertz, PacketsPerSecond, Watts};

/// Packets per second that one Xeon core forwards at 3 GHz (section IV.B).
pub(super) const XEON_MAX_PPS: f64 = 1_040_000.0;

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
