//! A real Prometheus reads the metrics of a router and a governor, and the queries of the Grafana
//! board find series in them.

use crate::govern::running::Machine;
use crate::metrics::{free_port, get, router};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wattline_needs::{KillOnDrop, until};
use wattline_testbed::command::program;

const BOARD: &str = include_str!("../../packaging/grafana/wattline.json");

/// Checks that promtool accepts a text of metrics.
fn is_without_complaint(text: &str) {
    let mut check = program("promtool").unwrap();
    check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut check = check.stderr(Stdio::piped()).spawn().unwrap();
    check.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let verdict = check.wait_with_output().unwrap();
    let complaints = String::from_utf8_lossy(&verdict.stderr).into_owned();
    assert!(verdict.status.success() && complaints.is_empty(), "{complaints}");
}

/// Starts Prometheus in a folder, to read these ports at this interval; returns it with its own
/// port.
pub fn start(
    mut server: Command,
    folder: &Path,
    ports: &[u16],
    interval: &str,
) -> (KillOnDrop, u16) {
    let targets: Vec<String> = ports.iter().map(|port| format!("'127.0.0.1:{port}'")).collect();
    let rules =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/prometheus/wattline.rules.yml");
    let scrape = format!(
        "rule_files: ['{}']\nscrape_configs:\n- job_name: wattline\n  scrape_interval: {interval}\n  \
         static_configs:\n  - targets: [{}]\n",
        rules.canonicalize().unwrap().display(),
        targets.join(", ")
    );
    std::fs::write(folder.join("prometheus.yml"), scrape).unwrap();
    let port = free_port();
    server.arg(format!("--config.file={}", folder.join("prometheus.yml").display()));
    server.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
    server.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    let server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    (KillOnDrop(server), port)
}

/// A text as part of an address.
fn quoted(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Returns the result of a query; `None` while Prometheus is not ready.
fn found(port: u16, query: &str) -> Option<Vec<Value>> {
    let answer: Value =
        serde_json::from_str(&get(port, &format!("/api/v1/query?query={}", quoted(query)))?)
            .ok()?;
    answer["data"]["result"].as_array().cloned()
}

#[test]
fn prometheus_reads_what_router_and_governor_count_and_the_board_shows_it() {
    let (Some(_), Some(prometheus)) = (program("promtool"), program("prometheus")) else {
        wattline_needs::tool("prometheus");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let of_router = free_port();
    let _router = router(folder.path(), of_router, "[power]\nplatform = \"scale\"\nscale = 100\n");
    let mut machine = Machine::new();
    machine.write("proc/interrupts", "  CPU0 CPU1 CPU2 CPU3\n 24: 1 2 3 4 PCI eth9\n");
    machine.write("proc/softirqs", "  CPU0 CPU1 CPU2 CPU3\n NET_TX: 1 1 1 1\n NET_RX: 2 2 2 2\n");
    let socket = machine.path("latency.sock");
    machine.start(&format!(
        "latency_target = \"1ms\"\nlatency_silence = \"20s\"\n\
         [[latency]]\nname = \"shop\"\nclients = \"{}\"\n",
        socket.display()
    ));
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    let client = std::thread::spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            let report = "{\"latency_seconds\":[[0.0002,100]]}";
            let _ = UnixDatagram::unbound().unwrap().send_to(report.as_bytes(), &socket);
            std::thread::sleep(Duration::from_millis(100));
        }
    });

    let forwarded = "wattline_packets_total{port=\"b\",queue=\"0\",direction=\"transmit\"} 7\n";
    let text = until("seven packets are counted", || {
        get(of_router, "/metrics").filter(|text| text.contains(forwarded))
    });
    is_without_complaint(&text);
    let text = until("the governor reports latency", || {
        get(machine.metrics, "/metrics").filter(|text| text.contains("percentile=\"99\""))
    });
    is_without_complaint(&text);

    let (_server, port) = start(prometheus, folder.path(), &[of_router, machine.metrics], "1s");
    let sent = "sum(wattline_packets_total{direction=\"transmit\",port=\"b\"})";
    let value = until("Prometheus has a sample", || {
        Some(found(port, sent)?.first()?["value"][1].as_str()?.to_owned())
    });
    assert_eq!(value, "7");
    until("both are up", || {
        (found(port, "sum(up{job=\"wattline\"})")?.first()?["value"][1] == "2").then_some(())
    });
    until("the alerts are loaded", || {
        get(port, "/api/v1/rules")?.contains("WattlineLatencyTargetMissed").then_some(())
    });

    // Every query of the board finds series; queries that need a second sample do after a while. A
    // machine without drops has none of those.
    let board: Value = serde_json::from_str(BOARD).unwrap();
    let absent = BTreeSet::from(["wattline_drops_total", "wattline_sensor_up"]);
    let mut asked = 0;
    for panel in board["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            if absent.iter().any(|name| query.contains(name)) {
                continue;
            }
            let query = query.replace("$__rate_interval", "1m").replace("$instance", ".*");
            until(&format!("{}: {query}", panel["title"]), || {
                (!found(port, &query)?.is_empty()).then_some(())
            });
            asked += 1;
        }
    }
    assert!(asked > 20, "{asked} queries");
    over.store(true, Ordering::Relaxed);
    client.join().unwrap();
}
