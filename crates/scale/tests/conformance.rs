//! Emulated cores keep the promises of their platform to policies: with packets from a card in
//! memory, four cores of PowerSave's server, at least 500 times slower.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
use wattline_dataplane::frame::FramePool;
use wattline_dataplane::nodes::RouterParts;
use wattline_dataplane::port::{PortId, PortQueue};
use wattline_dataplane::punt::Discard;
use wattline_dataplane::routes::Routes;
use wattline_dataplane::worker::{Command, Worker, WorkerParts};
use wattline_governor::conformance::{Circumstances, Findings, Follows, page, probe};
use wattline_policies::POLICIES;
use wattline_policy::CoreSet;
use wattline_ports::waiter::{PollWaiter, Waker};
use wattline_scale::card::{Card, FarEnd};
use wattline_scale::{Redirect, Scale, Setting};
use wattline_server::{Application, Moderation, ServerFile};
use wattline_units::{Span, Time};

const CORES: usize = 4;
const PORTS: usize = 2;
const CHUNK: u32 = 2_048;
/// Distance of the packets, which are on the wire so long in advance.
const GAP: Span = Span::from_micros(4);
const LEAD: Span = Span::from_micros(400);
const PATIENCE: Duration = Duration::from_secs(300);
const PAGE: &str = include_str!("../../../docs/explanation/policy-contract.md");

struct NoFarEnd;

impl FarEnd for NoFarEnd {
    fn receive(&mut self, _: PortId, _: &[u8]) {}
}

/// Returns a frame of its own flow.
fn frame(flow: u8) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[12..14].copy_from_slice(&[0x86, 0xdd]);
    frame[14] = 0x60;
    frame[19] = 6;
    frame[20] = 59;
    frame[14 + 8 + 15] = flow;
    frame
}

/// Late threads on a busy machine are no broken promise: at a larger dilation the same delay is a
/// shorter time of the model.
#[test]
fn emulated_cores_keep_their_promises() {
    let mut found = Vec::new();
    for dilation in [500, 2_000, 8_000] {
        let findings = findings(dilation);
        findings.verdicts().iter().for_each(|verdict| println!("{verdict}"));
        found = findings.complaints();
        if found.is_empty() {
            let wrong = page::differences(PAGE, "scale", &findings.verdicts());
            assert_eq!(wrong, Vec::<String>::new());
            return;
        }
        println!("{dilation} times slower: {found:?}");
    }
    panic!("{found:?}");
}

/// Returns the findings of a probe.
fn findings(dilation: u32) -> Findings {
    let file = ServerFile::load("westmere-2010").unwrap();
    // With a card that moderates interrupts, so that the model has all its knobs.
    let mut server = file.model().unwrap().clone();
    let longest = Span::from_micros(200);
    server.nic.moderation =
        Some(Moderation { shortest: Span::ZERO, longest, step: Span::from_micros(2) });
    let setting = Setting {
        server,
        application: Application::Ipv4,
        policy: POLICIES.parse("poll").unwrap(),
        mean_bytes: 64,
        dilation,
        seed: 1,
    };
    let all = CoreSet::first(CORES);
    let card = Card::new(&setting.server.nic, PORTS, CORES, all, Box::new(NoFarEnd));
    let waiters: Vec<PollWaiter> = (0..CORES).map(|_| PollWaiter::new([]).unwrap()).collect();
    let wakers: Vec<Waker> = waiters.iter().map(PollWaiter::waker).collect();
    card.connect(wakers.clone());
    let redirect: Box<dyn Redirect> = Box::new(Arc::clone(&card));
    let mut findings = None;
    // Model time; at least 250 ms of real time, so that a late thread does not count as a broken
    // promise.
    let circumstances =
        Circumstances { period: Span::from_micros(500), traffic: true, follows: Follows::ALL };
    let made = Scale::new_with(&setting, PORTS, wakers.clone(), Some(redirect), |context| {
        let (policy, found) = probe(context.platform, circumstances);
        findings = Some(found);
        Ok(policy)
    });
    let (mut scale, pacers) = made.unwrap();
    let findings = findings.unwrap();
    let can = scale.platform().can;
    assert!(can.set_cores && can.set_weights && can.sees.latency && can.sees.entries);
    assert!(!can.waits.pause && !can.sees.softirq && !can.sees.offered);

    let routes = Routes::new(vec![]);
    let mut controls = Vec::new();
    let threads: Vec<_> = pacers
        .into_iter()
        .zip(waiters)
        .enumerate()
        .map(|(core, (pacer, mut waiter))| {
            let queue =
                |port| -> Box<dyn PortQueue> { Box::new(card.queue(PortId(port as u16), core)) };
            let (neighbours, _) = sync_channel(1);
            let parts = WorkerParts {
                ports: (0..PORTS).map(queue).collect(),
                pool: FramePool::zeroed(4_096, CHUNK, 128),
                routes: routes.reader(),
                router: RouterParts {
                    punt: Box::new(Discard),
                    neighbours,
                    icmp_rate: 100,
                    icmp_burst: 10,
                },
            };
            let mut worker = Worker::new(parts).unwrap();
            controls.push(worker.control());
            std::thread::spawn(move || pacer.run(&mut worker, &mut waiter))
        })
        .collect();
    scale.start().unwrap();
    let began = Instant::now();
    let (mut next, mut flow) = (Time::ZERO, 0_u8);
    while !findings.are_complete() && began.elapsed() < PATIENCE {
        let until = scale.clock().now() + LEAD;
        while next < until {
            card.send(PortId(u16::from(flow % 2)), next, &frame(flow));
            (next, flow) = (next + GAP, flow.wrapping_add(1));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    for (control, waker) in controls.iter().zip(&wakers) {
        control.command(Command::Stop);
        waker.wake();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    findings
}
