//! Commands that show the state of a running router.

use crate::harness::{ADAPTIVE, Bench, XDP, quiet};
use serde_json::Value;
use std::time::Duration;
use wattline_testbed::topology::{Options, RIGHT, SINK};

const LIMIT: Duration = Duration::from_secs(60);

fn show(bench: &Bench, arguments: &str) -> Value {
    let words: Vec<&str> = ["show", "--json"].into_iter().chain(arguments.split(' ')).collect();
    let text = bench.ask(&words);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn ports_routes_neighbours_and_the_route_to_an_address_are_shown() {
    let test = "ports_routes_neighbours_and_the_route_to_an_address_are_shown";
    for forwarder in [ADAPTIVE, XDP] {
        quiet(test, || {
            let bench = Bench::start(Options::default(), forwarder);
            assert!(crate::faults::reaches(&bench.topology, &SINK.v4.to_string()));
            let ports = show(&bench, "ports");
            let right = &ports["ports"][1];
            assert_eq!(
                (&right["name"], &right["state"]),
                (&"right".into(), &"up".into()),
                "{ports}"
            );
            assert!(right["addresses"].to_string().contains(&RIGHT.v4.to_string()), "{ports}");

            let sink = SINK.v4;
            let ip = |lines: &str| bench.topology.router.ip(lines).unwrap();
            ip(&format!(
                "route add 203.0.113.0/24 via {sink}\nroute add 203.0.113.0/25 via {sink} metric 7"
            ));
            let shown = || show(&bench, "routes 203.0.113.0/24");
            let both = || Some(shown()).filter(|routes| routes["total"] == 2);
            let routes = wattline_needs::until_or(both, shown);
            let route = &routes["routes"][1];
            assert_eq!(route["via"][0]["gateway"], sink.to_string(), "{routes}");
            assert_eq!((&route["via"][0]["port"], &route["metric"]), (&"right".into(), &7.into()));
            assert_eq!((&route["source"], &route["in_use"]), (&"kernel".into(), &true.into()));
            // All routes that contain an address, with the default route.
            let holding = show(&bench, "routes 203.0.113.200");
            assert!(holding["routes"].to_string().contains("0.0.0.0/0"), "{holding}");
            assert_eq!(show(&bench, "routes --most 1")["routes"].as_array().unwrap().len(), 1);

            let neighbours = show(&bench, &format!("neighbours {sink}"));
            let mac = &neighbours["neighbours"][0]["mac"];
            assert!(mac.is_string(), "{neighbours}");
            assert_eq!(neighbours["neighbours"][0]["state"], "known", "{neighbours}");
            let source = &bench.topology.source;
            let silent = "198.19.0.77";
            for state in ["incomplete", "failed"] {
                let neighbours = || show(&bench, &format!("neighbours {silent}"));
                let reached = || {
                    // While it is shown as incomplete, the kernel goes on asking for it.
                    if state == "incomplete" {
                        let _ = source.run("ping", &["-c", "1", "-W", "0.2", silent], LIMIT);
                    }
                    neighbours()["neighbours"][0]["state"] == state
                };
                wattline_needs::until_or(reached, || format!("never {state}: {}", neighbours()));
            }
            let fib = show(&bench, "fib 203.0.113.9");
            assert_eq!(fib["prefix"], "203.0.113.0/25", "{fib}");
            let next_hop = &fib["next_hop"];
            assert_eq!(
                (&next_hop["action"], &next_hop["port"]),
                (&"forward".into(), &"right".into())
            );
            assert_eq!(&next_hop["to"], mac, "{fib}");

            // Never forwarded, whatever the routes say.
            for (address, kind) in [
                ("224.0.0.5", "multicast"),
                ("255.255.255.255", "broadcast"),
                ("240.0.0.1", "reserved"),
                ("169.254.7.7", "link-local"),
                ("ff02::5", "multicast"),
                ("fe80::1", "link-local"),
            ] {
                let fib = show(&bench, &format!("fib {address}"));
                assert_eq!(fib["next_hop"]["action"], "leave to the kernel", "{fib}");
                assert_eq!(fib["because"], format!("{kind} address"), "{fib}");
                assert_eq!(fib["prefix"], Value::Null, "{fib}");
            }
            // All neighbours of a connected network.
            let fib = show(&bench, "fib 198.19.0.255");
            assert_eq!(fib["next_hop"]["action"], "leave to the kernel", "{fib}");

            let version = show(&bench, "version");
            assert_eq!(version["build"]["version"], env!("CARGO_PKG_VERSION"), "{version}");
            assert!(version["file"].as_str().unwrap().ends_with(".toml"), "{version}");
            let config = show(&bench, "config");
            let settings = config["settings"].as_array().unwrap();
            let has = |section: &str, key: &str, value: &str| {
                let is = |it: &&Value| it["section"] == section && it["key"] == key;
                settings.iter().filter(is).any(|it| it["value"] == value)
            };
            assert!(has("[[port]]", "name", "\"right\""), "{config}");
            assert!(has("[log]", "level", "\"info\""), "a default: {config}");
            assert_eq!(config["waiting"], serde_json::json!([]), "{config}");
            let ports = show(&bench, "ports");
            assert!(ports["ports"][1]["received_bits_per_second"].is_number(), "{ports}");

            let refused = bench.router().ask(&["show", "flows"]).unwrap_err().to_string();
            assert!(refused.contains("[flow_records]"), "{refused}");
            bench.finish();
        });
    }
}
