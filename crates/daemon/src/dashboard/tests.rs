//! The dashboard over HTTP. Tests with a browser are in `tests/dashboard.rs`.

use super::*;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use wattline_status::RouterStats;

fn place() -> Place {
    Place { address: SocketAddr::from(([127, 0, 0, 1], 0)), remote: false }
}

fn at(uptime_seconds: f64) -> Stats {
    Stats::Router(Box::new(RouterStats { uptime_seconds, ..RouterStats::default() }))
}

fn serve(stats: impl Fn() -> Option<Stats> + Send + 'static) -> SocketAddr {
    let opened = place().open().unwrap();
    let address = opened.address();
    opened.serve("test", stats).unwrap();
    address
}

fn start() -> SocketAddr {
    let uptime = AtomicU64::new(0);
    let stats = move || {
        let uptime = uptime.fetch_add(1, Ordering::Relaxed);
        Some(at(uptime as f64))
    };
    serve(stats)
}

fn open(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    stream
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut answer = String::new();
    open(address, path).read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn other_machines_see_it_only_if_allowed() {
    for open in ["0.0.0.0:0", "[::]:0", "192.0.2.1:9418", "169.254.1.1:1"] {
        let address: SocketAddr = open.parse().unwrap();
        let refused = Place { address, remote: false }.open().unwrap_err();
        assert!(refused.to_string().contains("--dashboard-remote"), "{refused}");
    }
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    assert!(Place { address: everywhere, remote: true }.open().is_ok());
    let taken = Place { address: start(), remote: false };
    assert!(matches!(taken.open(), Err(DashboardError::Listen { .. })));
}

#[test]
fn every_part_of_the_page_is_there_and_small() {
    let address = start();
    let page = get(address, "/");
    let mut total = page.len();
    let parts = page.split(['"', '\'']).filter(|text| text.starts_with('/'));
    let mut seen = 0;
    for part in parts {
        let answer = get(address, part);
        assert!(answer.starts_with("HTTP/1.1 200"), "{part}: {answer:.80}");
        total += answer.len();
        seen += 1;
    }
    assert!(seen >= 6 && total < 200_000, "{seen} parts, {total} bytes");
    assert!(get(address, "/uplot-licence.txt").contains("Leon Sorokin"));
    assert!(get(address, "/../../etc/passwd").starts_with("HTTP/1.1 404"));
}

#[test]
fn events_arrive_and_old_readers_do_not_block_new_ones() {
    let address = start();
    let mut last = String::new();
    let streams: Vec<TcpStream> = (0..40)
        .map(|_| {
            let stream = open(address, "/events");
            let lines = BufReader::new(&stream).lines().map(Result::unwrap);
            let data: Vec<String> =
                lines.filter(|line| line.starts_with("data: ")).take(2).collect();
            let history: Value = serde_json::from_str(&data[0][6..]).unwrap();
            assert!(history.is_array(), "{history}");
            let frame: Value = serde_json::from_str(&data[1][6..]).unwrap();
            assert_eq!(frame["name"], "test");
            last.clone_from(&data[1]);
            stream
        })
        .collect();
    assert!(last.contains("uptime_seconds"), "{last}");
    assert!(get(address, "/state.json").contains("\"name\":\"test\""), "others are served");
    drop(streams);
}

#[test]
fn unresponsive_daemon_is_shown_as_silent() {
    let address = serve(|| None);
    wattline_needs::until("it never happens", || {
        get(address, "/state.json").contains("\"silent\":true")
    });
}
