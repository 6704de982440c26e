//! `wattline trial` and `probe --first-hour` on real drivers, beside a memcached under load: the trial
//! finds the saving that is computed outside, from the registers and the power table.

use super::copi::site::{Loading, Site};
use super::ipsec::write;
use super::knobs::SETTINGS;
use super::server::{HIGHEST, LOWEST, restored, wait_for};
use super::{Checks, INSIDE, Witness, power, prepare, sensors};
use std::path::Path;
use std::time::{Duration, Instant};
use wattline_testbed::Error;
use wattline_testbed::leftovers::can_build_namespaces;
use wattline_testbed::rig::{Machine, Options, Rig};

/// Holds the lowest frequency.
const SLOW: &str = "[govern]\npolicy = \"powersave-governor\"\n";
/// Counters that the guard of CPU pressure reads. Tasks of an emulated processor wait for the host,
/// which the guest counts as pressure: a busy host would make the guard return to the highest
/// frequency.
const WAITED: &str = "/proc/pressure/cpu /proc/schedstat";
/// Time for eight pairs of blocks and repeated ones on a busy host.
const PATIENCE: Duration = Duration::from_secs(900);
/// Time for all of it.
const LIMIT: Duration = Duration::from_secs(2400);
/// Samples after a change of the setting that do not count, as in the trial: a quarter of a block.
const WASHOUT: Duration = Duration::from_secs(5);
/// Requests a second, and seconds of one load.
const RATE: f64 = 20.0;
const LOAD: u64 = 30;

/// Boots a machine, and tries it at its highest and at its lowest frequency while it serves requests; without
/// root, while it is idle.
///
/// # Errors
/// When the machine fails; a check that does not hold is no error.
pub fn trial(rig: &Rig, wattline: &Path, checks: &mut Checks) -> Result<(), Error> {
    let site = can_build_namespaces("a trial under load").then(Site::build).transpose()?;
    let options = Options {
        programs: vec![("wattline", wattline.to_owned())],
        cards: 2,
        namespaces: true,
        memcached: true,
        limit: Some(LIMIT),
        taps: site.as_ref().map(|site| site.outside.name().to_owned()),
        ..Options::default()
    };
    let mut machine = Machine::boot(rig, &options)?;
    prepare(&mut machine)?;
    if let Some(site) = &site {
        site.connect(&mut machine)?;
    }
    let before = machine.run(SETTINGS, INSIDE)?;
    let resting = wait_for(&mut machine, HIGHEST)?;
    checks.equal("fast before the trial", Witness::Outside, &HIGHEST, &resting);
    compared(&mut machine, site.as_ref(), wattline, checks)?;
    restored(&mut machine, checks, "the trial", resting, &before)?;
    first_hour(&mut machine, checks)?;
    restored(&mut machine, checks, "the first hour", resting, &before)?;
    machine.power_off()
}

/// Watts under both settings, as they are computed outside.
#[derive(Default)]
struct Outside {
    /// Sum of samples and their number, of the machine as it is and of the setting.
    sums: [(f64, u32); 2],
    is_set: bool,
    since: Option<Instant>,
}

impl Outside {
    fn sample(&mut self, is_set: bool, registers: [u8; 2]) {
        let since = *self.since.get_or_insert_with(Instant::now);
        if is_set != self.is_set {
            (self.is_set, self.since) = (is_set, Some(Instant::now()));
        } else if since.elapsed() >= WASHOUT {
            let (sum, samples) = &mut self.sums[usize::from(is_set)];
            *sum += f64::from(power::milliwatts(registers)) / 1e3;
            *samples += 1;
        }
    }

    fn difference(&self) -> f64 {
        let [as_it_is, set] = self.sums.map(|(sum, samples)| sum / f64::from(samples));
        set - as_it_is
    }
}

fn compared(
    machine: &mut Machine,
    site: Option<&Site>,
    wattline: &Path,
    checks: &mut Checks,
) -> Result<(), Error> {
    write(machine, "/tmp/slow.toml", SLOW)?;
    machine.run(
        &format!("for i in {WAITED}; do [ ! -e $i ] || mount -o bind /dev/null $i; done"),
        INSIDE,
    )?;
    let line = "rm -f /tmp/trial.*; (wattline trial none /tmp/slow.toml --block 20s --pairs 8 --json \
                > /tmp/trial.out 2> /tmp/trial.log; echo $? > /tmp/trial.status) & true";
    machine.run(line, INSIDE)?;
    let mut outside = Outside::default();
    let (mut loading, mut failed, mut loads) = (None::<Loading>, 0, 0);
    let end = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(site) = site {
            if let Some(ended) = loading.take_if(|loading| !loading.lasts()) {
                failed += ended.end()?.failed;
            }
            loading.get_or_insert_with(|| {
                loads += 1;
                site.start(wattline, RATE, LOAD)
            });
        }
        // The setting is known inside alone; the watts are the registers'.
        let line = "cat /sys/devices/system/cpu/cpufreq/policy0/scaling_governor; \
                    cat /tmp/trial.status 2> /dev/null; true";
        let text = machine.run(line, INSIDE)?;
        let (governor, status) = text.split_once('\n').unwrap_or_default();
        if !status.trim().is_empty() || Instant::now() >= end {
            break status.trim().to_owned();
        }
        outside.sample(governor != "performance", machine.registers()?);
        std::thread::sleep(Duration::from_millis(500));
    };
    if let Some(loading) = loading {
        failed += loading.end()?.failed;
    }
    machine.run(&format!("for i in {WAITED}; do [ ! -e $i ] || umount $i; done"), INSIDE)?;
    println!("{}", machine.run("cat /tmp/trial.out /tmp/trial.log; true", INSIDE)?);
    checks.equal("exit code of the trial", Witness::Inside, &"0", &status.as_str());
    let [a, b] = outside.sums.map(|(_, samples)| samples);
    checks.equal("both settings are seen", Witness::Outside, &true, &(a > 50 && b > 50));
    let [least, most] = [LOWEST, HIGHEST].map(|at| f64::from(power::milliwatts(at)) / 1e3);
    let table = least - most;
    let difference = outside.difference();
    let range = 1.01 * table..0.9 * table;
    checks.within("watts saved by the registers", Witness::Outside, &range, difference);
    let result = sensors::json(machine, "cat /tmp/trial.out")?;
    let number = |key: &str| result[key].as_f64().unwrap_or(f64::NAN);
    let (lower, upper) = (number("difference_lower_watts"), number("difference_upper_watts"));
    // Samples outside do not fall on the edges of blocks.
    let near = 0.05 * table.abs();
    let range = lower - near..upper + near;
    checks.within("watts saved, within the trial's interval", Witness::Outside, &range, difference);
    checks.within(
        "width of that interval",
        Witness::Inside,
        &(0.0..0.2 * table.abs()),
        upper - lower,
    );
    let shown = result["difference_shown"].as_bool();
    checks.equal("the trial shows a difference", Witness::Inside, &Some(true), &shown);
    if site.is_some() {
        // A busy host lets some of them wait for a second.
        let share = failed as f64 / (RATE * f64::from(loads) * LOAD as f64);
        checks.within("share of requests that failed", Witness::Outside, &(0.0..0.05), share);
        let packets = result["means"]["b"]["packets_pps"].as_f64().unwrap_or(0.0);
        checks.equal("packets are counted", Witness::Inside, &true, &(packets > RATE));
    }
    Ok(())
}

/// Makes the report of a shortened first hour.
fn first_hour(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    let line = "cd /tmp; (wattline probe --first-hour first.tar.gz --block 4s > first.out 2> first.log; \
                echo $? > first.status) & true";
    machine.run(line, INSIDE)?;
    let wait = "for i in $(seq 100); do [ -s /tmp/first.status ] && break; sleep 1; done; true";
    for _ in 0..4 {
        machine.run(wait, INSIDE)?;
    }
    println!("{}", machine.run("cat /tmp/first.out /tmp/first.log; true", INSIDE)?);
    let status = machine.run("cat /tmp/first.status; true", INSIDE)?;
    checks.equal("exit code of the first hour", Witness::Inside, &"0", &status.trim());
    machine.run("cd /tmp; gunzip -c first.tar.gz | tar -xf -", INSIDE)?;
    let steps = sensors::json(machine, "cat /tmp/first/first-hour/steps.json")?;
    for step in steps.as_array().into_iter().flatten() {
        let command = step["command"].as_str().unwrap_or_default();
        let code = step["exit_code"].as_i64();
        // Tasks of an emulated processor wait for the host: a trial may end at its limit of pressure.
        let pressed = step["messages"].as_str().is_some_and(|it| it.contains("CPU pressure was"));
        if code == Some(65) && pressed {
            checks.leave_out(command.to_owned(), "pressure of the host".to_owned());
            continue;
        }
        checks.equal(format!("exit code of `{command}`"), Witness::Inside, &Some(0), &code);
    }
    Ok(())
}
