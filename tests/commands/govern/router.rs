//! `wattline govern` on a router whose kernel forwards through a masquerade, in a namespace: cores follow
//! the traffic by RPS.

use crate::metrics::serve;
use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wattline_daemon::socket::{Request, ask};

#[path = "../../../crates/napi/tests/common/mod.rs"]
mod scene;

use scene::Scene;
use wattline_needs::{KillOnDrop, until};

const MASK: &str = "/sys/class/net/r0/queues/rx-0/rps_cpus";
/// Policy with a sample at each poll, so that a test does not depend on the processor's speed. The
/// policy watches the lowest core, which is idle if the kernel's hash maps the only flow to the
/// other core.
const POLICY: &str = "queue-length:c_down=40,silence=20ms";
/// Largest share of a core at ten decisions a second. The aim is 0.002; 0.003 was measured with
/// busy processors, since caches are cold after each sleep.
const MOST_SHARE: f64 = 0.005;

struct Router {
    scene: Arc<Scene>,
    folder: tempfile::TempDir,
    child: Option<KillOnDrop>,
}

impl Router {
    /// Returns `None` if privileges or CPUs are missing.
    fn build() -> Option<Self> {
        if std::thread::available_parallelism().unwrap().get() < 2 {
            wattline_needs::machine("two CPUs");
            return None;
        }
        let scene = Arc::new(Scene::build()?);
        Some(Self { scene, folder: tempfile::tempdir().unwrap(), child: None })
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("control")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Writes a configuration of the router's interface, or of the interfaces in the text.
    fn configure(&self, text: &str) -> PathBuf {
        let file = self.folder.path().join("govern.toml");
        let interfaces = if text.contains("interfaces") { "" } else { "interfaces = [\"r0\"]" };
        let text =
            format!("[govern]\n{text}\n{interfaces}\nsocket = \"{}\"\n", self.socket().display());
        fs::write(&file, text).unwrap();
        file
    }

    /// Runs the program in the router with capabilities removed; returns its success and its
    /// output.
    fn without(&self, removed: &str, command: &[&str], file: &std::path::Path) -> (bool, String) {
        let mut setpriv = self.scene.router.command("setpriv");
        setpriv.arg(format!("--bounding-set={removed}")).arg(wattline_needs::program());
        let output = setpriv.args(command).arg(file).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    }

    /// Governs the router's interface by this policy, and waits until it answers.
    fn govern(&mut self, policy: &str, knobs: &str) {
        self.govern_by(&format!("policy = \"{policy}\"\nknobs = {knobs}"));
    }

    /// The same by these lines of a configuration.
    fn govern_by(&mut self, text: &str) {
        let file = self.configure(text);
        let log = fs::File::create(self.folder.path().join("log")).unwrap();
        // The journal is this test's own.
        let script = format!(
            "mount -t tmpfs none /var/lib && exec {} govern {}",
            wattline_needs::program(),
            file.display()
        );
        let mut command = self.scene.router.command("sh");
        command.args(["-c", &script]).stdout(Stdio::null()).stderr(log);
        self.child = Some(KillOnDrop(command.spawn().unwrap()));
        until("it governs", || {
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "{}", self.log());
            self.stats()
        });
    }

    /// Returns true if the governor has a program on the tracepoint of polls.
    fn observes(&self) -> bool {
        let info = format!("/proc/{}/fdinfo", self.child.as_ref().unwrap().id());
        let descriptors = fs::read_dir(info).unwrap().flatten();
        let mut texts = descriptors.filter_map(|entry| fs::read_to_string(entry.path()).ok());
        texts.any(|text| text.contains("napi_poll"))
    }

    fn stats(&self) -> Option<Value> {
        ask(&self.socket(), Request::Stats).ok()
    }

    fn mask(&self) -> String {
        self.scene
            .router
            .run("cat", &[MASK])
            .unwrap()
            .trim()
            .trim_start_matches(['0', ','])
            .to_owned()
    }

    /// Sends bursts of so many packets every 2 ms until the mask is this.
    fn load(&self, burst: u32, mask: &str) {
        let (scene, over) = (Arc::clone(&self.scene), Arc::new(AtomicBool::new(false)));
        let ended = Arc::clone(&over);
        let load = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                scene.send(burst, 1);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        until(&format!("mask {mask} under {burst} packets\n{}", self.log()), || {
            self.mask() == mask
        });
        over.store(true, Ordering::Relaxed);
        load.join().unwrap();
    }
}

#[test]
fn cores_follow_the_traffic_of_the_kernel_and_masks_are_restored_after_a_kill() {
    let Some(mut router) = Router::build() else { return };
    assert_eq!(router.mask(), "");
    router.govern(POLICY, "[\"cores\"]");
    if router.log().contains("polls are not observed") {
        return wattline_needs::rights(router.log());
    }
    until("one core", || router.mask() == "1");
    for _ in 0..3 {
        router.load(200, "3");
        router.load(1, "1");
    }
    // A governor that does not answer in time gives its last known statistics, or none.
    until("seven masks written, and no write that failed", || {
        let writes = router.stats()?["power"]["host"]["writes"]["steering"].clone();
        (writes.as_object()?.len() == 1 && writes["done"].as_u64()? >= 7).then_some(())
    });
    router.child.as_mut().unwrap().kill().unwrap();
    until("the watchdog restores the mask", || router.mask().is_empty());
}

#[test]
fn mask_of_an_administrator_is_left_alone_and_named() {
    let Some(mut router) = Router::build() else { return };
    router.scene.router.run("sh", &["-c", &format!("echo 2 > {MASK}")]).unwrap();
    router.govern("ondemand", "[\"cores\"]");
    until("a mask that an administrator has set", || {
        router.log().contains("which an administrator has set")
    });
    assert_eq!(router.mask(), "2");
    assert!(router.stats().unwrap()["power"]["host"]["writes"]["steering"].is_null());
}

/// The other interface is governed on, both if the mask was set before the start and if it is set
/// later.
#[test]
fn mask_of_another_interface_is_left_alone_and_the_rest_follows() {
    for before in [true, false] {
        let Some(mut router) = Router::build() else { return };
        let other = MASK.replace("r0", "r1");
        let set = |router: &Router| {
            router.scene.router.run("sh", &["-c", &format!("echo 2 > {other}")]).unwrap();
        };
        if before {
            set(&router);
        }
        let interfaces = "interfaces = [\"r0\", \"r1\"]";
        router.govern_by(&format!("policy = \"{POLICY}\"\nknobs = [\"cores\"]\n{interfaces}"));
        until("one core", || (router.mask() == "1").then_some(()));
        if !before {
            set(&router);
        }
        router.load(200, "3");
        router.load(1, "1");
        let found = router.scene.router.run("cat", &[&other]).unwrap();
        assert_eq!(found.trim().trim_start_matches(['0', ',']), "2", "{}", router.log());
        let said = if before { "which an administrator has set" } else { "left alone from now on" };
        assert!(router.log().contains(said), "{}", router.log());
    }
}

/// Under the new name the interface is not governed; the mask stayed on it, and no restore found it.
#[test]
fn an_interface_that_is_renamed_gets_its_mask_back() {
    let Some(mut router) = Router::build() else { return };
    let interfaces = "interfaces = [\"r0\", \"r1\"]";
    router.govern_by(&format!("policy = \"{POLICY}\"\nknobs = [\"cores\"]\n{interfaces}"));
    let mask = |router: &Router, name: &str| {
        let text = router.scene.router.run("cat", &[&MASK.replace("r0", name)]).unwrap();
        text.trim().trim_start_matches(['0', ',']).to_owned()
    };
    until("one core", || mask(&router, "r1") == "1");
    for change in ["down", "name wan7", "up"] {
        let name = if change == "up" { "wan7" } else { "r1" };
        router.scene.router.ip(&format!("link set {name} {change}")).unwrap();
    }
    until("its mask is as it was", || mask(&router, "wan7").is_empty());
    router.load(200, "3");
}

#[test]
fn plan_and_govern_judge_a_policy_of_streaks_alike() {
    let Some(router) = Router::build() else { return };
    let file = router.configure(&format!("policy = \"{POLICY}\"\nknobs = [\"cores\"]"));
    let (accepted, said) = router.without("-chown", &["plan", "--govern"], &file);
    assert!(accepted && said.contains("rps_cpus"), "{said}");
    for command in [&["plan", "--govern"][..], &["govern"]] {
        // Another test may govern this machine meanwhile.
        let (accepted, said) = until("no other program changes settings", || {
            let answer = router.without("-bpf,-perfmon,-sys_admin", command, &file);
            (!answer.1.contains("is changing this machine's settings")).then_some(answer)
        });
        assert!(!accepted, "{command:?}: {said}");
        for words in ["only streaks can be counted", "polls are not observed", "CAP_PERFMON"] {
            assert!(said.contains(words), "{command:?}: {said}");
        }
    }
}

/// Each poll costs more while it is observed.
#[test]
fn polls_are_observed_for_streaks_alone() {
    for (policy, knobs, observed) in [
        ("ondemand", "[\"cores\"]", false),
        (POLICY, "[\"idle\"]", true),
        ("wattline:p99=1ms", "[\"cores\"]", true),
    ] {
        let Some(mut router) = Router::build() else { return };
        router.govern(policy, knobs);
        assert_eq!(router.observes(), observed, "{policy} {knobs}: {}", router.log());
    }
}

/// The policy of all knobs lets one CPU serve the load that it can carry, and adds CPUs for higher
/// loads.
#[test]
fn wattline_and_the_profile_for_routers_choose_cores_of_the_kernel() {
    for text in ["policy = \"wattline:p99=1ms\"\nknobs = [\"cores\"]", "profile = \"router\""] {
        let Some(mut router) = Router::build() else { return };
        router.govern_by(text);
        router.load(1, "1");
        let stats = router.stats().unwrap();
        let failed = &stats["power"]["host"]["writes"]["steering"]["failed"];
        assert!(failed.is_null(), "{text}: {stats}");
    }
}

/// Processor seconds of all threads of a process so far.
fn processor_seconds(process: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok());
    texts.map(|text| text.split(' ').next().unwrap().parse::<f64>().unwrap() * 1e-9).sum()
}

#[test]
#[ignore = "a minute on a quiet machine; `make test-long` runs it"]
fn profile_for_routers_takes_little_of_a_core_at_ten_decisions_a_second() {
    let Some(mut router) = Router::build() else { return };
    let policy = "queue-length:c_up=0,c_down=0,silence=0us";
    router.govern_by(&format!("profile = \"router\"\npolicy = \"{policy}\""));
    until("one core", || router.mask() == "1");
    let decisions = || router.stats().unwrap()["power"]["decisions"].as_u64().unwrap();
    let process = router.child.as_ref().unwrap().id();
    let (before, seconds, began) = (decisions(), processor_seconds(process), Instant::now());
    for turn in 0..200 {
        // A few decisions for each rise and fall.
        router.scene.send(if turn % 2 == 0 { 200 } else { 1 }, 1);
        std::thread::sleep(Duration::from_millis(250));
    }
    let (seconds, passed) = (processor_seconds(process) - seconds, began.elapsed().as_secs_f64());
    let (share, rate) = (seconds / passed, (decisions() - before) as f64 / passed);
    println!("{:.3} % of a core, {rate:.1} decisions a second for {passed:.0} s", 100.0 * share);
    assert!((7.0..15.0).contains(&rate) && share <= MOST_SHARE, "{share} at {rate}");
}

/// Shows 3 W less while one CPU gets the packets.
fn exporter(scene: &Scene) -> u16 {
    scene.router.ip("link set lo up").unwrap();
    let listener = scene.router.enter(|| TcpListener::bind("127.0.0.1:0")).unwrap().unwrap();
    let name = scene.router.name().to_owned();
    serve(listener, move || {
        let mut ip = Command::new("ip");
        let mask = ip.args(["netns", "exec", &name, "cat", MASK]).output().unwrap().stdout;
        let saved = if String::from_utf8_lossy(&mask).trim().ends_with('1') { 3 } else { 0 };
        format!("pdu_watts {}\n", 60 - saved)
    })
}

/// With a simulated meter: the result shows that the trial compares the right settings, not their
/// saving.
#[test]
fn trial_of_the_profile_for_routers_alternates_and_finds_its_saving() {
    let Some(router) = Router::build() else { return };
    let port = exporter(&router.scene);
    let file = router.configure("profile = \"router\"");
    let meter = format!(
        "[[meter]]\nname = \"prometheus:http://127.0.0.1:{port}/metrics#pdu_watts\"\n\
         period = \"100ms\"\nlag = \"0s\"\naccuracy = \"gold\"\n"
    );
    fs::write(router.folder.path().join("meters.toml"), meter).unwrap();
    let pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
    fs::write(router.folder.path().join("pressure"), pressure).unwrap();
    // Meters, journal and CPU pressure are simulated: other tests load the machine.
    let script = format!(
        "mount -t tmpfs none /var/lib && mount -t tmpfs none /etc && mkdir /etc/wattline && \
         mount --bind {0}/pressure /proc/pressure/cpu && cp {0}/meters.toml /etc/wattline && \
         exec {1} trial none {2} --block 2s --pairs 8 --json",
        router.folder.path().display(),
        wattline_needs::program(),
        file.display()
    );
    let output = router.scene.router.command("sh").args(["-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("polls are not observed") {
        return wattline_needs::rights(said);
    }
    let result: Value = serde_json::from_slice(&output.stdout).expect(&said);
    assert_eq!(result["difference_shown"], true, "{result:#}\n{said}");
    let watts = result["difference_watts"].as_f64().unwrap();
    assert!((-3.3..-2.7).contains(&watts), "{result:#}");
    assert_eq!(result["source"], "measured", "{result:#}");
    assert_eq!(router.mask(), "", "the machine is as it was");
}
