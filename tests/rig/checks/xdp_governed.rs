//! A governor of XDP programs that forward: frequency and moderation follow the forwarded load, and
//! so do the cores, by the indirection table; no frame is lost by a decision.

use super::forwarding::{launch, stats, stop};
use super::ipsec::write;
use super::knobs::{RETA, SETTINGS, differences};
use super::stretch::Counted;
use super::{Checks, INSIDE, Witness, sensors};
use std::collections::BTreeSet;
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::rig::{Machine, traffic};
use wattline_testbed::topology::mac_text;

/// Frames a second: few enough for the first load of the tables, and too many for it.
const LITTLE: f64 = 50.0;
const MUCH: f64 = 600.0;
/// Longest time that each is offered; on a busy host the policy sees it late.
const TIME: Duration = Duration::from_secs(6);
const ROUNDS: usize = 10;
/// Throttling of the interrupts of both queues (Intel 318551, section 8.8.12); microseconds are in
/// bits 2 to 14.
const EITR: u64 = 0x1684;
const TABLES: &str = "/tmp/xdp.csv";
/// Cycles of a packet in the model by which cores are chosen: one core at its slowest carries 80 packets
/// a second, and at its fastest 166.
const CYCLES: &str = "20000000";
const MODEL: &str = "/tmp/slow.toml";

/// Control values of the frequency of both CPUs, and microseconds between the interrupts of both
/// queues, as the emulator has them.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Held {
    frequencies: [u8; 2],
    periods: [u32; 2],
}

/// Tables that are carried over give the figures of 1.6 GHz to that frequency alone, and none to 2.4 GHz.
const SLOW: Held = Held { frequencies: [16; 2], periods: [1000; 2] };
const FAST: Held = Held { frequencies: [33; 2], periods: [10; 2] };

/// Up to 100 packets a second and core a low frequency and the longest period are fast enough;
/// above, the highest frequency with the shortest period alone.
fn tables() -> String {
    let head = "# version = 1\n# server = \"rig\"\n# workload = \"forwarding\"\n\
                # source = \"modelled\"\n# percentile = 95.0\n# machine.cores = 2\n\
                # machine.frequencies_ghz = [1.6, 3.3]\n# machine.moderation_us = [0.0, 8191.0]\n\
                load_rps,frequency_ghz,period_us,latency_us,power_watts\n";
    let rows = [100, 100_000].map(|load| {
        let slow = if load == 100 { "100" } else { "saturated" };
        format!("{load},3.3,default,50,9\n{load},1.6,1000,{slow},1\n{load},3.3,10,100,9\n")
    });
    format!("{head}{}", rows.concat())
}

pub(super) fn check(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    let neighbour = format!("arp -i eth1 -s 10.2.0.2 {}", mac_text(traffic::SINK));
    machine.run(&neighbour, INSIDE)?;
    write(machine, TABLES, &tables())?;
    let power = format!("policy = \"copi:tables={TABLES},force=yes,target=1ms,period=500ms\"\n");
    let what = "frequencies and periods beside XDP programs";
    governed(machine, checks, &power, what, held, [SLOW, FAST, SLOW])?;

    let model = include_str!("../../../crates/server/servers/westmere-2010.toml");
    // Without characters that are special to the shell that writes it.
    let lines = model.lines().filter(|line| !line.starts_with('#'));
    let lines: Vec<String> = lines.map(|line| line.replace('\'', "")).collect();
    let slow = lines.join("\n").replacen("value = 630,", &format!("value = {CYCLES},"), 1);
    write(machine, MODEL, &slow)?;
    let power = format!("server = \"{MODEL}\"\npolicy = \"table:period=500ms\"\n");
    let what = "queues in use and the first CPU's frequency beside XDP programs";
    let (few, many) = (Spread { queues: 1, frequency: 16 }, Spread { queues: 2, frequency: 33 });
    governed(machine, checks, &power, what, spread, [few, many, few])?;
    machine.run("arp -i eth1 -d 10.2.0.2", INSIDE).map(drop)
}

/// Runs a router with XDP programs under a policy; returns samples at little load, at more, and
/// after it.
fn governed<T: Copy + PartialEq + std::fmt::Debug>(
    machine: &mut Machine,
    checks: &mut Checks,
    power: &str,
    what: &str,
    look: fn(&mut Machine) -> Result<T, Error>,
    expected: [T; 3],
) -> Result<(), Error> {
    let before = machine.run(SETTINGS, INSIDE)?;
    launch(
        machine,
        "xdp_forward = \"on\"",
        &format!("[power]\nplatform = \"host\"\nmay_raise = true\n{power}"),
    )?;
    let counted = Counted::ask(machine)?;
    let mut came = 0;
    let rates = [LITTLE, MUCH, LITTLE];
    let when = ["at little load", "at more load", "after it"];
    for ((rate, when), expected) in rates.into_iter().zip(when).zip(expected) {
        let (held, counts) = follows(machine, rate, look, expected)?;
        came += counts.forwarded;
        checks.equal(format!("{what}, {when}"), Witness::Outside, &expected, &held);
        let what = format!("frames forwarded wrongly by governed XDP programs, {when}");
        checks.equal(what, Witness::Outside, &0, &counts.odd);
    }
    let given = Counted::ask(machine)?.driver - counted.driver;
    let what = "frames that the card's driver gave to governed XDP programs came out";
    checks.equal(what, Witness::Outside, &given, &came);
    let stats = sensors::json(machine, &stats())?;
    let by_xdp = stats["xdp_forwarded"].as_u64().unwrap_or(0);
    checks.equal("all by XDP programs", Witness::Inside, &came, &by_xdp);
    let changes = stats["power"]["transitions"].as_u64().unwrap_or(0);
    checks.equal("changes of the point meanwhile", Witness::Inside, &true, &(changes >= 2));
    let failed = stats["power"]["steps_failed"].as_u64();
    checks.equal("steps that failed beside XDP programs", Witness::Inside, &Some(0), &failed);
    let status = stop(machine)?;
    checks.equal("exit code of the governing router", Witness::Inside, &0, &status);
    let different = differences(&before, &machine.run(SETTINGS, INSIDE)?);
    let what = "settings that differ after it";
    checks.equal(what, Witness::Inside, &String::new(), &different);
    Ok(())
}

/// Offers a load until the machine is as expected; returns its last state, and the fates of all
/// frames.
fn follows<T: Copy + PartialEq>(
    machine: &mut Machine,
    rate: f64,
    look: fn(&mut Machine) -> Result<T, Error>,
    expected: T,
) -> Result<(T, traffic::TrafficCounts), Error> {
    let mut all = traffic::TrafficCounts::default();
    let mut last = look(machine)?;
    for _ in 0..ROUNDS {
        let copy = |machine: &Machine, number: usize| {
            let wire = machine.wires.get(number).map(|wire| wire.try_clone());
            let none = || std::io::Error::other("there is no such card");
            wire.unwrap_or_else(|| Err(none())).map_err(|e| Error::io("sharing a cable", e))
        };
        let (into, out) = (copy(machine, 0)?, copy(machine, 1)?);
        let mut seen = false;
        let counts = std::thread::scope(|scope| {
            let sending = scope.spawn(move || traffic::pass(&into, &out, rate, TIME));
            while !sending.is_finished() {
                if !seen {
                    last = look(machine)?;
                    seen = last == expected;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        all.sent += counts.sent;
        all.forwarded += counts.forwarded;
        all.odd += counts.odd;
        if seen {
            break;
        }
    }
    Ok((last, all))
}

/// Spread of the load over the machine, as the emulator has it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    /// Queues to which the card's indirection table leads.
    queues: usize,
    /// Control value of the frequency of the first CPU, which is always in use.
    frequency: u8,
}

fn spread(machine: &mut Machine) -> Result<Spread, Error> {
    let words = machine.card_registers("eth0", RETA.0, RETA.1)?;
    let entries: BTreeSet<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Ok(Spread { queues: entries.len(), frequency: machine.registers()?[0] })
}

fn held(machine: &mut Machine) -> Result<Held, Error> {
    let frequencies = machine.registers()?;
    let registers = machine.card_registers("eth0", EITR, 2)?;
    let period = |queue: usize| registers.get(queue).map_or(0, |word| (word & 0x7ffc) >> 2);
    Ok(Held { frequencies, periods: [period(0), period(1)] })
}
