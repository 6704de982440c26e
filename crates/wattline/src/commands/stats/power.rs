//! What a governor does, as text.

use serde_json::Value;
use std::io::{self, Write};
use wattline_daemon::moderation::Moderation;

/// What the governor does, where there is one.
pub(super) fn print_power(power: &Value, out: &mut impl Write) -> io::Result<()> {
    let word = |key: &str| power[key].as_str().unwrap_or_default();
    let watts = match power["power_watts"].as_f64() {
        Some(watts) => format!("{watts:.2} W ({}, {})", word("source"), word("accuracy")),
        None if word("source") == "unavailable" => "power unknown: no meter".to_owned(),
        None => format!("power unknown ({}, {})", word("source"), word("accuracy")),
    };
    writeln!(
        out,
        "\n{} on platform {}: {watts}, {} of {} cores, {} core and frequency changes in {} decisions, {} \
         table entries moved, {} steps altered and {} failed",
        word("policy"),
        word("platform"),
        power["cores_active"],
        power["cores"],
        power["transitions"],
        power["decisions"],
        power["entries_moved"],
        power["steps_altered"],
        power["steps_failed"],
    )?;
    if let Some(words) = Moderation::of(power).in_words() {
        writeln!(out, "interrupt moderation: {words}")?;
    }
    let micros = |key: &str| power[key].as_f64().map(|seconds| 1e6 * seconds);
    if let (Some(median), Some(high)) =
        (micros("latency_p50_seconds"), micros("latency_p99_seconds"))
    {
        writeln!(out, "latency of the last 5 s, model time: p50 {median:.1} us, p99 {high:.1} us")?;
    }
    if let Some(why) = power["waits_because"].as_str() {
        writeln!(out, "NOTHING IS GOVERNED since ports changed: {why}; it is tried again")?;
    }
    print_host(&power["host"], out)
}

/// What the governed machine has to tell beside.
fn print_host(host: &Value, out: &mut impl Write) -> io::Result<()> {
    let kernel = host["kernel"].as_array().filter(|shares| !shares.is_empty());
    if kernel.is_some() {
        writeln!(
            out,
            "{:<8} {:>8} {:>14} {:>14}   the kernel's time in the last second",
            "worker", "CPU", "softirq (%)", "ksoftirqd (%)"
        )?;
    }
    for share in kernel.into_iter().flatten() {
        let percent = |key: &str| 100.0 * share[key].as_f64().unwrap_or(0.0);
        let (softirq, thread) = (percent("softirq_share"), percent("ksoftirqd_share"));
        let (worker, cpu) = (number(&share["worker"]), number(&share["cpu"]));
        writeln!(out, "{worker:<8} {cpu:>8} {softirq:>14.1} {thread:>14.1}")?;
    }
    if let Some(packets) = host["waited_at_moves_packets"].as_u64().filter(|packets| *packets > 0) {
        writeln!(out, "{packets} packets waited where table entries moved: may be out of order")?;
    }
    for stuck in host["stuck"].as_array().into_iter().flatten() {
        let setting = stuck["setting"].as_str().unwrap_or_default();
        let seconds = stuck["stuck_seconds"].as_f64().unwrap_or(0.0);
        writeln!(out, "left out: {setting}: its driver has not answered for {seconds:.0} s")?;
    }
    for (head, key) in [("not governed", "missing"), ("trouble", "troubles")] {
        for line in host[key].as_array().into_iter().flatten() {
            writeln!(out, "{head}: {}", line.as_str().unwrap_or_default())?;
        }
    }
    Ok(())
}

/// A count; 0 where there is none.
pub(super) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(power: &Value) -> String {
        let mut text = Vec::new();
        print_power(power, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// Steps of moderation are none of the changes that are counted.
    #[test]
    fn moderation_is_shown_and_changes_are_called_what_they_are() {
        let mut power = json!({"policy": "copi", "transitions": 0, "decisions": 9,
            "moderation_seconds": [1e-3, 1e-3], "moderation_as_found": [false, true]});
        let text = told(&power);
        assert!(text.contains("0 core and frequency changes in 9 decisions"), "{text}");
        let line = "interrupt moderation: 1000 us, 1 of 2 queues as found\n";
        assert!(text.contains(line), "{text}");
        power["moderation_seconds"] = json!([]);
        assert!(!told(&power).contains("moderation"), "nobody governs it");
    }
}
