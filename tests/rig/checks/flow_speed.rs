//! Speed of established flows by the kernel's chains, its flowtable and XDP programs, in turn.
//!
//! The machine's only processor counts instructions as its time, so a busy host changes no figure.
//! The figures are no times of real hardware: no access misses a cache, and all instructions take
//! equally long.

use super::lag::site::{self, Router, end};
use super::nat::{RULES, build, lines_of, start, until_flows};
use super::{Checks, INSIDE, Witness};
use std::path::Path;
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::rig::{Machine, Options, Rig};

/// Time for all rounds, on a busy host.
const LIMIT: Duration = Duration::from_secs(4 * 3600);
/// Ticks a second in which /proc/stat counts.
const TICKS: f64 = 100.0;
const PATHS: [&str; 3] = ["chains", "flowtable", "XDP"];
const FIGURES: [&str; 4] =
    ["packets/s", "us a packet", "packets/s beside a busy loop", "us a packet beside it"];

/// Notes median, least and most of `times` rounds. The load consists of frames without socket buffers, as
/// drivers of cards make them (`send_by` is `live-frames`), or of socket buffers (`sockets`), and is counted
/// and dropped by a program. Figures include both.
///
/// # Errors
/// When the machine fails; a packet that took another path is a check that does not hold.
pub fn flow_speed(
    rig: &Rig,
    wattline: &Path,
    agent: &Path,
    (send_by, times): (&str, usize),
    checks: &mut Checks,
) -> Result<(), Error> {
    let lab = wattline.with_file_name("wattline-lab");
    let programs = [("wattline", wattline), ("agent", agent), ("wattline-lab", &lab)];
    let options = Options {
        programs: programs.map(|(name, path)| (name, path.to_owned())).to_vec(),
        nat: true,
        limit: Some(LIMIT),
        counts_instructions: true,
        ..Options::default()
    };
    let mut machine = Machine::boot(rig, &options)?;
    let machine = &mut machine;
    build(machine)?;
    // Without it, the kernel's paths take no frames without socket buffers.
    machine.run("ethtool -K c1 gro on", INSIDE)?;
    let router = start(machine)?;
    router.until(machine, "left")?;
    let lines = lines_of(&router, machine)?;
    router.stop(machine)?;
    let save = "(echo flush ruleset; nft list ruleset) > /tmp/whole.nft";
    machine.run(&format!("{lines}; {save}"), INSIDE)?;
    let mut found: [[Vec<f64>; 4]; 3] = Default::default();
    for _ in 0..times {
        for (path, found) in found.iter_mut().enumerate() {
            let rules = if path == 0 { RULES } else { "/tmp/whole.nft" };
            machine.run(&format!("nft -f {rules}"), INSIDE)?;
            let router = (path == 2).then(|| start(machine)).transpose()?;
            if let Some(router) = &router {
                until_flows(router, machine, checks)?;
            }
            let figures = measure(machine, send_by, path, router.as_ref(), checks)?;
            router.map(|router| router.stop(machine)).transpose()?;
            found.iter_mut().zip(figures).for_each(|(all, figure)| all.push(figure));
        }
    }
    for (path, found) in PATHS.iter().zip(found) {
        for (what, mut all) in FIGURES.iter().zip(found) {
            all.sort_by(f64::total_cmp);
            let median = f64::midpoint(all[(times - 1) / 2], all[times / 2]);
            let range = format!("{:.2} to {:.2}", all[0], all[times - 1]);
            let what = format!("rounds of {send_by} by {path}: {median:.2} {what} ({range})");
            checks.equal(what, Witness::Inside, &times, &all.len());
        }
    }
    Ok(())
}

/// Loads c1 as fast as it goes, without and then with a busy loop beside.
fn measure(
    machine: &mut Machine,
    send_by: &str,
    path: usize,
    router: Option<&Router>,
    checks: &mut Checks,
) -> Result<[f64; 4], Error> {
    let some = Counts::read(machine)?.packets + 1000.0;
    let load = format!(
        "(exec wattline-lab load packets --from near/p0 --to far/d0 \
         --mac $(cat /sys/class/net/c1/address) --source 10.1.0.2 --destination 10.2.0.2 \
         --rate 1M --duration 200s --size 64 --flows 64 --send-by {send_by} \
         --receive-by program --no-limits > /tmp/load.out 2>&1) & echo $! > /tmp/load.pid"
    );
    machine.run(&load, INSIDE)?;
    site::until(machine, &format!("{PACKETS} | awk '{{ exit !($1 > {some}) }}'"))?;
    // Its flows are established from now on.
    machine.run(&end("far", "answer 10.2.0.2:9 10.2.0.1 1024 64"), INSIDE)?;
    machine.run("sleep 0.5", INSIDE)?;
    let idle = Counts::grown(machine, router)?;
    machine.run(
        "(sh -c 'echo $$ > /tmp/loop.pid; while :; do :; done') & until [ -s /tmp/loop.pid ]; do \
         sleep 0.1; done",
        INSIDE,
    )?;
    let busy = Counts::grown(machine, router)?;
    machine.run("kill -KILL $(cat /tmp/load.pid /tmp/loop.pid); rm /tmp/loop.pid", INSIDE)?;
    let by = [idle.xdp, idle.stack].map(|some| some > 0.9 * idle.packets);
    let expected = [path == 2, path == 0];
    let figures = [idle.rate(), idle.time(), busy.rate(), busy.time()];
    let what = format!("{} by XDP, by the stack: {figures:.2?}", PATHS[path]);
    checks.equal(what, Witness::Inside, &expected, &by);
    Ok(figures)
}

/// Prints how many packets have come out.
const PACKETS: &str = "/bin/ip netns exec far awk '/d0:/ { print $3 }' /proc/net/dev";

/// Counts of the guest, or by how much they grew.
struct Counts {
    seconds: f64,
    /// Processor time without the busy loop, in ticks.
    ticks: f64,
    /// Packets that left, and packets that the kernel's stack and XDP programs forwarded.
    packets: f64,
    stack: f64,
    xdp: f64,
}

impl Counts {
    fn read(machine: &mut Machine) -> Result<Self, Error> {
        let line = format!(
            "cut -d' ' -f1 /proc/uptime; awk '/^cpu / {{ print $2 + $3 + $4 + $7 + $8 }}' /proc/stat; \
             awk '{{ print $14 + $15 }}' /proc/$(cat /tmp/loop.pid || echo self)/stat; {PACKETS}; \
             awk '/^Ip: [0-9]/ {{ print $7 }}' /proc/net/snmp"
        );
        let text = machine.run(&line, INSIDE)?;
        let numbers: Vec<f64> = text.split_whitespace().filter_map(|it| it.parse().ok()).collect();
        let [seconds, ticks, by_loop, packets, stack] = numbers[..] else {
            return Err(Error::Rig { what: format!("no counts: {text}"), console: String::new() });
        };
        Ok(Self { seconds, ticks: ticks - by_loop, packets, stack, xdp: 0.0 })
    }

    /// Counts for two seconds. The router, whose answer takes time, is asked before and after that.
    fn grown(machine: &mut Machine, router: Option<&Router>) -> Result<Self, Error> {
        let by_xdp = |machine: &mut Machine| -> Result<f64, Error> {
            let Some(router) = router else { return Ok(0.0) };
            Ok(router.stats(machine)?["xdp_forwarded"].as_f64().unwrap_or(0.0))
        };
        let before = by_xdp(machine)?;
        let first = Self::read(machine)?;
        machine.run("sleep 2", INSIDE)?;
        let last = Self::read(machine)?;
        Ok(Self {
            seconds: last.seconds - first.seconds,
            ticks: last.ticks - first.ticks,
            packets: last.packets - first.packets,
            stack: last.stack - first.stack,
            xdp: by_xdp(machine)? - before,
        })
    }

    fn rate(&self) -> f64 {
        self.packets / self.seconds
    }

    /// Microseconds of the processor for a packet.
    fn time(&self) -> f64 {
        self.ticks / TICKS / self.packets * 1e6
    }
}
