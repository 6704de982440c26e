//! No packet that a policy protects leaves in clear while no router runs: before its start, between
//! two runs, when a start fails. The router keeps one configuration file for all its runs.

use crate::harness::{binary, quiet, quiet_with};
use crate::ipsec::{KIND, configuration, keys};
use crate::ipsec_clear::{BACK, ELSEWHERE, OUT, Way, holds_mark, is_esp};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wattline_testbed::command;
use wattline_testbed::forwarder::declare_keys;
use wattline_testbed::raw::{RawSocket, Received, Sniffer};
use wattline_testbed::topology::{Options, SINK, SOURCE, Topology};

const LIMIT: Duration = Duration::from_secs(60);
/// A router between two machines.
struct Machine {
    // First: it ends before its namespace.
    child: Option<Child>,
    topology: Topology,
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        Self::with(true)
    }

    fn with(static_neighbours: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        keys(folder.path(), KIND);
        let options = Options { static_neighbours, ..Options::default() };
        let machine = Self { child: None, topology: Topology::build(options).unwrap(), folder };
        machine.configure(&machine.text());
        machine
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("router.toml")
    }

    fn text(&self) -> String {
        configuration(self.folder.path(), true, KIND, &self.folder.path().join("socket"))
    }

    fn configure(&self, text: &str) {
        std::fs::write(self.config(), text).unwrap();
    }

    /// Exit code and output of a command in the router's namespace.
    fn wattline(&self, arguments: &[&str]) -> (i32, String) {
        let mut command = self.topology.router.command(&binary().to_string_lossy());
        let output = command::run_to_end(command.args(arguments), LIMIT, "").unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
    }

    fn block(&self) -> (i32, String) {
        self.wattline(&["block", &self.config().to_string_lossy()])
    }

    /// Exit code of a start that fails.
    fn fails(&self) -> i32 {
        self.wattline(&["run", &self.config().to_string_lossy()]).0
    }

    fn ask(&self, arguments: &[&str]) -> (i32, String) {
        let socket = self.folder.path().join("socket");
        self.wattline(&[arguments, &["--socket", &socket.to_string_lossy()]].concat())
    }

    fn start(&mut self) {
        let text = std::fs::read_to_string(self.config()).unwrap();
        declare_keys(binary(), &self.config(), &text).unwrap();
        let mut command = self.topology.router.command(&binary().to_string_lossy());
        command.arg("run").arg(self.config()).stdin(Stdio::null()).stdout(Stdio::null());
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        self.child = Some(command::spawn(command.stderr(log)).unwrap());
        wattline_needs::until_or(|| self.ask(&["stats"]).0 == 0, || self.log());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    fn end(&mut self, signal: Signal) {
        let mut child = self.child.take().unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
        child.wait().unwrap();
    }

    /// The number of frames that arrive in clear at the other side, of one of each kind.
    fn in_clear(&self, way: Way) -> usize {
        let Topology { source, sink, .. } = &self.topology;
        let from_source = way.stations.0 == SOURCE;
        let (near, far) = if from_source { (source, sink) } else { (sink, source) };
        let interface = if from_source { SINK.interface } else { SOURCE.interface };
        let sniffer = Sniffer::start(far, interface, holds_mark).unwrap();
        let socket = RawSocket::open(near, way.stations.0.interface).unwrap();
        for (_, frame) in way.forwarded() {
            socket.send(&frame).unwrap();
        }
        std::thread::sleep(Duration::from_millis(400));
        sniffer.finish().len()
    }

    /// The policies of the kernel.
    fn policies(&self) -> usize {
        let policies = self.topology.router.run("ip", &["xfrm", "policy"], LIMIT).unwrap();
        policies.lines().filter(|line| line.starts_with("src")).count()
    }

    fn pings(&self, arguments: &[&str]) -> bool {
        let all = [&["-n", "-c", "2", "-i", "0.2", "-W", "2"], arguments].concat();
        self.topology.router.run("ping", &all, LIMIT).is_ok()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.end(Signal::KILL);
        }
    }
}

/// Sends protected packets without a pause, and looks for them at the other side.
struct Watch {
    stop: Arc<AtomicBool>,
    sender: std::thread::JoinHandle<()>,
    sniffer: Sniffer,
    esp: Sniffer,
}

impl Watch {
    fn start(machine: &Machine) -> Self {
        let Topology { source, sink, .. } = &machine.topology;
        let socket = RawSocket::open(source, SOURCE.interface).unwrap();
        let back = RawSocket::open(sink, SINK.interface).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = stop.clone();
        let sender = std::thread::spawn(move || {
            while !stopping.load(Ordering::Relaxed) {
                for ((_, out), (_, in_clear)) in OUT.forwarded().iter().zip(BACK.forwarded()) {
                    let _ = (socket.send(out), back.send(&in_clear));
                }
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        let sniffer = Sniffer::start(sink, SINK.interface, holds_mark).unwrap();
        let esp = Sniffer::start(sink, SINK.interface, is_esp).unwrap();
        Self { stop, sender, sniffer, esp }
    }

    /// The number of packets that came in clear, and the frames that came encrypted.
    fn finish(self) -> (usize, Vec<Received>) {
        self.stop.store(true, Ordering::Relaxed);
        self.sender.join().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        // The sink's capture also has its own packets.
        let own = |frame: &[u8]| frame[6..12] == SINK.mac;
        let clear = self.sniffer.finish().iter().filter(|it| !own(&it.frame)).count();
        (clear, self.esp.finish())
    }
}

/// False if the kernel cannot block.
fn blocks(machine: &Machine) -> bool {
    let (code, text) = machine.block();
    if code == 69 {
        wattline_needs::machine("the kernel has no XFRM");
        return false;
    }
    assert_eq!(code, 0, "{text}");
    true
}

#[test]
fn protected_packets_leave_in_clear_at_no_time() {
    quiet("protected_packets_leave_in_clear_at_no_time", || {
        let mut machine = Machine::new();
        let kinds = OUT.forwarded().len();
        assert_eq!(machine.in_clear(OUT), kinds, "the kernel forwards, and the capture sees it");
        assert_eq!(machine.in_clear(BACK), kinds);
        if !blocks(&machine) {
            return;
        }
        let policies = machine.policies();
        assert!(machine.block().1.contains("198.18.0.0/24 -> 10.77.0.0/24"));
        assert_eq!(machine.policies(), policies, "blocked again, nothing is doubled");
        assert!(machine.wattline(&["block"]).1.contains(&*machine.config().to_string_lossy()));
        assert_eq!((machine.in_clear(OUT), machine.in_clear(BACK)), (0, 0), "before the start");
        assert_eq!(machine.in_clear(ELSEWHERE), kinds, "unprotected packets are forwarded");

        let watch = Watch::start(&machine);
        machine.start();
        assert!(machine.ask(&["show", "sas"]).1.contains("10.77.0.0/24"));
        std::thread::sleep(Duration::from_millis(300));
        machine.end(Signal::TERM);
        assert_eq!(machine.policies(), policies, "{}", machine.log());
        machine.start();
        machine.end(Signal::KILL);
        machine.start();
        assert_eq!(machine.block().0, 0, "while a router runs");
        // Reloads that break.
        let text = machine.text();
        for broken in ["[[port", "[router]\nworkers = \"many\"\n"] {
            machine.configure(broken);
            assert_ne!(machine.ask(&["reload"]).0, 0);
        }
        machine.end(Signal::TERM);
        assert_eq!(machine.policies(), policies, "{}", machine.log());
        // Starts that fail.
        for (from, to) in [("0.key", "none.key"), ("/near", "/0.key"), ("[[port]]", "[[port")] {
            machine.configure(&text.replacen(from, to, 1));
            assert_eq!(machine.fails(), 78, "{to}");
        }
        machine.configure(&text);
        assert_eq!(machine.policies(), policies);
        let (clear, encrypted) = watch.finish();
        assert_eq!(clear, 0);
        assert!(!encrypted.is_empty());
        assert_eq!(machine.in_clear(ELSEWHERE), kinds, "the kernel forwards the rest");

        // The operator opens it, without a router and with one.
        let (code, message) = machine.ask(&["stop", "--open"]);
        assert_eq!((code, machine.policies()), (0, 0), "{message}");
        assert_eq!(machine.in_clear(OUT), kinds);
        machine.start();
        let (code, message) = machine.ask(&["stop", "--open"]);
        machine.child.take().unwrap().wait().unwrap();
        assert_eq!((code, machine.policies()), (0, 0), "{message}");
        assert_eq!(machine.in_clear(OUT), kinds);
        // A start that fails blocks by itself.
        machine.configure(&text.replacen("0.key", "none.key", 1));
        assert_eq!(machine.fails(), 78);
        assert_eq!((machine.in_clear(OUT), machine.in_clear(BACK)), (0, 0));
    });
}

/// The kernel blocks until the router judges, and again before its ports are released.
#[test]
fn packets_in_clear_come_in_neither_at_a_start_nor_at_an_end() {
    quiet("packets_in_clear_come_in_neither_at_a_start_nor_at_an_end", || {
        let mut machine = Machine::new();
        if !blocks(&machine) {
            return;
        }
        let home = Sniffer::start(&machine.topology.source, SOURCE.interface, holds_mark).unwrap();
        let watch = Watch::start(&machine);
        for signal in [Signal::TERM, Signal::INT, Signal::TERM] {
            machine.start();
            std::thread::sleep(Duration::from_millis(100));
            machine.end(signal);
        }
        watch.finish();
        let came = home.finish();
        let came = came.iter().filter(|it| it.frame[6..12] != SOURCE.mac).count();
        assert_eq!(came, 0, "{}", machine.log());
    });
}

/// SPI, sequence number and IV of an ESP packet.
fn numbers(received: &Received) -> (u32, u32, u64) {
    let esp = &received.frame[14 + usize::from(received.frame[14] & 15) * 4..];
    let word = |at: usize| u32::from_be_bytes(*esp[at..].first_chunk().unwrap());
    (word(0), word(4), u64::from_be_bytes(*esp[8..].first_chunk().unwrap()))
}

/// Routers that use one key one after the other, under several SPIs, each ended or killed at some moment while it
/// sends; then `restored` routers that find an old state.
fn ivs_on_the_wire_differ(intact: u64, restored: u64) {
    let mut machine = Machine::new();
    if !blocks(&machine) {
        return;
    }
    let (state, backup) = (machine.folder.path().join("near"), machine.folder.path().join("old"));
    let copy = |from: &Path, to: &Path| {
        let _ = std::fs::remove_dir_all(to);
        std::fs::create_dir(to).unwrap();
        for file in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
            std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    };
    let run = |machine: &mut Machine, number: u64| {
        machine.start();
        // Moments from before the first packet until long after a reservation of numbers.
        std::thread::sleep(Duration::from_millis(number * 37 % 230));
        machine.end([Signal::KILL, Signal::TERM, Signal::KILL, Signal::INT][number as usize % 4]);
    };
    let watch = Watch::start(&machine);
    for number in 0..intact {
        let spi = format!("spi_out = {}", 0x1001 + number % 3 * 0x100);
        machine.configure(&machine.text().replace("spi_out = 4097", &spi));
        run(&mut machine, number);
        if number == intact / 2 {
            copy(&state, &backup);
        }
    }
    let (clear, sent) = watch.finish();
    assert_eq!(clear, 0, "packets in clear");
    let sent: Vec<_> = sent.iter().map(numbers).collect();
    let mut ivs: HashSet<u64> = sent.iter().map(|it| it.2).collect();
    let sequence: HashSet<(u32, u32)> = sent.iter().map(|it| (it.0, it.1)).collect();
    let spis: HashSet<u32> = sent.iter().map(|it| it.0).collect();
    assert_eq!((ivs.len(), sequence.len()), (sent.len(), sent.len()), "numbers repeat");
    assert_eq!(spis.len() as u64, intact.min(3));
    println!("intact state: {intact} starts, {} packets, no IV twice", sent.len());

    let watch = Watch::start(&machine);
    for number in 0..restored {
        copy(&backup, &state);
        run(&mut machine, number);
    }
    let (clear, again) = watch.finish();
    assert_eq!(clear, 0, "packets in clear");
    let again: Vec<_> = again.iter().map(numbers).collect();
    let sequence: HashSet<u32> = again.iter().map(|it| it.1).collect();
    assert!(sequence.len() < again.len(), "an old state has old sequence numbers");
    ivs.extend(again.iter().map(|it| it.2));
    assert_eq!(ivs.len(), sent.len() + again.len(), "IVs repeat");
    println!("old state: {restored} starts, {} packets, no IV twice", again.len());
}

#[test]
fn ivs_on_the_wire_never_repeat() {
    quiet("ivs_on_the_wire_never_repeat", || ivs_on_the_wire_differ(6, 3));
}

#[test]
#[ignore = "as the shorter one, longer: `make test-long`"]
fn ivs_on_the_wire_never_repeat_over_250_starts() {
    quiet("ivs_on_the_wire_never_repeat_over_250_starts", || ivs_on_the_wire_differ(200, 50));
}

#[test]
fn removed_protection_lifts_the_block() {
    quiet("removed_protection_lifts_the_block", || {
        let mut machine = Machine::new();
        if !blocks(&machine) {
            return;
        }
        let kinds = OUT.forwarded().len();
        let whole = machine.text();
        let without = whole.split("[ipsec]").next().unwrap().to_owned();
        machine.start();
        // A reload blocks new prefixes at once, and keeps the old ones while the router applies them.
        machine.configure(&whole.replace("10.77.0.0/24", "203.0.113.0/24"));
        assert_eq!(machine.ask(&["reload"]).0, 75, "policies wait for a restart");
        let plan = machine.wattline(&["block"]).1;
        assert!(plan.contains("10.77.0.0/24") && plan.contains("203.0.113.0/24"), "{plan}");
        machine.configure(&without);
        assert_eq!(machine.ask(&["reload"]).0, 75, "policies wait for a restart");
        assert_eq!(machine.in_clear(OUT), 0, "the router still protects");
        machine.end(Signal::TERM);
        assert_eq!(machine.policies(), 0, "{}", machine.log());
        assert_eq!(machine.in_clear(OUT), kinds);

        // By a start without the sections, and with the file.
        for remove in [false, true] {
            machine.configure(&whole);
            assert!(blocks(&machine) && machine.in_clear(OUT) == 0);
            if remove {
                std::fs::remove_file(machine.config()).unwrap();
                assert_eq!(machine.block().0, 0);
            } else {
                machine.configure(&without);
                machine.start();
                machine.end(Signal::TERM);
            }
            assert_eq!((machine.policies(), machine.in_clear(OUT)), (0, kinds));
        }
        // Another configuration finds the block of one that does not exist any more.
        machine.configure(&whole);
        assert!(blocks(&machine));
        std::fs::remove_file(machine.config()).unwrap();
        let other = machine.folder.path().join("other.toml");
        std::fs::write(&other, whole.replace("10.77.0.0/24", "203.0.113.0/24")).unwrap();
        assert_eq!(machine.wattline(&["block", &other.to_string_lossy()]).0, 0);
        let list = machine.wattline(&["block"]).1;
        assert!(!list.contains("10.77.0.0/24") && list.contains("203.0.113.0/24"), "{list}");
    });
}

/// Several configurations keep their own blocks, and one with mistakes blocks as much as it can.
#[test]
fn configurations_block_beside_each_other() {
    quiet("configurations_block_beside_each_other", || {
        let machine = Machine::new();
        if !blocks(&machine) {
            return;
        }
        let other = machine.folder.path().join("other.toml");
        let text = machine.text().replace("10.77.0.0/24", "203.0.113.0/24");
        std::fs::write(&other, format!("{text}algorithm = \"none\"\nrubbish")).unwrap();
        let other = other.to_string_lossy().into_owned();
        let (code, message) = machine.wattline(&["block", &other]);
        assert_eq!(code, 78, "{message}");
        let v4 = |way: Way| machine.in_clear(way);
        assert_eq!(v4(OUT), 0);
        let list = machine.wattline(&["block"]).1;
        assert!(list.contains("10.77.0.0/24") && list.contains("203.0.113.0/24"), "{list}");
        // Of the other one IPv4 alone is protected where ELSEWHERE leads.
        let ipv6 = ELSEWHERE.forwarded().iter().filter(|it| it.1[12..14] == [0x86, 0xdd]).count();
        assert_eq!(v4(ELSEWHERE), ipv6);
        std::fs::remove_file(&other).unwrap();
        assert_eq!(machine.wattline(&["block", &other]).0, 0);
        assert_eq!(v4(ELSEWHERE), ELSEWHERE.forwarded().len());
        assert_eq!(v4(OUT), 0);
    });
}

#[test]
fn default_route_into_a_tunnel_leaves_the_machine_reachable() {
    quiet_with(&["ping"], "default_route_into_a_tunnel_leaves_the_machine_reachable", || {
        let mut machine = Machine::with(false);
        let everything = |machine: &Machine, source: [&str; 2]| {
            let mut text = machine.text();
            text.truncate(text.find("[[ipsec_policy]]").unwrap());
            for (source, destination) in source.into_iter().zip(["0.0.0.0/0", "::/0"]) {
                text += &format!(
                    "[[ipsec_policy]]\nsource = \"{source}\"\ndestination = \"{destination}\"\n\
                     tunnel = \"branch\"\n"
                );
            }
            text
        };
        for (source, runs) in [
            (["198.18.0.0/24", "2001:2:0:1::/64"], false),
            (["0.0.0.0/0", "::/0"], false),
            (["198.18.0.0/24", "2001:2:0:1::/64"], true),
        ] {
            machine.configure(&everything(&machine, source));
            if !blocks(&machine) {
                return;
            }
            if runs {
                machine.start();
            }
            // Neighbours have to be resolved again.
            machine.topology.router.ip("neigh flush all").unwrap();
            for address in [SINK.v4.to_string(), SINK.v6.to_string()] {
                assert!(machine.pings(&[&address]), "{source:?}: the peer {address}");
            }
            for address in [SOURCE.v4.to_string(), SOURCE.v6.to_string()] {
                assert!(machine.pings(&[&address]), "{source:?}: the network here, {address}");
            }
            if !runs {
                assert_eq!((machine.in_clear(OUT), machine.in_clear(BACK)), (0, 0), "{source:?}");
                assert_eq!(machine.in_clear(ELSEWHERE), 0, "{source:?}");
            }
        }
    });
}
