//! The oracle: knows the offered rate and the server model, and picks the lower envelope.

use wattline_policy::{
    AskAgain, BuildContext, Envelope, Kind, Looks, Observation, OperatingPoint, Parameter,
    Parameters, Policy, PolicyInfo, Trigger, Wait,
};
use wattline_units::{Hertz, PacketsPerSecond, Span};

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "oracle",
    summary: "Knows the offered rate and the server model and takes the cheapest operating point that carries it",
    source: "PowerSave, section 6, figure 12 (optimal: the lower envelope of figure 9)",
    parameters: &[
        Parameter {
            name: "period",
            kind: Kind::Duration { min_micros: 10, max_micros: 10_000_000 },
            default: "1ms",
            meaning: "time between two decisions",
            source: "ours",
        },
        LOAD,
    ],
    make,
};

/// Highest utilisation of a core.
pub(super) const LOAD: Parameter = Parameter {
    name: "load",
    kind: Kind::Number { min: 0.1, max: 1.0 },
    default: "0.95",
    meaning: "utilisation up to which a core counts as carrying its packets; 1 is the paper's, where queues of random traffic grow without bound",
    source: "ours",
};

/// Sets the operating point of an envelope for a rate.
pub(super) fn take_step(
    envelope: &Envelope,
    rate: PacketsPerSecond,
    seen: &Observation<'_>,
    point: &mut OperatingPoint,
) {
    let step = envelope.at(rate);
    point.set_active(step.cores, 0, seen.platform.deepest());
    // The envelope may belong to another server, with other P-states; files round their
    // frequencies.
    let rounded = Hertz(step.hertz.0 * (1.0 - 1e-6));
    point.set_frequency(seen.platform.at_least(rounded));
}

struct Oracle {
    envelope: Envelope,
    period: Span,
}

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let (Some(server), Some((cost, bytes))) = (context.server, context.packet) else {
        return Err("needs a server model and the cost of a packet".into());
    };
    let cores = context.platform.cores;
    let envelope = Envelope::of(server, cores, cost, bytes, parameters.number("load"));
    Ok(Box::new(Oracle { envelope, period: parameters.span("period") }))
}

impl Policy for Oracle {
    fn looks_at(&self) -> Looks {
        Looks::WHOLE.clairvoyant()
    }

    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        if seen.trigger == Trigger::Start {
            point.set_wait(Wait::Interrupt);
        }
        // Without a known rate, full capacity is the safe choice.
        let rate = seen.offered.unwrap_or(PacketsPerSecond(f64::INFINITY));
        take_step(&self.envelope, rate, seen, point);
        AskAgain::at(seen.now + self.period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, server};
    use wattline_server::Application;

    #[test]
    fn follows_the_envelope_and_no_pair_is_cheaper() {
        let model = server();
        let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
        let mut bench = Bench::new();
        for mpps in [0.5, 3.0, 5.0, 12.0, 19.0, 24.0, 28.7] {
            let rate = PacketsPerSecond::from_mpps(mpps);
            bench.offered = Some(rate);
            bench.play("oracle:load=1", Some(&model));
            let (cores, frequency) = bench.rung();
            let power = |cores, frequency: usize| {
                let point = model.napi_point(cores, model.processor.frequencies[frequency]);
                let carries = model.core_capacity(cost, cores, point.frequency) >= rate;
                carries.then(|| model.power_at(cost, 64, &point, rate).total().0)
            };
            let ours = power(cores, frequency).expect("carries the rate");
            for (m, f) in (1..=12).flat_map(|m| (0..14).map(move |f| (m, f))) {
                // Curves may cross within a step of the envelope.
                assert!(power(m, f).is_none_or(|other| ours < other + 0.1), "{mpps} {m} {f}");
            }
        }
        bench.offered = None;
        bench.play("oracle:load=1", Some(&model));
        assert_eq!(bench.rung(), (12, 13));
    }
}
