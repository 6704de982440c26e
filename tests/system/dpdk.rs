//! Ports over DPDK: the differential tests once more, over its virtual devices.
//!
//! They are part of the test with the feature `dpdk` alone, as the program is (`make libraries`).

#[cfg(not(feature = "dpdk"))]
#[test]
fn a_program_without_dpdk_says_how_to_build_one() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("router.toml");
    std::fs::write(
        &path,
        "[router]\nmode = \"poll\"\n[[port]]\nname = \"a\"\ndpdk = \"net_null0\"\n",
    )
    .unwrap();
    let mut run = std::process::Command::new(crate::harness::binary());
    let output = run.arg("run").arg(&path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{said}");
    assert!(said.contains("[[port]] a") && said.contains("--features dpdk"), "{said}");
}

#[cfg(feature = "dpdk")]
mod live {
    use crate::capture_ports::{frames_of, is_wattlines};
    use crate::differential::{RATE_PPS, assert_equal, frames, multiset};
    use crate::harness::{Bench, KERNEL, binary, has, privileged, quiet};
    use rustix::process::{Pid, Signal, kill_process};
    use std::fmt::Write as _;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};
    use tempfile::TempDir;
    use wattline_testbed::command;
    use wattline_testbed::forwarder::{Totals, Wattline};
    use wattline_testbed::replay::cross;
    use wattline_testbed::topology::{LEFT, Options, RIGHT, SINK, SOURCE, Topology, mac_text};
    use wattline_traffic::capture::{LinkType, Resolution, Writer};

    const LIMIT: Duration = Duration::from_secs(60);

    /// A router of polling workers, without huge pages.
    const ROUTER: &str = "[dpdk]\narguments = [\"--no-huge\", \"-m\", \"128\"]\n\
                          [router]\nmode = \"poll\"\n";

    /// Frames sent towards the sink and the source.
    type Sent = [Vec<Vec<u8>>; 2];

    #[test]
    fn captures_through_dpdk_are_those_of_capture_ports_byte_by_byte() {
        let test = "captures_through_dpdk_are_those_of_capture_ports_byte_by_byte";
        let mut frames = frames(test);
        frames.retain(|frame| is_wattlines(frame));
        let folder = TempDir::new().unwrap();
        let path = |name: &str| folder.path().join(name);
        write_capture(&path("in.pcap"), &frames);
        let reference = {
            let ports = ["read = \"in.pcap\", write = \"a.pcap\"", "write = \"b.pcap\""];
            let ports = ports.map(|files| format!("capture = {{ {files} }}"));
            std::fs::write(path("captures.toml"), statics(&ports)).unwrap();
            let mut run = Command::new(binary());
            command::run(run.arg("run").arg(path("captures.toml")).arg("--json"), LIMIT).unwrap();
            sent(&folder, ["b.pcap", "a.pcap"])
        };
        let device = |number: u32, files: &[(&str, &str)]| {
            let files =
                files.iter().map(|(kind, name)| format!(",{kind}={}", path(name).display()));
            format!("dpdk = \"net_pcap{number}{}\"", files.collect::<String>())
        };
        let ports = [
            device(0, &[("rx_pcap", "in.pcap"), ("tx_pcap", "c.pcap")]),
            device(1, &[("tx_pcap", "d.pcap")]),
        ];
        std::fs::write(path("dpdk.toml"), format!("{ROUTER}{}", statics(&ports))).unwrap();
        let totals = run_until(&folder, "dpdk.toml", frames.len() as u64);
        assert!(totals.balance(), "{totals:?}");
        let ours = sent(&folder, ["d.pcap", "c.pcap"]);
        assert!(!reference[0].is_empty() && !reference[1].is_empty());
        for (side, (ours, reference)) in ["sink", "source"].iter().zip(ours.iter().zip(&reference))
        {
            assert_eq!(ours.len(), reference.len(), "to the {side}");
            assert!(ours == reference, "to the {side}: other bytes, or another order");
        }
    }

    #[test]
    fn over_af_packet_wattline_agrees_with_the_kernel() {
        let test = "over_af_packet_wattline_agrees_with_the_kernel";
        if !has("nft", test) {
            return;
        }
        privileged(test, || {
            let options =
                Options { static_neighbours: true, unlimited_errors: true, ..Options::default() };
            let mut frames = frames(test);
            let all = frames.len();
            frames.retain(|frame| comparable(frame));
            assert!(frames.len() * 10 > all * 9, "nearly all: {} of {all}", frames.len());
            let bench = Bench::start(options, KERNEL);
            let crossing = cross(&bench.topology, &frames, RATE_PPS).unwrap();
            let reference = [multiset(&crossing.to_sink), multiset(&crossing.to_source)];
            drop(bench);
            let (topology, router) = start(options);
            let crossing = cross(&topology, &frames, RATE_PPS).unwrap();
            let ports = router.stats().unwrap()["ports"].clone();
            let totals = router.stop().unwrap();
            println!("{totals:?}\n{ports}");
            assert!(totals.balance() && totals.forwarded > 0, "{totals:?}");
            assert!(totals.punted > 0, "options of IPv4 are the kernel's: {totals:?}");
            let ours = [multiset(&crossing.to_sink), multiset(&crossing.to_source)];
            assert_equal(&ours, &reference);
        });
    }

    /// Left out: fragments of IPv4, which the driver has the kernel put together before it takes them
    /// (PACKET_FANOUT_FLAG_DEFRAG); and packets that must not be forwarded by RFC 1812 section 5.3.7 and
    /// RFC 4291 section 2.5.2. Workers drop these, the kernel forwards some; the XDP program of other
    /// ports leaves them to it.
    fn comparable(frame: &[u8]) -> bool {
        let forbidden = |first: u8| first == 0 || first >= 240;
        match frame.get(12..14) {
            Some([0x08, 0x00]) if frame.len() >= 34 => {
                let is_fragment = frame[20] & 0x3f != 0 || frame[21] != 0;
                !is_fragment && !forbidden(frame[26]) && !forbidden(frame[30])
            }
            Some([0x86, 0xdd]) if frame.len() >= 54 => frame[38..54] != [0; 16],
            _ => true,
        }
    }

    /// ARP, neighbour discovery and what is for the router itself pass by the TAP devices.
    #[test]
    fn the_kernel_has_its_part_of_the_ports() {
        let test = "the_kernel_has_its_part_of_the_ports";
        if !has("ping", test) || !has("nft", test) {
            return;
        }
        quiet(test, || {
            let (topology, router) = start(Options::default());
            let ping = |address: &str| {
                let arguments = ["-n", "-c", "3", "-i", "0.2", "-W", "5", address];
                let said = topology.source.run("ping", &arguments, LIMIT).unwrap();
                assert!(said.contains(" 0% packet loss") && !said.contains("DUP"), "{said}");
            };
            for station in [LEFT, RIGHT, SINK] {
                ping(&station.v4.to_string());
                ping(&station.v6.to_string());
            }
            let ports = router.stats().unwrap()["ports"].clone();
            assert_eq!(ports[0]["mode"], "dpdk, net_af_packet", "{ports}");
            assert_eq!(ports[0]["state"], "up", "{ports}");
            let totals = router.stop().unwrap();
            // Three echoes each way and family; what was for the router is the kernel's.
            assert!(totals.forwarded >= 12 && totals.punted >= 12, "{totals:?}");
        });
    }

    #[test]
    fn filtered_packets_are_not_forwarded_unless_forced() {
        let test = "filtered_packets_are_not_forwarded_unless_forced";
        if !has("nft", test) {
            return;
        }
        quiet(test, || {
            let topology = prepare(Options::default());
            let rules = "add table inet t; add chain inet t c { type filter hook forward priority 0; }; \
                         add rule inet t c ip saddr 203.0.113.9 drop";
            topology.router.run("nft", &[rules], LIMIT).unwrap();
            let try_to = |more: &str| {
                Wattline::start_with(&topology, binary(), |socket| over_af_packet(socket, more))
            };
            let refused = try_to("").unwrap_err().to_string();
            assert!(refused.contains("nftables") && refused.contains("\"force\""), "{refused}");
            let router = try_to("takeover = \"force\"\n").unwrap();
            assert!(router.log().contains("without it"), "{}", router.log());
            router.stop().unwrap();
        });
    }

    #[test]
    fn an_interface_that_is_no_tap_device_is_named_with_the_remedy() {
        let test = "an_interface_that_is_no_tap_device_is_named_with_the_remedy";
        quiet(test, || {
            let topology = Topology::build(Options::default()).unwrap();
            let configuration = |socket: &Path| {
                let text = over_af_packet(socket, "");
                text.replace("iface=card-left", "iface=left")
                    .replace("iface=card-right", "iface=right")
            };
            let error = Wattline::start_with(&topology, binary(), configuration).unwrap_err();
            let error = error.to_string();
            assert!(error.contains("ip tuntap add dev left mode tap"), "{error}");
        });
    }

    /// The topology with a router over DPDK at work in it.
    fn start(options: Options) -> (Topology, Wattline) {
        let topology = prepare(options);
        let configuration = |socket: &Path| over_af_packet(socket, "");
        let router = Wattline::start_with(&topology, binary(), configuration);
        let router = router.unwrap_or_else(|error| panic!("{error}"));
        if options.static_neighbours {
            until_neighbours_are_known(&router);
        }
        (topology, router)
    }

    /// The kernel tells of its neighbours while the router is at work already: the first packets would be
    /// held for the next hop of the default routes, and not all of them.
    fn until_neighbours_are_known(router: &Wattline) {
        let show = |address: &str| {
            let mut show = Command::new(binary());
            show.args(["show", "fib", address, "--json", "--socket"]).arg(router.socket());
            command::run(&mut show, LIMIT).unwrap()
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        // Both are routed over the sink.
        for address in ["203.0.113.1", "2001:db8:ffff::1"] {
            while !show(address).contains("\"forward\"") {
                assert!(Instant::now() < deadline, "{}\n{}", show(address), router.log());
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// The topology, where TAP devices have the names and addresses of the router's interfaces. The
    /// kernel takes nothing from the interfaces themselves, as if they were cards that it has no
    /// driver for.
    fn prepare(options: Options) -> Topology {
        let topology = Topology::build(options).unwrap();
        let router = &topology.router;
        for (own, peer) in [(LEFT, SOURCE), (RIGHT, SINK)] {
            let (name, card) = (own.interface, format!("card-{}", own.interface));
            let mac = mac_text(peer.mac);
            router
                .ip(&format!(
                    "link set {name} down\nlink set {name} name {card}\naddr flush dev {card}\n\
                     link set {card} addrgenmode none\nlink set {card} up\n\
                     tuntap add dev {name} mode tap\nlink set {name} address {}\n\
                     addr add {}/24 dev {name}\naddr add {}/64 dev {name} nodad\nlink set {name} up",
                    mac_text(own.mac),
                    own.v4,
                    own.v6
                ))
                .unwrap();
            if options.static_neighbours {
                router
                    .ip(&format!(
                        "neighbour replace {} lladdr {mac} nud permanent dev {name}\n\
                         neighbour replace {} lladdr {mac} nud permanent dev {name}",
                        peer.v4, peer.v6
                    ))
                    .unwrap();
            }
            let drops = format!(
                "add table netdev card; add chain netdev card {name} {{ type filter hook ingress \
                 device {card} priority 0; policy drop; }}"
            );
            router.run("nft", &[&drops], LIMIT).unwrap();
        }
        let default = |gateway: String| format!("route add default via {gateway} dev right onlink");
        router
            .ip(&format!("{}\n{}", default(SINK.v4.to_string()), default(SINK.v6.to_string())))
            .unwrap();
        topology
    }

    /// Rings hold more than a second of what the tests send: a router without a processor loses nothing.
    fn over_af_packet(socket: &Path, more: &str) -> String {
        let mut text = format!("{ROUTER}{more}socket = \"{}\"\n", socket.display());
        for (number, name) in [LEFT.interface, RIGHT.interface].iter().enumerate() {
            let _ = write!(
                text,
                "[[port]]\nname = \"{name}\"\ninterface = \"{name}\"\n\
                 dpdk = \"net_af_packet{number},iface=card-{name},framecnt=8192\"\n"
            );
        }
        text
    }

    /// The router of the topology without a kernel, with these keys of its ports.
    fn statics(ports: &[String; 2]) -> String {
        let mut text = String::new();
        for (own, keys) in [LEFT, RIGHT].iter().zip(ports) {
            let _ = write!(
                text,
                "[[port]]\nname = \"{}\"\n{keys}\nmac = \"{}\"\naddresses = [\"{}/24\", \"{}/64\"]\n",
                own.interface,
                mac_text(own.mac),
                own.v4,
                own.v6
            );
        }
        for (prefix, via) in [("0.0.0.0/0", SINK.v4.to_string()), ("::/0", SINK.v6.to_string())] {
            let _ = write!(
                text,
                "[[route]]\nprefix = \"{prefix}\"\nvia = \"{via}\"\nport = \"right\"\n"
            );
        }
        for (station, port) in [(SOURCE, "left"), (SINK, "right")] {
            for address in [station.v4.to_string(), station.v6.to_string()] {
                let mac = mac_text(station.mac);
                let _ = write!(
                    text,
                    "[[neighbour]]\naddress = \"{address}\"\nmac = \"{mac}\"\nport = \"{port}\"\n"
                );
            }
        }
        text
    }

    fn write_capture(path: &Path, frames: &[Vec<u8>]) {
        let mut input = Writer::create(path, LinkType::ETHERNET, Resolution::Micros).unwrap();
        for (index, frame) in frames.iter().enumerate() {
            input.write(Duration::from_millis(index as u64), frame).unwrap();
        }
        input.finish().unwrap();
    }

    fn sent(folder: &TempDir, names: [&str; 2]) -> Sent {
        names.map(|name| {
            frames_of(&folder.path().join(name))
                .into_iter()
                .map(|received| received.frame)
                .collect()
        })
    }

    /// A process that ends with the test.
    struct Process(Child);

    impl Drop for Process {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Runs a configuration until it has received so many frames: DPDK does not say that a capture has
    /// ended.
    fn run_until(folder: &TempDir, name: &str, frames: u64) -> Totals {
        let path = |name: &str| -> PathBuf { folder.path().join(name) };
        let socket = path("socket");
        let text = std::fs::read_to_string(path(name)).unwrap();
        let set = format!("mode = \"poll\"\nsocket = \"{}\"\n", socket.display());
        std::fs::write(path(name), text.replacen("mode = \"poll\"\n", &set, 1)).unwrap();
        let mut run = Command::new(binary());
        run.arg("run").arg(path(name)).arg("--json").stdout(Stdio::piped());
        let mut process = Process(command::spawn(&mut run).unwrap());
        let end = Instant::now() + LIMIT;
        loop {
            let mut stats = Command::new(binary());
            stats.args(["stats", "--json", "--socket"]).arg(&socket);
            let received = command::run(&mut stats, LIMIT)
                .ok()
                .and_then(|text| serde_json::from_str::<Totals>(&text).ok())
                .map_or(0, |totals| totals.received);
            if received == frames {
                break;
            }
            assert!(Instant::now() < end, "{received} of {frames} frames");
            std::thread::sleep(Duration::from_millis(50));
        }
        kill_process(Pid::from_child(&process.0), Signal::TERM).unwrap();
        let status = command::wait(&mut process.0, LIMIT).unwrap().expect("it ends");
        assert!(status.success(), "{status}");
        let text = std::io::read_to_string(process.0.stdout.take().unwrap()).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}
