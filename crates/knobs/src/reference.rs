//! The table of docs/reference/knobs.md, from the registrations.

use crate::registration::Registration;

/// Returns the table with a row for each knob.
pub fn table(knobs: &[&Registration]) -> String {
    let mut table = "| knob | files | values | cost | dwell | also set by | notes |\n\
                     |---|---|---|---|---|---|---|\n"
        .to_owned();
    for Registration { name, files, values, write_cost, dwell, conflicts, notes, .. } in knobs {
        let others: Vec<&str> = conflicts.iter().map(|conflict| conflict.with.name).collect();
        let (dwell, others) = (dwell.words, others.join(", "));
        table.push_str(&format!(
            "| {name} | {files} | {values} | {write_cost} | {dwell} | {others} | {notes} |\n"
        ));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KNOBS, Setting, label};
    use std::path::Path;

    /// `UPDATE_GOLDEN=1 cargo test -p wattline-knobs` rewrites the table.
    #[test]
    fn table_of_knobs_matches_the_registrations() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/knobs.md");
        let page = std::fs::read_to_string(&path).unwrap();
        let begin = page.find("| knob |").expect("the page has a table of knobs");
        let end = begin + page[begin..].find("\n\n").expect("a table ends with an empty line") + 1;
        let table = table(KNOBS);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            let whole = [&page[..begin], &table, &page[end..]].concat();
            return std::fs::write(&path, whole).unwrap();
        }
        assert_eq!(page[begin..end], table, "run with UPDATE_GOLDEN=1");
    }

    #[test]
    fn registrations_are_whole_and_settings_have_one_label() {
        for knob in KNOBS {
            let texts =
                [knob.name, knob.label, knob.files, knob.values, knob.notes, knob.dwell.words];
            assert!(knob.write_cost > 0, "{}: a write is never free", knob.name);
            assert!(texts.iter().all(|text| !text.is_empty() && !text.contains(['|', '\n'])));
            assert_eq!(KNOBS.iter().filter(|other| other.name == knob.name).count(), 1);
        }
        for (text, expected) in [
            ("/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq", "frequency"),
            ("/sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference", "frequency"),
            ("/sys/devices/system/cpu/intel_uncore_frequency/uncore00/max_freq_khz", "uncore"),
            ("/sys/devices/system/cpu/cpu3/cpuidle/state2/disable", "idle"),
            ("/sys/devices/system/cpu/cpu3/power/pm_qos_resume_latency_us", "idle"),
            ("/sys/devices/system/cpu/cpu3/online", "cpu"),
            ("/proc/irq/7/smp_affinity_list", "affinity"),
            ("ethtool:eth0/rx-usecs", "moderation"),
            ("ethtool:eth0/queue-1/rx-usecs", "moderation"),
            ("ethtool:eth0/redirect-table", "redirect"),
            ("ethtool:eth0/combined-channels", "channels"),
            ("napi:eth0/queue-3/defer-hard-irqs", "napi"),
        ] {
            let setting: Setting = text.parse().unwrap();
            assert_eq!(label(&setting), expected, "{text}");
            assert!(KNOBS.iter().filter(|knob| (knob.owns)(&setting)).count() <= 1, "{text}");
        }
    }
}
