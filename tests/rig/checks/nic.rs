//! `wattline bench nic` between two cards that a cable joins, each in a namespace of its own.
//!
//! The only processor counts instructions as its time: on a quiet host runs agree within 1 %, on a busy one
//! frames pass from card to card later. The machine's meter stands for that of a card too.

use super::ipsec::ip;
use super::lag::site::until;
use super::{Checks, INSIDE, Witness, sensors};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::rig::{Machine, Options, Rig};

/// Time for a measurement of all states, on a busy host.
const LIMIT: Duration = Duration::from_secs(600);
const METER: &str = "hwmon:power_meter-ACPI000D:00/power1";
const PAGE: &str = "/tmp/nic.html";
/// Runs of a state at most, runs that have to agree, and how well.
const MOST: usize = 6;
const AGREEING: usize = 3;
const SPREAD: f64 = 1.03;

/// Boots a machine and measures its cards with a meter and without one.
///
/// # Errors
/// When the machine fails; a check that does not hold is no error.
pub fn nic(rig: &Rig, wattline: &Path, checks: &mut Checks) -> Result<(), Error> {
    let lab = wattline.with_file_name("wattline-lab");
    let options = Options {
        programs: vec![("wattline", wattline.to_owned()), ("wattline-lab", lab)],
        cards: 2,
        joined: true,
        namespaces: true,
        counts_instructions: true,
        ..Options::default()
    };
    let mut machine = Machine::boot(rig, &options)?;
    checks.equal("model of the cards", Witness::Outside, &"igb", &machine.card);
    machine.run("mkdir -p /run/netns; ln -sf ../run /var/run", INSIDE)?;
    for (namespace, card, address) in [("near", "eth0", "10.0.0.1"), ("far", "eth1", "10.0.0.2")] {
        let lines = format!("netns add {namespace}\nlink set {card} netns {namespace}");
        ip(&mut machine, None, &lines)?;
        let lines = format!("address add {address}/24 dev {card}\nlink set {card} up");
        ip(&mut machine, Some(namespace), &lines)?;
    }
    until(&mut machine, "/bin/ip netns exec near ping -c 1 -W 1 10.0.0.2 > /dev/null")?;
    measure(&mut machine, true, checks)?;
    machine.run("rmmod acpi_power_meter", INSIDE)?;
    measure(&mut machine, false, checks)?;
    machine.power_off()
}

fn measure(machine: &mut Machine, metered: bool, checks: &mut Checks) -> Result<(), Error> {
    let meter = if metered { format!("--card-meter {METER}") } else { String::new() };
    let line = format!(
        "rm -f {PAGE}; wattline bench nic --from near/eth0 --to far/eth1 --duration 1s \
         --runs {MOST} --page {PAGE} {meter} --json > /tmp/nic.json"
    );
    machine.run(&line, LIMIT)?;
    let report = sensors::json(machine, "cat /tmp/nic.json")?;
    let page = machine.run(&format!("cat {PAGE}"), INSIDE)?;
    let (measured, with) =
        (&report["measured"], if metered { "with a meter" } else { "without a meter" });
    let missing = measured["meters_missing"].as_str().unwrap_or_default();
    let what = format!("{with}: a reason says that there is none: {missing}");
    checks.equal(what, Witness::Inside, &metered, &missing.is_empty());
    let cards = [&measured["drivers"], &measured["media"]].map(Value::to_string);
    let expected = [r#"["igb","igb"]"#, r#"["Twisted Pair","Twisted Pair"]"#].map(str::to_owned);
    checks.equal(format!("drivers and media {with}"), Witness::Inside, &expected, &cards);
    let states = elements(&measured["states"]);
    let names: Vec<&str> = states.iter().filter_map(|it| it["state"].as_str()).collect();
    let expected = ["idle", "forward", "back", "both"];
    checks.equal(format!("states {with}"), Witness::Inside, &expected.to_vec(), &names);
    for (state, name) in states.iter().zip(names) {
        judge(state, &format!("{name}, {with}"), metered, checks);
        let runs = 1..=elements(&state["runs"]).len();
        let listed = runs.clone().filter(|run| page.contains(&format!(">{name} {run}<"))).count();
        checks.equal(format!("{name}: runs on the page"), Witness::Inside, &runs.count(), &listed);
    }
    Ok(())
}

/// Judges a state by its runs alone.
fn judge(state: &Value, name: &str, metered: bool, checks: &mut Checks) {
    let runs: Vec<[f64; 5]> = elements(&state["runs"]).iter().map(figures).collect();
    let carried = !name.starts_with("idle");
    let ends = |count: usize| {
        let judged = |figure: usize| agree(&runs[..count], figure);
        count == MOST || ((!carried || judged(0) && judged(1)) && (!metered || judged(4)))
    };
    let end = (1..=runs.len()).find(|count| ends(*count));
    println!("{name}: bit/s, % CPU, forward, back, W: {runs:.1?}");
    checks.equal(format!("{name}: last run"), Witness::Inside, &end, &Some(runs.len()));
    let directions = [2, 3].map(|at| runs.iter().all(|run| run[at] > 0.0));
    let expected = [["forward", "both"], ["back", "both"]]
        .map(|states| states.iter().any(|state| name.starts_with(state)));
    checks.equal(format!("{name}: directions"), Witness::Inside, &expected, &directions);
    if carried && metered && end == Some(MOST) {
        checks.leave_out(format!("{name}: metrics"), "no three runs agree on this host".to_owned());
    }
    let has_metric = carried && metered && agree(&runs, 0) && agree(&runs, 4);
    let last = &runs[runs.len().saturating_sub(AGREEING)..];
    let mean = |at: usize| last.iter().map(|run| run[at]).sum::<f64>() / last.len() as f64;
    let ours = has_metric.then(|| mean(0) / 1e9 / mean(4));
    for metric in ["nic_performance_per_watt", "server_performance_per_watt"] {
        let theirs = state[metric].as_f64();
        let same = match (ours, theirs) {
            (Some(ours), Some(theirs)) => (theirs / ours - 1.0).abs() < 1e-9,
            (ours, theirs) => ours == theirs,
        };
        let what = format!("{name}: {metric} is {theirs:?}");
        checks.equal(what, Witness::Inside, &true, &same);
    }
}

/// Bits per second of both directions together, percent of a processor, bits per second of each
/// direction, and watts.
fn figures(run: &Value) -> [f64; 5] {
    let [forward, back] = [0, 1].map(|at| run["received_bps"][at].as_f64().unwrap_or(f64::NAN));
    let watts = run["powers"][0]["power_watts"].as_f64().unwrap_or(f64::NAN);
    [forward + back, run["cpu_percent"].as_f64().unwrap_or(f64::NAN), forward, back, watts]
}

/// Returns true if the last runs agree on a figure.
fn agree(runs: &[[f64; 5]], figure: usize) -> bool {
    let last = runs.iter().rev().take(AGREEING).map(|run| run[figure]);
    let (least, most) =
        last.fold((f64::MAX, 0.0_f64), |(least, most), it| (least.min(it), most.max(it)));
    runs.len() >= AGREEING && most <= least * SPREAD
}

fn elements(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
