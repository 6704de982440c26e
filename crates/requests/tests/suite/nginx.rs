//! Against nginx.

use crate::support::{self, Running, load, options};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use wattline_requests::Report;
use wattline_requests::http::{Http, HttpOptions, HttpRequests};

fn nginx(folder: &Path, test: &str) -> Option<(Running, SocketAddr)> {
    let started = support::nginx(folder);
    if started.is_none() {
        wattline_needs::skip(Some(test), wattline_needs::Need::Tool, "nginx");
    }
    started
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
