//! Cost of the observer.
//!
//! `cargo test --release -p wattline-napi --test cost -- --ignored --nocapture` prints it; the
//! machine should be idle otherwise.

mod common;

use common::Scene;
use rustix::thread::{CpuSet, sched_setaffinity};
use wattline_linux::sysfs::Tree;
use wattline_napi::{Observer, Places};
use wattline_policy::{CoreSet, Level, StreakRule, Streaks};
use wattline_units::{Span, Time};
use wattline_xdp::polls::PolledInstance;

/// Number of pairs of short rounds: other load on the processor slows both rounds of a pair.
const PAIRS: usize = 300;
/// Packets of a round. The kernel generates 64 at a time and then polls.
const PACKETS: u32 = 12_800;

/// Returns the nanoseconds of processor time per packet, including its generation.
fn cost(scene: &Scene) -> f64 {
    scene.send(PACKETS, 1)[0] / f64::from(PACKETS)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
}

fn observe(places: &Places) -> Observer {
    let mut observer = Observer::begin(Time::ZERO).unwrap();
    // PowerSave's rule with a silence, for which the program reads the clock.
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
    let (mut without, mut more, mut polls) = (Vec::new(), Vec::new(), 0);
    for pair in 0..PAIRS {
        let observed = || {
            let observer = observe(&places);
            let cost = cost(&scene);
            let seen = observer.instances().unwrap();
            // Instances of other traffic on the machine took fewer packets.
            let packets = |it: &&PolledInstance| it.cpus.iter().map(|cpu| cpu.packets).sum::<u64>();
            let own = seen.iter().filter(|it| packets(it) >= PACKETS.into());
            (cost, own.flat_map(|it| &it.cpus).map(|cpu| cpu.polls).sum::<u64>())
        };
        // Both orders within a pair are equally frequent.
        let (plain, (with, seen)) = if pair % 2 == 0 {
            (cost(&scene), observed())
        } else {
            let observed = observed();
            (cost(&scene), observed)
        };
        without.push(plain);
        more.push(with - plain);
        polls += seen;
    }
    let (without, more) = (median(without), median(more));
    let each = f64::from(PACKETS) * PAIRS as f64 / polls as f64;
    let share = 100.0 * more / without;
    println!(
        "{each:.1} packets a poll; {without:.1} ns a packet, {more:+.1} observed ({share:+.2} %)"
    );
    println!("{:+.1} ns a poll, soft interrupts included", more * each);
}
