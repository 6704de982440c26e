//! The keys of a governor's configuration: source of the parser, `wattline config --govern` and the
//! reference.

use wattline_daemon::settings::{Key, Section, log, metrics, reference};

/// `[govern]`.
pub const GOVERN: Section = Section::Named("[govern]");
/// `[[latency]]`, once per source.
pub const LATENCY: Section = Section::Named("[[latency]]");

/// All keys, in the order of the reference.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    Key::new(GOVERN, "profile", Some("\"balanced\""), "\"max-save\"", "\"balanced\", \"latency\", \"max-save\" or \"router\"",
        "Source of the defaults below: `wattline govern --print-profile NAME` prints each."),
    Key::new(GOVERN, "policy", None, "\"conservative:sampling_rate=200ms\"", "\"hardware\" or another policy, NAME or NAME:key=value,key=value (`wattline policies` lists them)",
        "The policy. hardware:busy=PREFERENCE,calm=PREFERENCE leaves the frequency to processor or kernel; a preference\nis performance, balance_performance, balance_power or power. Other policies set the frequency. The kernel\nserves the packets: policies can decide at streaks of its polls (queue-length), not at single batches."),
    Key::new(GOVERN, "knobs", None, "[\"frequency\", \"idle\"]", "a list of \"frequency\", \"idle\", \"moderation\" and \"cores\"",
        "Knobs that it may change. All others stay unchanged."),
    Key::new(GOVERN, "cpus", Some("[]"), "[0, 1, 2, 3]", "a list of CPU numbers from 0 to 4095, without repetition",
        "The CPUs that it governs; empty: all that are on line."),
    Key::new(GOVERN, "interfaces", Some("[]"), "[\"eth0\"]", "a list of names of interfaces",
        "The interfaces whose packets it counts and whose interrupts it moderates; empty: all with hardware behind them."),
    Key::new(GOVERN, "idle_latency", None, "\"50us\"", "\"any\" or a duration from \"0us\" to \"10s\", such as \"50us\"",
        "The longest exit latency of an idle state that CPUs may use."),
    Key::new(GOVERN, "moderation", None, "\"50us\"", "\"keep\", \"policy\" or a duration from \"0us\" to \"10ms\", such as \"50us\"",
        "The time between receive interrupts of a card: unchanged, as the policy decides, or fixed.\nIt has an effect only if `knobs` contains \"moderation\"."),
    Key::new(GOVERN, "uncore", None, "true", "true or false",
        "The upper frequency limit of caches and memory controllers goes with the fastest core, where the module\nintel_uncore_frequency offers it."),
    Key::new(GOVERN, "override_limits", Some("false"), "true", "true or false",
        "Govern also beyond the limits that the administrator of this machine has set: lowest and highest\nfrequency, forbidden idle states, wake-up latency, range of the uncore."),
    Key::new(GOVERN, "may_raise", Some("false"), "true", "true or false",
        "Also set values that draw more power than those found: preference, governor, limits, turbo, idle states,\nmoderation."),
    Key::duration(GOVERN, "latency_target", None, "\"2ms\"", ("1us", "1h", "2ms"),
        "Highest allowed 99th percentile of the [[latency]] sources. Above it the machine runs at its highest\ncapacity until the target was kept for `latency_hold`. Default: none; sources are then shown, and\nused by policies that use latency (copi)."),
    Key::duration(GOVERN, "latency_hold", Some("\"5s\""), "\"1min\"", ("0s", "1h", "5s"),
        "Time that the target must be kept before the policy decides again."),
    Key::duration(GOVERN, "latency_silence", Some("\"10s\""), "\"30s\"", ("100ms", "1h", "10s"),
        "A source without a report for this time counts as silent. If there is a target, or the policy uses\nlatency, a silent source leads to the highest capacity."),
    Key::new(GOVERN, "server", Some("\"westmere-2010\""), "\"server.toml\"", "the name of a shipped server model (`wattline servers` lists them) or the path of a file",
        "The model of this machine, for policies that use one (table)."),
    Key::whole(GOVERN, "seed", Some("1"), "2", 0..=u32::MAX,
        "Seed of policies that draw random numbers."),
    Key::new(GOVERN, "on_exit", Some("\"restore\""), "\"performance\"", "\"restore\", \"keep\" or \"performance\"",
        "The state of the machine after the end. restore: as before. keep: as it is. performance: as before, but\nthe governed CPUs at their fastest. `wattline restore` undoes the last two."),
    Key::new(GOVERN, "socket", None, "\"/run/wattline/govern.sock\"", "the path of a Unix socket, at most 100 bytes",
        "The control socket. Default: named after this file and the process, in $XDG_RUNTIME_DIR/wattline,\nelse /run/wattline for root, else the directory for temporary files."),
    Key::new(LATENCY, "name", None, "\"checkout\"", "a name of letters, digits, \"-\", \"_\" and \".\"",
        "Its name in statistics and metrics. Required."),
    Key::new(LATENCY, "clients", None, "\"/run/wattline/latency.sock\"", "the path of a Unix socket, at most 100 bytes",
        "Clients report here, a line of JSON for each report. A source has one of `clients`, `prometheus` and `tcp`."),
    Key::new(LATENCY, "prometheus", None, "\"http://127.0.0.1:8080/metrics\"", "the http:// address of a page in Prometheus' text format",
        "The application's own metrics are read here."),
    Key::new(LATENCY, "histogram", None, "\"http_request_duration_seconds\"", "the name of a histogram, NAME or NAME{LABEL=\"VALUE\",...}",
        "The histogram in the application's metrics. Required with `prometheus`."),
    Key::new(LATENCY, "tcp", None, "[11211]", "a list of TCP ports from 1 to 65535, at least one",
        "Ports of a server on this machine, to read TCP's round-trip times of their connections. These include the network,\ninterrupts and idle states, but not the time that a request waits for the application or takes in it."),
    Key::duration(LATENCY, "unit", Some("\"1s\""), "\"1ms\"", ("1ns", "1min", "1ms"),
        "The unit of that histogram's bounds."),
    Key::duration(LATENCY, "period", Some("\"1s\""), "\"5s\"", ("100ms", "1h", "1s"),
        "Time between readings of the metrics or connections."),
    Key::duration(LATENCY, "window", Some("\"5s\""), "\"30s\"", ("100ms", "1h", "5s"),
        "Time for which reports and round trips count."),
];

/// Returns all keys that may stand in the file: these, and those of `[log]` and `[metrics]`.
pub fn all() -> impl Iterator<Item = &'static Key> {
    KEYS.iter().chain(log::KEYS).chain(metrics::KEYS)
}

/// Returns all keys as the body of a reference page, in Markdown.
pub fn as_markdown() -> String {
    reference::markdown(all())
}

/// Returns all keys with their defaults, as a configuration file.
pub fn as_toml() -> String {
    reference::toml(all(), |section| section != LATENCY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use wattline_policies::POLICIES;

    #[test]
    fn printed_defaults_of_govern_equal_the_built_in_configuration() {
        assert_eq!(
            Config::parse(&as_toml(), "defaults", POLICIES).unwrap(),
            Config::built_in(POLICIES)
        );
    }

    #[test]
    fn every_printed_example_is_toml() {
        for key in all() {
            let text = format!("{} = {}", key.name, key.example);
            assert!(text.parse::<toml::Table>().is_ok(), "{text}");
        }
    }

    #[test]
    fn the_reference_page_is_made_from_the_keys() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/govern.md");
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains(&as_markdown()), "update it: wattline config --govern --markdown");
    }
}
