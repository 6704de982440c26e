//! A governor along with XDP programs that forward, on veth pairs in network namespaces: real
//! frames through real programs. The knobs and processor times are those of a recorded machine,
//! since other processes affect those of the test machine. Needs root; reports its absence and
//! passes.

mod common;
#[path = "../../xdp/tests/common/mod.rs"]
mod namespaces;

use common::{CPUS, Fixture};
use namespaces::{ROUTER_IN_MAC, ROUTER_OUT_MAC, SINK_MAC, Topology, index};
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use wattline_governor::Governor;
use wattline_governor::machine::Machine;
use wattline_governor::runner::Runner;
use wattline_host::{BesideXdp, Forwarded, Host, NoWorkers, Scope};
use wattline_linux::namespace::enter_thread;
use wattline_policies::POLICIES;
use wattline_policy::{BuildContext, build};
use wattline_xdp::{Copies, XdpForward, XdpModeChoice, XdpProgram};

const PATIENCE: Duration = Duration::from_secs(60);

/// The router's two programs, each with the other's interface as its egress port.
struct Router {
    programs: Vec<XdpProgram>,
    _forward: XdpForward,
}

impl Router {
    /// Creates the router in the namespace of this thread.
    fn new() -> Self {
        let forward = XdpForward::new(&Copies::new().unwrap().into()).unwrap();
        let mut programs = Vec::new();
        for (slot, (name, mac)) in
            [("r0", ROUTER_IN_MAC), ("r1", ROUTER_OUT_MAC)].iter().enumerate()
        {
            let program =
                XdpProgram::load_forwarding(index(name), *mac, XdpModeChoice::Auto, Some(&forward));
            forward.add(index(name), slot as u32).unwrap();
            forward.open(index(name), true).unwrap();
            programs.push(program.unwrap());
        }
        Self { programs, _forward: forward }
    }

    fn counters(&self) -> Vec<Option<Forwarded>> {
        let counter = |program: &XdpProgram| {
            let by_cpu = program.forwarded();
            let add: Forwarded = Box::new(move |frames| by_cpu.add_to(frames).is_ok());
            Some(add)
        };
        self.programs.iter().map(counter).collect()
    }
}

fn prepare(topology: &Topology) {
    let router = &topology.router;
    for command in [
        "addr add 10.1.0.1/24 dev r0",
        "addr add 10.2.0.1/24 dev r1",
        &format!(
            "neigh add 10.2.0.2 lladdr {} dev r1",
            SINK_MAC.map(|b| format!("{b:02x}")).join(":")
        ),
    ] {
        router.ip(command).unwrap();
    }
    router.sysctl("net.ipv4.ip_forward", "1").unwrap();
    // A veth accepts frames of XDP programs while its far end runs NAPI.
    topology.sink.run("ethtool", &["-K", "b0", "gro", "on"]).unwrap();
}

/// Writes the two processors' times so far: all busy, or all idle.
struct Times {
    fixture_stat: std::path::PathBuf,
    began: Instant,
    idle: Duration,
    turned: Instant,
    busy: bool,
}

impl Times {
    fn new(fixture: &Fixture) -> Self {
        let now = Instant::now();
        let fixture_stat = fixture.tree.path("/proc/stat");
        std::fs::create_dir_all(fixture_stat.parent().unwrap()).unwrap();
        Self { fixture_stat, began: now, idle: Duration::ZERO, turned: now, busy: false }
    }
    fn write(&mut self, busy: bool) {
        let now = Instant::now();
        if !self.busy {
            self.idle += now - self.turned;
        }
        (self.busy, self.turned) = (busy, now);
        let ticks = |span: Duration| (span.as_millis() / 10) as u64;
        let softirq = ticks(now - self.began) - ticks(self.idle).min(ticks(now - self.began));
        let line = |cpu: u32| format!("cpu{cpu} 0 0 0 {} 0 0 {softirq} 0 0 0\n", ticks(self.idle));
        let text = format!("cpu 0 0 0 0 0 0 0 0\n{}{}", line(0), line(1));
        let new = self.fixture_stat.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &self.fixture_stat).unwrap();
    }
}

#[test]
fn governor_sees_frames_that_programs_forward_and_loses_none() {
    let Some(topology) = Topology::build(1) else { return };
    prepare(&topology);
    let router_name = topology.router.name().to_owned();
    let router = std::thread::spawn(move || {
        enter_thread(&router_name).unwrap();
        Router::new()
    });
    let router = router.join().unwrap();

    let fixture = Fixture::with_card("acpi-cpufreq");
    let mut times = Times::new(&fixture);
    times.write(false);
    let mut options = fixture.options(&[0, 1]);
    options.scope = Scope::XDP_ROUTER;
    let layout = options.layout.clone();
    let workers = BesideXdp::new(&fixture.tree, &layout, Box::new(NoWorkers), router.counters());
    let host = Host::new(options, fixture.session(), Box::new(workers)).unwrap();
    let can = host.platform().can;
    assert!(can.set_frequency && can.set_moderation && !can.asks.batch.is_noticed());
    let spec = POLICIES.parse("ondemand+125us").unwrap();
    let context = BuildContext { platform: host.platform(), server: None, packet: None, seed: 1 };
    let policy = build(&spec, &context).unwrap();
    let runner = Runner::start(Governor::new(host, policy), Duration::from_millis(100)).unwrap();
    let speed =
        |policy: u32| fixture.value(&format!("{CPUS}/cpufreq/policy{policy}/scaling_setspeed"));
    let offered = || runner.totals(PATIENCE).unwrap().machine.offered;

    let (source, sink) = (topology.source.name().to_owned(), topology.sink.name().to_owned());
    let sender = std::thread::spawn(move || {
        enter_thread(&source).unwrap();
        UdpSocket::bind("10.1.0.2:0").unwrap()
    });
    let sender = sender.join().unwrap();
    let receiver = std::thread::spawn(move || {
        enter_thread(&sink).unwrap();
        let socket = UdpSocket::bind("10.2.0.2:9").unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 16 << 20).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        socket
    });
    let receiver = receiver.join().unwrap();
    let receiving = std::thread::spawn(move || {
        let mut count = 0u64;
        while receiver.recv(&mut [0; 64]).is_ok() {
            count += 1;
        }
        count
    });

    // Busy and idle in turn, with packets all the time: each change is a decision under traffic.
    let (mut sent, mut changes) = (0u64, Vec::new());
    let before = offered();
    for busy in [true, false, true, false] {
        let wanted = if busy { "3300000" } else { "1600000" };
        let deadline = Instant::now() + PATIENCE;
        let begin = Instant::now();
        while speed(0) != wanted || begin.elapsed() < Duration::from_millis(300) {
            times.write(busy);
            for _ in 0..10 {
                sender.send_to(&[7; 32], "10.2.0.2:9").unwrap();
                sent += 1;
            }
            std::thread::sleep(Duration::from_millis(5));
            assert!(Instant::now() < deadline, "busy {busy}: {} instead of {wanted}", speed(0));
        }
        changes.push(speed(1));
    }
    let received = receiving.join().unwrap();
    assert_eq!(received, sent, "packets lost while the governor decided");
    let mut frames = Vec::new();
    router.programs.iter().for_each(|one| one.forwarded().add_to(&mut frames).unwrap());
    assert_eq!(frames.iter().sum::<u64>(), sent, "by XDP programs alone: {frames:?}");
    assert_eq!(offered() - before, sent, "and the governor saw each");
    assert_eq!(fixture.value("/ethtool/eth9/rx-usecs"), "125");
    assert_eq!(changes.len(), 4);
    let totals = runner.totals(PATIENCE).unwrap();
    assert!(totals.own.frequency_changes >= 3, "{:?}", totals.own);
    println!("{sent} packets, {} frequency changes, none lost", totals.own.frequency_changes);
    drop(runner.end());
}
