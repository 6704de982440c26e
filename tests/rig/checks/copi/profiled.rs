//! `wattline profile` inside: its points, and the curve of latency against the moderation period.

use super::super::ipsec::write;
use super::super::{Checks, INSIDE, Witness, sensors};
use super::site::{CONNECTIONS, LOAD, SERVER, serve};
use serde_json::Value;
use std::time::{Duration, Instant};
use wattline_testbed::Error;
use wattline_testbed::rig::Machine;

/// Path of the tables, inside.
pub const TABLES: &str = "/tmp/tables.csv";
/// The greatest load, in requests a second of both cores; the least is half of it.
pub const RATE: f64 = 60.0;
/// Time for all points, on a busy machine.
const LIMIT: Duration = Duration::from_secs(1200);
/// Attempts to begin or to continue the profile.
const TRIES: u32 = 100;

/// Results of the profile.
pub struct Profile {
    points: Vec<Value>,
    periods_us: Vec<f64>,
}

impl Profile {
    /// A percentile in microseconds by load, frequency and period; that of the driver's own
    /// moderation without the latter two.
    pub fn latency(&self, which: &str, load: u64, at: Option<(u64, u64)>) -> f64 {
        let wanted = at.map_or(Value::Null, |(state, period)| Value::from(vec![state, period]));
        let found = self.points.iter().find(|one| one["load"] == load && one["point"] == wanted);
        found.and_then(|one| one[which].as_f64()).unwrap_or(f64::NAN)
    }

    /// The moderation periods that were profiled.
    pub fn periods_us(&self) -> &[f64] {
        &self.periods_us
    }
}

/// Profiles two loads by the slowest and the fastest state and three periods.
pub fn check(machine: &mut Machine, checks: &mut Checks) -> Result<Profile, Error> {
    let before = machine.run(super::super::knobs::SETTINGS, INSIDE)?;
    write(machine, "/tmp/profile.toml", "[govern]\ninterfaces = [\"eth0\"]")?;
    let line = format!(
        "wattline --json profile memcached {SERVER} --netns {LOAD} --rate {RATE} --loads 0.5,1 \
         --connections {CONNECTIONS} --keys 100 --states 2 --periods 3 --warmup 200ms \
         --duration 2s --within 0.5 --repetitions 3 --config /tmp/profile.toml --out {TABLES}"
    );
    let report = to_its_end(machine, &line, TABLES)?;
    let points = sensors::json(machine, &format!("cat {TABLES}.points.json"))?;
    let numbers = |key: &str| -> Vec<f64> {
        points["head"][key].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
    };
    let profile = Profile {
        points: points["points"].as_array().cloned().unwrap_or_default(),
        periods_us: numbers("periods_us"),
    };
    checks.equal("points profiled", Witness::Inside, &Some(14), &report["points"].as_u64());
    let source = report["power_source"].as_str().unwrap_or_default();
    checks.equal("the profile's watts", Witness::Inside, &"measured, gold", &source);
    println!("{}", curve(&profile));
    // Requests that arrive within the longest period after an interrupt wait for the next: one in
    // ten at this load.
    let last = profile.periods_us.len().saturating_sub(1) as u64;
    let p95 = |state: u64, at: u64| profile.latency("p95_us", 1, Some((state, at)));
    let wait = profile.periods_us.last().copied().unwrap_or(f64::NAN) / 4.0;
    // A frequency has no effect on speed here: differences between two come from the host.
    let noise = [0, 1].map(|at| (p95(0, at) - p95(2, at)).abs()).into_iter().fold(0.0, f64::max);
    for state in [0, 2] {
        let what = format!("p95 in us with the longest period, over the shortest; state {state}");
        if noise > wait {
            checks.leave_out(
                what,
                format!("this host's own noise of {noise:.0} us hides a wait of {wait:.0} us"),
            );
            continue;
        }
        let range = wait..f64::INFINITY;
        checks.within(what, Witness::Inside, &range, p95(state, last) - p95(state, 0));
    }
    // The emulated meter: 138.9 W at the fastest, 127.8 W at the slowest.
    for (state, watts) in [(0, 127.0..130.0), (2, 137.0..140.0)] {
        let own = profile.points.iter().filter(|one| one["point"][0] == state);
        let all: Vec<f64> = own.filter_map(|one| one["power_watts"].as_f64()).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        checks.within(format!("profiled watts of state {state}"), Witness::Inside, &watts, mean);
    }
    died(machine, checks)?;
    let tables = machine.run(&format!("cat {TABLES}"), INSIDE)?;
    let reported = tables.contains("# arrivals_per_request = [");
    checks.equal("packets per request are in the tables", Witness::Inside, &true, &reported);
    let after = machine.run(super::super::knobs::SETTINGS, INSIDE)?;
    let different = super::super::knobs::differences(&before, &after);
    let what = "settings that differ after the profile";
    checks.equal(what, Witness::Inside, &String::new(), &different);
    Ok(profile)
}

/// Runs a profile and prints its progress. If the generator inside cannot keep its rate on a busy
/// host, the profile is continued.
fn to_its_end(machine: &mut Machine, line: &str, out: &str) -> Result<Value, Error> {
    machine.run(
        &format!(
            "rm -f /tmp/profile.*d; (for i in $(seq {TRIES}); do echo $i > /tmp/profile.tried; \
             {line} > /tmp/profile.out 2> /tmp/profile.log && break; sleep 1; done; \
             touch /tmp/profile.ended) > /dev/null 2>&1 & true"
        ),
        INSIDE,
    )?;
    let begun = Instant::now();
    let mut reported = String::new();
    loop {
        let seen = machine.run(
            &format!(
                "echo $(grep -c '\"held_us\"' {out}.points.json 2> /dev/null) points, try \
                 $(cat /tmp/profile.tried); tail -n 1 /tmp/profile.log; ls /tmp/profile.ended \
                 2> /dev/null; true"
            ),
            INSIDE,
        )?;
        if seen.trim_end().ends_with("/tmp/profile.ended") {
            break;
        }
        if seen != reported {
            println!("profile after {} s: {}", begun.elapsed().as_secs(), seen.trim());
            reported = seen;
        }
        if begun.elapsed() > LIMIT {
            let what = format!("the profile did not end within {} s: {reported}", LIMIT.as_secs());
            return Err(Error::Rig { what, console: String::new() });
        }
        std::thread::sleep(Duration::from_secs(5));
    }
    let text = machine.run("cat /tmp/profile.out", INSIDE)?;
    println!("profiled in {} s", begun.elapsed().as_secs());
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

/// A server that dies ends its profile, which continues once the server is back. A generator that
/// does not keep its rate on a busy host ends it, too; that is tried again.
fn died(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    const OUT: &str = "/tmp/died.csv";
    let profile = format!(
        "wattline --json profile memcached {SERVER} --netns {LOAD} --rate {RATE} --loads 1 --keys 100 \
         --connections 4 --states 1 --periods 3 --warmup 200ms --duration 1s --within 1 \
         --repetitions 3 --config /tmp/profile.toml --out {OUT}"
    );
    let line = format!(
        "rm -f {OUT}* /tmp/died.*; (until {profile} > /tmp/died.out 2> /tmp/died.log; s=$?; \
         [ -e /tmp/died.killed ] || [ $s != 69 ]; do sleep 1; done; echo $s > /tmp/died.status) & \
         until [ -e {OUT}.points.json ] || [ -s /tmp/died.status ]; do sleep 0.1; done; \
         touch /tmp/died.killed; kill $(cat /tmp/memcached.pid); \
         until [ -s /tmp/died.status ]; do sleep 0.1; done; cat /tmp/died.status"
    );
    let status = machine.run(&line, LIMIT)?;
    let what = "exit code of a profile whose server died";
    checks.equal(what, Witness::Inside, &"66", &status.trim());
    let log = machine.run("cat /tmp/died.log", INSIDE)?;
    let reported = log.contains("run the same command again to continue");
    checks.equal("the way to continue is reported", Witness::Inside, &true, &reported);
    serve(machine)?;
    let again = to_its_end(machine, &profile, OUT)?;
    checks.equal("points once it is back", Witness::Inside, &Some(4), &again["points"].as_u64());
    Ok(())
}

/// Prints the curve.
fn curve(profile: &Profile) -> String {
    let mut text = String::from("rps    GHz  period (us)   p50 (us)   p95 (us)\n");
    for one in &profile.points {
        let load = if one["load"] == 0 { RATE / 2.0 } else { RATE };
        let (gigahertz, period) = match one["point"].as_array() {
            None => (3.3, "driver's".to_owned()),
            Some(at) => {
                let fast = at[0] != 0;
                let period = at[1].as_u64().and_then(|at| profile.periods_us.get(at as usize));
                (if fast { 3.3 } else { 1.6 }, period.map_or(String::new(), |us| us.to_string()))
            }
        };
        let micros = |name: &str| one[name].as_f64().unwrap_or(f64::NAN);
        let (p50, p95) = (micros("p50_us"), micros("p95_us"));
        text += &format!("{load:<6} {gigahertz}  {period:>11}  {p50:>9.0}  {p95:>9.0}\n");
    }
    text
}
