//! Tests of idling and ending.

use crate::frame::{Frame, FramePool};
use crate::port::{PortCounters, PortQueue, Waiter};
use crate::testing::{MAC_A, Router, TestPort, frame4};
use crate::worker::{Command, Control, Mode};
use std::sync::Arc;
use std::time::Duration;

/// A waiter that returns at once. During each "sleep" a frame arrives; the tenth commands the
/// worker to end.
struct Arrivals {
    port: TestPort,
    control: Arc<Control>,
    sleeps: u32,
    end: Command,
}

impl Waiter for Arrivals {
    fn wait(&mut self, _timeout: Duration) {
        assert!(self.port.input.lock().unwrap().is_empty(), "blocked although a frame was there");
        self.sleeps += 1;
        if self.sleeps == 10 {
            self.control.command(self.end);
        }
        self.port.send(&frame4(MAC_A, 64, b"payload"));
    }
}

fn run(router: &mut Router, end: Command) -> u32 {
    let control = router.worker.control();
    let mut waiter = Arrivals { port: router.ports[0].clone(), control, sleeps: 0, end };
    router.worker.run(&mut waiter);
    let counted = router.worker.counters().snapshot();
    assert!(counted.is_conserved(), "{counted:?}");
    assert_eq!(counted.sleeps, u64::from(waiter.sleeps));
    waiter.sleeps
}

#[test]
fn every_frame_that_arrives_during_sleep_is_forwarded_before_draining_ends() {
    for mode in [Mode::Interrupt, Mode::Adaptive] {
        let mut router = Router::new();
        router.worker.control().set_mode(mode);
        assert_eq!(run(&mut router, Command::Drain), 10);
        assert_eq!(router.ports[1].sent().len(), 10, "{mode:?}");
    }
}

#[test]
fn a_parked_worker_blocks_even_when_polling_and_still_forwards() {
    let mut router = Router::new();
    router.worker.control().set_mode(Mode::Poll);
    router.worker.control().command(Command::Park);
    assert_eq!(run(&mut router, Command::Drain), 10);
    assert_eq!(router.ports[1].sent().len(), 10);
}

/// Sleep is neither useful nor empty time, so a busy share has to count it as well.
#[test]
fn the_time_that_a_worker_sleeps_is_counted() {
    struct Nap(Arc<Control>);
    impl Waiter for Nap {
        fn wait(&mut self, _timeout: Duration) {
            std::thread::sleep(Duration::from_millis(20));
            self.0.command(Command::Stop);
        }
    }
    let mut router = Router::new();
    let control = router.worker.control();
    control.set_mode(Mode::Interrupt);
    router.worker.run(&mut Nap(control));
    let counted = router.worker.counters().snapshot();
    assert_eq!(counted.sleeps, 1);
    assert!(counted.sleeping_cycles > 10 * counted.empty_cycles, "{counted:?}");
}

/// Frames arrive during each nap, which is not shortened; the tenth commands the worker to end.
#[test]
fn napping_worker_sleeps_for_the_set_time_and_forwards_frames_that_came_meanwhile() {
    struct Naps {
        port: TestPort,
        control: Arc<Control>,
        naps: Vec<Duration>,
    }
    impl Waiter for Naps {
        fn wait(&mut self, _timeout: Duration) {
            panic!("it waits for interrupts");
        }
        fn nap(&mut self, time: Duration) {
            self.naps.push(time);
            self.port.send(&frame4(MAC_A, 64, b"payload"));
            match self.naps.len() {
                5 => self.control.set_nap(Duration::MAX),
                10 => self.control.command(Command::Drain),
                _ => {}
            }
        }
    }
    let mut router = Router::new();
    let control = router.worker.control();
    control.set_mode(Mode::Nap);
    control.set_nap(Duration::from_micros(20));
    let mut waiter = Naps { port: router.ports[0].clone(), control, naps: Vec::new() };
    router.worker.run(&mut waiter);
    assert_eq!(waiter.naps[..5], [Duration::from_micros(20); 5]);
    assert_eq!(waiter.naps[5..], [Duration::from_millis(100); 5], "limited, to notice commands");
    let counters = router.worker.counters();
    let counted = counters.snapshot();
    assert!(counted.is_conserved() && counted.sleeps == 10, "{counted:?}");
    assert_eq!(router.ports[1].sent().len(), 10);
    let queue = counters.queueing(0);
    assert_eq!((queue.taken, queue.bytes), (10, 10 * frame4(MAC_A, 64, b"payload").len() as u64));
}

#[test]
fn a_pausing_worker_never_blocks() {
    let mut router = Router::new();
    let control = router.worker.control();
    control.set_mode(Mode::Pause);
    router.ports[0].send(&frame4(MAC_A, 64, b"payload"));
    let end = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        control.command(Command::Stop);
    });
    assert_eq!(run(&mut router, Command::Stop), 0);
    end.join().unwrap();
    let counted = router.worker.counters().snapshot();
    assert!(counted.empty_iterations > 1 && counted.sleeps == 0, "{counted:?}");
    assert_eq!(router.ports[1].sent().len(), 1);
}

#[test]
fn polling_never_blocks_and_draining_forwards_waiting_frames() {
    let mut router = Router::new();
    router.worker.control().set_mode(Mode::Poll);
    for _ in 0..150 {
        router.ports[0].send(&frame4(MAC_A, 64, b"payload"));
    }
    router.worker.control().command(Command::Drain);
    assert_eq!(run(&mut router, Command::Stop), 0);
    assert_eq!(router.ports[1].sent().len(), 150);
}

#[test]
fn stopping_ends_after_one_iteration() {
    let mut router = Router::new();
    router.worker.control().set_batch(4);
    for _ in 0..10 {
        router.ports[0].send(&frame4(MAC_A, 64, b"payload"));
    }
    router.worker.control().command(Command::Stop);
    run(&mut router, Command::Stop);
    assert_eq!(router.ports[1].sent().len(), 4, "a batch of four, as set");
    router.worker.control().set_batch(0);
    router.worker.step(router.now);
    assert_eq!(router.ports[1].sent().len(), 1, "a batch is never empty");
}

#[test]
fn a_sleeping_worker_holds_up_no_grace_period() {
    use crate::next_hop::NextHop;
    use crate::testing::net;
    struct Reuse {
        routes: crate::routes::Routes,
        control: Arc<Control>,
        reused: Option<bool>,
    }
    impl Waiter for Reuse {
        fn wait(&mut self, _timeout: Duration) {
            let prefix = net("10.0.0.0/8");
            let id = self.routes.route(prefix, &NextHop::Unreachable).unwrap();
            self.routes.publish().unwrap();
            self.routes.remove(prefix);
            self.routes.publish().unwrap();
            self.routes.publish().unwrap();
            self.reused = Some(self.routes.acquire(&NextHop::Prohibit).unwrap() == id);
            self.control.command(Command::Stop);
        }
    }
    let mut router = Router::new();
    router.worker.control().set_mode(Mode::Interrupt);
    let routes = std::mem::replace(&mut router.routes, crate::testing::routes());
    let mut waiter = Reuse { routes, control: router.worker.control(), reused: None };
    router.worker.run(&mut waiter);
    assert_eq!(waiter.reused, Some(true));
}

/// Stress test of the order of publication: routes change all the time while a worker forwards. No
/// packet may meet an id that its table does not know (`no-route`), nor an id that got a new
/// meaning while the worker could still see the old one. The latter would show as a newer next hop
/// before an older one.
#[test]
fn flapping_routes_lose_and_misdirect_no_packet() {
    use crate::next_hop::{Adjacency, NextHop};
    use crate::port::PortId;
    use crate::testing::{MAC_B, net};
    use std::sync::atomic::{AtomicBool, Ordering};

    const CHANGES: u32 = 3_000;
    let mut router = Router::new();
    let mut routes = std::mem::replace(&mut router.routes, crate::testing::routes());
    let done = AtomicBool::new(false);
    let newest = std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=CHANGES {
                let [a, b, c, d] = number.to_be_bytes();
                let next_hop = NextHop::Forward(Adjacency {
                    port: PortId(1),
                    mtu: 1500,
                    link_mtu: 1500,
                    destination_mac: [2, 1, a, b, c, d],
                    source_mac: MAC_B,
                    vlan: None,
                    gateway: None,
                    source: None,
                });
                routes.route(net("203.0.113.0/24"), &next_hop).unwrap();
                routes.publish().unwrap();
            }
            done.store(true, Ordering::Release);
        });
        let frame = frame4(MAC_A, 64, b"payload");
        let mut newest = [0; 6];
        loop {
            let last = done.load(Ordering::Acquire);
            for _ in 0..32 {
                router.ports[0].send(&frame);
            }
            router.worker.step(router.now);
            for sent in router.ports[1].sent() {
                let destination = *sent.first_chunk().unwrap();
                // Packets from before the first change have an address that sorts first.
                assert!(destination >= newest, "{destination:?} after {newest:?}");
                newest = destination;
            }
            if last {
                return newest;
            }
        }
    });
    let counted = router.worker.counters().snapshot();
    assert_eq!((counted.dropped_total(), counted.punted), (0, 0), "{counted:?}");
    assert_eq!(newest[2..], CHANGES.to_be_bytes());
}

/// A card has unsent frames when the worker is commanded to end.
#[test]
fn a_draining_worker_waits_until_everything_is_sent() {
    struct Slow {
        port: TestPort,
        rounds_to_go: usize,
    }
    impl PortQueue for Slow {
        fn receive(&mut self, pool: &mut FramePool, frames: &mut [Frame]) -> usize {
            self.port.receive(pool, frames)
        }
        fn transmit(&mut self, pool: &mut FramePool, frames: &[Frame]) -> usize {
            self.port.transmit(pool, frames)
        }
        fn flush(&mut self, pool: &mut FramePool) {
            self.port.flush(pool);
        }
        fn recycle(&mut self, _: &mut FramePool) {
            self.rounds_to_go = self.rounds_to_go.saturating_sub(1);
        }
        fn pending(&mut self) -> usize {
            0
        }
        fn unsent(&mut self) -> usize {
            self.rounds_to_go
        }
        fn counters(&self) -> PortCounters {
            self.port.counters()
        }
    }
    struct Never;
    impl Waiter for Never {
        fn wait(&mut self, _timeout: Duration) {
            panic!("it drains");
        }
    }
    let mut router = Router::new();
    let (slow, pool) = (Slow { port: TestPort::new(1), rounds_to_go: 100 }, router.worker.ports());
    pool.0[1] = Box::new(slow);
    let control = router.worker.control();
    control.command(Command::Drain);
    router.worker.run(&mut Never);
    assert_eq!(router.worker.counters().snapshot().empty_iterations, 100);
    // A first iteration, and the ones that find no more frames.
    router.worker.run(&mut Never);
    assert_eq!(router.worker.counters().snapshot().empty_iterations, 103);
}

/// The second port's place exists from the start, and the port is added while the worker runs.
#[test]
fn a_port_that_comes_later_is_served_from_then_on() {
    let mut router = Router::new();
    router.worker.control().set_ports(1);
    let send = |router: &mut Router| {
        router.ports[1].send(&frame4(MAC_A, 64, b"payload"));
        router.worker.step(wattline_units::Time::ZERO)
    };
    assert_eq!((send(&mut router), router.worker.ports().0.len()), (0, 1));
    router.worker.control().set_ports(usize::MAX);
    assert_eq!((send(&mut router), router.worker.ports().0.len()), (2, 2));
    assert!(router.worker.counters().snapshot().is_conserved());
}

#[test]
fn a_chunk_that_is_freed_twice_is_counted_and_has_one_owner() {
    let mut router = Router::new();
    let chunks = router.chunks;
    let pool = router.worker.pool();
    let chunk = pool.take_chunk().unwrap();
    pool.free(chunk);
    pool.free(chunk);
    router.worker.step(wattline_units::Time::ZERO);
    assert_eq!(router.worker.counters().snapshot().frees_refused, 1);
    assert_eq!(router.worker.free_chunks(), chunks);
}
