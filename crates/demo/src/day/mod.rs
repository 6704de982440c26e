//! A day of traffic in miniature, through a server of twelve cores under several policies.
//!
//! Real frames pass the real data plane on the platform `scale` ([`crate::scale`]): emulated cores,
//! dilated model time, cards in memory. The simulator runs the same policy, model, traffic and
//! seed, and the report shows the paper's figures next to both. Power is emulated: it is the
//! model's power of the cores' states.

mod checks;
mod figures;
mod live;
mod modern;
mod page;
mod report;
mod run;
mod settings;
mod step;
mod table;

pub use page::page;
pub use report::{Conditions, Day, Report};
pub use run::run;
pub use settings::{INTERVALS, Settings, traffic};
pub use step::Reaction;

#[cfg(test)]
mod tests {
    use super::settings::tests::settings;
    use super::*;
    use crate::watch::Watch;
    use std::time::Duration;

    /// Real packets, two policies, a page: all parts of a demonstration within seconds.
    #[test]
    fn short_day_adds_up_and_saves() {
        let settings = settings(&["poll", "queue-length"], 500, Duration::from_secs(2));
        let watch = Watch::new(2);
        let report = run(&settings, &watch).unwrap();
        assert_eq!(report.days.len(), 2);
        for day in &report.days {
            let delivery = &day.outcome.delivery;
            assert!(delivery.sent_packets > 0);
            assert_eq!(delivery.lost_packets(), 0, "{delivery:?}");
            assert_eq!(delivery.heard.repeated_packets + delivery.heard.strange_packets, 0);
            let whole = &day.outcome.record.whole;
            // On a busy machine an interval ends late and is longer, but no time is lost.
            let intervals = &day.outcome.record.intervals;
            assert!(!intervals.is_empty() && intervals.len() <= INTERVALS as usize);
            let together: f64 = intervals.iter().map(|it| it.duration_seconds).sum();
            assert!((together - whole.duration_seconds).abs() < 1e-9, "{together}");
            assert_eq!(whole.source, wattline_units::Source::Emulated);
            assert!(whole.power_rest_watts.unwrap().abs() < 1e-6, "parts and rest are the whole");
        }
        let stats = serde_json::to_value(watch.stats().unwrap()).unwrap();
        assert_eq!(stats["stages"]["number"], 2);
        let lost = report.days[1].outcome.delivery.dropped_packets;
        assert_eq!(stats["stages"]["done"][1]["lost_packets"], lost);
        assert_eq!(stats["stages"]["done"][1]["source"], "emulated");
        assert!(report.days[0].saving_over_poll_ratio.is_none(), "poll over itself");
        assert!(report.days[1].saving_over_poll_ratio.unwrap() > 0.2);
        assert!(report.days[1].step.is_some() && report.days[0].step.is_none());
        assert!(report.checks.iter().any(|check| check.claims.contains(&"PS-118")));
        let page = page(&report);
        let text = page.plain();
        for word in ["PS-118", "emulated", "wattline sim", "memory"] {
            assert!(text.contains(word), "{word} is missing in\n{text}");
        }
        let page = page.end();
        assert!(page.matches("<svg").count() >= 5 && page.ends_with("</html>\n"));
        assert!(!page.contains("NaN"));
    }
}
