//! `wattline govern` where the kernel forwards from one card to another. The cores that get packets follow
//! the load by the indirection table; on a card that resets at the first write of its table, by the
//! interrupts of its queues. XPS follows in both. A governor that is killed leaves no trace.

use super::knobs::{RETA, SETTINGS, differences};
use super::server::{ends_well, start_by, stats};
use super::stretch::queues_of;
use super::{Checks, INSIDE, Witness};
use std::time::{Duration, Instant, SystemTime};
use wattline_testbed::Error;
use wattline_testbed::rig::{Machine, traffic};
use wattline_testbed::topology::mac_text;

const GOVERNED: &str = "policy = \"queue-length:q_h=8,q_l=4,c_up=1,c_down=20,silence=500ms\"\n\
    knobs = [\"cores\"]\ninterfaces = [\"eth0\", \"eth1\"]\n";
/// Frames per second that one core can forward, and higher rates. The first of these that the host
/// can emulate and one core cannot forward is used.
const LITTLE: [f64; 1] = [50.0];
const MUCH: [f64; 4] = [2.5e3, 1e4, 4e4, 1.6e5];
const TIME: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of random moments at which the governor is killed, for each means.
const KILLS: usize = 10;
/// Hides the CPU pressure that a busy host causes from the guard.
const CALM: &str = "for f in pressure/cpu schedstat; do still=/tmp/${f##*/}.still; \
    cat /proc/$f > $still && mount --bind $still /proc/$f; done; true";
/// Makes the card's driver reset the card, as some drivers do for a new table.
const RESET: &str = "n=$(cat /sys/class/net/eth0/carrier_changes); ethtool -r eth0; \
    until [ $(cat /sys/class/net/eth0/carrier_changes) -ge $((n + 2)) ] && \
    [ $(cat /sys/class/net/eth0/carrier) = 1 ]; do sleep 0.2; done";

/// Places to which the first card's packets go: queues of its table, seen outside; CPUs of the interrupts of
/// both receive queues; CPUs that send by each queue, as masks.
#[derive(Debug, Clone, PartialEq)]
struct Sight {
    queues: usize,
    interrupts: String,
    senders: String,
}

impl Sight {
    fn new(queues: usize, interrupts: &str, senders: &str) -> Self {
        Self { queues, interrupts: interrupts.to_owned(), senders: senders.to_owned() }
    }

    fn look(machine: &mut Machine) -> Result<Self, Error> {
        let queues = queues_of(&machine.card_registers("eth0", RETA.0, RETA.1)?);
        let line = "cd /sys/class/net/eth0/queues; cat /proc/irq/*/eth0-rx-?/../smp_affinity_list \
                    tx-?/xps_cpus | tr '\\n' ' '";
        let words = machine.run(line, INSIDE)?;
        let words: Vec<&str> = words.split_whitespace().collect();
        let (interrupts, senders) = words.split_at(words.len() / 2);
        Ok(Self { queues, interrupts: interrupts.join(" "), senders: senders.join(" ") })
    }
}

pub(super) fn check(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    let neighbour = format!("arp -i eth1 -s 10.2.0.2 {}", mac_text(traffic::SINK));
    let line = "ip addr add 10.1.0.1/16 dev eth0; ip addr add 10.2.0.1/24 dev eth1; \
                echo 1 > /proc/sys/net/ipv4/ip_forward";
    machine.run(&format!("{line}; {neighbour}"), INSIDE)?;
    machine.run(CALM, INSIDE)?;
    let before = machine.run(SETTINGS, INSIDE)?;
    let (one, both) = (Sight::new(1, "0 1", "3 0"), Sight::new(2, "0 1", "1 2"));
    follows(machine, checks, "by tables", (&one, &both), &before, |_| Ok(()))?;
    let (one, both) = (Sight::new(2, "0 0", "3 0"), Sight::new(2, "0 1", "1 2"));
    follows(machine, checks, "by interrupts", (&one, &both), &before, |machine| {
        machine.run(RESET, INSIDE).map(drop)
    })
}

/// Governs, and has the load rise and fall; then kills governors at random moments of it.
fn follows(
    machine: &mut Machine,
    checks: &mut Checks,
    means: &str,
    (one, both): (&Sight, &Sight),
    before: &str,
    prepare: impl Fn(&mut Machine) -> Result<(), Error>,
) -> Result<(), Error> {
    let governed = |machine: &mut Machine| {
        start_by(machine, GOVERNED)?;
        prepare(machine)
    };
    governed(machine)?;
    for (rates, when, wanted) in [
        (&MUCH[..], "under load", both),
        (&LITTLE, "under little load", one),
        (&MUCH, "under load again", both),
        (&LITTLE, "after it", one),
    ] {
        let found = offer(machine, checks, rates, wanted)?;
        checks.equal(format!("cores {means}, {when}"), Witness::Outside, wanted, &found);
    }
    let failed = stats(machine)?["power"]["steps_failed"].as_u64();
    checks.equal(format!("steps {means} that failed"), Witness::Inside, &Some(0), &failed);
    ends_well(machine, checks)?;
    restored(machine, checks, &format!("govern {means}"), before)?;
    for kill in 0..KILLS {
        governed(machine)?;
        let nanos = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| now.subsec_nanos());
        let time = Duration::from_millis(u64::from(nanos / 1_000 % 2_500));
        let line =
            format!("(sleep {}; kill -KILL $(cat /tmp/govern.pid)) & true", time.as_secs_f64());
        machine.run(&line, INSIDE)?;
        pass(machine, MUCH[kill % 2], TIME)?;
        let after = format!("SIGKILL after {time:?} {means}");
        restored(machine, checks, &after, before)?;
    }
    Ok(())
}

fn pass(machine: &Machine, rate: f64, time: Duration) -> Result<traffic::TrafficCounts, Error> {
    let [into, out, ..] = &machine.wires[..] else { return Ok(traffic::TrafficCounts::default()) };
    traffic::pass(into, out, rate, time)
}

/// Offers these loads one after the other until the sight is as expected; returns the last sight.
fn offer(
    machine: &mut Machine,
    checks: &mut Checks,
    rates: &[f64],
    wanted: &Sight,
) -> Result<Sight, Error> {
    let end = Instant::now() + PATIENCE;
    let mut found = Sight::look(machine)?;
    for rate in rates.iter().cycle() {
        let wires: Result<Vec<_>, _> =
            machine.wires.iter().map(std::os::unix::net::UnixDatagram::try_clone).collect();
        let wires = wires.map_err(|error| Error::io("sharing a cable", error))?;
        let counts = std::thread::scope(|scope| {
            let sending = scope.spawn(|| traffic::pass(&wires[0], &wires[1], *rate, TIME));
            while !sending.is_finished() {
                if found != *wanted {
                    found = Sight::look(machine)?;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        if counts.odd > 0 {
            checks.equal(
                "frames forwarded wrongly by the kernel",
                Witness::Outside,
                &0,
                &counts.odd,
            );
        }
        if found == *wanted || Instant::now() >= end {
            break;
        }
    }
    Ok(found)
}

/// Checks that all settings are as before. The watchdog restores them one after the other.
fn restored(
    machine: &mut Machine,
    checks: &mut Checks,
    after: &str,
    before: &str,
) -> Result<(), Error> {
    let end = Instant::now() + PATIENCE;
    let different = loop {
        let different = differences(before, &machine.run(SETTINGS, INSIDE)?);
        if different.is_empty() || Instant::now() >= end {
            break different;
        }
    };
    let what = format!("settings that differ after {after}");
    checks.equal(what, Witness::Inside, &String::new(), &different);
    Ok(())
}
