//! The statistics of a governor without a router.

use super::latency;
use super::power::print_power;
use std::io::{self, Write};
use wattline_status::{GovernStatus, GovernorStats, RuleName};

/// Prints interfaces, cores, sources of latency and the policy, as tables.
pub(super) fn print(stats: &GovernorStats, out: &mut impl Write) -> io::Result<()> {
    let govern = &stats.govern;
    let (profile, policy) = (profile(govern), &govern.policy);
    if let Some(why) = &govern.waits_because {
        writeln!(out, "{profile}; policy {policy}; NOTHING IS GOVERNED: {why}")?;
        return writeln!(
            out,
            "tried again when CPUs or interfaces change, and at `wattline reload`"
        );
    }
    let rule = match govern.rule {
        Some(RuleName::LatencyTarget) => {
            "the highest capacity, because the latency target is missed,"
        }
        Some(RuleName::CpuPressure) => {
            "the safe point, because tasks wait longer for a CPU than usual,"
        }
        Some(RuleName::SilentSource) => {
            "the highest capacity, because a source of latency is silent,"
        }
        Some(RuleName::Policy) | None => "the policy",
    };
    writeln!(out, "{profile}; policy {policy}; {rule} rules")?;
    if let Some(remark) = &govern.policy_remark {
        writeln!(out, "{remark}")?;
    }
    writeln!(
        out,
        "\n{:<16} {:>14} {:>16} {:>14} {:>16} {:>10}  state",
        "interface", "in (packets)", "in (bytes)", "out (packets)", "out (bytes)", "missed"
    )?;
    for port in &stats.ports {
        writeln!(
            out,
            "{:<16} {:>14} {:>16} {:>14} {:>16} {:>10}  {}",
            port.name,
            port.received_packets,
            port.received_bytes,
            port.transmitted_packets,
            port.transmitted_bytes,
            port.missed_packets,
            port.state,
        )?;
    }
    writeln!(
        out,
        "\n{:<8} {:>14} {:>12} {:>16} {:>16}",
        "CPU", "took (packets)", "busy (s)", "frequency (GHz)", "deepest idle"
    )?;
    for (core, counts) in stats.workers.iter().enumerate() {
        let power = stats.power.as_ref();
        let hertz = power.and_then(|power| power.frequency_hertz.get(core));
        let idle = power.and_then(|power| power.deepest_idle_state.as_ref()?.get(core)?.as_deref());
        writeln!(
            out,
            "{:<8} {:>14} {:>12.2} {:>16} {:>16}",
            counts.cpu.unwrap_or(0),
            counts.received,
            counts.busy_seconds,
            hertz.map_or("not governed".to_owned(), |hertz| format!("{:.2}", hertz / 1e9)),
            idle.unwrap_or("not governed"),
        )?;
    }
    latency::print(govern, out)?;
    stats.power.iter().try_for_each(|power| print_power(power, out))?;
    for one in &govern.left_out {
        writeln!(out, "left out: {}: {}", one.what, one.why)?;
    }
    for rival in &govern.rivals {
        writeln!(
            out,
            "also sets {}: {} ({}); to stop that: {}",
            rival.sets, rival.name, rival.seen, rival.remedy
        )?;
    }
    writeln!(
        out,
        "this governor took {:.2} s of a processor in {:.0} s, and holds {:.1} MB",
        govern.process.cpu_seconds,
        stats.uptime_seconds,
        govern.process.resident_bytes as f64 / 1e6
    )
}

/// Returns the profile, and the keys that the configuration overrides.
fn profile(govern: &GovernStatus) -> String {
    let name = &govern.profile;
    match &govern.overrides[..] {
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
    use wattline_status::{
        CoreStats, InterfaceStats, LeftOut, Power, ProcessStats, Refused, Rival, SourceState,
    };

    fn printed(stats: &GovernorStats) -> String {
        let mut text = Vec::new();
        print(stats, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn profile_is_named_with_the_keys_that_the_configuration_sets_otherwise() {
        let first = |keys: &[&str], waits_because: Option<&str>| {
            let govern = GovernStatus {
                profile: "balanced".to_owned(),
                policy: "copi".to_owned(),
                overrides: keys.iter().map(|key| (*key).to_owned()).collect(),
                waits_because: waits_because.map(str::to_owned),
                ..GovernStatus::default()
            };
            let text = printed(&GovernorStats { govern, ..GovernorStats::default() });
            text.lines().next().unwrap().to_owned()
        };
        assert_eq!(first(&[], None), "profile balanced; policy copi; the policy rules");
        assert_eq!(
            first(&["policy", "knobs", "moderation"], None),
            "profile balanced, with policy, knobs and moderation of the configuration; policy copi; \
             the policy rules"
        );
        assert_eq!(
            first(&["policy"], Some("no")),
            "profile balanced, with policy of the configuration; policy copi; NOTHING IS GOVERNED: no"
        );
    }

    #[test]
    fn rule_and_silent_sources_are_shown() {
        let owned = str::to_owned;
        let stats = GovernorStats {
            uptime_seconds: 60.0,
            ports: vec![InterfaceStats {
                name: owned("eth0"),
                received_packets: 7,
                state: owned("up"),
                ..InterfaceStats::default()
            }],
            workers: vec![CoreStats {
                cpu: Some(5),
                received: 9,
                busy_seconds: 1.5,
                ..CoreStats::default()
            }],
            power: Some(Power {
                policy: owned("ondemand"),
                frequency_hertz: vec![1.6e9],
                deepest_idle_state: Some(vec![None]),
                ..Power::default()
            }),
            govern: GovernStatus {
                profile: owned("balanced"),
                policy: owned("ondemand"),
                rule: Some(RuleName::SilentSource),
                latency: Some(vec![SourceState {
                    name: owned("shop"),
                    silent: true,
                    problem: Some(owned("refused")),
                    refused: Refused { negative: 2, future: 1, ..Refused::default() },
                    ..SourceState::default()
                }]),
                left_out: vec![LeftOut { what: owned("lo"), why: owned("the loopback") }],
                rivals: vec![Rival {
                    sets: owned("x"),
                    name: owned("TuneD"),
                    seen: owned("process 7"),
                    remedy: owned("stop it"),
                    ..Rival::default()
                }],
                process: ProcessStats { cpu_seconds: 0.05, resident_bytes: 9_000_000 },
                ..GovernStatus::default()
            },
            ..GovernorStats::default()
        };
        let text = printed(&stats);
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
