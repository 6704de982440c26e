//! Against nginx, beside wrk.

use crate::support::{Running, free_address, load, options, program, start};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use wattline_requests::Report;
use wattline_requests::http::{Http, HttpOptions, HttpRequests};

fn nginx(folder: &Path, test: &str) -> Option<(Running, SocketAddr)> {
    let Some(mut command) = program("nginx") else {
        eprintln!("SKIPPED {test}: needs nginx");
        return None;
    };
    let address = free_address();
    let root = folder.join("pages");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("small"), "x".repeat(100)).unwrap();
    std::fs::write(root.join("large"), "y".repeat(300_000)).unwrap();
    std::fs::write(
        folder.join("nginx.conf"),
        format!(
            "daemon off; master_process off; worker_processes 1; pid {0}/pid; error_log {0}/error;
             events {{ worker_connections 1024; }}
             http {{ access_log off; keepalive_requests 100000; client_body_temp_path {0}/b;
               proxy_temp_path {0}/p; fastcgi_temp_path {0}/f; uwsgi_temp_path {0}/u;
               scgi_temp_path {0}/s;
               server {{ listen {address}; root {0}/pages;
                 location /chunked {{ ssi on; ssi_types *; default_type text/html; alias {0}/pages/small; }}
                 location /busy {{ return 503; }} }} }}",
            folder.display()
        ),
    )
    .unwrap();
    command.arg("-p").arg(folder).arg("-c").arg(folder.join("nginx.conf"));
    command.arg("-e").arg(folder.join("error"));
    Some((start(&mut command, address), address))
}

fn run(address: SocketAddr, paths: &[&str], rate: f64) -> Report {
    let urls = paths.iter().map(|path| format!("http://{address}{path}").parse().unwrap());
    let asked = HttpOptions { urls: urls.collect(), head: false, fields: Vec::new() };
    let requests = Arc::new(HttpRequests::new(&asked).unwrap());
    let mut asked = options(rate);
    (asked.connections, asked.threads) = (20, 2);
    load(&asked, &requests.addresses(), |thread| Http::new(Arc::clone(&requests), thread))
}

#[test]
fn nginx_serves_pages_of_a_known_length_and_chunked() {
    let folder = tempfile::tempdir().unwrap();
    let Some((_running, address)) = nginx(folder.path(), "nginx_serves_pages") else { return };
    let report = run(address, &["/small", "/large", "/chunked"], 500.0);
    assert_eq!(report.served_requests, 500, "{:?} {report:?}", report.failures);
    let report = run(address, &["/small", "/absent"], 400.0);
    assert_eq!((report.served_requests, report.failures.client_error), (200, 200));
    let report = run(address, &["/busy"], 100.0);
    assert_eq!(report.failures.server_error, 100);
}

/// No figure decides: wrk sends the next request when the last one is answered, so that only its
/// highest rate and its latency without load can be compared.
#[test]
fn wrk_sees_about_the_same() {
    let folder = tempfile::tempdir().unwrap();
    if program("wrk").is_none() {
        eprintln!("SKIPPED wrk_sees_about_the_same: needs wrk");
        return;
    }
    let Some((_running, address)) = nginx(folder.path(), "wrk_sees_about_the_same") else { return };
    let page = format!("http://{address}/small");
    for (connections, rate) in [("1", 500.0), ("20", 1e5)] {
        let arguments = ["-t", "1", "-d", "1s", "--latency", "-c", connections, &page];
        let output = program("wrk").unwrap().args(arguments).output().unwrap();
        assert!(output.status.success());
        println!("wrk, {connections} connections:\n{}", String::from_utf8_lossy(&output.stdout));
        let urls = vec![page.parse().unwrap()];
        let asked = HttpOptions { urls, head: false, fields: Vec::new() };
        let requests = Arc::new(HttpRequests::new(&asked).unwrap());
        let mut asked = options(rate);
        asked.connections = connections.parse().unwrap();
        asked.duration = Duration::from_secs(1);
        let report = load(&asked, &[address], |thread| Http::new(Arc::clone(&requests), thread));
        assert!(report.served_requests > 0);
        println!(
            "wattline at {rate}/s: sent {:.0}/s, from sending p50 {:?} p99 {:?}\n{:?}",
            report.verdict.sent_rate_rps,
            report.latency_from_sending.p50_seconds,
            report.latency_from_sending.p99_seconds,
            report.verdict.notes
        );
    }
}
