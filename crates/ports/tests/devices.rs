//! DPDK's virtual devices as ports, in this process: the environment starts once, with all of them.

use std::path::PathBuf;
use std::sync::LazyLock;
use tempfile::TempDir;
use wattline_dataplane::frame::{BATCH_MAX, Frame, FramePool};
use wattline_dataplane::port::{PortId, PortQueue};
use wattline_ports::dpdk::{Device, DeviceOptions, DeviceText, DpdkError, DpdkQueue, Eal};

const ONE_QUEUE: DeviceOptions = DeviceOptions { queues: 1, mtu: None, promiscuous: false };

struct World {
    eal: Eal,
    folder: TempDir,
}

/// Rings that give back what they are sent, and pairs of captures.
static WORLD: LazyLock<World> = LazyLock::new(|| {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("in.pcap"), capture(&[frame(1, 60), frame(2, 1514), frame(3, 61)]))
        .unwrap();
    std::fs::write(path("long.pcap"), capture(&[frame(1, 1000), frame(2, 3000)])).unwrap();
    let pcap = |number: u32, input: &str, output: &str| {
        let (input, output) = (path(input), path(output));
        format!("net_pcap{number},rx_pcap={},tx_pcap={}", input.display(), output.display())
    };
    let devices = [
        "net_ring0".to_owned(),
        "net_ring1".to_owned(),
        "net_ring2".to_owned(),
        "net_null0,size=100".to_owned(),
        "net_null1,no-rx=1".to_owned(),
        pcap(0, "in.pcap", "out.pcap"),
        pcap(1, "long.pcap", "none.pcap"),
        pcap(2, "in.pcap", "never.pcap"),
    ];
    let devices: Vec<_> = devices.iter().map(|text| DeviceText::parse(text).unwrap()).collect();
    let affinity = || rustix::thread::sched_getaffinity(None).unwrap();
    let before = affinity();
    let arguments = ["--no-huge", "-m", "128"].map(str::to_owned);
    let eal = Eal::start(&arguments, &devices).unwrap();
    assert_eq!(before, affinity(), "this thread may run where it might before");
    World { eal, folder }
});

fn open(name: &str, options: DeviceOptions) -> Result<(Device, Vec<DpdkQueue>), DpdkError> {
    Device::open(&WORLD.eal, &DeviceText::parse(name).unwrap(), PortId(7), options)
}

fn open_one(name: &str) -> (Device, DpdkQueue) {
    let (device, mut queues) = open(name, ONE_QUEUE).unwrap();
    (device, queues.pop().unwrap())
}

fn pool(chunks: u32) -> FramePool {
    FramePool::zeroed(chunks, 2048, 256)
}

/// A frame that is told from others by its number.
fn frame(number: u16, length: usize) -> Vec<u8> {
    let number = number.to_be_bytes();
    (0..length).map(|at| number.get(at).copied().unwrap_or((at * 7) as u8)).collect()
}

/// A frame of the pool with these bytes.
fn put(pool: &mut FramePool, bytes: &[u8]) -> Frame {
    let offset = pool.take_chunk().unwrap() + pool.headroom();
    let frame = Frame { offset, length: bytes.len() as u16, port_in: PortId(0) };
    pool.frame_bytes(&frame).copy_from_slice(bytes);
    frame
}

/// Takes what is there, and gives its chunks back.
fn take(queue: &mut DpdkQueue, pool: &mut FramePool, most: usize) -> Vec<Vec<u8>> {
    let mut frames = vec![Frame::default(); most];
    let count = queue.receive(pool, &mut frames);
    frames[..count]
        .iter()
        .map(|frame| {
            assert_eq!(frame.port_in, PortId(7));
            let bytes = pool.frame_bytes(frame).to_vec();
            pool.free(frame.offset);
            bytes
        })
        .collect()
}

/// A capture in the old format, little endian, of Ethernet.
fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for frame in frames {
        let length = frame.len() as u32;
        for word in [0, 0, length, length] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    bytes
}

/// The frames of such a capture.
fn frames_of(path: PathBuf) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap();
    let mut rest = &bytes[24..];
    let mut frames = Vec::new();
    while let Some(length) = rest.get(8..12) {
        let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        frames.push(rest[16..16 + length].to_vec());
        rest = &rest[16 + length..];
    }
    frames
}

#[test]
fn a_ring_gives_back_every_byte_in_order_and_no_chunk_is_lost() {
    let (device, mut queue) = open_one("net_ring0");
    assert_eq!(device.driver(), "net_ring");
    let mut pool = pool(256);
    for round in 0..50_u16 {
        let sent: Vec<_> =
            (0..100).map(|n| frame(round * 100 + n, 60 + usize::from(n) * 14)).collect();
        let frames: Vec<_> = sent.iter().map(|bytes| put(&mut pool, bytes)).collect();
        assert_eq!(queue.transmit(&mut pool, &frames), 100);
        queue.flush(&mut pool);
        queue.recycle(&mut pool);
        assert_eq!(pool.free_chunks(), 256);
        let mut got = take(&mut queue, &mut pool, BATCH_MAX);
        got.extend(take(&mut queue, &mut pool, BATCH_MAX));
        assert_eq!(got, sent);
    }
    assert!(take(&mut queue, &mut pool, BATCH_MAX).is_empty());
    assert!(queue.pending() > 0, "nothing would wake a worker");
    let counters = queue.counters();
    assert_eq!((counters.received_packets, counters.transmitted_packets), (5000, 5000));
    assert_eq!(counters.received_bytes, counters.transmitted_bytes);
}

#[test]
fn frames_wait_while_the_worker_takes_few_or_has_no_chunk() {
    let (_device, mut queue) = open_one("net_ring1");
    let again = open("net_ring1", ONE_QUEUE).unwrap_err();
    assert!(matches!(again, DpdkError::Taken { .. }), "{again}");
    let mut pool = pool(8);
    let sent: Vec<_> = (0..8).map(|n| frame(n, 60)).collect();
    let frames: Vec<_> = sent.iter().map(|bytes| put(&mut pool, bytes)).collect();
    assert_eq!(queue.transmit(&mut pool, &frames), 8);
    let mut got = take(&mut queue, &mut pool, 1);
    got.extend(take(&mut queue, &mut pool, 2));
    assert_eq!(got, sent[..3]);
    let held: Vec<_> = (0..6).map(|_| pool.take_chunk().unwrap()).collect();
    assert_eq!(take(&mut queue, &mut pool, 8).len(), 2, "two chunks are left");
    held.into_iter().for_each(|chunk| pool.free(chunk));
    assert_eq!(take(&mut queue, &mut pool, 8), sent[5..]);
}

#[test]
fn a_full_ring_takes_no_more_and_loses_no_buffer() {
    let (_device, mut queue) = open_one("net_ring2");
    let mut pool = pool(64);
    // More often than there are buffers: what is not sent must come back.
    for _ in 0..20 {
        let mut accepted = 0;
        loop {
            let frames: Vec<_> = (0..64).map(|n| put(&mut pool, &frame(n, 60))).collect();
            let sent = queue.transmit(&mut pool, &frames);
            frames[sent..].iter().for_each(|frame| pool.free(frame.offset));
            assert_eq!(pool.free_chunks(), 64);
            accepted += sent;
            if sent < 64 {
                break;
            }
        }
        let mut taken = 0;
        loop {
            let count = take(&mut queue, &mut pool, BATCH_MAX).len();
            if count == 0 {
                break;
            }
            taken += count;
        }
        assert!(accepted > 512, "{accepted}");
        assert_eq!(taken, accepted);
    }
}

#[test]
fn a_device_that_always_has_frames_and_one_that_takes_all() {
    let (_device, mut source) = open_one("net_null0");
    let (sink, mut drain) = open_one("net_null1");
    assert!(sink.link().is_some_and(|link| link.up));
    let mut pool = pool(64);
    let mut frames = [Frame::default(); BATCH_MAX];
    for _ in 0..1000 {
        assert_eq!(source.receive(&mut pool, &mut frames), 64);
        assert!(frames.iter().all(|frame| frame.length == 100));
        assert_eq!(drain.transmit(&mut pool, &frames), 64);
    }
    assert_eq!(take(&mut drain, &mut pool, 1), [[0; 0]; 0]);
    assert_eq!(drain.counters().transmitted_bytes, 6_400_000);
}

#[test]
fn captures_are_read_and_written_byte_by_byte() {
    let (device, mut queue) = open_one("net_pcap0");
    let mut pool = pool(64);
    let mut frames = [Frame::default(); BATCH_MAX];
    let count = queue.receive(&mut pool, &mut frames);
    assert_eq!(count, 3);
    assert_eq!(queue.transmit(&mut pool, &frames[..count]), 3);
    drop((device, queue));
    let written = frames_of(WORLD.folder.path().join("out.pcap"));
    assert_eq!(written, [frame(1, 60), frame(2, 1514), frame(3, 61)]);
}

#[test]
fn a_frame_that_no_chunk_holds_is_counted_and_one_that_is_too_long_not_sent() {
    let (_device, mut queue) = open_one("net_pcap1");
    let mut pool = pool(4);
    assert_eq!(take(&mut queue, &mut pool, 8), [frame(1, 1000)]);
    assert_eq!(queue.counters().receive_invalid, 1);
    let long = put(&mut pool, &frame(1, 1600));
    assert_eq!(queue.transmit(&mut pool, &[long]), 0, "its MTU is 1500");
}

#[test]
fn unavailable_features_are_named() {
    let missing = open("net_ring9", ONE_QUEUE).unwrap_err().to_string();
    assert!(missing.contains("no device net_ring9"), "{missing}");
    let few = open("net_pcap2", DeviceOptions { queues: 2, ..ONE_QUEUE });
    let few = few.unwrap_err().to_string();
    assert!(few.contains("1 receive") && few.contains("2 workers"), "{few}");
    let again = Eal::start(&[], &[]).unwrap_err();
    assert!(matches!(again, DpdkError::Started), "{again}");
}
