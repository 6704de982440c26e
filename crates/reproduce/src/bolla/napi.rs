//! Figure 7 predicted: the share of time in which a core is active, from NAPI's costs
//! (`published/checks/bolla-napi.toml`).

use super::form::listed;
use super::known::xeon_max_pps;
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::planned;
use crate::printed::printed;
use crate::sets::extremes;
use serde::Deserialize;
use wattline_report::Table;
use wattline_report::plot::{Axis, Chart, Mark};

/// Limit on the packets of a SoftIRQ: the weight of Linux's network drivers.
const BUDGET: f64 = 64.0;
/// Simulated time per rate, in seconds.
const DURATION: f64 = 0.02;
/// Idle share that counts as near zero, and the part of the printed rate at which it is still
/// larger.
const IDLE: f64 = 0.05;
const BEFORE: f64 = 0.9;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Space {
    poll_cycles: Vec<f64>,
    interrupt_cycles: Vec<f64>,
    moderation_us: Vec<f64>,
}

impl Space {
    fn sets(&self) -> Vec<Costs> {
        let hertz = 1e9 * printed("BO-051");
        let mut all = Vec::new();
        for poll in self.poll_cycles.iter().map(|cycles| cycles / hertz) {
            for interrupt in self.interrupt_cycles.iter().map(|cycles| cycles / hertz) {
                for moderation in self.moderation_us.iter().map(|micros| micros / 1e6) {
                    let packet = 1.0 / xeon_max_pps() - poll / BUDGET;
                    all.push(Costs { packet, poll, interrupt, moderation });
                }
            }
        }
        all
    }
}

/// Costs of a core in seconds.
#[derive(Debug, Clone, Copy)]
struct Costs {
    packet: f64,
    /// Cost of a SoftIRQ without its packets.
    poll: f64,
    /// Cost of the path from idle to the first SoftIRQ, and back.
    interrupt: f64,
    /// Least time between two interrupts.
    moderation: f64,
}

impl Costs {
    /// Returns the share of time in which the core is active while packets arrive at a constant rate.
    fn active(&self, rate: f64) -> f64 {
        if rate <= 0.0 {
            return 0.0;
        }
        let (mut now, mut interrupted, mut taken, mut active) = (0.0_f64, f64::MIN, 0.0, 0.0);
        while now < DURATION {
            let woken = now.max((taken + 1.0) / rate).max(interrupted + self.moderation);
            interrupted = woken;
            now = woken + self.interrupt;
            while now < DURATION {
                // Rounding must not lose the packet that woke the core.
                let packets = ((now * rate + 1e-6).floor() - taken).min(BUDGET);
                if packets < 1.0 {
                    break;
                }
                taken += packets;
                now += self.poll + packets * self.packet;
            }
            active += now - woken;
        }
        active / now
    }

    /// Returns the largest difference from chi at the listed loads.
    fn error(&self) -> f64 {
        let errors = listed().map(|(load, chi)| (self.active(load * xeon_max_pps()) - chi).abs());
        errors.fold(0.0, f64::max)
    }

    /// Returns true if the idle time reaches zero at about the printed rate.
    fn idles_as_printed(&self) -> bool {
        let knee = 1e3 * printed("BO-052");
        1.0 - self.active(knee) < IDLE && 1.0 - self.active(BEFORE * knee) >= IDLE
    }
}

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let plan = planned::bolla_napi()?;
    let space = inputs.napi(plan.space.clone().unwrap_or_default())?;
    let space: Space = space.try_into().map_err(|error: toml::de::Error| {
        ReproduceError::Model(format!("crates/reproduce/published/checks/bolla-napi.toml: {error}"))
    })?;
    let sets = space.sets();
    let accepted: Vec<Costs> = sets.iter().copied().filter(Costs::idles_as_printed).collect();
    let mut table = Table::new(["load", "chi_printed", "active_least", "active_most"]);
    let (mut low, mut high) = (Vec::new(), Vec::new());
    for (load, chi) in listed() {
        let active = accepted.iter().map(|costs| costs.active(load * xeon_max_pps()));
        let (least, most) = extremes(active).unwrap_or((f64::NAN, f64::NAN));
        table.numbers([load, chi, least, most]);
        low.push((load, least));
        high.push((load, most));
    }
    let chart = Chart::new(
        "Figure 7 from NAPI's costs",
        Axis::new("throughput over its maximum").range(0.0, 1.0),
        Axis::new("share of time active").range(0.0, 1.1),
    )
    .series("accepted sets, least", Mark::Line, low)
    .series("accepted sets, most", Mark::Line, high)
    .series("computed from the printed coefficients", Mark::Published, listed());
    let errors =
        |sets: &[Costs]| extremes(sets.iter().map(Costs::error)).unwrap_or((f64::NAN, f64::NAN));
    let (least, most) = errors(&accepted);
    let check = plan.check("chi-of-napi", &[least, most])?;
    let note = format!(
        "{} of {} sets have no idle time left at about {} kpps; without this condition the best one \
         errs by {:.3}",
        accepted.len(),
        sets.len(),
        printed("BO-052"),
        errors(&sets).0
    );
    Ok(vec![Figure {
        id: "napi",
        title: "Figure 7 from NAPI's costs".into(),
        about: "Share of time in which one core is active, over the unprinted costs of interrupts \
                and SoftIRQs with which its idle time ends at about the printed rate. No \
                coefficient of chi is an input."
            .into(),
        table,
        plots: vec![chart.svg()],
        checks: vec![check.note(note)],
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Costs = Costs { packet: 1e-6, poll: 0.0, interrupt: 0.0, moderation: 0.0 };

    #[test]
    fn core_without_overhead_is_active_in_proportion_to_its_load() {
        for load in [0.0, 0.25, 0.5, 0.9, 1.0] {
            let active = FREE.active(load * 1e6);
            assert!((active - load).abs() < 1e-3, "{load}: {active}");
        }
    }

    #[test]
    fn overheads_count_once_per_interrupt_and_poll() {
        let single = Costs { poll: 0.5e-6, interrupt: 1e-6, ..FREE };
        assert!((single.active(1e5) - 0.25).abs() < 1e-3, "each packet by itself");
        // Ten packets after each interrupt; one more arrives during their poll.
        let moderated = Costs { moderation: 1e-4, ..single };
        let active = moderated.active(1e5);
        assert!((0.1 + 0.015..0.1 + 0.021).contains(&active), "{active}");
        assert!((single.active(8e5) - 1.0).abs() < 1e-2, "polls follow each other");
    }
}
