//! The whole loop on real drivers: the router governs the machine that it runs on, under a load
//! that rises and falls.

use super::forwarding::{start, stop};
use super::knobs::{RETA, SETTINGS, differences};
use super::server::{HIGHEST, LOWEST, wait_for};
use super::stretch::{Counted, Sight, Stretch, look, offer};
use super::{Checks, INSIDE, Witness, power, sensors};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use wattline_testbed::Error;
use wattline_testbed::rig::Machine;

/// Addition to the router's configuration.
const POWER: &str =
    "[power]\nplatform = \"host\"\nmay_raise = true\npolicy = \"queue-length:silence=500ms\"\n";
/// Frames a second that an emulated machine forwards without loss even on a busy host.
const LITTLE: f64 = 50.0;
/// Higher rates, offered one after the other until the router uses all of its machine: the capacity
/// of a core depends on the load of the host.
const MUCH: [f64; 6] = [2.5e3, 5e3, 1e4, 2e4, 4e4, 8e4];
/// More than any host emulates.
const TOO_MUCH: f64 = 2e5;
/// Time that each is offered.
const TIME: Duration = Duration::from_secs(4);
/// Time that a busy host may take to let the policy come down, or the watchdog restore.
const PATIENCE: Duration = Duration::from_secs(60);
/// Directory of the CPUs' files.
const CPUS: &str = "/sys/devices/system/cpu/";

/// Lets the router govern, and checks its machine.
pub(super) fn check(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    let before = machine.run(SETTINGS, INSIDE)?;
    let resting = machine.registers()?;
    let table = machine.card_registers("eth0", RETA.0, RETA.1)?;
    start(machine, POWER)?;
    // The card counts since its driver was loaded.
    let counted = Counted::ask(machine)?;
    let first = offer(machine, LITTLE, TIME)?;
    let rest = *first.sights.last().unwrap_or(&look(machine)?);
    at_rest(checks, "under little load", &rest);
    checks.load.push(first);
    rises(machine, checks, &rest)?;
    // Losses from here on must be counted where they occur.
    let overload = offer(machine, TOO_MUCH, TIME)?;
    checks.load.push(overload);
    falls(machine, checks, &rest)?;
    conserved(machine, checks, &counted)?;
    power::follows_registers(machine, checks, "governed, without load")?;
    let stats = sensors::json(machine, &super::forwarding::stats())?;
    let failed = stats["power"]["steps_failed"].as_u64();
    checks.equal("steps that failed", Witness::Inside, &Some(0), &failed);
    let status = stop(machine)?;
    checks.equal("exit code of the governing router", Witness::Inside, &0, &status);
    restored(machine, checks, "its end", resting, &table, &before)?;

    // The same configuration again, whose file is still there.
    let plan = sensors::json(machine, "wattline plan /tmp/router.toml --json")?;
    start(machine, POWER)?;
    wait_for(machine, LOWEST)?;
    planned(machine, checks, &plan, &before)?;
    machine.run("kill -KILL $(cat /tmp/router.pid)", INSIDE)?;
    restored(machine, checks, "SIGKILL, by the watchdog", resting, &table, &before)
}

/// Checks the state at rest: one queue, the lowest frequency of both CPUs, the second CPU free to
/// enter its deepest state, and the corresponding watts.
fn at_rest(checks: &mut Checks, when: &str, seen: &Sight) {
    let lowest = f64::from(LOWEST[0]) * 1e8;
    let what = format!("frequency of each CPU, {when}");
    checks.equal(what, Witness::Outside, &[lowest; 2], &seen.frequency_hertz);
    checks.equal(format!("queues in use, {when}"), Witness::Outside, &1, &seen.queues);
    let limited = seen.wake_up_limit_seconds.map(|limit| limit.is_some());
    let what = format!("CPUs that may not sleep deeply, {when}");
    checks.equal(what, Witness::Inside, &[true, false], &limited);
    let milliwatts = |watts: f64| (watts * 1e3).round() as u64;
    let (read, table) = (milliwatts(seen.power_watts), milliwatts(seen.table_watts));
    checks.equal(format!("milliwatts read, {when}"), Witness::Inside, &table, &read);
}

/// Offers more and more until every quantity has risen and both CPUs run at their fastest. A host
/// that leaves the guest too little time to receive so much need not reach that.
fn rises(machine: &mut Machine, checks: &mut Checks, rest: &Sight) -> Result<(), Error> {
    let mut rose = Rise::default();
    for rate in MUCH {
        let stretch = offer(machine, rate, TIME)?;
        let fastest = [0, 1].map(|cpu| stretch.range(|sight| sight.frequency_hertz[cpu])[1]);
        // All of them in one stretch; later ones do not count.
        if rose != Rise::ALL {
            rose = Rise::above(&stretch, rest);
        }
        checks.load.push(stretch);
        if rose == Rise::ALL && fastest == HIGHEST.map(|value| f64::from(value) * 1e8) {
            break;
        }
    }
    checks.equal("rise with the load", Witness::Outside, &Rise::ALL, &rose);
    Ok(())
}

/// Quantities that rose above rest during one and the same stretch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Rise {
    frequency_of_cpu_0: bool,
    frequency_of_cpu_1: bool,
    queues: bool,
    idle_limit: bool,
    watts: bool,
}

impl Rise {
    const ALL: Self = Self {
        frequency_of_cpu_0: true,
        frequency_of_cpu_1: true,
        queues: true,
        idle_limit: true,
        watts: true,
    };

    fn above(stretch: &Stretch, rest: &Sight) -> Self {
        let rose = |of: &dyn Fn(&Sight) -> f64| stretch.range(of)[1] > of(rest);
        let any = |so: &dyn Fn(&Sight) -> bool| stretch.sights.iter().any(so);
        Self {
            frequency_of_cpu_0: rose(&|sight| sight.frequency_hertz[0]),
            frequency_of_cpu_1: rose(&|sight| sight.frequency_hertz[1]),
            queues: rose(&|sight| sight.queues as f64),
            idle_limit: any(&|sight| sight.wake_up_limit_seconds[1].is_some()),
            watts: rose(&|sight| sight.power_watts),
        }
    }
}

/// Offers little until everything has come down again.
fn falls(machine: &mut Machine, checks: &mut Checks, rest: &Sight) -> Result<(), Error> {
    let end = Instant::now() + PATIENCE;
    let last = loop {
        let stretch = offer(machine, LITTLE, TIME)?;
        let last = stretch.sights.last().copied();
        checks.load.push(stretch);
        if last.as_ref() == Some(rest) || Instant::now() >= end {
            break last;
        }
    };
    at_rest(checks, "after the load", &last.unwrap_or(*rest));
    Ok(())
}

/// Checks that no frame was changed, none vanished in the router, and drops at full rings were
/// counted. Frames that the emulator loses before its card never reach the guest.
fn conserved(machine: &mut Machine, checks: &mut Checks, first: &Counted) -> Result<(), Error> {
    let odd: u64 = checks.load.iter().map(|stretch| stretch.counts.odd).sum();
    checks.equal("frames forwarded wrongly", Witness::Outside, &0, &odd);
    let little = checks.load.iter().filter(|stretch| stretch.offered_pps <= LITTLE);
    let lost: u64 = little.flat_map(|stretch| stretch.lost.values()).sum();
    checks.equal("frames lost under little load", Witness::Outside, &0, &lost);
    let end = Instant::now() + PATIENCE;
    let (vanished, unseen) = loop {
        let last = Counted::ask(machine)?;
        let new = |count: fn(&Counted) -> u64| count(&last).saturating_sub(count(first));
        let (received, transmitted) = (new(|it| it.received), new(|it| it.transmitted));
        let vanished = received.saturating_sub(transmitted + new(|it| it.dropped));
        let unseen = new(|it| it.driver).saturating_sub(received + new(|it| it.rings));
        // The router asks the kernel for its counts now and then.
        if vanished + unseen == 0 || Instant::now() >= end {
            break (vanished, unseen);
        }
        std::thread::sleep(Duration::from_millis(500));
    };
    checks.equal("frames that the router took and lost uncounted", Witness::Inside, &0, &vanished);
    let what = "frames that found no room in a ring and were not counted";
    checks.equal(what, Witness::Inside, &0, &unseen);
    Ok(())
}

/// Checks that the router did what its plan lists and nothing else, as far as files show it.
fn planned(
    machine: &mut Machine,
    checks: &mut Checks,
    plan: &serde_json::Value,
    before: &str,
) -> Result<(), Error> {
    let mut expected = BTreeMap::new();
    for write in plan["at_start"].as_array().into_iter().flatten() {
        let word = |key: &str| write[key].as_str().unwrap_or_default().to_owned();
        // A later value takes the place of an earlier one.
        let setting = word("setting");
        if setting.starts_with('/') {
            let file = setting.strip_prefix(CPUS).unwrap_or(&setting);
            expected.insert(file.to_owned(), word("value"));
        }
    }
    let files: Vec<&str> = expected.keys().map(String::as_str).collect();
    let text = machine.run(&format!("cd {CPUS}; grep . {} /dev/null", files.join(" ")), INSIDE)?;
    let pairs = |text: &str| -> BTreeMap<String, String> {
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        pairs.map(|(file, value)| (file.to_owned(), value.to_owned())).collect()
    };
    checks.equal("files as the plan says", Witness::Inside, &expected, &pairs(&text));
    let after = machine.run(SETTINGS, INSIDE)?;
    let changed = before.lines().zip(after.lines()).filter(|(before, after)| before != after);
    let files = changed.filter_map(|(_, after)| after.split_once(':').map(|(file, _)| file));
    let named = files.filter(|file| file.starts_with("cpu") || file.starts_with("/proc"));
    let unplanned: Vec<&str> = named.filter(|file| !expected.contains_key(*file)).collect();
    let none: Vec<&str> = Vec::new();
    checks.equal("files changed against the plan", Witness::Inside, &none, &unplanned);
    // By the names that the card's driver gives its interrupts.
    let line = "for i in eth0 eth1; do for q in rx-0 rx-1 tx-0 tx-1; do \
                cat /proc/irq/*/$i-$q/../smp_affinity_list; done; done | tr -d '\\n'";
    let cpus = machine.run(line, INSIDE)?;
    let what = "CPUs that take the interrupts of both cards' queues";
    checks.equal(what, Witness::Inside, &"01010101", &&*cpus);
    Ok(())
}

/// Checks that everything is as it was before the router governed.
fn restored(
    machine: &mut Machine,
    checks: &mut Checks,
    after: &str,
    resting: [u8; 2],
    table: &[u32],
    before: &str,
) -> Result<(), Error> {
    let registers = wait_for(machine, resting)?;
    let what = format!("frequencies restored after {after}");
    checks.equal(what, Witness::Outside, &resting, &registers);
    // The watchdog restores one after the other.
    let end = Instant::now() + PATIENCE;
    let different = loop {
        let different = differences(before, &machine.run(SETTINGS, INSIDE)?);
        if different.is_empty() || Instant::now() >= end {
            break different;
        }
    };
    let what = format!("settings that differ after {after}");
    checks.equal(what, Witness::Inside, &String::new(), &different);
    let same = machine.card_registers("eth0", RETA.0, RETA.1)? == table;
    let what = format!("indirection table of eth0 as before, after {after}");
    checks.equal(what, Witness::Outside, &true, &same);
    Ok(())
}
