//! Remarks that a reader needs before trusting the figures of a result.

use super::{Report, Step};

/// Relative fall of power under a rising load above which there is a remark.
const FALL: f64 = 0.01;

/// Relative difference of offered and requested load above which there is a remark.
const OFF: f64 = 0.005;

/// Returns remarks on disturbed readings, on loads that were not offered, and on power that falls
/// while the load rises.
pub(super) fn list(report: &Report) -> Vec<String> {
    let first = lowered(report).into_iter().chain(disturbed(report));
    first.chain(not_offered(report)).chain(falls(report)).collect()
}

fn lowered(report: &Report) -> Option<String> {
    (report.lowered > 0).then(|| {
        format!(
            "the first throughput did not hold: it was lowered by a fifth, {} in all, and all \
             readings were repeated each time",
            report.lowered
        )
    })
}

fn not_offered(report: &Report) -> Vec<String> {
    let loads = report.steps.iter().filter(|step| step.is_on_curve());
    let offered = loads.filter_map(|step| {
        let wanted = step.share.filter(|share| *share > 0.0)? * report.throughput_pps;
        Some((&step.name, step.reading.offered_rate_pps / wanted))
    });
    let off = offered.filter(|(_, ratio)| (ratio - 1.0).abs() > OFF);
    off.map(|(name, ratio)| format!("at {name}, {:.1} % of that load was offered", ratio * 100.0))
        .collect()
}

fn disturbed(report: &Report) -> Option<String> {
    let is_weighted = |step: &&Step| {
        let share = step.share.filter(|_| step.is_on_curve());
        share.is_some_and(|share| report.loads.iter().any(|l| (l.share - share).abs() < 1e-9))
    };
    let all: Vec<&Step> =
        report.steps.iter().filter(|step| step.reading.disturbed_because.is_some()).collect();
    let names = |steps: &mut dyn Iterator<Item = &&Step>| {
        steps.map(|step| step.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let weighted = names(&mut all.iter().filter(|step| is_weighted(step)));
    (!all.is_empty()).then(|| {
        format!(
            "disturbed, since this machine was too busy: {} ({})",
            names(&mut all.iter()),
            match weighted.as_str() {
                "" => "none is in the ratio".to_owned(),
                weighted => format!("of them in the ratio: {weighted}"),
            }
        )
    })
}

fn falls(report: &Report) -> Vec<String> {
    let curve: Vec<&Step> = report.steps.iter().filter(|step| step.is_on_curve()).collect();
    let pairs = curve.windows(2).map(|pair| (pair[0], pair[1]));
    let falls = pairs
        .filter(|(low, high)| high.reading.power_watts < low.reading.power_watts * (1.0 - FALL));
    falls
        .map(|(low, high)| {
            let watts = |step: &Step| format!("{:.1} W at {}", step.reading.power_watts, step.name);
            let did = |step: &Step| {
                let state = step.reading.state.map(|state| format!("; {}", state.words()));
                let mpps = step.reading.forwarded_rate_pps / 1e6;
                format!("At {}: {mpps:.3} Mpps{}", step.name, state.unwrap_or_default())
            };
            let held = match low.reading.is_borne() && high.reading.is_borne() {
                true => "both loads were held",
                false => "not both loads were held",
            };
            format!(
                "power falls from {} to {}; {held}. {}. {}",
                watts(low),
                watts(high),
                did(low),
                did(high)
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Class, Description, Reading, Report, State, Step, page};

    fn step(name: &str, share: f64, power_watts: f64, disturbed: bool) -> Step {
        let state = State {
            cores_active_mean: 12.0,
            frequency_mean_hertz: power_watts * 1e7,
            awake_ratio: 0.5,
            sleeps_per_packet: Some(0.1),
            transitions: 3,
        };
        let reading = Reading {
            offered_rate_pps: share * 1e7,
            forwarded_rate_pps: share * 1e7,
            forwarded_rate_bps: share * 1e10,
            lost_packets: 0,
            queued_packets: 0,
            is_sound: true,
            power_watts,
            source: "emulated".into(),
            accuracy: "static".into(),
            processor: None,
            state: Some(state),
            disturbed_because: disturbed.then(|| "a <neighbour>".into()),
        };
        Step { name: name.into(), share: Some(share), reading }
    }

    fn report(steps: Vec<Step>) -> Report {
        Report {
            description: Description {
                device: "d".into(),
                power_from: "p".into(),
                frames: "imix".into(),
                ports: 4,
                stabilisation_seconds: 0.001,
                measurement_seconds: 0.004,
                time: "model".into(),
                averaging: "energy over time".into(),
                notes: Vec::new(),
            },
            class: Class::Core,
            loads: Class::Core.loads(),
            throughput_pps: 1e7,
            lowered: 0,
            steps,
            eer_bps_per_watt: Some(1e6),
            proportionality_index: None,
            dynamic_range_ratio: None,
            void: None,
        }
    }

    /// Like the emulated server under PowerSave: less power at full load than at 90 %.
    #[test]
    fn falling_power_is_explained_by_the_cores() {
        let steps = vec![
            step("idle", 0.0, 100.0, false),
            step("idle+", 0.0, 90.0, false),
            step("80 %", 0.8, 229.0, false),
            step("90 %", 0.9, 233.4, false),
            step("100 %", 1.0, 220.5, false),
            step("100 % again", 1.0, 210.0, false),
        ];
        let remarks = super::list(&report(steps));
        assert_eq!(remarks.len(), 1, "{remarks:?}");
        for words in ["233.4 W at 90 % to 220.5 W at 100 %", "both loads were held", "2.33 GHz"] {
            assert!(remarks[0].contains(words), "{words}: {remarks:?}");
        }
    }

    #[test]
    fn load_that_was_not_offered_is_reported() {
        let mut full = step("100 %", 1.0, 200.0, false);
        full.reading.offered_rate_pps = 0.986e7;
        let remarks = super::list(&report(vec![step("90 %", 0.9, 190.0, false), full]));
        assert_eq!(remarks, ["at 100 %, 98.6 % of that load was offered"]);
    }

    #[test]
    fn disturbed_row_is_marked_with_its_reason_in_all_formats() {
        let all = [step("20 %", 0.2, 120.0, true), step("30 %", 0.3, 130.0, true)];
        let report = report(all.into());
        let remarks = super::list(&report);
        assert_eq!(
            remarks,
            ["disturbed, since this machine was too busy: 20 %, 30 % (of them in the ratio: 30 %)"]
        );
        let page = page(&report);
        assert!(page.plain().contains("- 20 %: a <neighbour>\n"), "{}", page.plain());
        let page = page.end();
        assert_eq!(page.matches("<td>yes</td>").count(), 2, "{page}");
        assert!(page.contains("<li>20 %: a &lt;neighbour&gt;</li>"), "{page}");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["steps"][0]["disturbed_because"], "a <neighbour>");
        assert_eq!(json["steps"][0]["transitions"], 3);
    }
}
