//! One stretch of load on the governed router, and samples of its machine meanwhile.

use super::forwarding::stats;
use super::knobs::RETA;
use super::{INSIDE, power, sensors};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::rig::{Machine, traffic};

/// Sample of the idle-state limits and the power meter: `0 1 127797000`, by shell builtins, since a
/// busy guest takes long to start a program.
const LOOK: &str = "cd /sys/devices/system/cpu; read a < cpu0/power/pm_qos_resume_latency_us; \
    read b < cpu1/power/pm_qos_resume_latency_us; \
    for f in /sys/class/hwmon/hwmon*/device/power1_average; do read w < $f; done; echo $a $b $w";
/// Place of losses of frames that the guest never had.
pub(super) const BEFORE_THE_CARD: &str = "in the emulator, before the card";
/// Command for the counters of the first card and its driver.
const CARD: &str = "ethtool -S eth0";

/// The machine at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sight {
    /// Frequency of each CPU by its register, outside.
    pub frequency_hertz: [f64; 2],
    /// Queues that the card's indirection table leads to, outside.
    pub queues: usize,
    /// Longest time that each CPU may take to wake up, inside: none if any idle state is allowed.
    pub wake_up_limit_seconds: [Option<f64>; 2],
    /// Power as the driver of the meter shows it, inside: emulated, up to a second old.
    pub power_watts: f64,
    /// Power by the table's formula for the registers.
    pub table_watts: f64,
}

/// Results of one stretch of load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stretch {
    /// Frames a second that were offered.
    pub offered_pps: f64,
    /// Counts of their fates.
    #[serde(flatten)]
    pub counts: traffic::TrafficCounts,
    /// Frames that were sent and did not come out, by where they were lost.
    pub lost: BTreeMap<&'static str, u64>,
    /// Changes of the operating point, as the router counts them.
    pub transitions: u64,
    /// Samples in their order; the last one after the load has ended.
    pub sights: Vec<Sight>,
}

/// Samples the machine from outside and inside.
pub(super) fn look(machine: &mut Machine) -> Result<Sight, Error> {
    let registers = machine.registers()?;
    let table = machine.card_registers("eth0", RETA.0, RETA.1)?;
    let text = machine.run(LOOK, INSIDE)?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let [first, second, microwatts] = words[..] else {
        let what = format!("the guest shows {text:?} instead of two limits and a power");
        return Err(Error::Rig { what, console: String::new() });
    };
    let limit = |word: &str| word.parse::<f64>().ok().filter(|micros| *micros > 0.0);
    Ok(Sight {
        frequency_hertz: registers.map(|register| f64::from(register) * 1e8),
        queues: queues_of(&table),
        wake_up_limit_seconds: [first, second].map(|word| limit(word).map(|micros| micros / 1e6)),
        power_watts: microwatts.parse::<f64>().map_or(f64::NAN, |microwatts| microwatts / 1e6),
        table_watts: f64::from(power::milliwatts(registers)) / 1e3,
    })
}

/// Offers a load, and samples the machine meanwhile and once after it.
pub(super) fn offer(machine: &mut Machine, rate: f64, time: Duration) -> Result<Stretch, Error> {
    let copy = |machine: &Machine, number: usize| {
        let wire = machine.wires.get(number).map(|wire| wire.try_clone());
        let none = || std::io::Error::other("there is no such card");
        wire.unwrap_or_else(|| Err(none())).map_err(|e| Error::io("sharing a cable", e))
    };
    let (into, out) = (copy(machine, 0)?, copy(machine, 1)?);
    let before = Counted::ask(machine)?;
    let mut sights = Vec::new();
    let counts = std::thread::scope(|scope| {
        let sending = scope.spawn(move || traffic::pass(&into, &out, rate, time));
        while !sending.is_finished() {
            sights.push(look(machine)?);
            std::thread::sleep(Duration::from_millis(50));
        }
        sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    sights.push(look(machine)?);
    let after = Counted::ask(machine)?;
    Ok(Stretch {
        offered_pps: rate,
        lost: after.lost_since(&before, &counts),
        transitions: after.transitions - before.transitions,
        counts,
        sights,
    })
}

/// Counts of card and router since they began, along a frame's way.
#[derive(Debug)]
pub(super) struct Counted {
    /// By the card's hardware, and then by its driver, which gives them to the XDP program.
    card: u64,
    pub driver: u64,
    /// By the router's workers: taken, dropped for a reason that has a counter, handed on.
    pub received: u64,
    pub dropped: u64,
    pub transmitted: u64,
    /// By the kernel, for want of room in a socket's rings; the router asks for it in every
    /// 128th round only.
    pub rings: u64,
    transitions: u64,
}

impl Counted {
    pub fn ask(machine: &mut Machine) -> Result<Self, Error> {
        let stats = sensors::json(machine, &stats())?;
        let number = |value: &serde_json::Value| value.as_u64().unwrap_or(0);
        let (first, second) = (&stats["ports"][0], &stats["ports"][1]);
        let ring = ["receive_ring_full", "fill_ring_empty", "receive_invalid"];
        let dropped = stats["dropped"].as_object().into_iter().flatten();
        let text = machine.run(CARD, INSIDE)?;
        let counters = || {
            let lines = text.lines().filter_map(|line| line.trim().split_once(':'));
            lines.filter_map(|(name, value)| Some((name, value.trim().parse::<u64>().ok()?)))
        };
        let of_queue = |name: &str| name.starts_with("rx_queue_") && name.ends_with("_packets");
        Ok(Self {
            card: counters().filter(|(name, _)| *name == "rx_packets").map(|(_, n)| n).sum(),
            driver: counters().filter(|(name, _)| of_queue(name)).map(|(_, n)| n).sum(),
            received: number(&first["received_packets"]),
            dropped: dropped.map(|(_, count)| number(count)).sum(),
            transmitted: number(&second["transmitted_packets"]),
            rings: ring.iter().map(|counter| number(&first[*counter])).sum(),
            transitions: number(&stats["power"]["transitions"]),
        })
    }

    /// Returns the losses by place; a late frame counts as lost here and is found later.
    pub fn lost_since(
        &self,
        before: &Self,
        counts: &traffic::TrafficCounts,
    ) -> BTreeMap<&'static str, u64> {
        let new = |count: fn(&Self) -> u64| count(self).saturating_sub(count(before));
        let (card, driver) = (new(|it| it.card), new(|it| it.driver));
        let (received, transmitted) = (new(|it| it.received), new(|it| it.transmitted));
        let came = counts.forwarded + counts.odd;
        let stages = [
            (BEFORE_THE_CARD, counts.sent, card),
            ("in the card, for want of a descriptor", card, driver),
            ("between driver and worker, for want of room in a ring", driver, received),
            ("in the router", received, transmitted),
            ("behind the router", transmitted, came),
        ];
        let lost = stages.map(|(place, into, out)| (place, into.saturating_sub(out)));
        lost.into_iter().filter(|(_, frames)| *frames > 0).collect()
    }
}

impl Stretch {
    /// Returns the least and the greatest value of a quantity.
    pub fn range(&self, of: impl Fn(&Sight) -> f64) -> [f64; 2] {
        let values = self.sights.iter().map(of);
        values.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], value| {
            [low.min(value), high.max(value)]
        })
    }
}

impl std::fmt::Display for Stretch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let traffic::TrafficCounts { sent, refused, forwarded, .. } = self.counts;
        let range = |of: &dyn Fn(&Sight) -> f64, digits: usize| {
            let [low, high] = self.range(of);
            if low == high {
                format!("{low:.digits$}")
            } else {
                format!("{low:.digits$} to {high:.digits$}")
            }
        };
        let cpu = |number: usize| range(&|sight| sight.frequency_hertz[number] / 1e9, 1);
        let states: BTreeSet<&str> = self
            .sights
            .iter()
            .map(|sight| if sight.wake_up_limit_seconds[1].is_some() { "C1" } else { "C2" })
            .collect();
        let states = states.into_iter().collect::<Vec<_>>().join(", ");
        write!(
            f,
            "{:>13} {sent:>7} {refused:>8} {forwarded:>10}  {:<11} {:<11} {:<7} {states:<7} \
             {:<15} {:<15} {:>11}",
            self.offered_pps,
            cpu(0),
            cpu(1),
            range(&|sight| sight.queues as f64, 0),
            range(&|sight| sight.power_watts, 1),
            range(&|sight| sight.table_watts, 1),
            self.transitions
        )?;
        self.lost.iter().try_for_each(|(place, frames)| write!(f, "\n{frames:>32} lost {place}"))
    }
}

/// The head of a table of stretches.
pub(super) const HEAD: &str = "offered (pps)    sent  refused  forwarded  CPU 0 (GHz) CPU 1 (GHz) \
                               queues  CPU 1   read (W)        table (W)       transitions";

/// Counts the queues that an indirection table leads to, four entries a word.
pub(super) fn queues_of(table: &[u32]) -> usize {
    let entries: BTreeSet<u8> = table.iter().flat_map(|word| word.to_le_bytes()).collect();
    entries.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_of_a_table_are_counted() {
        assert_eq!(queues_of(&[0; 32]), 1);
        assert_eq!(queues_of(&[0x0100_0100; 32]), 2);
    }

    #[test]
    fn frames_are_lost_where_the_next_counter_misses_them() {
        let none = Counted {
            card: 0,
            driver: 0,
            received: 0,
            dropped: 0,
            transmitted: 0,
            rings: 0,
            transitions: 0,
        };
        let some = Counted { card: 95, driver: 95, received: 90, transmitted: 90, ..none };
        let counts = traffic::TrafficCounts {
            sent: 100,
            forwarded: 90,
            ..traffic::TrafficCounts::default()
        };
        let lost: Vec<u64> = some.lost_since(&none, &counts).into_values().collect();
        assert_eq!(lost, [5, 5]);
    }
}
