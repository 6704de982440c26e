//! Reports of routers about their ports and their configuration, at the start and at a reload. They
//! forward by XDP programs where they can, which is the default.

use crate::faults::{ping_once, reaches};
use crate::harness::{binary, quiet, quiet_with, terminate};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use wattline_needs::until;
use wattline_testbed::Error;
use wattline_testbed::forwarder::{Mode, Wattline, configuration};
use wattline_testbed::topology::{LEFT, Options, SINK, Topology};

const PATIENCE: Duration = Duration::from_secs(15);
/// An address of the sink to which the kernel has no route.
const BEHIND: &str = "10.9.9.9";

fn text(workers: u16, more: &str, socket: &Path) -> String {
    let text = configuration(Mode::Adaptive, workers, socket);
    text.replace("xdp_forward = \"off\"", "xdp_forward = \"auto\"") + more
}

/// Source, router and sink with two queues each, and [`BEHIND`].
fn topology() -> Topology {
    let topology = Topology::build(Options { queues: 2, ..Options::default() }).unwrap();
    topology.sink.ip(&format!("addr add {BEHIND}/32 dev lo")).unwrap();
    topology.router.ip(&format!("route del default via {}", SINK.v4)).unwrap();
    topology
}

fn try_start(topology: &Topology, workers: u16, more: &str) -> Result<Wattline, Error> {
    Wattline::start_with(topology, binary(), |socket| text(workers, more, socket))
}

/// A row of machines with a router at work.
struct Row {
    router: Wattline,
    topology: Topology,
}

impl Row {
    fn start(workers: u16, more: &str) -> Self {
        Self::start_in(topology(), workers, more)
    }

    fn start_in(topology: Topology, workers: u16, more: &str) -> Self {
        let router = try_start(&topology, workers, more).unwrap_or_else(|error| panic!("{error}"));
        Self { router, topology }
    }

    fn write(&self, text: &str) {
        std::fs::write(self.router.config(), text).unwrap();
    }

    fn configure(&self, workers: u16, more: &str) {
        self.write(&text(workers, more, &self.router.socket()));
    }

    fn run(&self, words: &[&str]) -> Output {
        self.router.command(words).output().unwrap()
    }

    /// The answer of a command; changes that need a restart make it end with a code of its own.
    #[track_caller]
    fn ask(&self, words: &[&str]) -> Value {
        let output = self.run(&[words, &["--json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }

    fn port(&self, number: usize) -> Value {
        self.ask(&["stats"])["ports"][number].clone()
    }

    fn ping(&self, address: &str) -> bool {
        ping_once(&self.topology, address)
    }
}

/// Requires preferred busy polling in the kernel (Linux 5.11).
#[test]
fn busy_polling_is_asked_for_reported_and_forwards() {
    quiet("busy_polling_is_asked_for_reported_and_forwards", || {
        let topology = topology();
        let router = Wattline::start_with(&topology, binary(), |socket| {
            text(2, "", socket).replacen("[router]\n", "[router]\nbusy_poll = true\n", 1)
        });
        let row = Row { router: router.unwrap_or_else(|error| panic!("{error}")), topology };
        for port in [0, 1].map(|number| row.port(number)) {
            let mode = port["mode"].as_str().unwrap();
            assert!(mode.contains("busy polling"), "{port}");
            // No program defers interrupts here.
            assert!(mode.contains("no effect") && mode.contains("gro_flush_timeout"), "{port}");
        }
        assert!(reaches(&row.topology, &SINK.v4.to_string()), "{}", row.router.log());
        assert!(row.ask(&["stats"])["forwarded"].as_u64().unwrap() > 0);
    });
}

#[test]
fn a_changed_configuration_is_applied_while_packets_flow() {
    quiet_with(&["ping"], "a_changed_configuration_is_applied_while_packets_flow", || {
        let row = Row::start(1, "");
        let sink = SINK.v4.to_string();
        assert!(reaches(&row.topology, &sink));
        assert!(!row.ping(BEHIND));
        let route =
            format!("[[route]]\nprefix = \"{BEHIND}/32\"\nvia = \"{sink}\"\nport = \"right\"\n");
        row.configure(1, &route);
        let report = row.ask(&["reload"]);
        assert_eq!(report["applied"][0], "[[route]]", "{report}");
        until("the static route is used", || row.ping(BEHIND));
        row.configure(2, "");
        let report = row.ask(&["reload"]);
        assert_eq!(report["needs_restart"][0], "[router] workers", "{report}");
        let again = row.run(&["reload"]);
        assert_eq!(again.status.code(), Some(75), "{again:?}");
        let message = String::from_utf8_lossy(&again.stderr).into_owned();
        assert!(message.contains("not in force before a restart: [router] workers"), "{message}");
        assert_eq!(row.ask(&["stats"])["needs_restart"][0], "[router] workers");
        for command in [&["stats"][..], &["show", "ports"]] {
            let shown = String::from_utf8(row.run(command).stdout).unwrap();
            assert!(shown.contains("not in force before a restart: [router] workers"), "{shown}");
        }
        until("the static route is gone", || !row.ping(BEHIND));
        row.write("nonsense");
        assert_eq!(row.run(&["reload"]).status.code(), Some(78), "a wrong file is refused");
        row.configure(1, "");
        assert_eq!(row.run(&["reload"]).status.code(), Some(0));
        assert!(row.ask(&["stats"])["needs_restart"].is_null());
        assert!(reaches(&row.topology, &sink), "and changes nothing");
    });
}

#[test]
fn an_interrupted_demonstration_leaves_no_namespace_behind() {
    quiet("an_interrupted_demonstration_leaves_no_namespace_behind", || {
        let mut demo = Command::new(binary())
            .args(["demo", "--only", "compare", "--compare-duration", "60s", "--rate", "1000"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let prefix = format!("wattline-{}-", demo.id());
        let namespaces = || {
            let folder = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
            folder.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix)).count()
        };
        let deadline = Instant::now() + PATIENCE;
        while namespaces() < 3 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        let built = namespaces();
        terminate(&demo, Signal::INT);
        let status = demo.wait().unwrap();
        assert_eq!((built, status.code(), namespaces()), (3, Some(130), 0));
    });
}

/// As `ip link` does: an unplugged cable and an interface that was set down need different repairs.
#[test]
fn lost_carrier_and_interface_set_down_are_distinguished() {
    let test = "lost_carrier_and_interface_set_down_are_distinguished";
    quiet(test, || {
        let topology = topology();
        // At the start, too.
        topology.sink.ip("link set dev uplink down").unwrap();
        let row = Row::start_in(topology, 1, "");
        let Topology { router, sink, .. } = &row.topology;
        let is = |state: &str, reason: &str| {
            let port = row.port(1);
            port["state"] == state && port["reason"].as_str().unwrap_or_default().contains(reason)
        };
        until("no carrier at the start", || is("no-carrier", "far end"));
        let shown = row.ask(&["show", "ports"])["ports"][1].clone();
        assert_eq!(shown["state"], "no-carrier", "{shown}");
        assert_eq!(shown["by_workers_because"], "it has no carrier", "{shown}");
        sink.ip("link set dev uplink up").unwrap();
        until("it is back", || is("up", ""));
        assert_eq!(row.port(1)["reason"].as_str(), None);
        router.ip("link set dev right down").unwrap();
        until("set down", || is("down", "`ip link set dev right up`"));
        router.ip("link set dev right up").unwrap();
        until("set up again", || is("up", ""));
        sink.ip("link set dev uplink down").unwrap();
        until("no carrier", || is("no-carrier", "far end"));
        assert!(reaches(&row.topology, &LEFT.v4.to_string()), "the other port goes on");
    });
}

/// `show sas` and `reload` report wrong tunnel ends as long as they are wrong.
#[test]
fn tunnel_end_that_is_no_local_address_is_reported_until_it_is_one() {
    let test = "tunnel_end_that_is_no_local_address_is_reported_until_it_is_one";
    quiet(test, || {
        let state = tempfile::tempdir().unwrap();
        let key = "00112233445566778899aabbccddeeff01020304";
        let tunnel = format!(
            "[ipsec]\nstate = \"{}\"\n[[ipsec_tunnel]]\nname = \"branch\"\nlocal = \"10.1.0.77\"\n\
             remote = \"10.1.0.2\"\nspi_in = 0x1001\nspi_out = 0x1002\nkey_in = \"{key}\"\n\
             key_out = \"{}\"\n",
            state.path().display(),
            key.replace("0011", "1100")
        );
        let row = Row::start(1, &tunnel);
        let warning = || {
            let sas = row.ask(&["show", "sas"]);
            sas["tunnels"][0]["warning"].as_str().unwrap_or_default().to_owned()
        };
        until("a warning", || warning().contains("10.1.0.77 is no address of this machine"));
        let report = || row.ask(&["reload"])["not_as_configured"].to_string();
        assert!(report().contains("branch: local = 10.1.0.77"), "{}", report());
        row.topology.router.ip("addr add 10.1.0.77/24 dev left").unwrap();
        until("it is an address", || warning().is_empty());
        assert_eq!(report(), "[]");
        row.topology.router.ip("addr del 10.1.0.77/24 dev left").unwrap();
        until("it is none again", || !warning().is_empty());
        // Workers forward everything for the tunnels, and ports say so.
        let ports = row.ask(&["show", "ports"]);
        for port in ports["ports"].as_array().unwrap() {
            assert_eq!(port["by_workers_because"], "[ipsec]", "{port}");
        }
        let port = row.port(0);
        assert_eq!(port["xdp_closed_because"], "[ipsec]", "{port}");
    });
}

#[test]
fn inactive_feature_says_how_to_turn_it_on() {
    quiet("inactive_feature_says_how_to_turn_it_on", || {
        let row = Row::start(1, "");
        for (topic, expected) in [
            ("flows", "flow records are off: a section [flow_records] with `collectors`"),
            ("sas", "IPsec is off: a section [ipsec] with kernel = true"),
            ("acl", "there are no access lists: a section [[acl]]"),
        ] {
            let error = row.router.ask(&["show", topic]).unwrap_err().to_string();
            assert!(error.contains(expected), "{topic}: {error}");
        }
    });
}

fn leave_one_queue_of_right(topology: &Topology) {
    topology.router.run("ethtool", &["-L", "right", "rx", "1", "tx", "1"], PATIENCE).unwrap();
}

/// A veth takes a program in its driver only with as many receive queues as its far end has transmit
/// queues.
#[test]
fn a_port_whose_driver_refuses_the_program_says_why() {
    quiet("a_port_whose_driver_refuses_the_program_says_why", || {
        let topology = topology();
        leave_one_queue_of_right(&topology);
        let row = Row::start_in(topology, 1, "");
        let [other, right] = [0, 1].map(|number| row.port(number)["mode"].clone());
        let mode = right.as_str().unwrap();
        assert!(mode.contains("generic xdp, as its driver refused native xdp: "), "{mode}");
        assert!(mode.contains("receive queues") && mode.contains("far end"), "{mode}");
        let other = other.as_str().unwrap();
        assert!(other.contains("native xdp") && !other.contains("refused"), "{other}");
        assert_eq!(row.ask(&["show", "ports"])["ports"][1]["mode"], mode);
    });
}

/// All errors in the list are reported at once, with the CPUs that exist.
#[test]
fn cpus_that_are_not_there_are_refused_by_name() {
    quiet("cpus_that_are_not_there_are_refused_by_name", || {
        let topology = topology();
        let with = |cpus: &str| {
            Wattline::start_with(&topology, binary(), |socket| {
                let cpus = format!("workers = 2\ncpus = {cpus}\n");
                text(2, "", socket).replacen("workers = 2\n", &cpus, 1)
            })
        };
        let refused = |cpus: &str| with(cpus).unwrap_err().to_string();
        let error = refused("[1021, 1022]");
        for part in ["78", "[router] cpus", "CPU 1021 and CPU 1022 ", "this machine has online: 0"]
        {
            assert!(error.contains(part), "{part}: {error}");
        }
        let error = refused("[0]");
        assert!(
            error.contains("has 1 CPU for [router] workers = 2: one for each worker"),
            "{error}"
        );
        let error = refused("[0, 1, 2]");
        assert!(error.contains("has 3 CPUs for [router] workers = 2"), "{error}");
        let error = refused("[0, 0]");
        assert!(error.contains("CPU 0 is listed twice"), "{error}");

        // A worker that is not started, as a port has but one queue, needs no CPU.
        leave_one_queue_of_right(&topology);
        let router = with("[0, 1021]").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(router.stats().unwrap()["workers"].as_array().unwrap().len(), 1);
    });
}
