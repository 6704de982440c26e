//! Sessions with collectors that appear and disappear.

use super::account::Account;
use super::session::Session;
use crate::nodes::Sampling;
use crate::section::{CollectorAddress, FlowRecordsSettings, Transport};
use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use wattline_dataplane::feature::Place;
use wattline_packet::ipfix::FlowRecord;

fn session(transport: Transport, address: SocketAddr) -> (Session, Arc<Account>) {
    session_from(None, transport, address)
}

fn session_from(
    source: Option<IpAddr>,
    transport: Transport,
    address: SocketAddr,
) -> (Session, Arc<Account>) {
    let collector = CollectorAddress { transport, address };
    let settings = FlowRecordsSettings {
        collectors: vec![collector],
        source,
        ports: Vec::new(),
        place: Place::Routed,
        active: Duration::from_secs(60),
        idle: Duration::from_secs(15),
        flows: 1024,
        sampling_interval: 1,
        sampling: Sampling::Deterministic,
        domain: 7,
        template_interval: Duration::from_secs(60),
        message_bytes: 1400,
    };
    let account = Arc::new(Account::default());
    (Session::new(collector, &settings, account.clone()), account)
}

fn records(count: u16) -> Vec<FlowRecord> {
    let record = |number| FlowRecord {
        source: "192.0.2.1".parse().unwrap(),
        destination: "198.51.100.2".parse().unwrap(),
        next_hop: None,
        source_port: number,
        destination_port: 53,
        protocol: 17,
        service: 0,
        tcp_flags: 0,
        ingress: 1,
        egress: 2,
        vlan: 0,
        source_prefix: 24,
        destination_prefix: 0,
        packets: 2,
        bytes: 100,
        first_millis: 1_700_000_000_000,
        last_millis: 1_700_000_000_500,
        end_reason: 1,
    };
    (0..count).map(record).collect()
}

fn counts(account: &Account) -> (u64, u64) {
    (account.counts.records.load(Relaxed), account.counts.lost_records.load(Relaxed))
}

fn wait_until(mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the sequence number of an IPFIX message, and whether it contains templates.
fn head(message: &[u8]) -> (u32, bool) {
    let [a, b, c, d] = message[8..12] else { unreachable!() };
    (u32::from_be_bytes([a, b, c, d]), message[17] == 2)
}

#[test]
fn a_broken_connection_is_made_again_with_templates_and_sequence_numbers_from_zero() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (mut session, account) = session(Transport::IpfixTcp, address);
    session.export(&records(10));
    assert_eq!(counts(&account), (10, 0));
    let first = listener.accept().unwrap();
    drop((first, listener));
    // The kernel reports the end a moment later.
    wait_until(|| {
        session.export(&records(1));
        account.counts.errors.load(Relaxed) > 0
    });
    let (sent, lost) = counts(&account);
    assert!(lost >= 1);
    session.export(&records(5));
    assert_eq!(counts(&account), (sent, lost + 5), "no new try before the pause is over");
    assert!(!account.up.load(Relaxed));

    let listener = TcpListener::bind(address).unwrap();
    wait_until(|| {
        session.refresh();
        account.up.load(Relaxed)
    });
    session.export(&records(3));
    assert_eq!(counts(&account).0, sent + 3);
    let (mut stream, _) = listener.accept().unwrap();
    drop(session);
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    assert_eq!(head(&bytes), (0, true), "templates come first, and sequence numbers start at zero");
    let length = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
    assert_eq!(head(&bytes[length..]), (1, false), "one data record: the status");
}

#[test]
fn records_without_a_udp_collector_are_lost_and_a_new_collector_gets_templates_first() {
    let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (mut session, account) = session(Transport::IpfixUdp, address);
    for _ in 0..5 {
        session.export(&records(10));
    }
    let (sent, lost) = counts(&account);
    assert_eq!(sent + lost, 50);
    assert!(sent <= 10, "all but the last message were refused by now");
    assert!(!account.up.load(Relaxed));

    let collector = UdpSocket::bind(address).unwrap();
    collector.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    session.export(&records(10));
    session.export(&records(10));
    assert!(account.up.load(Relaxed));
    assert_eq!(counts(&account), (20, 50));
    let mut buffer = [0; 2000];
    let mut next = || {
        let length = collector.recv(&mut buffer).unwrap();
        head(&buffer[..length]).1
    };
    assert!(next(), "templates first");
    assert!(!next());
}

#[test]
fn collectors_see_the_source_address_of_the_configuration() {
    let source: IpAddr = "127.0.0.9".parse().unwrap();
    let other: IpAddr = "2001:db8::9".parse().unwrap();
    for (given, expected) in [
        (Some(source), source),
        (None, [127, 0, 0, 1].into()),
        (Some(other), [127, 0, 0, 1].into()),
    ] {
        let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
        collector.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let address = collector.local_addr().unwrap();
        for transport in [Transport::IpfixUdp, Transport::Netflow9] {
            session_from(given, transport, address).0.export(&records(1));
            let (_, from) = collector.recv_from(&mut [0; 2000]).unwrap();
            assert_eq!(from.ip(), expected, "{given:?}");
            collector.recv_from(&mut [0; 2000]).unwrap();
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (mut session, account) = session_from(given, Transport::IpfixTcp, address);
        session.export(&records(1));
        assert_eq!(listener.accept().unwrap().1.ip(), expected, "{given:?}");
        assert_eq!(counts(&account), (1, 0));
    }
    // An address of another machine, and an address without a collector.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (source, transport) in [
        ("192.0.2.77", Transport::IpfixUdp),
        ("192.0.2.77", Transport::IpfixTcp),
        ("127.0.0.9", Transport::IpfixTcp),
    ] {
        let (mut session, account) = session_from(source.parse().ok(), transport, nobody);
        session.export(&records(4));
        assert_eq!(counts(&account), (0, 4), "{source}");
    }
}
