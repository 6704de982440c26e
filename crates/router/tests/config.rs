//! Configurations, good and bad.

use std::net::IpAddr;
use std::time::Duration;
use wattline_daemon::settings::{ConfigError, LogLevel, Problems};
use wattline_policy::Registry;
use wattline_router::config::{Config, Mode, PortKind, RouteTarget, Via, routes_file};

const COMPLETE: &str = r#"
routes_file = "routes.txt"
[router]
workers = 2
mode = "interrupt"
batch = 32
cpus = [1, 0]
busy_poll = true
idle = "1ms"
drain = "2s"
frames = 16384
socket = "/tmp/w.sock"
[log]
level = "debug"
[[port]]
name = "a"
interface = "eth0"
[[port]]
name = "b"
capture = { read = "in.pcap", write = "out.pcap", paced = true }
mac = "02:00:00:00:00:01"
addresses = ["198.51.100.1/24", "2001:db8::1/64"]
mtu = 1400
promiscuous = true
[[route]]
prefix = "0.0.0.0/0"
via = "198.51.100.2"
port = "b"
[[route]]
prefix = "10.0.0.0/8"
via = ["198.51.100.2", "192.0.2.9%a"]
[[route]]
prefix = "2001:db8:1::/48"
port = "b"
[[route]]
prefix = "10.1.0.0/16"
kind = "prohibit"
[[neighbour]]
address = "198.51.100.2"
mac = "02:00:00:00:00:02"
"#;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn every_key_is_read() {
    let config = Config::parse(COMPLETE, "complete").unwrap();
    assert_eq!(config.router.workers, 2);
    assert_eq!(config.router.mode, Mode::Interrupt);
    assert_eq!(config.router.batch, 32);
    assert_eq!(config.router.cpus, [1, 0]);
    assert!(config.router.busy_poll && config.router.kernel_routes);
    assert_eq!(config.router.idle, Duration::from_millis(1));
    assert_eq!(config.router.drain, Duration::from_secs(2));
    assert_eq!(config.router.frames, 16384);
    assert_eq!(config.router.socket.as_deref(), Some("/tmp/w.sock".as_ref()));
    assert_eq!(config.log_level, LogLevel::Debug);
    assert_eq!(config.ports[0].kind, PortKind::Interface("eth0".into()));
    let capture = PortKind::Capture {
        read: Some("in.pcap".into()),
        write: Some("out.pcap".into()),
        paced: true,
        original_length: false,
    };
    assert_eq!(config.ports[1].kind, capture);
    assert_eq!(config.ports[1].mac, Some([2, 0, 0, 0, 0, 1]));
    assert_eq!(config.ports[1].mtu, Some(1400));
    assert!(config.ports[1].promiscuous);
    let one = Via { gateway: address("198.51.100.2"), port: 1 };
    let other = Via { gateway: address("192.0.2.9"), port: 0 };
    assert_eq!(config.routes[0].target, RouteTarget::Via(vec![one]));
    assert_eq!(config.routes[1].target, RouteTarget::Via(vec![one, other]));
    assert_eq!(config.routes[2].target, RouteTarget::OnLink(1));
    assert_eq!(config.routes[3].target, RouteTarget::Prohibit);
    assert_eq!(config.neighbours[0].port, 1);
    assert_eq!(config.routes_file.as_deref(), Some("routes.txt".as_ref()));
}

#[test]
fn missing_keys_get_their_defaults() {
    let text = "[[port]]\nname = \"a\"\ncapture = { write = \"x.pcap\" }";
    let config = Config::parse(text, "small").unwrap();
    assert_eq!((config.router.workers, config.router.batch), (1, 64));
    assert_eq!(config.router.mode, Mode::Adaptive);
    assert!(!config.router.kernel_routes, "no interface, nothing to follow");
    assert_eq!(config.ports[0].mtu, Some(1500));
    assert_eq!(config.port_mac(0), [2, 0, 0, 0, 0, 1]);
    assert!(config.captures_only());
}

#[test]
fn routes_file_may_end_the_file() {
    let config = Config::parse(&format!("{}\n", COMPLETE.replacen("routes_file", "#", 1)), "x");
    assert_eq!(config.unwrap().routes_file, None);
    let text = COMPLETE.replacen("routes_file", "#", 1) + "routes_file = \"last.txt\"\n";
    let config = Config::parse(&text, "x").unwrap();
    assert_eq!(config.routes_file.as_deref(), Some("last.txt".as_ref()));
}

/// Makes a change in the complete configuration, and checks its only problem.
#[track_caller]
fn refused(from: &str, to: &str, line: usize, key: &str, message: &str) {
    assert!(COMPLETE.contains(from), "the test replaces nothing: {from}");
    let text = COMPLETE.replacen(from, to, 1);
    let problems = Config::parse(&text, "bad.toml").unwrap_err();
    assert_eq!(problems.list.len(), 1, "{problems}");
    let problem = &problems.list[0];
    assert_eq!((problem.line, problem.key.as_str()), (line, key), "{problems}");
    assert!(problem.message.contains(message), "{problems}");
}

/// A list that may omit its brackets has one line for one mistake.
#[test]
fn invalid_gateway_is_reported_once() {
    let of = |via: &str| {
        let text = format!(
            "[[port]]\nname = \"b\"\ncapture = {{ read = \"x\" }}\n\
             [[route]]\nprefix = \"0.0.0.0/0\"\nport = \"b\"\nvia = {via}\n"
        );
        Config::parse(&text, "x").unwrap_err().to_string()
    };
    for via in ["\"banana\"", "[\"banana\"]", "[]"] {
        let errors = of(via);
        assert_eq!(errors.matches("[[route]] via").count(), 1, "{via}: {errors}");
    }
    let errors = of("[\"banana\", \"apple\"]");
    assert_eq!(errors.matches("[[route]] via").count(), 2, "{errors}");
}

#[test]
fn each_mistake_is_named_with_its_place_and_the_allowed_values() {
    refused("workers = 2", "workers = 2\nworkes = 3", 5, "[router] workes", "mean \"workers\"");
    refused("batch = 32", "batch = 65", 6, "[router] batch", "1 to 64");
    refused("batch = 32", "batch = \"32\"", 6, "[router] batch", "1 to 64");
    refused("\"interrupt\"", "\"sleep\"", 5, "[router] mode", "\"adaptive\"");
    refused("[1, 0]", "[1, 1]", 7, "[router] cpus", "CPU 1 is listed twice");
    refused("[1, 0]", "[1]", 7, "[router] cpus", "has 1 CPU for [router] workers = 2");
    refused("[1, 0]", "[1, 0, 1]", 7, "[router] cpus", "workers = 3; CPU 1 is listed twice");
    refused("workers = 2", "workers = 65", 4, "[router] workers", "1 to 64");
    refused("[1, 0]", "[1, 1024]", 7, "[router] cpus", "a list of CPU numbers from 0 to 1023");
    refused("busy_poll = true", "busy_poll = 1", 8, "[router] busy_poll", "true or false");
    refused("\"1ms\"", "\"1 ages\"", 9, "[router] idle", "duration");
    refused("\"debug\"", "\"loud\"", 14, "[log] level", "\"warn\"");
    refused("interface = \"eth0\"", "interface = \"a/b\"", 17, "[[port]] interface", "1 to 127");
    refused("interface = \"eth0\"", "", 15, "[[port]]", "either interface or capture");
    refused(
        "paced = true",
        "original_length = 3",
        20,
        "[[port]] capture original_length",
        "true or",
    );
    refused("paced = true", "pace = true", 20, "[[port]] capture pace", "mean \"paced\"");
    refused("\"02:00:00:00:00:01\"", "\"01:00:00:00:00:01\"", 21, "[[port]] mac", "unicast");
    refused("\"2001:db8::1/64\"", "\"2001:db8::1/129\"", 22, "[[port]] addresses", "list of");
    refused("mtu = 1400", "mtu = 20000", 23, "[[port]] mtu", "68 to 9000");
    refused("\"0.0.0.0/0\"", "\"10.0.0.1/8\"", 26, "[[route]] prefix", "without host bits");
    refused("\"192.0.2.9%a\"", "\"192.0.2.9\"", 31, "[[route]] via", "say which port");
    refused("\"192.0.2.9%a\"", "\"192.0.2.9%z\"", 31, "[[route]] via", "the ports are a, b");
    refused("\"192.0.2.9%a\"", "\"fe80::1%a\"", 31, "[[route]] via", "other family");
    refused("kind = \"prohibit\"", "kind = \"deny\"", 37, "[[route]] kind", "\"unreachable\"");
    refused("kind = \"prohibit\"", "", 35, "[[route]]", "needs via, port or kind");
    refused("mac = \"02:00:00:00:00:02\"", "", 38, "[[neighbour]] mac", "is missing");
    refused("routes_file =", "route_file =", 2, "route_file", "mean \"routes_file\"");
    refused("[log]", "[logs]", 13, "logs", "mean `[log]`?");
    refused(
        "interface = \"eth0\"",
        "interface = \"e\"\nmac = \"02:00:00:00:00:03\"",
        18,
        "[[port]] mac",
        "leave this out",
    );
    refused(
        "[[neighbour]]",
        "[[neighbour]]\nprefix = \"::/0\"",
        39,
        "[[neighbour]] prefix",
        "belongs in [[route]]",
    );
}

#[test]
fn all_mistakes_are_reported_at_once_in_order() {
    let text = COMPLETE
        .replace("workers = 2", "workers = 0")
        .replace("[1, 0]", "[1, 1]")
        .replace("mtu = 1400", "mtu = 1")
        .replace("kind = \"prohibit\"", "kind = 7");
    let problems = Config::parse(&text, "bad.toml").unwrap_err();
    let lines: Vec<usize> = problems.list.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [4, 7, 23, 37], "{problems}");
    // The right number of CPUs is unknown without the number of workers.
    assert!(problems.list[1].message.starts_with("CPU 1 is listed twice"), "{problems}");
    assert!(problems.to_string().contains("bad.toml:23: [[port]] mtu = 1: must be"));
}

#[test]
fn duplicate_ports_are_refused() {
    let text = "[[port]]\nname = \"a\"\ninterface = \"x\"\n".repeat(2);
    let problems = Config::parse(&text, "bad.toml").unwrap_err();
    let lines: Vec<usize> = problems.list.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [5, 6], "{problems}");
}

#[test]
fn captures_that_would_overwrite_each_other_are_refused() {
    let port = |name: &str, capture: &str| {
        format!("[[port]]\nname = \"{name}\"\ncapture = {{ {capture} }}\n")
    };
    let refused = |text: String, line: usize, key: &str, message: &str| {
        let problems = Config::parse(&text, "bad.toml").unwrap_err();
        assert_eq!(problems.list.len(), 1, "{problems}");
        let problem = &problems.list[0];
        assert_eq!((problem.line, problem.key.as_str()), (line, key), "{problems}");
        assert!(problem.message.contains(message), "{problems}");
    };
    let (read, write) = ("read = \"x.pcap\"", "write = \"./x.pcap\"");
    let (of_read, of_write) = ("[[port]] capture read", "[[port]] capture write");
    let both = port("a", &format!("{read}, {write}"));
    refused(both, 3, of_write, "is read already");
    refused(port("a", read) + &port("b", write), 6, of_write, "is read already");
    refused(port("a", write) + &port("b", read), 6, of_read, "is written already");
    refused(port("a", write) + &port("b", write), 6, of_write, "is written already");
    let twice = port("a", read) + &port("b", read);
    assert!(Config::parse(&twice, "good.toml").is_ok(), "reading is harmless");
}

#[test]
fn contradictory_values_are_rejected() {
    let route = "[[route]]\nprefix = \"0.0.0.0/0\"";
    let twice = format!("{route}\nkind = \"blackhole\"\n{route}");
    refused(route, &twice, 29, "[[route]] prefix", "has a route already");
    let neighbour = "[[neighbour]]\naddress = \"198.51.100.2\"";
    let twice = format!("{neighbour}\nmac = \"02:00:00:00:00:03\"\n{neighbour}");
    refused(neighbour, &twice, 42, "[[neighbour]] address", "is given twice");
    let own = "prefix = \"0.0.0.0/0\"\nvia = \"198.51.100.";
    refused(&format!("{own}2\""), &format!("{own}1\""), 27, "[[route]] via", "own address");
    refused("2001:db8::1/64", "198.51.100.1/25", 22, "[[port]] addresses", "is given twice");
    refused("mtu = 1400", "mtu = 1000", 22, "[[port]] addresses", "at least 1280");
    for address in ["224.0.0.1/24", "127.0.0.1/8", "0.0.0.0/0", "255.255.255.255/32", "::/0"] {
        refused("2001:db8::1/64", address, 22, "[[port]] addresses", "the address of a host");
    }
}

#[test]
fn syntax_errors_have_a_line() {
    let problems = Config::parse("[router]\nworkers = = 1\n", "bad.toml").unwrap_err();
    assert_eq!(problems.list[0].line, 2, "{problems}");
    assert_eq!(problems.list[0].key, "syntax");
}

#[test]
fn unreadable_files_are_distinguished_from_wrong_ones() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("none.toml");
    assert!(matches!(
        Config::load(&path, &[], Registry::default()),
        Err(ConfigError::Unreadable { .. })
    ));
    std::fs::write(&path, b"[router]\nworkers = \xff").unwrap();
    let Err(ConfigError::Invalid(problems)) = Config::load(&path, &[], Registry::default()) else {
        panic!("accepted")
    };
    assert_eq!(problems.list[0].line, 2);
}

#[test]
fn mistakes_of_a_configuration_and_of_its_routes_are_reported_together() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("router.toml");
    let problems = |text: &str, routes: Option<&str>| {
        std::fs::write(&path, text).unwrap();
        let routes_file = directory.path().join("routes.txt");
        let _ = std::fs::remove_file(&routes_file);
        routes.inspect(|text| std::fs::write(&routes_file, text).unwrap());
        match Config::load(&path, &[], Registry::default()) {
            Err(ConfigError::Invalid(problems)) => problems,
            other => panic!("{other:?}"),
        }
    };
    let lines = |problems: &Problems| -> Vec<(usize, String)> {
        problems.list.iter().map(|problem| (problem.line, problem.key.clone())).collect()
    };
    let wrong_batch = COMPLETE.replacen("batch = ", "batch = 99", 1);
    let batch_line = 1 + COMPLETE.lines().position(|line| line.starts_with("batch")).unwrap();
    let batch = (batch_line, "[router] batch".to_owned());

    let found = problems(&wrong_batch, None);
    assert_eq!(lines(&found), [(2, "routes_file".to_owned()), batch.clone()], "{found}");
    assert!(found.to_string().contains("routes_file = \"routes.txt\": cannot be read"), "{found}");

    // A line with a mistake of its own, and one whose neighbour is on no port.
    let routes = "nonsense\n10.0.0.0/8 203.0.113.1\n10.9.0.0/16 198.51.100.2\n";
    let found = problems(&wrong_batch, Some(routes));
    assert_eq!(lines(&found), [batch]);
    assert_eq!(found.included.as_ref().map(|it| it.list.len()), Some(2), "{found}");
    assert!(found.to_string().contains("routes.txt:2: "), "{found}");

    // The neighbours of a wrong port are unknown.
    let wrong_port = wrong_batch.replacen("mtu = 1400", "mtu = 1", 1);
    let found = problems(&wrong_port, Some(routes));
    assert_eq!(found.included.as_ref().map(|it| it.list.len()), Some(1), "{found}");
    let found = problems(&format!("{wrong_batch}\n="), Some(routes));
    assert_eq!(found.included.as_ref().map(|it| it.list.len()), Some(1), "{found}");
    assert!(problems(&wrong_batch, Some("")).included.is_none());
}

#[test]
fn paths_are_relative_to_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("router.toml");
    std::fs::write(&path, COMPLETE).unwrap();
    std::fs::write(directory.path().join("routes.txt"), "10.9.0.0/16 198.51.100.2\n").unwrap();
    let config = Config::load(&path, &[], Registry::default()).unwrap();
    let file = config.routes_file.clone().unwrap();
    assert_eq!(routes_file::load(&file, &config).unwrap().len(), 1);
}

#[test]
fn any_text_is_accepted_or_refused_with_a_reason() {
    bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Err(problems) = Config::parse(&text, "fuzz") {
            assert!(!problems.list.is_empty());
        }
        // Most random text is not TOML; a truncation or a changed byte gets further.
        let mut mutated = COMPLETE.as_bytes().to_vec();
        for pair in bytes.chunks_exact(3) {
            let at = usize::from(u16::from_le_bytes([pair[0], pair[1]])) % mutated.len();
            mutated[at] = pair[2];
        }
        let text = String::from_utf8_lossy(&mutated);
        if let Err(problems) = Config::parse(&text, "fuzz") {
            assert!(!problems.list.is_empty());
            let lines = text.lines().count();
            assert!(problems.list.iter().all(|problem| (1..=lines + 1).contains(&problem.line)));
        }
    });
}

#[test]
fn neighbours_of_a_route_are_checked_even_if_its_prefix_is_wrong() {
    let text = "[[port]]\nname = \"a\"\ncapture = { read = \"x\" }\n[[route]]\n\
        prefix = \"10.0.0.1/8\"\nvia = [\"10.9.9.9\", \"10.9.9.8%b\"]\n";
    let problems = Config::parse(text, "router.toml").unwrap_err();
    let keys: Vec<&str> = problems.list.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["[[route]] prefix", "[[route]] via", "[[route]] via"], "{problems}");
}
