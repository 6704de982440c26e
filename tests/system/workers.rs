//! A worker that hangs: its thread is stopped by a debugger in the middle of traffic.

use crate::faults::reaches;
use crate::harness::{ADAPTIVE, Bench, quiet, quiet_with};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use wattline_testbed::forwarder::{Forwarder, Mode};
use wattline_testbed::namespace::Namespace;
use wattline_testbed::probe::{Load, Probe};
use wattline_testbed::topology::{Options, SINK, Topology};

/// Time limit of a command in a namespace; long, because other tests may load the machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Stops a thread until the debugger's standard input is closed (ptrace(2): SEIZE, INTERRUPT; a
/// tracee goes on when its tracer ends) or the thread ends: a process is not gone before its tracer
/// has waited for it.
const DEBUGGER: &str = "
import ctypes, os, sys, threading
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
thread = int(sys.argv[1])
for request in (0x4206, 0x4207):
    if ptrace(request, thread, None, None) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
os.waitpid(thread, 0x40000000)
print('stopped', flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
os.waitpid(thread, 0x40000000)
";

/// A thread that stands still; it goes on when this is dropped.
struct Stopped(Child);

impl Stopped {
    fn worker(bench: &Bench) -> Self {
        let tasks = format!("/proc/{}/task", bench.router().pid());
        let threads = std::fs::read_dir(tasks).unwrap().map(|entry| entry.unwrap().path());
        let is_worker = |path: &std::path::PathBuf| {
            std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "worker-0")
        };
        let thread = threads.into_iter().find(is_worker).expect("a worker");
        let mut debugger = Command::new("python3");
        debugger.args(["-c", DEBUGGER]).arg(thread.file_name().unwrap());
        debugger.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = debugger.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "stopped");
        Self(child)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn until(bench: &Bench, what: &str, done: impl Fn(&Value) -> bool) {
    let reason = || format!("{what}: {}\n{}", bench.stats(), bench.log());
    wattline_needs::until_or(|| done(&bench.stats()), reason);
}

#[test]
fn while_a_worker_hangs_the_kernel_forwards_what_arrives_at_its_queues() {
    let test = "while_a_worker_hangs_the_kernel_forwards_what_arrives_at_its_queues";
    quiet_with(&["ping", "python3"], test, || {
        let bench = Bench::start(Options::default(), ADAPTIVE);
        let both = || {
            for address in [SINK.v4.to_string(), SINK.v6.to_string()] {
                assert!(reaches(&bench.topology, &address), "{address}\n{}", bench.log());
            }
        };
        both();
        let stopped = Stopped::worker(&bench);
        until(&bench, "it is noticed", |stats| stats["workers"][0]["hangs"] == true);
        let before = bench.stats()["received"].as_u64().unwrap();
        both();
        assert_eq!(bench.stats()["received"], before, "no worker saw them");
        assert_eq!(bench.log().matches("worker 0 hangs").count(), 1, "{}", bench.log());

        drop(stopped);
        until(&bench, "it goes on", |stats| stats["workers"][0]["hangs"] == false);
        assert!(bench.log().contains("worker 0 continues"), "{}", bench.log());
        both();
        until(&bench, "the worker forwards", |stats| stats["received"].as_u64().unwrap() > before);
        bench.finish();
    });
}

#[test]
fn worker_that_hangs_at_the_end_is_reported_as_an_error() {
    let test = "worker_that_hangs_at_the_end_is_reported_as_an_error";
    quiet_with(&["ping", "python3"], test, || {
        let bench = Bench::start(Options::default(), ADAPTIVE);
        assert!(reaches(&bench.topology, &SINK.v4.to_string()));
        let stopped = Stopped::worker(&bench);
        let error = bench.running.stop().expect_err("it did not end well").to_string();
        drop(stopped);
        assert!(error.contains("70"), "the exit code: {error}");
        assert!(error.contains("worker 0 hangs"), "{error}");
        assert!(!error.contains("capture"), "it has none: {error}");
        assert!(reaches(&bench.topology, &SINK.v4.to_string()), "the kernel forwards");
    });
}

/// Interfaces of two queues and three workers: two are started and forward, and statistics say so.
/// A reload of the same file changes nothing.
#[test]
fn workers_beyond_the_queues_are_reported_and_not_started() {
    quiet_with(&["ping"], "workers_beyond_the_queues_are_reported_and_not_started", || {
        let three = Forwarder::Wattline { mode: Mode::Adaptive, workers: 3 };
        let bench = Bench::start(Options { queues: 2, ..Options::default() }, three);
        for address in [SINK.v4.to_string(), SINK.v6.to_string()] {
            assert!(reaches(&bench.topology, &address), "{address}\n{}", bench.log());
        }
        let now = bench.stats();
        assert_eq!(now["workers"].as_array().unwrap().len(), 2, "{now}");
        assert_eq!(now["workers_not_started"]["count"], 1, "{now}");
        for text in [bench.log(), bench.ask(&["stats"])] {
            assert!(text.contains("2 of [router] workers = 3 are started"), "{text}");
            // A veth has separate channels, at most as many as it was made with.
            assert!(text.contains("`numrxqueues 3 numtxqueues 3`"), "{text}");
        }
        let report: Value = serde_json::from_str(&bench.ask(&["reload", "--json"])).unwrap();
        assert_eq!(report["needs_restart"], serde_json::json!([]), "{report}");
        bench.finish();
    });
}

/// Interfaces of four queues and two workers: each worker serves two queues of every port.
#[test]
fn queues_beyond_the_workers_are_all_served() {
    let test = "queues_beyond_the_workers_are_all_served";
    quiet(test, || {
        let two = Forwarder::Wattline { mode: Mode::Adaptive, workers: 2 };
        let options = Options { queues: 4, static_neighbours: true, ..Options::default() };
        let bench = Bench::start(options, two);
        // Enough flows for each of the four queues.
        let load = Load { rate_pps: 2_000.0, duration: Duration::from_secs(3), flows: 64 };
        let outcome = Probe::start(&bench.topology, &load).unwrap().finish().unwrap();
        assert!(outcome.received_packets > 1_000, "{outcome:?}");
        assert_eq!(outcome.lost_packets, outcome.receiver_overflow_packets, "{outcome:?}");
        let now = bench.stats();
        let of = |worker: usize| now["workers"][worker]["received"].as_u64().unwrap();
        assert!(of(0) > 100 && of(1) > 100, "{now}");
        // The kernel forwards, too: it would have taken the packets of a queue without a worker, a
        // quarter of all, and not just the first.
        assert!(of(0) + of(1) + 10 >= outcome.received_packets, "{now}");
        bench.finish();
    });
}

/// A veth attaches no XDP program to a queue that is added while it is a port: its packets would
/// bypass the access lists. There is no memory for the queue, so the port is blocked until it has
/// as many as before.
#[test]
fn additional_queue_does_not_bypass_access_lists() {
    quiet_with(&["ethtool"], "additional_queue_does_not_bypass_access_lists", || {
        let options = Options { queues: 2, static_neighbours: true, ..Options::default() };
        let topology = Topology::build(options).unwrap();
        let set = |namespace: &Namespace, interface: &str, queues: u32| {
            let queues = queues.to_string();
            let arguments = ["-L", interface, "rx", &queues, "tx", &queues];
            namespace.run("ethtool", &arguments, PATIENCE).unwrap();
        };
        // A veth with a program needs a queue for each by which its other end sends.
        set(&topology.source, "uplink", 1);
        set(&topology.router, "left", 1);
        let one = Forwarder::Wattline { mode: Mode::Adaptive, workers: 1 };
        let no_udp = "[[acl]]\non = [\"left\"]\naction = \"deny\"\nprotocol = \"udp\"\n\
                      [[acl]]\non = [\"left\"]\naction = \"permit\"\n";
        let bench = Bench::start_in(topology, one, no_udp);
        let Bench { topology, .. } = &bench;
        let until = |state: &str| {
            wattline_needs::until_or(
                || bench.stats()["ports"][0]["state"] == state,
                || format!("{state}: {}\n{}", bench.stats(), bench.log()),
            );
        };
        let udp = || {
            let (rate_pps, duration) = (1_000.0, Duration::from_secs(1));
            let load = Load { rate_pps, duration, flows: 64 };
            Probe::start(topology, &load).unwrap().finish().unwrap()
        };
        let address = SINK.v4.to_string();
        assert!(reaches(topology, &address), "{}", bench.log());
        set(&topology.router, "left", 2);
        set(&topology.source, "uplink", 2);
        until("failed");
        let outcome = udp();
        assert_eq!(outcome.received_packets, 0, "{outcome:?}\n{}", bench.log());
        set(&topology.source, "uplink", 1);
        // The advice in the reason helps.
        let reason = bench.stats()["ports"][0]["reason"].as_str().unwrap().to_owned();
        let advice = reason.split('`').nth(1).unwrap_or_default();
        let words: Vec<&str> = advice.split(' ').collect();
        assert_eq!(words[..2], ["ethtool", "-L"], "{reason}");
        topology.router.run(words[0], &words[1..], PATIENCE).unwrap();
        until("up");
        assert!(reaches(topology, &address), "{}", bench.log());
        assert_eq!(udp().received_packets, 0, "{}", bench.log());
        bench.finish();
    });
}
