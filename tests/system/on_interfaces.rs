//! The life of a router on interfaces: following the kernel, stopping, dying, reloading.
//! Needs root; says so where it is not.

use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wattline_linux::namespace::Namespace;
use wattline_needs::{KillOnDrop, until};

const PATIENCE: Duration = Duration::from_secs(15);

/// A source, a router and a sink in a row, and a Wattline in the middle.
struct Row {
    source: Namespace,
    router: Namespace,
    sink: Namespace,
    folder: tempfile::TempDir,
}

impl Row {
    fn new(role: &str) -> Option<Self> {
        let name = |part: &str| format!("wlife-{role}-{part}-{}", std::process::id());
        let Ok(router) = Namespace::create(name("r")) else {
            wattline_needs::rights("root to make network namespaces");
            return None;
        };
        let source = Namespace::create(name("s")).unwrap();
        let sink = Namespace::create(name("k")).unwrap();
        for (far, near, net) in [(&source, "left", 1), (&sink, "right", 2)] {
            let veth = "type veth peer name uplink netns";
            let queues = "numrxqueues 2 numtxqueues 2";
            router
                .ip(&format!("link add name {near} {queues} {veth} {} {queues}", far.name()))
                .unwrap();
            router.ip(&format!("addr add 10.{net}.0.1/24 dev {near}")).unwrap();
            router.ip(&format!("link set dev {near} up")).unwrap();
            far.ip(&format!("addr add 10.{net}.0.2/24 dev uplink")).unwrap();
            far.ip("link set dev uplink up").unwrap();
            far.ip(&format!("route add default via 10.{net}.0.1")).unwrap();
        }
        sink.ip("addr add 10.9.9.9/32 dev lo").unwrap();
        for sysctl in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
            router.sysctl(sysctl, "1").unwrap();
        }
        Some(Self { source, router, sink, folder: tempfile::tempdir().unwrap() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn configure(&self, workers: u16, more: &str) {
        let socket = self.path("socket");
        let text = format!(
            "[router]\nworkers = {workers}\nsocket = \"{}\"\n\
             [[port]]\nname = \"left\"\ninterface = \"left\"\n\
             [[port]]\nname = \"right\"\ninterface = \"right\"\n{more}",
            socket.display()
        );
        std::fs::write(self.path("router.toml"), text).unwrap();
    }

    fn command(&self, config: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.router.name(), wattline_needs::program(), "run"]);
        command.arg(config).arg("--json").stdin(Stdio::null());
        command
    }

    fn start(&self) -> Running {
        let child = self.command(&self.path("router.toml")).stdout(Stdio::piped()).spawn().unwrap();
        let running = Running { child: KillOnDrop(child), socket: self.path("socket") };
        until("the router is up", || running.ask(&["stats"]).is_some());
        running
    }

    fn ping(&self, address: &str) -> bool {
        let ping = ["-c", "1", "-W", "1", address];
        self.source.run("ping", &ping).is_ok()
    }
}

struct Running {
    child: KillOnDrop,
    socket: PathBuf,
}

impl Running {
    fn ask(&self, request: &[&str]) -> Option<serde_json::Value> {
        let mut command = Command::new(wattline_needs::program());
        let output = command.args(request).arg("--json").arg("--socket").arg(&self.socket).output();
        // What is refused is a document as well; what needs a restart has a code of its own.
        let output = output.ok().filter(|it| matches!(it.status.code(), Some(0 | 75)))?;
        serde_json::from_slice(&output.stdout).ok()
    }

    fn run(&self, arguments: &[&str]) -> std::process::Output {
        let mut command = Command::new(wattline_needs::program());
        command.args(arguments).arg("--socket").arg(&self.socket).output().unwrap()
    }

    fn forwarded(&self) -> u64 {
        self.ask(&["stats"]).unwrap()["forwarded"].as_u64().unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn end(mut self) -> serde_json::Value {
        let stdout = self.child.stdout.take().unwrap();
        assert!(self.child.wait().unwrap().success());
        serde_json::from_reader(stdout).unwrap()
    }
}

#[test]
fn it_follows_the_kernel_and_leaves_no_trace() {
    let Some(row) = Row::new("follow") else { return };
    row.configure(2, "");
    let router = row.start();
    assert!(row.ping("10.2.0.2"), "forwarding, with a neighbour to be resolved");
    assert!(row.ping("10.1.0.1"), "the router itself answers");
    assert!(!row.ping("10.9.9.9"));
    row.router.ip("route add 10.9.9.9/32 via 10.2.0.2").unwrap();
    until("the new route is used", || row.ping("10.9.9.9"));
    let before = router.forwarded();
    assert!(before >= 4, "who else would have forwarded?");

    row.router.ip("link set dev right down").unwrap();
    until("packets to a link that is down stop", || !row.ping("10.2.0.2"));
    row.router.ip("link set dev right up").unwrap();
    until("they go again when it is back", || row.ping("10.2.0.2"));

    assert_eq!(router.ask(&["active", "1"]).unwrap()["active_workers"], 1);
    assert!(row.ping("10.2.0.2"), "a parked worker still serves what reaches it");

    router.signal(Signal::TERM);
    let account = router.end();
    let dropped: u64 =
        account["dropped"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    let count = |key: &str| account[key].as_u64().unwrap();
    assert_eq!(
        count("received") + count("generated"),
        count("forwarded") + count("punted") + dropped,
        "{account}"
    );
    let links = row.router.ip("-details link show").unwrap();
    assert!(!links.contains("xdp"), "a program is left behind: {links}");
    assert!(!links.contains("wattline"), "a device is left behind: {links}");
    assert!(!row.path("socket").exists(), "the control socket is left behind");
}

/// Requires preferred busy polling in the kernel (Linux 5.11).
#[test]
fn busy_polling_is_asked_for_reported_and_forwards() {
    let Some(row) = Row::new("busy") else { return };
    row.configure(2, "");
    let text = std::fs::read_to_string(row.path("router.toml")).unwrap();
    let text = text.replacen("[router]\n", "[router]\nbusy_poll = true\n", 1);
    std::fs::write(row.path("router.toml"), text).unwrap();
    let router = row.start();
    let stats = router.ask(&["stats"]).unwrap();
    for port in stats["ports"].as_array().unwrap() {
        let mode = port["mode"].as_str().unwrap();
        assert!(mode.contains("busy polling"), "{port}");
        // Nobody defers interrupts here.
        assert!(mode.contains("in vain") && mode.contains("gro_flush_timeout"), "{port}");
    }
    until("a ping gets through", || row.ping("10.9.9.9") || row.ping("10.2.0.2"));
    assert!(router.forwarded() > 0);
}

#[test]
fn a_changed_configuration_is_applied_while_packets_flow() {
    let Some(row) = Row::new("reload") else { return };
    row.configure(1, "");
    let router = row.start();
    assert!(row.ping("10.2.0.2"));
    assert!(!row.ping("10.9.9.9"));
    row.configure(1, "[[route]]\nprefix = \"10.9.9.9/32\"\nvia = \"10.2.0.2\"\nport = \"right\"\n");
    let report = router.ask(&["reload"]).unwrap();
    assert_eq!(report["applied"][0], "[[route]]", "{report}");
    until("the static route is used", || row.ping("10.9.9.9"));
    row.configure(2, "");
    let report = router.ask(&["reload"]).unwrap();
    assert_eq!(report["needs_restart"][0], "[router] workers", "{report}");
    let again = router.run(&["reload"]);
    assert_eq!(again.status.code(), Some(75), "{again:?}");
    let message = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(message.contains("not in force before a restart: [router] workers"), "{message}");
    assert_eq!(router.ask(&["stats"]).unwrap()["needs_restart"][0], "[router] workers");
    for command in [&["stats"][..], &["show", "ports"]] {
        let shown = String::from_utf8(router.run(command).stdout).unwrap();
        assert!(shown.contains("not in force before a restart: [router] workers"), "{shown}");
    }
    until("the static route is gone", || !row.ping("10.9.9.9"));
    std::fs::write(row.path("router.toml"), "nonsense").unwrap();
    assert!(router.ask(&["reload"]).is_none(), "a wrong file is refused");
    assert_eq!(router.run(&["reload"]).status.code(), Some(78));
    row.configure(1, "");
    assert_eq!(router.run(&["reload"]).status.code(), Some(0));
    assert!(router.ask(&["stats"]).unwrap()["needs_restart"].is_null());
    assert!(row.ping("10.2.0.2"), "and changes nothing");
    let _ = &row.sink;
}

#[test]
fn an_interrupted_demonstration_leaves_no_namespace_behind() {
    if Row::new("demo").is_none() {
        return;
    }
    let mut demo = Command::new(wattline_needs::program())
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
    kill_process(Pid::from_child(&demo), Signal::INT).unwrap();
    let status = demo.wait().unwrap();
    assert_eq!((built, status.code(), namespaces()), (3, Some(130), 0));
}

/// As `ip link` says it: a cable that is unplugged, and an interface that was set down, which are
/// mended in different places.
#[test]
fn a_port_that_cannot_send_says_whether_the_carrier_or_the_administrator_is_missing() {
    let Some(row) = Row::new("carrier") else { return };
    // At the start, too.
    row.sink.ip("link set dev uplink down").unwrap();
    row.configure(1, "");
    let router = row.start();
    let port = || router.ask(&["stats"]).unwrap()["ports"][1].clone();
    let is = |state: &str, reason: &str| {
        let port = port();
        port["state"] == state && port["reason"].as_str().unwrap_or_default().contains(reason)
    };
    until("no carrier at the start", || is("no-carrier", "far end"));
    let shown = router.ask(&["show", "ports"]).unwrap()["ports"][1].clone();
    assert_eq!(shown["state"], "no-carrier", "{shown}");
    assert_eq!(shown["by_workers_because"], "it has no carrier", "{shown}");
    row.sink.ip("link set dev uplink up").unwrap();
    until("it is back", || is("up", ""));
    assert_eq!(port()["reason"].as_str(), None);
    row.router.ip("link set dev right down").unwrap();
    until("set down", || is("down", "`ip link set dev right up`"));
    row.router.ip("link set dev right up").unwrap();
    until("set up again", || is("up", ""));
    row.sink.ip("link set dev uplink down").unwrap();
    until("no carrier", || is("no-carrier", "far end"));
    assert!(row.ping("10.1.0.1"), "the other port goes on");
}

/// Wrong tunnel ends are reported by `show sas` and `reload`, as long as they are wrong.
#[test]
fn a_tunnel_end_that_is_no_address_of_this_machine_is_told_until_it_is_one() {
    let Some(row) = Row::new("ends") else { return };
    let key = "00112233445566778899aabbccddeeff01020304";
    let tunnel = format!(
        "[ipsec]\nstate = \"{}\"\n[[ipsec_tunnel]]\nname = \"branch\"\nlocal = \"10.1.0.77\"\n\
         remote = \"10.1.0.2\"\nspi_in = 0x1001\nspi_out = 0x1002\nkey_in = \"{key}\"\n\
         key_out = \"{}\"\n",
        row.path("state").display(),
        key.replace("0011", "1100")
    );
    row.configure(1, &tunnel);
    let mut declared = Command::new(wattline_needs::program());
    declared.arg("new-keys").arg(row.path("router.toml")).arg("branch");
    assert!(declared.output().unwrap().status.success());
    let router = row.start();
    let warning = || {
        let sas = router.ask(&["show", "sas"]).unwrap();
        sas["tunnels"][0]["warning"].as_str().unwrap_or_default().to_owned()
    };
    until("it is told", || warning().contains("10.1.0.77 is no address of this machine"));
    let report = || router.ask(&["reload"]).unwrap()["not_as_configured"].to_string();
    assert!(report().contains("branch: local = 10.1.0.77"), "{}", report());
    row.router.ip("addr add 10.1.0.77/24 dev left").unwrap();
    until("it is an address", || warning().is_empty());
    assert_eq!(report(), "[]");
    row.router.ip("addr del 10.1.0.77/24 dev left").unwrap();
    until("it is none again", || !warning().is_empty());
    // Workers forward everything for the tunnels, which ports say.
    let ports = router.ask(&["show", "ports"]).unwrap();
    for port in ports["ports"].as_array().unwrap() {
        assert_eq!(port["by_workers_because"], "[ipsec]", "{port}");
    }
    let stats = router.ask(&["stats"]).unwrap();
    assert_eq!(stats["ports"][0]["xdp_closed_because"], "[ipsec]", "{stats}");
}

#[test]
fn inactive_feature_says_how_to_turn_it_on() {
    let Some(row) = Row::new("off") else { return };
    row.configure(1, "");
    let router = row.start();
    for (topic, told) in [
        ("flows", "flow records are off: a section [flow_records] with `collectors`"),
        ("sas", "IPsec is off: a section [ipsec] with kernel = true"),
        ("acl", "there are no access lists: a section [[acl]]"),
    ] {
        let mut command = Command::new(wattline_needs::program());
        let output =
            command.args(["show", topic, "--socket"]).arg(&router.socket).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(told), "{topic}: {error}");
    }
}

/// A veth takes a program in its driver only with as many receive queues as its far end has transmit
/// queues.
#[test]
fn a_port_whose_driver_refuses_the_program_says_why() {
    let Some(row) = Row::new("generic") else { return };
    if let Err(error) = row.router.run("ethtool", &["-L", "right", "rx", "1", "tx", "1"]) {
        return wattline_needs::tool(format_args!("ethtool: {error}"));
    }
    row.configure(1, "");
    let router = row.start();
    let stats = router.ask(&["stats"]).unwrap();
    let mode = stats["ports"][1]["mode"].as_str().unwrap();
    assert!(mode.contains("generic xdp, as its driver refused native xdp: "), "{mode}");
    assert!(mode.contains("receive queues") && mode.contains("far end"), "{mode}");
    let other = stats["ports"][0]["mode"].as_str().unwrap();
    assert!(other.contains("native xdp") && !other.contains("refused"), "{other}");
    let shown = router.ask(&["show", "ports"]).unwrap();
    assert_eq!(shown["ports"][1]["mode"], mode);
}

/// All that is wrong with the list at once, and which CPUs there are.
#[test]
fn cpus_that_are_not_there_are_refused_by_name() {
    let Some(row) = Row::new("cpus") else { return };
    row.configure(2, "");
    let path = row.path("router.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let with = |cpus: &str| {
        let text = text.replacen("workers = 2\n", &format!("workers = 2\ncpus = {cpus}\n"), 1);
        std::fs::write(&path, text).unwrap();
        let output = row.command(&path).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, error) = with("[1021, 1022]");
    assert_eq!(code, Some(78), "{error}");
    for told in ["[router] cpus", "CPU 1021 and CPU 1022 ", "this machine has online: 0"] {
        assert!(error.contains(told), "{told}: {error}");
    }
    let (_, error) = with("[0]");
    assert!(error.contains("has 1 CPU for [router] workers = 2: one for each worker"), "{error}");
    let (_, error) = with("[0, 1, 2]");
    assert!(error.contains("has 3 CPUs for [router] workers = 2"), "{error}");
    let (_, error) = with("[0, 0]");
    assert!(error.contains("CPU 0 stands there twice"), "{error}");

    // A worker that is not started, as a port has but one queue, needs no CPU.
    row.router.run("ethtool", &["-L", "right", "rx", "1", "tx", "1"]).unwrap();
    let wanted = "workers = 2\ncpus = [0, 1021]\n";
    std::fs::write(&path, text.replacen("workers = 2\n", wanted, 1)).unwrap();
    let router = row.start();
    assert_eq!(router.ask(&["stats"]).unwrap()["workers"].as_array().unwrap().len(), 1);
}

/// A port's configuration applies to an interface that replaces another. There is more than one
/// worker, and all have to apply it.
#[test]
fn routes_of_the_configuration_follow_the_interface_of_their_port() {
    let Some(row) = Row::new("again") else { return };
    row.configure(2, "[[route]]\nprefix = \"10.9.9.9/32\"\nvia = \"10.2.0.2\"\nport = \"right\"\n");
    let router = row.start();
    until("the static route is used", || row.ping("10.9.9.9"));
    row.router.ip("link delete dev right").unwrap();
    let port = || router.ask(&["stats"]).unwrap()["ports"][1].clone();
    until("it is told", || port()["state"] == "absent");
    // With too few queues it cannot be taken over.
    let make = |queues: &str| {
        let peer = format!("veth peer name uplink netns {} {queues}", row.sink.name());
        row.router.ip(&format!("link add name right {queues} type {peer}")).unwrap();
        row.router.ip("addr add 10.2.0.1/24 dev right").unwrap();
        row.router.ip("link set dev right up").unwrap();
        row.sink.ip("addr add 10.2.0.2/24 dev uplink").unwrap();
        row.sink.ip("link set dev uplink up").unwrap();
        row.sink.ip("route add default via 10.2.0.1").unwrap();
    };
    make("numrxqueues 1 numtxqueues 1");
    until("it is told why", || port()["state"] == "failed");
    assert!(port()["reason"].as_str().unwrap().contains("1 queue(s)"), "{}", port());
    assert!(row.ping("10.2.0.2"), "by the kernel");
    row.router.ip("link delete dev right").unwrap();
    make("numrxqueues 2 numtxqueues 2");
    until("the static route is used again", || row.ping("10.9.9.9"));
    assert_eq!(port()["state"], "up");
}
