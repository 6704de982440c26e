//! The governor's figures, as text.

use std::io::{self, Write};
use wattline_status::{HostStatus, Power};

/// Prints power, operating point and knobs.
pub(super) fn print_power(power: &Power, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "\n{} on platform {}: {}, {} of {} cores, {} core and frequency changes in {} decisions, {} \
         table entries moved, {} steps altered and {} failed",
        power.policy,
        power.platform.name(),
        power.watts_in_words(),
        power.cores_active,
        power.cores,
        power.transitions,
        power.decisions,
        power.entries_moved,
        power.steps_altered,
        power.steps_failed,
    )?;
    if let Some(words) = power.moderation.in_words() {
        writeln!(out, "interrupt moderation: {words}")?;
    }
    let latency = power.latency;
    if let (Some(median), Some(high)) = (latency.latency_p50_seconds, latency.latency_p99_seconds) {
        let (median, high) = (1e6 * median, 1e6 * high);
        writeln!(out, "latency of the last 5 s, model time: p50 {median:.1} us, p99 {high:.1} us")?;
    }
    if let Some(why) = &power.waits_because {
        writeln!(out, "NOTHING IS GOVERNED since ports changed: {why}; it is tried again")?;
    }
    power.details.host.iter().try_for_each(|host| print_host(host, out))
}

/// Prints the state of the machine's knobs.
fn print_host(host: &HostStatus, out: &mut impl Write) -> io::Result<()> {
    if !host.kernel.is_empty() {
        writeln!(
            out,
            "{:<8} {:>8} {:>14} {:>14} {:>14}   the kernel's time in the last second",
            "worker", "CPU", "softirq (%)", "ksoftirqd (%)", "NAPI (%)"
        )?;
    }
    for share in &host.kernel {
        let (worker, cpu) = (share.worker, share.cpu);
        let [softirq, thread, napi] =
            [share.softirq_share, share.ksoftirqd_share, share.napi_share].map(|it| 100.0 * it);
        writeln!(out, "{worker:<8} {cpu:>8} {softirq:>14.1} {thread:>14.1} {napi:>14.1}")?;
    }
    if let packets @ 1.. = host.waited_at_moves_packets {
        writeln!(out, "{packets} packets waited where table entries moved: may be out of order")?;
    }
    for stuck in &host.stuck {
        let (setting, seconds) = (&stuck.setting, stuck.stuck_seconds);
        writeln!(out, "left out: {setting}: its driver has not answered for {seconds:.0} s")?;
    }
    for (head, lines) in [("not governed", &host.missing), ("trouble", &host.troubles)] {
        lines.iter().try_for_each(|line| writeln!(out, "{head}: {line}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(power: &Power) -> String {
        let mut text = Vec::new();
        print_power(power, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// Steps of moderation are not among the counted changes.
    #[test]
    fn moderation_is_shown_and_changes_are_named() {
        let mut power = Power { policy: "copi".to_owned(), decisions: 9, ..Power::default() };
        power.moderation.moderation_seconds = vec![1e-3, 1e-3];
        power.moderation.moderation_as_found = vec![false, true];
        let text = printed(&power);
        assert!(text.contains("0 core and frequency changes in 9 decisions"), "{text}");
        let line = "interrupt moderation: 1000 us, 1 of 2 queues as found\n";
        assert!(text.contains(line), "{text}");
        power.moderation.moderation_seconds.clear();
        assert!(!printed(&power).contains("moderation"), "it is not governed");
    }
}
