//! The statistics of a governor without a router.

use super::latency;
use super::power::{number, print_power};
use serde_json::Value;
use std::io::{self, Write};

/// Interfaces, cores, sources of latency and what rules, as tables.
pub(super) fn print(stats: &Value, out: &mut impl Write) -> io::Result<()> {
    let govern = &stats["govern"];
    let list = |value: &'static str| govern[value].as_array().into_iter().flatten();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(why) = govern["waits_because"].as_str() {
        let (profile, policy) = (profile(govern), word(&govern["policy"]));
        writeln!(out, "{profile}; policy {policy}; NOTHING IS GOVERNED: {why}")?;
        return writeln!(
            out,
            "tried again when CPUs or interfaces change, and at `wattline reload`"
        );
    }
    writeln!(
        out,
        "{}; policy {}; {} rules",
        profile(govern),
        word(&govern["policy"]),
        match &*word(&govern["rule"]) {
            "latency-target" => "the highest capacity, because the latency target is missed,",
            "cpu-pressure" => "the safe point, because tasks wait longer for a CPU than usual,",
            "silent-source" => "the highest capacity, because a source of latency is silent,",
            _ => "the policy",
        }
    )?;
    if let Some(remark) = govern["policy_remark"].as_str() {
        writeln!(out, "{remark}")?;
    }
    writeln!(
        out,
        "\n{:<16} {:>14} {:>16} {:>14} {:>16} {:>10}  state",
        "interface", "in (packets)", "in (bytes)", "out (packets)", "out (bytes)", "missed"
    )?;
    for port in stats["ports"].as_array().into_iter().flatten() {
        writeln!(
            out,
            "{:<16} {:>14} {:>16} {:>14} {:>16} {:>10}  {}",
            word(&port["name"]),
            number(&port["received_packets"]),
            number(&port["received_bytes"]),
            number(&port["transmitted_packets"]),
            number(&port["transmitted_bytes"]),
            number(&port["missed_packets"]),
            word(&port["state"]),
        )?;
    }
    writeln!(
        out,
        "\n{:<8} {:>14} {:>12} {:>16} {:>16}",
        "CPU", "took (packets)", "busy (s)", "frequency (GHz)", "deepest idle"
    )?;
    for (core, counts) in stats["workers"].as_array().into_iter().flatten().enumerate() {
        let gigahertz = stats["power"]["frequency_hertz"][core].as_f64();
        let idle = stats["power"]["deepest_idle_state"][core].as_str();
        writeln!(
            out,
            "{:<8} {:>14} {:>12.2} {:>16} {:>16}",
            number(&counts["cpu"]),
            number(&counts["received"]),
            counts["busy_seconds"].as_f64().unwrap_or(0.0),
            gigahertz.map_or("not governed".to_owned(), |hertz| format!("{:.2}", hertz / 1e9)),
            idle.unwrap_or("not governed"),
        )?;
    }
    latency::print(govern, out)?;
    print_power(&stats["power"], out)?;
    for one in list("left_out") {
        writeln!(out, "left out: {}: {}", word(&one["what"]), word(&one["why"]))?;
    }
    for rival in list("rivals") {
        writeln!(
            out,
            "also sets {}: {} ({}); to stop that: {}",
            word(&rival["sets"]),
            word(&rival["name"]),
            word(&rival["seen"]),
            word(&rival["remedy"])
        )?;
    }
    let process = &govern["process"];
    writeln!(
        out,
        "this governor took {:.2} s of a processor in {:.0} s, and holds {:.1} MB",
        process["cpu_seconds"].as_f64().unwrap_or(0.0),
        stats["uptime_seconds"].as_f64().unwrap_or(0.0),
        process["resident_bytes"].as_f64().unwrap_or(0.0) / 1e6
    )
}

/// The profile, and the keys that the configuration sets otherwise.
fn profile(govern: &Value) -> String {
    let name = govern["profile"].as_str().unwrap_or_default();
    let keys = govern["overrides"].as_array().into_iter().flatten();
    match &keys.filter_map(Value::as_str).collect::<Vec<_>>()[..] {
        [] => format!("profile {name}"),
        [one] => format!("profile {name}, with {one} of the configuration"),
        [first @ .., last] => {
            format!("profile {name}, with {} and {last} of the configuration", first.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_profile_is_named_with_the_keys_that_the_configuration_sets_otherwise() {
        let first = |govern: Value| {
            let mut text = Vec::new();
            print(&json!({ "govern": govern }), &mut text).unwrap();
            String::from_utf8(text).unwrap().lines().next().unwrap().to_owned()
        };
        let told = |keys: &[&str]| {
            let rest = json!({"profile": "balanced", "policy": "copi", "overrides": keys});
            first(rest)
        };
        assert_eq!(told(&[]), "profile balanced; policy copi; the policy rules");
        assert_eq!(
            told(&["policy", "knobs", "moderation"]),
            "profile balanced, with policy, knobs and moderation of the configuration; policy copi; \
             the policy rules"
        );
        let waits = first(json!({"profile": "balanced", "policy": "copi", "overrides": ["policy"],
                                 "waits_because": "no"}));
        assert_eq!(
            waits,
            "profile balanced, with policy of the configuration; policy copi; NOTHING IS GOVERNED: no"
        );
    }

    #[test]
    fn what_rules_and_who_is_silent_is_shown() {
        let stats = json!({
            "uptime_seconds": 60.0,
            "ports": [{"name": "eth0", "received_packets": 7, "state": "up"}],
            "workers": [{"cpu": 5, "received": 9, "busy_seconds": 1.5}],
            "power": {"policy": "ondemand", "frequency_hertz": [1.6e9], "deepest_idle_state": [null]},
            "govern": {"profile": "balanced", "policy": "ondemand", "rule": "silent-source",
                "latency": [{"name": "shop", "silent": true, "problem": "refused", "samples": 0,
                             "refused": {"negative": 2, "future": 1}}],
                "left_out": [{"what": "lo", "why": "the loopback"}],
                "rivals": [{"sets": "x", "name": "TuneD", "seen": "process 7", "remedy": "stop it"}],
                "process": {"cpu_seconds": 0.05, "resident_bytes": 9e6}},
        });
        let mut text = Vec::new();
        print(&stats, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for words in [
            "because a source of latency is silent",
            "SILENT: refused",
            "left out: lo: the loopback",
            "TuneD (process 7); to stop that: stop it",
            "0.05 s of a processor in 60 s, and holds 9.0 MB",
        ] {
            assert!(text.contains(words), "{words} is missing in\n{text}");
        }
        let row = |begin: &str| {
            let line = text.lines().find(|line| line.starts_with(begin)).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(row("5 ")[..4], ["5", "9", "1.50", "1.60"]);
        assert_eq!(row("shop")[6], "3");
    }
}
