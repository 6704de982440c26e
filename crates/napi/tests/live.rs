//! The observer with a kernel that forwards through a masquerade, over veth pairs with NAPI.

mod common;

use common::{PATIENCE, Scene};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::time::Instant;
use wattline_linux::sysfs::Tree;
use wattline_napi::{Denied, FullPoll, Observer, Places};
use wattline_policy::{BeyondPolls, CoreSet, FillRead, Level, StreakRule, Streaks};
use wattline_units::{Span, Time};

/// Most packets of a veth's ring.
const RING: u32 = 256;

fn observer() -> Option<Observer> {
    match Observer::begin(Time::ZERO + Span::from_millis(5)) {
        Ok(observer) => Some(observer),
        Err(error) => {
            wattline_needs::rights(error);
            None
        }
    }
}

/// Returns true if the observer wakes its reader within `millis` milliseconds.
fn wakes(observer: &Observer, millis: i64) -> bool {
    let timeout = Timespec { tv_sec: millis / 1000, tv_nsec: millis % 1000 * 1_000_000 };
    poll(&mut [PollFd::new(observer, PollFlags::IN)], Some(&timeout)).unwrap() > 0
}

/// Returns all CPUs of this machine that a policy's rule can name.
fn cpus() -> Vec<u32> {
    (0..std::thread::available_parallelism().unwrap().get() as u32).collect()
}

#[test]
fn packets_of_the_kernels_path_are_counted_exactly() {
    let Some(scene) = Scene::build() else { return };
    let Some(observer) = observer() else { return };
    let find = || Places::find(&Tree::live(), &["r0"], &[]);
    let places = scene.router.enter(find).unwrap();
    let [place] = places.all() else { panic!("{places:?}") };
    assert_eq!((&*place.interface, place.queue, place.thread), ("r0", 0, None));
    assert_eq!(place.work.map(|work| work.full), Some(FullPoll::Packets));
    let (received, sent) = (scene.counter("r0", "rx_packets"), scene.counter("r1", "tx_packets"));
    let mut total = 0;
    for _ in 0..50 {
        scene.send(RING / 2, 1);
        total += u64::from(RING / 2);
        scene.wait(total);
    }
    assert_eq!(scene.counter("r1", "tx_packets") - sent, total);
    let received = scene.counter("r0", "rx_packets") - received;
    assert_eq!(received, total);
    let queues = observer.queues(&places).unwrap();
    let queue = &queues[0];
    assert_eq!(queue.counts.packets, received, "{queue:?}");
    assert_eq!(queue.view(None).arrivals, received);
    let by_cpu: u64 = queue.cpus.values().map(|counts| counts.packets).sum();
    assert_eq!(by_cpu, received);
    assert!(queue.counts.full > 0 && queue.counts.full <= received / 64, "{queue:?}");
    assert!(queue.counts.polls >= received / 64, "{queue:?}");
    let cpus = observer.cpus().unwrap();
    assert!(queue.cpus.keys().all(|cpu| (*cpu as usize) < cpus.len()));
    assert!(cpus.iter().all(|cpu| (cpu.lost, cpu.unlisted) == (0, 0)), "{cpus:?}");
}

#[test]
fn only_the_end_of_a_streak_wakes_the_reader() {
    let Some(scene) = Scene::build() else { return };
    // Taken before the observer starts, so that its time is not ahead.
    let begun = Instant::now();
    let Some(mut observer) = observer() else { return };
    let places = scene.router.enter(|| Places::find(&Tree::live(), &["r0"], &[])).unwrap();
    let now =
        || Time::ZERO + Span::from_millis(5) + Span::from_nanos(begun.elapsed().as_nanos() as u64);
    let mut streaks = Streaks {
        cores: CoreSet::first(cpus().len()),
        rule: StreakRule {
            above: Level { packets: 32, samples: 1 },
            below: Level { packets: 4, samples: u32::MAX },
            silence: Span::from_millis(1000),
            ..StreakRule::NEVER
        },
        at_above: true,
        at_below: true,
        at_silence: true,
    };
    observer.set_streaks(now(), &streaks, &cpus(), &places).unwrap();
    // Polls of a few packets are no streak, and polls of other interfaces do not count.
    scene.send(2, 200);
    let mut total = 400;
    scene.wait(total);
    assert!(!wakes(&observer, 50));
    scene.send(RING / 2 + 64, 1);
    total += u64::from(RING / 2 + 64);
    assert!(wakes(&observer, PATIENCE.as_millis() as i64));
    scene.wait(total);
    let mut ends = Vec::new();
    observer.streaks(|end| ends.push(end));
    assert!(!ends.is_empty() && ends.iter().all(|end| end.above), "{ends:?}");
    assert!(ends[0].at <= now() && ends[0].at + Span::from_millis(60_000) > now(), "{ends:?}");
    let cpu = observer.cpus().unwrap()[ends[0].cpu as usize];
    assert!(cpu.last.is_some_and(|last| last >= ends[0].at && last <= now()), "{cpu:?}");

    // Streaks that were not requested do not wake the reader, and neither do streaks without cores.
    streaks.at_above = false;
    observer.set_streaks(now(), &streaks, &cpus(), &places).unwrap();
    scene.send(RING / 2, 1);
    observer.set_streaks(now(), &Streaks::NEVER, &cpus(), &places).unwrap();
    scene.send(RING / 2, 1);
    total += u64::from(RING);
    scene.wait(total);
    assert!(!wakes(&observer, 50));
    let after = StreakRule { read: FillRead::After, ..streaks.rule };
    let denied = observer.set_streaks(now(), &Streaks { rule: after, ..streaks }, &cpus(), &places);
    assert_eq!(denied, Err(Denied::Polls(BeyondPolls::Read)));
}

#[test]
fn polls_by_a_thread_are_work_of_its_queue() {
    let Some(scene) = Scene::build() else { return };
    let set = scene.router.run("sh", &["-c", "echo 1 > /sys/class/net/r0/threaded"]);
    if let Err(error) = set {
        return wattline_needs::machine(format_args!("threaded NAPI (Linux 5.12): {error}"));
    }
    let Some(observer) = observer() else { return };
    let places = scene.router.enter(|| Places::find(&Tree::live(), &["r0"], &[])).unwrap();
    let before = observer.queues(&places).unwrap()[0].thread;
    scene.send(RING / 2, 1);
    scene.wait(u64::from(RING / 2));
    let queue = &observer.queues(&places).unwrap()[0];
    assert_eq!(queue.counts.packets, u64::from(RING / 2));
    assert!(queue.thread > before && before.is_some(), "{before:?} {queue:?}");
}

#[test]
fn reason_is_given_without_capabilities() {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let Ok(mut sets) = capabilities(None) else { return };
    if !sets.effective.contains(CapabilitySet::PERFMON) {
        return wattline_needs::rights("CAP_PERFMON");
    }
    // Capabilities belong to a thread.
    let error = std::thread::spawn(move || {
        sets.effective.remove(CapabilitySet::PERFMON | CapabilitySet::SYS_ADMIN);
        set_capabilities(None, sets).unwrap();
        Observer::begin(Time::ZERO).unwrap_err().to_string()
    });
    let text = error.join().unwrap();
    assert!(text.contains("polls are not observed") && text.contains("CAP_PERFMON"), "{text}");
}
