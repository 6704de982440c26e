//! Examples of every command, shown at the end of its help, in its manual page and on the reference
//! page. A test sees that each can be parsed.

use std::fmt::Write;

/// A command, by its path, and examples: what it is good for and how it is written.
type Examples = (&'static str, &'static [(&'static str, &'static str)]);

const EXAMPLES: &[Examples] = &[
    (
        "run",
        &[
            (
                "Route between the ports of this file until a signal comes",
                "wattline run /etc/wattline/router.toml",
            ),
            ("Forward captures in memory, without root", "wattline run examples/captures.toml"),
            (
                "The same, shown in a browser at http://127.0.0.1:9418",
                "wattline run examples/captures.toml --dashboard 127.0.0.1:9418",
            ),
        ],
    ),
    (
        "config",
        &[
            ("Every key with its default, to be edited", "wattline config > router.toml"),
            ("Check a file", "wattline config router.toml"),
        ],
    ),
    #[cfg(feature = "ipsec")]
    (
        "new-keys",
        &[
            (
                "The first start of a tunnel, after its keys were made",
                "wattline new-keys /etc/wattline/router.toml branch",
            ),
            ("Two tunnels at once", "wattline new-keys router.toml branch office"),
        ],
    ),
    (
        "lookup",
        &[
            (
                "The longest matching prefix of an address",
                "wattline lookup --routes routes.txt 192.0.2.1",
            ),
            (
                "Addresses from standard input",
                "wattline lookup --routes routes.txt - < addresses.txt",
            ),
        ],
    ),
    (
        "reload",
        &[
            ("The router that runs", "wattline reload"),
            ("The result for a script", "wattline reload --json"),
        ],
    ),
    (
        "active",
        &[
            ("Two workers serve, the others park", "wattline active 2"),
            ("All of an eight-worker router", "wattline active 8"),
        ],
    ),
    (
        "stop",
        &[
            ("The router that runs", "wattline stop"),
            ("Let the kernel then forward what IPsec protects", "wattline stop --open"),
            ("The result for a script", "wattline stop --json"),
        ],
    ),
    (
        "block",
        &[
            ("What the kernel blocks now", "wattline block"),
            ("Block what a configuration protects", "wattline block router.toml"),
        ],
    ),
    (
        "top",
        &[
            ("The router or governor that runs", "wattline top"),
            ("One look as text, for a script", "wattline top --once"),
        ],
    ),
    (
        "schema",
        &[
            ("The JSON schema of all answers of a daemon", "wattline schema > daemon-schema.json"),
            ("The types that it defines", "wattline schema | jq .[]"),
        ],
    ),
    (
        "stats",
        &[
            ("Counters as a table", "wattline stats"),
            ("All of them, for a script", "wattline stats --json"),
        ],
    ),
    (
        "explain",
        &[
            ("The last decisions of what runs, with their reasons", "wattline explain"),
            (
                "The same of one of several, for a script",
                "wattline explain --json --socket /run/wattline/a.sock",
            ),
        ],
    ),
    (
        "show",
        &[
            ("Why each port forwards as it does", "wattline show ports"),
            ("What becomes of packets to an address", "wattline show fib 198.51.100.7"),
        ],
    ),
    (
        "show ports",
        &[
            ("Why each port forwards as it does", "wattline show ports"),
            ("Of one of several routers", "wattline show ports --socket /run/wattline/edge.sock"),
        ],
    ),
    (
        "show routes",
        &[
            ("All routes, the first thousand", "wattline show routes"),
            ("Those that hold an address", "wattline show routes 198.51.100.7"),
        ],
    ),
    (
        "show neighbours",
        &[
            ("All neighbours", "wattline show neighbours"),
            ("Those of a network, for a script", "wattline show neighbours 192.0.2.0/24 --json"),
        ],
    ),
    (
        "show fib",
        &[
            ("What becomes of packets to an address", "wattline show fib 198.51.100.7"),
            ("The same over IPv6, for a script", "wattline show fib 2001:db8::7 --json"),
        ],
    ),
    (
        "show flows",
        &[
            ("The latest flow records", "wattline show flows"),
            ("The latest ten of a network", "wattline show flows 198.51.100.0/24 --most 10"),
        ],
    ),
    (
        "show sas",
        &[
            ("Security associations with their counters", "wattline show sas"),
            ("The same, for a script", "wattline show sas --json"),
        ],
    ),
    (
        "show acl",
        &[
            ("Which rules matched, and how often", "wattline show acl"),
            ("The same, for a script", "wattline show acl --json"),
        ],
    ),
    (
        "show version",
        &[
            ("The build of a running router or governor", "wattline show version"),
            ("The same, for a script", "wattline show version --json"),
        ],
    ),
    (
        "show config",
        &[
            ("Settings in force, and those that wait for a restart", "wattline show config"),
            ("The same, for a script", "wattline show config --json"),
        ],
    ),
    (
        "audit",
        &[
            ("All decisions of a running router", "wattline audit --all"),
            ("Those about one prefix, for a script", "wattline audit 203.0.113.0/24 --json"),
        ],
    ),
    (
        "trace",
        &[
            (
                "The next three packets to an address, node by node",
                "wattline trace -c 3 dst host 198.51.100.7",
            ),
            (
                "ICMP by a port for ten seconds, a line of JSON for each packet",
                "wattline trace --for 10s --json icmp and interface left",
            ),
        ],
    ),
    (
        "capture",
        &[
            ("DNS, into a file for Wireshark", "wattline capture udp port 53 -w dns.pcapng"),
            (
                "A hundred packets of a network, read by tcpdump",
                "wattline capture -c 100 net 2001:db8::/32 -w - | tcpdump -nr -",
            ),
        ],
    ),
    (
        "clear",
        &[
            ("What `stats` and `top` show begins at 0", "wattline clear counters"),
            (
                "Of one of several routers",
                "wattline clear counters --socket /run/wattline/edge.sock",
            ),
        ],
    ),
    (
        "clear counters",
        &[
            ("What `stats` and `top` show begins at 0", "wattline clear counters"),
            (
                "Of one of several routers",
                "wattline clear counters --socket /run/wattline/edge.sock",
            ),
        ],
    ),
    (
        "graph",
        &[
            ("Nodes as text", "wattline graph"),
            ("As a drawing", "wattline graph --dot | dot -Tsvg > graph.svg"),
        ],
    ),
    (
        "govern",
        &[
            ("By the built-in profile", "wattline govern"),
            ("The same, with metrics for Prometheus", "wattline govern --metrics 127.0.0.1:9417"),
            ("A profile to start from", "wattline govern --print-profile latency > govern.toml"),
            (
                "Shown in a browser at http://127.0.0.1:9418",
                "wattline govern --dashboard 127.0.0.1:9418",
            ),
        ],
    ),
    (
        "report",
        &[
            (
                "What a policy changes: files of `wattline sim ... --json`, one for each seed",
                "wattline report poll powersave --page compared.html",
            ),
            ("Only watts, for a script", "wattline report poll powersave --only watts --json"),
        ],
    ),
    (
        "trial",
        &[
            ("Does the default profile save watts here?", "wattline trial none balanced"),
            ("Time that it takes to see 1 %", "wattline trial none balanced --plan"),
            (
                "Two configurations; the same command continues after an interruption",
                "wattline trial old.toml new.toml --out trial.json --latency-limit 5ms",
            ),
        ],
    ),
    (
        "profile",
        &[
            (
                "memcached's tail latency by load, state and moderation",
                "wattline profile memcached 192.0.2.2:11211 --rate 100k --out memcached.csv",
            ),
            (
                "A small grid, without a meter",
                "wattline profile http http://192.0.2.2/ --rate 5k --states 2 --periods 3 \
                 --without-power --out web.csv",
            ),
        ],
    ),
    (
        "profile memcached",
        &[
            (
                "The tables for policy copi, four loads up to 100,000 requests a second",
                "wattline profile memcached 192.0.2.2:11211 --rate 100k --out memcached.csv",
            ),
            (
                "Only the points that a target of 800 us needs",
                "wattline profile memcached 192.0.2.2:11211 --rate 100k --sparse --target 800us --out memcached.csv",
            ),
        ],
    ),
    (
        "profile http",
        &[
            (
                "A small grid, without a meter",
                "wattline profile http http://192.0.2.2/ --rate 5k --states 2 --periods 3 --without-power --out web.csv",
            ),
            (
                "Requests that leave by another network namespace",
                "wattline profile http http://192.0.2.2/ --rate 5k --netns client --out web.csv",
            ),
        ],
    ),
    (
        "probe",
        &[
            ("Knobs and meters of this machine, and what would help", "wattline probe"),
            (
                "A record that can become a fixture, to be sent",
                "wattline probe --record this-machine.tar.gz",
            ),
        ],
    ),
    (
        "plan",
        &[
            ("What `govern` would write, and why", "wattline plan --govern"),
            ("What a router's [power] section would write", "wattline plan router.toml"),
        ],
    ),
    (
        "meter",
        &[
            ("Which meters there are", "wattline meter list"),
            ("Power over five seconds", "wattline meter read --interval 5s"),
        ],
    ),
    (
        "meter list",
        &[
            ("Which meters there are, and how exact they are", "wattline meter list"),
            ("The same, for a script", "wattline meter list --json"),
        ],
    ),
    (
        "meter read",
        &[
            ("Power over a second", "wattline meter read"),
            ("Over ten seconds, for a script", "wattline meter read --interval 10s --json"),
        ],
    ),
    (
        "meter record",
        &[
            (
                "A minute, a line each second",
                "wattline meter record --duration 60s --out watts.csv",
            ),
            (
                "Ten lines a second until a signal comes",
                "wattline meter record --period 100ms --out watts.csv",
            ),
        ],
    ),
    (
        "meter attribute",
        &[
            (
                "From records of three phases",
                "wattline meter attribute --idle idle.csv --idle-plus up.csv --loaded loaded.csv",
            ),
            ("Measured now, 30 seconds each", "wattline meter attribute --live 30s"),
        ],
    ),
    (
        "restore",
        &[
            ("Undo what a killed run left behind", "wattline restore"),
            ("See what that would be", "wattline restore --print"),
        ],
    ),
    (
        "sim",
        &[
            (
                "PowerSave on its own server",
                "wattline sim --server westmere-2010 --policy powersave --traffic poisson:5Mpps,size=64",
            ),
            (
                "Why Wattline's own policy decides as it does",
                "wattline sim --policy wattline:p99=100us --traffic day:8Mpps,duration=100ms --explain",
            ),
            (
                "A page with the course of a day",
                "wattline sim --traffic day:8Mpps,duration=100ms --interval 1ms --page day.html",
            ),
            (
                "memcached on the kernel's stack",
                "wattline sim --requests memcached:100krps --policy ondemand+84us",
            ),
        ],
    ),
    (
        "sweep",
        &[
            (
                "Three policies at two loads",
                "wattline sweep --policy poll,napi,powersave --traffic poisson:2Mpps,poisson:8Mpps",
            ),
            (
                "Five seeds, as a table for other programs",
                "wattline sweep --traffic poisson:5Mpps --seed 1,2,3,4,5 --csv sweep.csv",
            ),
            (
                "A page with the power of two policies over the load",
                "wattline sweep --policy napi,powersave --traffic poisson:2Mpps,poisson:8Mpps --page sweep.html",
            ),
        ],
    ),
    (
        "league",
        &[
            ("Run the built-in league that takes some minutes", "wattline league --quick"),
            ("Your own, with its page", "wattline league league.toml --out league"),
            (
                "After an interruption the same again, which goes on from there",
                "wattline league league.toml --out league",
            ),
        ],
    ),
    (
        "envelope",
        &[
            ("The least energy that keeps 100 us", "wattline envelope --traffic poisson:5Mpps"),
            ("With a tighter budget", "wattline envelope --traffic poisson:5Mpps --p99 50us"),
        ],
    ),
    (
        "policies",
        &[
            ("All of them", "wattline policies"),
            ("One, with its parameters", "wattline policies powersave"),
        ],
    ),
    (
        "servers",
        &[
            ("All shipped models", "wattline servers"),
            ("One as a start for your own", "wattline servers westmere-2010 --toml > mine.toml"),
        ],
    ),
    (
        "nics",
        &[
            ("All cards", "wattline nics"),
            (
                "The best for a throughput and a power budget",
                "wattline nics choose --throughput 16Gbit/s --power 15W",
            ),
        ],
    ),
    (
        "nics show",
        &[
            ("A card's figures, each with its origin", "wattline nics show SFE4003"),
            ("Its power model for NetPowerBench", "wattline nics show PEG4I-RoHS --power-model"),
        ],
    ),
    (
        "nics compare",
        &[
            ("Media, offload, links and ports", "wattline nics compare"),
            ("Cards of your own", "wattline nics compare --cards cards.toml"),
        ],
    ),
    (
        "nics model",
        &[
            ("What a device's model says", "wattline nics model power_model.yml"),
            (
                "Four ports at 10 Gbit/s each",
                "wattline nics model power_model.yml --ports 4 --rate 10Gbit/s",
            ),
        ],
    ),
    (
        "nics choose",
        &[
            ("Within four slots", "wattline nics choose --throughput 16Gbit/s --slots 4"),
            (
                "Within half of one processor",
                "wattline nics choose --throughput 2Gbit/s --cpu-budget 50",
            ),
        ],
    ),
    (
        "fit",
        &[
            (
                "A server file from measured rows",
                "wattline fit rows.csv --out mine.toml --name mine",
            ),
            (
                "With a drawing of what the model misses",
                "wattline fit rows.csv --svg residuals.svg",
            ),
        ],
    ),
    (
        "characterise",
        &[(
            "A server file from a simulated router",
            "wattline characterise --server westmere-2010 --out fitted.toml",
        )],
    ),
    (
        "optimise",
        &[
            (
                "Cheapest setting for a rate",
                "wattline optimise --server westmere-2010 --target 5Mpps",
            ),
            ("For rates over a day", "wattline optimise --server westmere-2010 --trace day.csv"),
        ],
    ),
    (
        "receive",
        &[
            ("The paper's server with a larger cache", "wattline receive --llc-bytes 33554432"),
            (
                "Every proposal of the paper at 40 Gbit/s of goodput",
                "wattline receive --proposal all --rate 40Gbit/s",
            ),
        ],
    ),
    (
        "demo",
        &[
            ("A day in miniature and the comparison with the kernel", "wattline demo --out target"),
            ("A shorter day alone", "wattline demo --only day --duration 20s"),
            (
                "Shown in a browser at http://127.0.0.1:9418 while it runs",
                "wattline demo --dashboard 127.0.0.1:9418",
            ),
        ],
    ),
    (
        "load",
        &[
            (
                "100,000 requests a second to memcached",
                "wattline load memcached 127.0.0.1:11211 --rate 100k",
            ),
            ("Pages of a web server", "wattline load http http://127.0.0.1:8080/ --rate 10k"),
        ],
    ),
    (
        "load memcached",
        &[
            (
                "100,000 requests a second for ten seconds",
                "wattline load memcached 127.0.0.1:11211 --rate 100k",
            ),
            (
                "Gets alone of small values, with a page",
                "wattline load memcached 127.0.0.1:11211 --rate 50k --gets-per-set inf --value-size 32 --page load.html",
            ),
        ],
    ),
    (
        "load http",
        &[
            ("Pages of a web server", "wattline load http http://127.0.0.1:8080/ --rate 10k"),
            (
                "A minute, one request every 1/rate seconds",
                "wattline load http http://127.0.0.1:8080/ --rate 2k --arrivals constant --duration 60s",
            ),
        ],
    ),
    (
        "load packets",
        &[
            (
                "A device between two interfaces, all flows at one rate",
                "wattline load packets --from eth0 --to eth1 --mac 02:00:00:00:00:01 --rate 100k",
            ),
            ("What a plain link carries", "wattline load packets --from a --to b --rate max"),
        ],
    ),
    (
        "bench rfc2544",
        &[
            ("The kernel's forwarding on this machine", "wattline bench rfc2544 --device kernel"),
            (
                "Wattline's XDP programs, two frame lengths",
                "wattline bench rfc2544 --device xdp --sizes 64,1518",
            ),
        ],
    ),
    (
        "bench breakdown",
        &[
            ("Small and large writes, with and without offloads", "wattline bench breakdown"),
            (
                "Writes of 64 bytes over one connection, the kernel alone",
                "wattline bench breakdown --io 64 --connections 1 --no-own",
            ),
        ],
    ),
    (
        "bench eer",
        &[
            ("The emulated server under powersave", "wattline bench eer"),
            ("An access device under poll", "wattline bench eer --class access --policy poll"),
            ("The kernel's forwarding on this machine", "wattline bench eer --device kernel"),
        ],
    ),
    (
        "bench nic",
        &[
            ("The cards of this machine", "wattline bench nic"),
            (
                "What a cable between two of them carries",
                "wattline bench nic --from eth1 --to eth2",
            ),
        ],
    ),
    (
        "bench",
        &[
            ("Longest-prefix match", "wattline bench fib --routes routes.txt"),
            ("The whole IPv4 graph on one core", "wattline bench pipeline --routes routes.txt"),
        ],
    ),
    (
        "bench fib",
        &[
            ("With the best kernel of this processor", "wattline bench fib --routes routes.txt"),
            ("Beside DPDK's rte_fib", "wattline bench fib --routes routes.txt --peer"),
        ],
    ),
    (
        "bench pipeline",
        &[
            ("Frames of 64 bytes", "wattline bench pipeline --routes routes.txt"),
            (
                "Long frames in small batches",
                "wattline bench pipeline --routes routes.txt --packet-size 1518 --batch 16",
            ),
        ],
    ),
    (
        "bench forward",
        &[
            ("Wattline and the kernel, in turns", "wattline bench forward"),
            (
                "Longer, beside DPDK's l3fwd",
                "wattline bench forward --seconds 10 --l3fwd target/peers/l3fwd",
            ),
        ],
    ),
    (
        "bench loop",
        &[
            ("The loop of powersave", "wattline bench loop"),
            ("Of Wattline's own policy", "wattline bench loop --policy wattline:p99=100us"),
        ],
    ),
    (
        "bench sim",
        &[
            ("Twelve cores under full load", "wattline bench sim"),
            (
                "Another traffic, for a script",
                "wattline bench sim --traffic poisson:5Mpps,size=64 --json",
            ),
        ],
    ),
    #[cfg(feature = "bench-app")]
    (
        "bench app",
        &[
            ("All applications", "wattline bench app all"),
            (
                "ESP of one algorithm, sending alone",
                "wattline bench app ipsec --algorithm aes256-gcm --direction send",
            ),
        ],
    ),
    #[cfg(feature = "bench-app")]
    (
        "bench costs",
        &[
            (
                "A file of costs from what was measured",
                "wattline bench costs app.json > costs.toml",
            ),
            ("With a name of its own", "wattline bench costs app.json --name mine > mine.toml"),
        ],
    ),
    (
        "reproduce",
        &[
            ("Everything, as a page", "wattline reproduce all --out published-against-ours"),
            ("One figure", "wattline reproduce powersave/fig12 --out fig12"),
        ],
    ),
];

/// Adds the examples to the commands.
pub fn apply(command: clap::Command) -> clap::Command {
    under(command, "")
}

fn under(mut command: clap::Command, path: &str) -> clap::Command {
    let names: Vec<String> =
        command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    for name in names {
        let path = if path.is_empty() { name.clone() } else { format!("{path} {name}") };
        command = command.mut_subcommand(&name, |command| {
            let command = under(command, &path);
            match text(&path) {
                Some(text) => command.after_help(text),
                None => command,
            }
        });
    }
    command
}

/// The examples of a command as its help shows them.
fn text(path: &str) -> Option<String> {
    let (_, examples) = EXAMPLES.iter().find(|(name, _)| *name == path)?;
    let mut text = String::from("Examples:");
    for (what, line) in *examples {
        // Writing to a String does not fail.
        let _ = write!(text, "\n  {what}:\n      {line}");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::line;

    /// The words of an example: up to where the shell takes over.
    fn words(example: &str) -> Vec<&str> {
        example.split(' ').take_while(|word| !["|", ">", "<"].contains(word)).collect()
    }

    #[test]
    fn every_example_is_a_command_line_of_its_command() {
        for (path, examples) in EXAMPLES {
            assert!(examples.len() >= 2, "{path} has fewer than two examples");
            for (_, example) in *examples {
                let matches = line().try_get_matches_from(words(example));
                let matches = matches.unwrap_or_else(|error| panic!("{example}:\n{error}"));
                let mut named = Vec::new();
                let mut level = &matches;
                while let Some((name, below)) = level.subcommand() {
                    named.push(name);
                    level = below;
                }
                let named = named.join(" ");
                assert!(named.starts_with(path), "{example} is an example of {path}");
            }
        }
    }

    /// The commands below this one, at every level, that have none.
    fn collect(command: &clap::Command, path: &str, without: &mut Vec<String>) {
        for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            let path = format!("{path} {}", command.get_name()).trim_start().to_owned();
            if text(&path).is_none() {
                without.push(path.clone());
            }
            collect(command, &path, without);
        }
    }

    #[test]
    fn every_command_has_examples() {
        let mut without = Vec::new();
        collect(&line(), "", &mut without);
        assert!(without.is_empty(), "EXAMPLES in cli/examples.rs lacks {}", without.join(", "));
    }
}
