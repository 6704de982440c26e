//! Points of a characterisation on this machine: a running router or governor holds them, and a
//! generator that a command or a person controls loads it.

use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wattline::commands::duration;
use wattline::exit::ExitError;
use wattline::progress::Counted;
use wattline_daemon::socket::{self, Request};
use wattline_governor::lease::FREQUENCY_TOLERANCE;
use wattline_reproduce::characterise::{numbers, outer_and_middle};
use wattline_status::{Empty, HeldPoint, Power, Stats};
use wattline_study::fit::Row;
use wattline_units::{PacketsPerSecond, Source, Span};

/// Time after the last sign of life of this process at which a lease ends.
const LEASE_SECONDS: u32 = 15;
/// Interval at which a lease is renewed.
const RENEW: Duration = Duration::from_secs(1);
/// Interval between two polls of a meter.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Time limit for the machine to reach a point, and for its meter to have a figure.
const PATIENCE: Duration = Duration::from_secs(10);
/// Part of the offered rate that a saturated machine loses.
const LOST: f64 = 0.01;

/// Daemon, generator and times, for --on host.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// With --on host: control socket of the router or governor; not needed when only one runs.
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
    /// With --on host: offered rates, from none to more than the machine forwards, such as
    /// 0pps,100kpps,1Mpps.
    #[arg(long, value_delimiter = ',', value_name = "RATES", required_if_eq("on", "host"))]
    rates: Vec<PacketsPerSecond>,
    /// With --on host: shell command that offers WATTLINE_RATE_PPS packets per second until it is
    /// ended by SIGTERM; without it, you are asked to set the generator.
    #[arg(long, value_name = "COMMAND")]
    load_command: Option<String>,
    /// With --on host: time that a point settles.
    #[arg(long, default_value = "2s", value_parser = duration::parse)]
    settle: Span,
    /// With --on host: time that a point is measured.
    #[arg(long, default_value = "10s", value_parser = duration::parse)]
    measure: Span,
}

/// Measures all points; also returns the source of the watts.
///
/// # Errors
/// Fails when the daemon, the generator or the meter does not do its part.
pub fn measure(args: &Options) -> Result<(Vec<Row>, Source), ExitError> {
    let path = args.socket.clone().map_or_else(socket::find, Ok)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let lease = Lease { path: &path, owner: format!("characterise {}", std::process::id()), stop };
    let power = lease.power()?.power;
    let machine = lease.hold(power.cores, 0.0)?;
    let cores = match machine.can_set_cores {
        true => outer_and_middle(&numbers(machine.cores)),
        false => vec![machine.cores],
    };
    let frequencies = outer_and_middle(&machine.frequencies_hertz);
    let mut rows = Vec::new();
    let bar = Counted::new((args.rates.len() * cores.len() * frequencies.len()) as u64, "points");
    for rate in &args.rates {
        let _generator = Generator::start(args.load_command.as_deref(), *rate)?;
        for &cores in &cores {
            for &frequency in &frequencies {
                if let Some(row) = lease.measure(args, (cores, frequency), *rate, rows.len() + 1)? {
                    rows.push(row);
                }
                bar.step();
            }
        }
    }
    bar.end();
    Ok((rows, power.source))
}

/// Figures of one moment.
struct Moment {
    seconds: f64,
    /// True for figures of a router.
    routes: bool,
    power: Power,
}

/// Lease of a daemon's operating points, which ends with this process.
struct Lease<'a> {
    path: &'a Path,
    owner: String,
    /// Set by a signal, which ends the lease and the generator.
    stop: Arc<AtomicBool>,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let owner = self.owner.clone();
        // The lease expires if the daemon does not answer.
        let _ = socket::ask_for::<Empty>(self.path, Request::Release { owner });
    }
}

impl Lease<'_> {
    /// Holds a point, or renews its lease.
    fn hold(&self, cores: usize, hertz: f64) -> Result<HeldPoint, ExitError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(unavailable("interrupted: the policy decides again"));
        }
        let kilohertz = (hertz / 1e3).round() as u32;
        let (owner, seconds) = (self.owner.clone(), LEASE_SECONDS);
        Ok(socket::ask_for(self.path, Request::Hold { owner, cores, kilohertz, seconds })?)
    }

    fn power(&self) -> Result<Moment, ExitError> {
        let stats: Stats = socket::ask_for(self.path, Request::Stats)?;
        let power = stats.power().filter(|power| power.waits_because.is_none()).cloned();
        let power =
            power.ok_or_else(|| unavailable("nothing is governed; `stats` has the reason"))?;
        let seconds = power.model_seconds.unwrap_or(stats.uptime_seconds());
        let routes = matches!(stats, Stats::Router(_));
        Ok(Moment { seconds, routes, power })
    }

    /// Waits until the meter has a new figure.
    fn figure(&self) -> Result<(f64, Moment), ExitError> {
        let (begun, mut first) = (Instant::now(), None);
        while begun.elapsed() < PATIENCE {
            let now = self.power()?;
            match (now.power.energy_joules, first) {
                (Some(joules), Some(before)) if joules != before => return Ok((joules, now)),
                (Some(joules), None) => first = Some(joules),
                _ => {}
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Err(unavailable("no meter shows the machine's energy; `wattline meter list` shows meters"))
    }

    /// Holds a point for some time.
    fn keep(&self, cores: usize, hertz: f64, time: Span) -> Result<(), ExitError> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from(time) {
            self.hold(cores, hertz)?;
            std::thread::sleep(RENEW.min(Duration::from(time).saturating_sub(begun.elapsed())));
        }
        Ok(())
    }

    /// Measures one point; `None` if the machine holds a point other than the requested one.
    fn measure(
        &self,
        args: &Options,
        (cores, hertz): (usize, f64),
        rate: PacketsPerSecond,
        line: usize,
    ) -> Result<Option<Row>, ExitError> {
        let begun = Instant::now();
        let mut held = self.hold(cores, hertz)?;
        while held.under_way && begun.elapsed() < PATIENCE {
            std::thread::sleep(POLL_INTERVAL);
            held = self.hold(cores, hertz)?;
        }
        let near = |found: &f64| (found / hertz - 1.0).abs() <= FREQUENCY_TOLERANCE;
        if held.cores_active != cores || !held.frequency_hertz.iter().all(near) {
            eprintln!(
                "left out: {cores} cores at {:.3} GHz: the machine holds {} at {:?} Hz",
                hertz * 1e-9,
                held.cores_active,
                held.frequency_hertz
            );
            return Ok(None);
        }
        self.keep(cores, hertz, args.settle)?;
        let (from_joules, from) = self.figure()?;
        self.keep(cores, hertz, args.measure)?;
        let (to_joules, to) = self.figure()?;
        let seconds = to.seconds - from.seconds;
        if seconds <= 0.0 || to.power.energy_unmetered_seconds > from.power.energy_unmetered_seconds
        {
            return Err(unavailable("the meter or the governor was interrupted; run it again"));
        }
        let counted =
            |of: fn(&Power) -> u64| of(&to.power).saturating_sub(of(&from.power)) as f64 / seconds;
        let arrived = counted(|power| power.offered_packets);
        // A governor without a router only counts packets that its CPUs take from the cards.
        let throughput_pps =
            if from.routes { counted(|power| power.forwarded_packets) } else { arrived };
        // Interfaces drop packets that the governor does not count.
        let lost = to.power.scale.is_none() && throughput_pps < (1.0 - LOST) * rate.0;
        let offered = if lost { rate.0 } else { arrived };
        Ok(Some(Row {
            line,
            frequency_hertz: hertz,
            cores,
            throughput_pps,
            power_watts: (to_joules - from_joules) / seconds,
            offered_pps: Some(offered.max(throughput_pps)),
        }))
    }
}

/// A generator at one rate; its command ends with it.
struct Generator(Option<Child>);

impl Generator {
    fn start(command: Option<&str>, rate: PacketsPerSecond) -> Result<Self, ExitError> {
        let Some(command) = command else {
            eprint!("set the generator to {:.0} packets per second, and press Enter: ", rate.0);
            let _ = std::io::stderr().flush();
            let read = std::io::stdin().lock().read_line(&mut String::new());
            return match read {
                Ok(bytes) if bytes > 0 => Ok(Self(None)),
                _ => Err(ExitError::new(
                    ExitError::USAGE,
                    "standard input ended, so the generator cannot be set: give --load-command",
                )),
            };
        };
        if rate.0 <= 0.0 {
            return Ok(Self(None));
        }
        let child = Command::new("sh")
            .args(["-c", command])
            .env("WATTLINE_RATE_PPS", format!("{:.0}", rate.0))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn();
        let child = child.map_err(|error| unavailable(&format!("--load-command: {error}")))?;
        Ok(Self(Some(child)))
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = kill_process_group(Pid::from_child(child), Signal::TERM);
            let _ = child.wait();
        }
    }
}

fn unavailable(why: &str) -> ExitError {
    ExitError::new(ExitError::UNAVAILABLE, why)
}
