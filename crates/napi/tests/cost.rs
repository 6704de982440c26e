//! Cost of the observer.
//!
//! `cargo test --release -p wattline-napi --test cost -- --ignored --nocapture` prints it; the machine
//! should have nothing else to do.

mod common;

use common::Scene;
use rustix::thread::{CpuSet, sched_setaffinity};
use wattline_linux::sysfs::Tree;
use wattline_napi::{Observer, Places};
use wattline_policy::{CoreSet, Level, StreakRule, Streaks};
use wattline_units::{Span, Time};

const ROUNDS: usize = 10;
/// Packets of a round. The kernel makes 64 at a time and then polls.
const PACKETS: u32 = 200_000;

/// Nanoseconds of processor time for each packet, those for making it included.
fn cost(scene: &Scene) -> f64 {
    scene.send(PACKETS, 1) / f64::from(PACKETS)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
}

fn observe(places: &Places) -> Observer {
    let mut observer = Observer::begin(Time::ZERO).unwrap();
    // PowerSave's rule, with a silence, for which the program reads the clock.
    let rule = StreakRule {
        above: Level { packets: 32, samples: 20 },
        below: Level { packets: 4, samples: 1000 },
        silence: Span::from_millis(1),
        ..StreakRule::NEVER
    };
    let streaks = Streaks {
        cores: CoreSet::first(64),
        rule,
        at_above: true,
        at_below: true,
        at_silence: true,
    };
    let cpus: Vec<u32> = (0..64).collect();
    observer.set_streaks(Time::ZERO, &streaks, &cpus, places).unwrap();
    observer
}

#[test]
#[ignore = "measures for a minute on an otherwise idle machine"]
fn cost_of_the_observer() {
    let Some(scene) = Scene::build() else { return };
    let mut own = CpuSet::new();
    own.set(0);
    sched_setaffinity(None, &own).unwrap();
    let places = scene.router.enter(|| Places::find(&Tree::live(), &["r0"], &[])).unwrap();
    cost(&scene);
    let (mut without, mut with, mut packets, mut polls) = (Vec::new(), Vec::new(), 0, 0);
    for _ in 0..ROUNDS {
        without.push(cost(&scene));
        let observer = observe(&places);
        with.push(cost(&scene));
        let counts = observer.queues(&places).unwrap()[0].counts;
        (packets, polls) = (packets + counts.packets, polls + counts.polls);
    }
    let (without, with) = (median(without), median(with));
    let each = packets as f64 / polls as f64;
    let more = 100.0 * (with / without - 1.0);
    println!(
        "{each:.1} packets a poll; without {without:.1} ns a packet, with {with:.1} ({more:+.2} %)"
    );
    println!("{:+.1} ns a poll", (with - without) * each);
}
