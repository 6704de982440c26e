//! The metrics endpoint. Prometheus itself reads it in `prometheus.rs`.

use crate::metrics_page::{Role, agrees_with};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use wattline_needs::{KillOnDrop, until};
use wattline_traffic::capture::{LinkType, Resolution, Writer};

/// Returns a TCP port of this machine without a listener.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.contains(" 200 ").then(|| body.to_owned())
}

/// Answers every request to this listener with a page as it is then; returns the port.
pub fn serve(listener: TcpListener, mut page: impl FnMut() -> String + Send + 'static) -> u16 {
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let page = page();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", page.len());
            let _ = stream.write_all(format!("{head}Connection: close\r\n\r\n{page}").as_bytes());
        }
    });
    port
}

/// The value of a sample.
fn sample(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[test]
fn a_governor_s_power_frequency_and_settings_are_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let metrics = free_port();
    let _router = router(folder.path(), metrics, "[power]\nplatform = \"scale\"\nscale = 100\n");
    let text = until("power is reported", || {
        let text = get(metrics, "/metrics")?;
        sample(&text, "wattline_power_watts{source=\"emulated\"}").map(|_| text)
    });
    assert!(sample(&text, "wattline_power_watts{source=\"emulated\"}").unwrap() > 100.0, "{text}");
    let energy = "wattline_energy_joules_total{source=\"emulated\",component=\"cpu-cores\"}";
    assert!(sample(&text, energy).is_some_and(|joules| joules >= 0.0), "{text}");
    // PowerSave begins at the slowest frequency of its server.
    assert_eq!(sample(&text, "wattline_core_frequency_hertz{core=\"0\"}"), Some(1.6e9), "{text}");
    assert_eq!(sample(&text, "wattline_core_active{core=\"0\"}"), Some(1.0));
    let written = "wattline_knob_writes_total{knob=\"frequency\",result=\"done\"}";
    assert!(sample(&text, written).is_some_and(|count| count >= 1.0), "{text}");
    // Several readers, any number of times: none affects another.
    let count = "wattline_latency_seconds_count";
    until("seven latencies are reported", || {
        (sample(&get(metrics, "/metrics")?, count)? >= 7.0).then_some(())
    });
    agrees_with(&text, Role::Router, 20);
    for _ in 0..3 {
        let text = get(metrics, "/metrics").unwrap();
        assert_eq!(sample(&text, count), Some(7.0), "{text}");
        let all = sample(&text, "wattline_latency_seconds_bucket{le=\"+Inf\"}");
        assert_eq!(all, Some(7.0), "{text}");
        let watts = sample(&text, "wattline_power_watts{source=\"emulated\"}");
        assert!(watts.is_some_and(|watts| watts > 100.0), "{text}");
    }
}

/// A router between captures: seven packets at once, and one long after, so that it goes on.
pub fn router(folder: &Path, metrics: u16, more: &str) -> KillOnDrop {
    router_with(folder, metrics, more, &[])
}

/// The same, with further arguments of `wattline run`.
pub fn router_with(folder: &Path, metrics: u16, more: &str, arguments: &[&str]) -> KillOnDrop {
    let builder = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 1])
        .ipv4([192, 0, 2, 9], [203, 0, 113, 5], 64)
        .udp(1000, 2000);
    let mut frame = Vec::new();
    builder.write(&mut frame, &[7; 32]).unwrap();
    let mut capture =
        Writer::create(folder.join("in.pcap"), LinkType::ETHERNET, Resolution::Nanos).unwrap();
    for _ in 0..7 {
        capture.write(Duration::ZERO, &frame).unwrap();
    }
    capture.write(Duration::from_secs(300), &frame).unwrap();
    capture.finish().unwrap();
    let config = format!(
        "[router]\nsocket = \"{}\"\n[metrics]\nlisten = \"127.0.0.1:{metrics}\"\n{more}\
         [[port]]\nname = \"a\"\ncapture = {{ read = \"in.pcap\", paced = true }}\n\
         mac = \"02:00:00:00:00:01\"\naddresses = [\"192.0.2.1/24\"]\n\
         [[port]]\nname = \"b\"\ncapture = {{ write = \"out.pcap\" }}\n\
         addresses = [\"198.51.100.1/24\"]\n\
         [[route]]\nprefix = \"203.0.113.0/24\"\nvia = \"198.51.100.2\"\n\
         [[neighbour]]\naddress = \"198.51.100.2\"\nmac = \"02:00:00:00:00:12\"\n",
        folder.join("socket").display()
    );
    std::fs::write(folder.join("router.toml"), config).unwrap();
    let mut command = Command::new(wattline_needs::program());
    command.arg("run").arg(folder.join("router.toml")).args(arguments);
    KillOnDrop(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}
