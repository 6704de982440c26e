//! Kind of a figure by its path: its unit, and its importance to a reader.

use crate::plot::Axis;

/// Suffixes of the names of quantities, and displayed units.
const UNITS: [(&str, &str); 15] = [
    ("bits_per_second", "bit/s"),
    ("seconds", "s"),
    ("watts", "W"),
    ("joules", "J"),
    ("bps", "bit/s"),
    ("pps", "packets/s"),
    ("rps", "requests/s"),
    ("hertz", "Hz"),
    ("ghz", "GHz"),
    ("ms", "ms"),
    ("us", "µs"),
    ("ns", "ns"),
    ("percent", "%"),
    ("bytes", "bytes"),
    ("packets", "packets"),
];
/// Words of the main quantities, in order of importance.
const WANTED: [&[&str]; 3] = [
    &["watts", "joules"],
    &["latency"],
    &["lost", "loss", "dropped", "rate", "throughput", "failed"],
];

/// Returns the words of a part of a path.
fn words(part: &str) -> impl Iterator<Item = &str> {
    part.split(['_', '-'])
}

/// Returns the unit of a figure according to the nearest part of its path.
fn unit(path: &str) -> Option<String> {
    path.rsplit('.').find_map(|part| {
        let ends = |name: &str| {
            let before = part.strip_suffix(name)?;
            (before.is_empty() || before.ends_with('_')).then_some(())
        };
        let known = UNITS.iter().find(|(name, _)| ends(name).is_some());
        let per =
            || part.split_once("_per_").map(|(_, of)| format!("per {}", of.replace('_', " ")));
        known.map(|(_, unit)| (*unit).to_owned()).or_else(per)
    })
}

/// Returns the axis of a figure's values, and the factor that converts them to its unit: short
/// times are in milliseconds or microseconds.
pub(super) fn axis(path: &str, most: f64) -> (Axis, f64) {
    let (unit, factor) = match unit(path) {
        Some(unit) if unit == "s" && most > 0.0 && most < 1e-3 => (Some("µs".to_owned()), 1e6),
        Some(unit) if unit == "s" && most > 0.0 && most < 1.0 => (Some("ms".to_owned()), 1e3),
        unit => (unit, 1.0),
    };
    let label = unit.map_or_else(|| "mean".to_owned(), |unit| format!("mean ({unit})"));
    (Axis::new(label), factor)
}

/// Ranks a figure among figures of the same depth: power before latency before loss before all
/// others.
pub(super) fn rank(path: &str) -> usize {
    let last = path.rsplit('.').next().unwrap_or(path);
    let holds = |names: &&[&str]| {
        // A part of a latency, such as `latency.p99_seconds`, counts as latency.
        let of = if names.contains(&"latency") { path } else { last };
        of.split('.').flat_map(words).any(|word| names.contains(&word))
    };
    WANTED.iter().position(holds).unwrap_or(WANTED.len())
}

/// Returns true if a figure is a main quantity of the whole run.
pub(super) fn leads(path: &str) -> bool {
    path.matches('.').count() <= 1 && rank(path) < WANTED.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_follows_from_the_path() {
        for (path, expected) in [
            ("latency_p99_seconds", Some("s")),
            ("power_by_component_watts.nic", Some("W")),
            ("forwarded_rate_bits_per_second", Some("bit/s")),
            ("interrupts_per_packet", Some("per packet")),
            ("sender_cpu_seconds_per_packet", Some("per packet")),
            ("energy_per_packet_joules", Some("J")),
            ("sent_packets", Some("packets")),
            ("decisions", None),
            ("corpus", None),
        ] {
            assert_eq!(unit(path).as_deref(), expected, "{path}");
        }
        assert_eq!(axis("latency_p50_seconds", 1.9e-5), (Axis::new("mean (µs)"), 1e6));
        assert_eq!(axis("latency_p50_seconds", 0.19), (Axis::new("mean (ms)"), 1e3));
        assert_eq!(axis("duration_seconds", 0.0), (Axis::new("mean (s)"), 1.0));
        assert_eq!(axis("decisions", 1e-9), (Axis::new("mean"), 1.0));
    }

    #[test]
    fn power_leads_then_latency_then_loss_then_the_rest() {
        let ranks = ["power_watts", "latency.p50_seconds", "lost_packets", "decisions"].map(rank);
        assert_eq!(ranks, [0, 1, 2, 3]);
        assert!(leads("latency.p50_seconds") && leads("energy_joules") && !leads("overloads"));
        assert!(!leads("power_by_component_watts.nic"), "a part of the power");
        assert!(!leads("policies.poll.power_watts"));
    }
}
