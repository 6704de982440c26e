//! `clamp_mss`: TCP gets through a path that drops long packets, by workers and by XDP programs.

use crate::harness::{ADAPTIVE, XDP, binary, quiet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use wattline_testbed::forwarder::Forwarder;
use wattline_testbed::topology::{Options, RIGHT, SINK, SOURCE, Topology};

const LIMIT: Duration = Duration::from_secs(60);
/// More than two segments.
const BYTES: usize = 4000;
const CONNECTIONS: usize = 500;

/// A sink behind a link of 1300 bytes, which announces segments for 1500.
fn narrow() -> Topology {
    let topology = Topology::build(Options::default()).unwrap();
    topology.sink.ip("link set uplink mtu 1300").unwrap();
    for (from, to, size) in [
        (RIGHT.v4.to_string(), format!("{}/32", SOURCE.v4), 1460),
        (RIGHT.v6.to_string(), format!("{}/128", SOURCE.v6), 1440),
    ] {
        topology.sink.ip(&format!("route add {to} via {from} dev uplink advmss {size}")).unwrap();
    }
    topology
}

/// Returns the number of connections, one after the other, that complete within a time.
fn complete(topology: &Topology, address: SocketAddr, connections: usize, time: Duration) -> usize {
    let listener = topology.sink.enter(|| TcpListener::bind(address)).unwrap().unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let whole = |_: &usize| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_read_timeout(Some(time)).unwrap();
                let mut bytes = [0; BYTES];
                stream.read_exact(&mut bytes).is_ok()
            };
            (0..connections).filter(whole).count()
        });
        for _ in 0..connections {
            let to = SocketAddr::new(address.ip(), port);
            let connect = || TcpStream::connect_timeout(&to, LIMIT);
            let mut stream = topology.source.enter(connect).unwrap().unwrap();
            stream.write_all(&[7; BYTES]).unwrap();
            // Until the other side has read all, or given up.
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            let _ = stream.read(&mut [0]);
        }
        receiver.join().unwrap()
    })
}

fn connections_complete(forwarder: Forwarder) {
    let topology = narrow();
    let addresses = [SINK.v4.into(), SINK.v6.into()].map(|address| SocketAddr::new(address, 0));
    for (key, connections, time) in
        [("", 1, Duration::from_secs(2)), ("clamp_mss = 1200\n", CONNECTIONS, LIMIT)]
    {
        let running = forwarder.start_with(&topology, binary(), key).unwrap();
        for address in addresses {
            let whole = complete(&topology, address, connections, time);
            let expected = if key.is_empty() { 0 } else { connections };
            assert_eq!(whole, expected, "{address} {key}");
        }
        let totals = running.stop().unwrap().unwrap();
        let by_programs = forwarder == XDP;
        assert_eq!(totals.xdp_forwarded > 0, by_programs, "{totals:?}");
        assert!(totals.balance(), "{totals:?}");
    }
}

#[test]
fn connections_over_a_narrow_path_complete_by_workers() {
    quiet("connections_over_a_narrow_path_complete_by_workers", || connections_complete(ADAPTIVE));
}

#[test]
fn connections_over_a_narrow_path_complete_by_xdp_programs() {
    quiet("connections_over_a_narrow_path_complete_by_xdp_programs", || connections_complete(XDP));
}
