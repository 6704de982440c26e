//! The keys of a governor's configuration: the parser, `wattline config --govern` and the reference
//! are made from this list.

use wattline_router::config::keys::{KEYS as OF_ROUTER, markdown, toml};
use wattline_router::config::read::{Key, Section};

/// `[govern]`.
pub const GOVERN: Section = Section::Application("[govern]");
/// `[[latency]]`, once per source.
pub const LATENCY: Section = Section::Application("[[latency]]");

/// All of them, in the order of the reference.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    Key::new(GOVERN, "profile", Some("\"balanced\""), "\"max-save\"", "\"balanced\", \"latency\" or \"max-save\"",
        "Where the keys below get their defaults from: `wattline govern --print-profile NAME` prints each."),
    Key::new(GOVERN, "policy", None, "\"conservative:sampling_rate=200ms\"", "a policy, NAME or NAME:key=value,key=value (`wattline policies` lists them)",
        "What decides. Policies that are asked at batches of packets cannot work here: the kernel serves the packets,\nand tells of no batches."),
    Key::new(GOVERN, "knobs", None, "[\"frequency\", \"idle\"]", "a list of \"frequency\", \"idle\" and \"moderation\"",
        "What it may turn. Everything else stays as it is."),
    Key::new(GOVERN, "cpus", Some("[]"), "[0, 1, 2, 3]", "a list of CPU numbers from 0 to 4095, without repetition",
        "The CPUs that it governs; empty: all that are on line."),
    Key::new(GOVERN, "interfaces", Some("[]"), "[\"eth0\"]", "a list of names of interfaces",
        "The interfaces whose packets it counts and whose interrupts it moderates; empty: all with hardware behind them."),
    Key::new(GOVERN, "idle_latency", None, "\"50us\"", "\"any\" or a duration from \"0us\" to \"10s\", such as \"50us\"",
        "No CPU sleeps deeper than it wakes up from in this time."),
    Key::new(GOVERN, "moderation", None, "\"50us\"", "\"keep\", \"policy\" or a duration from \"0us\" to \"10ms\", such as \"50us\"",
        "The distance of a card's receive interrupts: as it is, as the policy says, or always so long.\nHas a meaning where `knobs` holds \"moderation\"."),
    Key::new(GOVERN, "uncore", None, "true", "true or false",
        "The upper frequency limit of caches and memory controllers goes with the fastest core, where the module\nintel_uncore_frequency offers it."),
    Key::new(GOVERN, "latency_target", None, "\"2ms\"", "a duration from \"1us\" to \"1h\", such as \"2ms\"",
        "The 99th percentile that [[latency]] sources have to keep. Above it the machine runs at its highest capacity\nuntil it was kept for `latency_hold`. Default: none; then sources are only shown."),
    Key::new(GOVERN, "latency_hold", Some("\"5s\""), "\"1min\"", "a duration from \"0s\" to \"1h\", such as \"5s\"",
        "How long the target has to be kept before the policy decides again."),
    Key::new(GOVERN, "latency_silence", Some("\"10s\""), "\"30s\"", "a duration from \"100ms\" to \"1h\", such as \"10s\"",
        "A source that says nothing for so long is silent. Where there is a target, a silent source leads to the\nhighest capacity."),
    Key::new(GOVERN, "server", Some("\"westmere-2010\""), "\"server.toml\"", "the name of a shipped server model (`wattline servers` lists them) or the path of a file",
        "The model of this machine, for policies that reckon with one (table)."),
    Key::new(GOVERN, "seed", Some("1"), "2", "a whole number from 0 to 4294967295",
        "Seed of policies that draw random numbers."),
    Key::new(GOVERN, "on_exit", Some("\"restore\""), "\"performance\"", "\"restore\", \"keep\" or \"performance\"",
        "How the machine is left. restore: as it was found. keep: as it is. performance: as it was found,\nbut the governed CPUs at their fastest. `wattline restore` undoes the latter two."),
    Key::new(GOVERN, "socket", None, "\"/run/wattline/govern.sock\"", "the path of a Unix socket, at most 100 bytes",
        "The control socket. Default: named after this file and the process, in $XDG_RUNTIME_DIR/wattline,\nelse /run/wattline for root, else the directory for temporary files."),
    Key::new(LATENCY, "name", None, "\"checkout\"", "a name of letters, digits, \"-\", \"_\" and \".\"",
        "How it is called in statistics and metrics. Required."),
    Key::new(LATENCY, "clients", None, "\"/run/wattline/latency.sock\"", "the path of a Unix socket, at most 100 bytes",
        "Clients report here, a line of JSON for each report. A source has one of this, `prometheus` and `tcp`."),
    Key::new(LATENCY, "prometheus", None, "\"http://127.0.0.1:8080/metrics\"", "the http:// address of a page in Prometheus' text format",
        "The application's own metrics are read here."),
    Key::new(LATENCY, "histogram", None, "\"http_request_duration_seconds\"", "the name of a histogram, NAME or NAME{LABEL=\"VALUE\",...}",
        "The histogram in the application's metrics. Required with `prometheus`."),
    Key::new(LATENCY, "tcp", None, "[11211]", "a list of TCP ports from 1 to 65535, at least one",
        "Ports of a server on this machine: TCP's own round trips on the connections to them. They tell of the network\nand of interrupts and idle states, not of the time that a request waits for the application or takes in it."),
    Key::new(LATENCY, "unit", Some("\"1s\""), "\"1ms\"", "a duration from \"1ns\" to \"1min\", such as \"1ms\"",
        "The unit of that histogram's bounds."),
    Key::new(LATENCY, "period", Some("\"1s\""), "\"5s\"", "a duration from \"100ms\" to \"1h\", such as \"1s\"",
        "How often the metrics are read, or connections looked at."),
    Key::new(LATENCY, "window", Some("\"5s\""), "\"30s\"", "a duration from \"100ms\" to \"1h\", such as \"5s\"",
        "How far a client's reports and round trips count back."),
];

/// All keys that may stand in the file: these, and those of `[log]` and `[metrics]`.
pub fn all() -> impl Iterator<Item = &'static Key> {
    let shared = |key: &&Key| matches!(key.section, Section::Log | Section::Metrics);
    KEYS.iter().chain(OF_ROUTER.iter().filter(shared))
}

/// All of them as the body of a reference page, in Markdown.
pub fn as_markdown() -> String {
    markdown(all())
}

/// All of them with their defaults, as a configuration file.
pub fn as_toml() -> String {
    toml(all(), |section| section != LATENCY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn the_printed_defaults_are_what_holds_without_a_file() {
        assert_eq!(Config::parse(&as_toml(), "defaults").unwrap(), Config::built_in());
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
