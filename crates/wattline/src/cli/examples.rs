//! Examples of every command, shown at the end of its help, in its manual page and on the reference
//! page. A test of `wattline-lab` sees that each can be parsed.

use std::fmt::Write;

/// A command, by its path, and examples: what it is good for and how it is written.
pub type Examples = (&'static str, &'static [(&'static str, &'static str)]);

/// The examples of this program.
pub const EXAMPLES: &[Examples] = &[
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
            (
                "The JSON schema of simulations' results",
                "wattline schema results | jq .properties.sim",
            ),
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
        "probe",
        &[
            ("Knobs and meters of this machine, and what would help", "wattline probe"),
            (
                "A record that can become a fixture, to be sent",
                "wattline probe --record this-machine.tar.gz",
            ),
            (
                "A first report from a machine with real cards and sensors",
                "wattline probe --first-hour this-machine.tar.gz",
            ),
        ],
    ),
    (
        "status",
        &[
            ("See the waste of this machine, and matters that need attention", "wattline status"),
            ("The same, for a script", "wattline status --json"),
        ],
    ),
    (
        "plan",
        &[
            ("What `govern` would write, and why", "wattline plan --govern"),
            (
                "What a router's [power] section would write, and which packets would be the kernel's",
                "wattline plan router.toml",
            ),
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
        "policies",
        &[
            ("All of them", "wattline policies"),
            ("One, with its parameters", "wattline policies queue-length"),
        ],
    ),
];

/// Adds the examples of this program, and others, to the commands.
pub fn apply(command: clap::Command, others: &[Examples]) -> clap::Command {
    under(command, "", others)
}

fn under(mut command: clap::Command, path: &str, others: &[Examples]) -> clap::Command {
    let names: Vec<String> =
        command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    for name in names {
        let path = if path.is_empty() { name.clone() } else { format!("{path} {name}") };
        command = command.mut_subcommand(&name, |command| {
            let command = under(command, &path, others);
            match text(&path, others) {
                Some(text) => command.after_help(text),
                None => command,
            }
        });
    }
    command
}

/// The examples of a command, of this program or among others, as its help shows them.
pub fn text(path: &str, others: &[Examples]) -> Option<String> {
    let (_, examples) = EXAMPLES.iter().chain(others).find(|(name, _)| *name == path)?;
    let mut text = String::from("Examples:");
    for (what, line) in *examples {
        // Writing to a String does not fail.
        let _ = write!(text, "\n  {what}:\n      {line}");
    }
    Some(text)
}
