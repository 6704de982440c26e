//! Two gateways, each a Wattline of its own, join two networks by a tunnel.
//!
//! ```text
//!   source ── router ═══ tunnel ═══ sink ── branch
//!            (left, right)      (uplink, lan)
//!   198.18.0.0/24                       10.77.0.0/24
//! ```

use crate::faults::reaches;
use crate::harness::{binary, load_time, privileged_with};
use crate::throughput::Server;
use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use wattline_testbed::command;
use wattline_testbed::forwarder::Wattline;
use wattline_testbed::namespace::Namespace;
use wattline_testbed::topology::{Options, RIGHT, SINK, Topology};

const LIMIT: Duration = Duration::from_secs(60);
const BRANCH4: &str = "10.77.0.2";
const BRANCH6: &str = "2001:2:0:77::2";
/// The networks of the source and of the branch.
const NETWORKS: [[&str; 2]; 2] =
    [["198.18.0.0/24", "10.77.0.0/24"], ["2001:2:0:1::/64", "2001:2:0:77::/64"]];

/// Parameters of the tunnel.
#[derive(Clone, Copy)]
pub struct Kind {
    pub algorithm: &'static str,
    pub key_bytes: usize,
    pub ipv6: bool,
    pub udp: bool,
}

/// The tunnel of tests that are not about its kind.
pub const KIND: Kind = Kind { algorithm: "aes128-gcm", key_bytes: 20, ipv6: false, udp: false };

/// A network behind the sink, which becomes a gateway by this.
fn branch(topology: &Topology) -> Namespace {
    let branch = Namespace::create("branch").unwrap();
    topology
        .sink
        .ip(&format!("link add lan type veth peer name uplink netns {}", branch.name()))
        .unwrap();
    for (namespace, interface, host) in [(&topology.sink, "lan", 1), (&branch, "uplink", 2)] {
        let off = ["-K", interface, "tx", "off", "rx", "off", "sg", "off", "gro", "off"];
        namespace.run("ethtool", &off, LIMIT).unwrap();
        namespace
            .ip(&format!(
                "address add 10.77.0.{host}/24 dev {interface}\n\
                 address add 2001:2:0:77::{host}/64 dev {interface} nodad\n\
                 link set {interface} up"
            ))
            .unwrap();
    }
    branch.ip("route add default via 10.77.0.1\nroute add default via 2001:2:0:77::1").unwrap();
    let forward = [("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")];
    topology.sink.sysctl(&forward).unwrap();
    branch
}

/// One gateway's configuration; `near` is the router, else the sink.
pub fn configuration(folder: &Path, near: bool, kind: Kind, socket: &Path) -> String {
    let mut text = format!("[router]\nsocket = \"{}\"\n", socket.display());
    for port in if near { ["left", "right"] } else { ["uplink", "lan"] } {
        text += &format!("[[port]]\nname = \"{port}\"\ninterface = \"{port}\"\n");
    }
    text + &tunnel_end(folder, kind, usize::from(!near), &NETWORKS)
}

/// One end of a tunnel between the router (0) and the sink (1) for these pairs of networks, the
/// router's first. [`keys`] has to be called before.
pub fn tunnel_end(folder: &Path, kind: Kind, end: usize, networks: &[[&str; 2]]) -> String {
    let ends = match kind.ipv6 {
        true => [RIGHT.v6.to_string(), SINK.v6.to_string()],
        false => [RIGHT.v4.to_string(), SINK.v4.to_string()],
    };
    let other = 1 - end;
    let mut text = format!(
        "[ipsec]\nstate = \"{}\"\n\
         [[ipsec_tunnel]]\nname = \"branch\"\nlocal = \"{}\"\nremote = \"{}\"\n\
         algorithm = \"{}\"\nudp_encapsulation = {}\n\
         spi_out = {}\nspi_in = {}\nkey_out_file = \"{}\"\nkey_in_file = \"{}\"\n",
        folder.join(["near", "far"][end]).display(),
        ends[end],
        ends[other],
        kind.algorithm,
        kind.udp,
        0x1001 + end,
        0x1001 + other,
        folder.join(format!("{end}.key")).display(),
        folder.join(format!("{other}.key")).display(),
    );
    for pair in networks {
        text += &format!(
            "[[ipsec_policy]]\nsource = \"{}\"\ndestination = \"{}\"\ntunnel = \"branch\"\n",
            pair[end], pair[other]
        );
    }
    text
}

/// Writes the keys of both directions.
pub fn keys(folder: &Path, kind: Kind) {
    for number in 0..2u8 {
        let path = folder.join(format!("{number}.key"));
        std::fs::write(&path, format!("{:02x}", 0x50 + number).repeat(kind.key_bytes)).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    }
}

fn tunnel(gateway: &Wattline) -> Value {
    gateway.stats().unwrap()["applications"]["ipsec"]["tunnels"][0].clone()
}

/// Sends ten pings. Returns true if all were answered, and ping's output.
fn ping(topology: &Topology, address: &str, more: &[&str]) -> (bool, String) {
    let mut command = topology.source.command("ping");
    command.args(["-n", "-c", "10", "-i", "0.05", "-W", "5"]).args(more).arg(address);
    let output = command::run_to_end(&mut command, LIMIT, "").unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (text.contains(" 0% packet loss"), text)
}

#[test]
fn two_gateways_join_two_networks() {
    privileged_with(&["ping", "iperf3"], "two_gateways_join_two_networks", || {
        for kind in
            [KIND, Kind { algorithm: "aes256-cbc-sha256", key_bytes: 64, ipv6: true, udp: true }]
        {
            join(kind);
        }
    });
}

fn join(kind: Kind) {
    let folder = tempfile::tempdir().unwrap();
    keys(folder.path(), kind);
    let topology = Topology::build(Options::default()).unwrap();
    let branch = branch(&topology);
    let start = |namespace, near| {
        let config = |socket: &Path| configuration(folder.path(), near, kind, socket);
        Wattline::start_in(namespace, binary(), config).unwrap_or_else(|error| panic!("{error}"))
    };
    let mut near = start(&topology.router, true);
    let far = start(&topology.sink, false);

    for address in [BRANCH4, BRANCH6] {
        // With neighbours known: more packets follow than are held for an unresolved one.
        assert!(reaches(&topology, address));
        let (passed, text) = ping(&topology, address, &[]);
        assert!(passed, "{text}");
        // Too long for the tunnel: answered by an error if it must not be fragmented, else
        // fragmented.
        let (passed, text) = ping(&topology, address, &["-M", "do", "-s", "1450"]);
        assert!(!passed && text.to_lowercase().contains("mtu"), "{text}");
    }
    let (passed, text) = ping(&topology, BRANCH4, &["-M", "dont", "-s", "1472"]);
    assert!(passed, "{text}");
    let (sent, received) = (tunnel(&near), tunnel(&far));
    assert!(sent["outbound"]["packets"].as_u64().unwrap() >= 30, "{sent}");
    assert_eq!(sent["outbound"]["packets"], received["inbound"]["packets"]);
    assert_eq!(sent["inbound"]["packets"], received["outbound"]["packets"]);
    for direction in ["outbound", "inbound"] {
        assert_eq!(sent[direction]["dropped"], serde_json::json!({}), "{sent}");
    }

    let server = Server::start_in(&branch);
    for address in [BRANCH4, BRANCH6] {
        let seconds = load_time().as_secs().clamp(1, 5).to_string();
        let mut client = topology.source.command("iperf3");
        let report =
            command::run(client.args(["-J", "-c", address, "-t", &seconds]), LIMIT).unwrap();
        let report: Value = serde_json::from_str(&report).unwrap();
        let received = &report["end"]["sum_received"];
        println!("{address}: {} bit/s", received["bits_per_second"]);
        assert!(received["bytes"].as_u64().unwrap() > 100_000, "{received}");
    }
    drop(server);

    let drawn = near.ask(&["graph"]).unwrap();
    for node in ["esp4-decrypt", "esp6-decrypt", "esp4-encrypt", "esp6-encrypt"] {
        assert!(drawn.contains(node), "{drawn}");
    }

    // Killed without a chance to clean up: its successor continues above all used sequence
    // numbers, and the other end accepts its packets.
    let before = tunnel(&near)["outbound"]["sequence"].as_u64().unwrap();
    near.kill();
    drop(near);
    let near = start(&topology.router, true);
    let (passed, text) = ping(&topology, BRANCH4, &[]);
    assert!(passed, "{text}");
    assert!(tunnel(&near)["outbound"]["sequence"].as_u64().unwrap() > before);
    assert!(tunnel(&far)["inbound"]["dropped"].get("esp-replayed").is_none());

    for gateway in [near, far] {
        let totals = gateway.stop().unwrap_or_else(|error| panic!("{error}"));
        assert!(totals.balance(), "{totals:?}");
        assert!(totals.dropped.keys().all(|reason| reason == "too-big"), "{totals:?}");
    }
}
