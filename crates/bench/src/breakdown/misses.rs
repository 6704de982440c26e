//! Misses of the last-level cache, cycles and instructions per packet, measured by `perf stat` on
//! machines with counters.

use serde::Serialize;

/// Counted events, as perf names them.
pub const EVENTS: &str = "LLC-load-misses,LLC-store-misses,cycles,instructions";

/// One counter of all processors.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// Name of the event.
    pub event: String,
    /// Increase per Ethernet packet of data, both sides together; `None` if the machine has no such
    /// counter.
    pub per_packet: Option<f64>,
    /// Share of the time in which the counter ran; the figure is extrapolated from it.
    pub counted_share: f64,
    /// Reason why a counter is missing.
    pub reason: String,
}

/// Parses the output of `perf stat --field-separator ,`.
pub fn parse(text: &str, packets: f64) -> Vec<Event> {
    let rows =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.filter_map(|line| {
        // Value, unit, event, run time, share of it in which the counter ran.
        let mut fields = line.split(',');
        let (value, _unit, event) = (fields.next()?, fields.next()?, fields.next()?);
        let share: f64 = fields.nth(1).and_then(|share| share.parse().ok()).unwrap_or(0.0);
        let number: Option<f64> = value.parse().ok();
        Some(Event {
            event: event.to_owned(),
            per_packet: number.map(|number| number / packets).filter(|it| it.is_finite()),
            counted_share: share / 100.0,
            reason: if number.is_some() {
                String::new()
            } else {
                format!("this machine has no such counter ({})", value.trim_matches(['<', '>']))
            },
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_parsed_and_missing_ones_named() {
        let text = "# started on Mon\n\n4000,,LLC-load-misses,1000,50.00,,\n\
                    <not supported>,,LLC-store-misses,0,100.00,,\n<not counted>,,cycles,0,0.00,,\n";
        let events = parse(text, 1_000.0);
        assert_eq!(events.len(), 3);
        assert_eq!((events[0].per_packet, events[0].counted_share), (Some(4.0), 0.5));
        assert_eq!(events[1].per_packet, None);
        assert!(events[1].reason.contains("not supported"), "{}", events[1].reason);
        assert!(events[2].reason.contains("not counted"), "{}", events[2].reason);
    }

    #[test]
    fn text_without_a_table_gives_nothing() {
        assert_eq!(parse("Error: no permission\n", 1.0), []);
        assert_eq!(parse("", 1.0), []);
        assert_eq!(parse("5,,cycles,1,100.00,,", 0.0)[0].per_packet, None);
    }
}
