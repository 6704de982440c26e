//! The profile `balanced` in the request simulator, against each default of the kernel, on machines
//! and under loads drawn at random. The rule of simulated hardware P-states is assumed, see
//! [`wattline_policies::hardware_pstates`]; here each machine has other, hidden parameters of it.

use crate::config::Config;
use crate::hardware::{self, Hardware};
use crate::profile;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use wattline_host::Preference;
use wattline_policies::POLICIES;
use wattline_policies::hardware_pstates::{Assumed, Control, HardwarePstates};
use wattline_policy::moderated::{self, Choice};
use wattline_policy::{
    AskAgain, BuildContext, Observation, OperatingPoint, Platform, Policy, SpecError, Trigger,
    build,
};
use wattline_server::{RequestIdleState, RequestServer, ServerFile};
use wattline_sim::requests::{RequestReport, RequestSetting, run_requests_with};
use wattline_traffic::requests::{RequestSpec, Workload};
use wattline_units::{Hertz, Span, Time, Watts};

/// Control of the frequency of an ungoverned machine.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Found {
    /// The governor performance, with schedutil available.
    Performance,
    /// The governor schedutil.
    Schedutil,
    /// intel_pstate without hardware P-states.
    IntelPstate,
    /// Hardware P-states at `balance_performance`.
    Hardware(Control, Assumed),
    /// Hardware P-states under the governor performance.
    HardwarePerformance(Control, Assumed),
}

impl Found {
    const NAMES: [&str; 5] =
        ["performance", "schedutil", "intel_pstate", "hardware", "hardware, performance"];

    /// Returns the preference of the ungoverned machine.
    fn found(self) -> Preference {
        match self {
            Self::Performance | Self::HardwarePerformance(..) => Preference::Performance,
            _ => Preference::BalancePerformance,
        }
    }
}

/// Controller of a simulated machine under a preference.
enum Controller {
    /// The kernel's governors: the one at the highest preference, and the one below it.
    Kernel(Box<dyn Policy>, Box<dyn Policy>),
    Hardware(Box<HardwarePstates>, Control),
}

impl Controller {
    fn new(default: Found, context: &BuildContext<'_>) -> Result<Self, SpecError> {
        let kernel = |name: &str| build(&POLICIES.parse(name)?, context);
        Ok(match default {
            Found::Performance | Found::Schedutil => {
                Self::Kernel(kernel("performance")?, kernel("schedutil")?)
            }
            Found::IntelPstate => Self::Kernel(kernel("performance")?, kernel("intel-pstate")?),
            Found::Hardware(control, assumed) | Found::HardwarePerformance(control, assumed) => {
                Self::Hardware(
                    Box::new(HardwarePstates::new(assumed, 0, context.platform)),
                    control,
                )
            }
        })
    }
}

/// A governor of a profile: its policy, the platform and the point that it sees, and when it asks.
struct Governor(Hardware, Platform, OperatingPoint, Time);

impl Governor {
    fn new(profile: &str, platform: &Platform) -> Self {
        let levels = Preference::ALL.map(|preference| Hertz(preference.index() as f64));
        let platform = Platform { frequencies: levels.to_vec(), ..platform.clone() };
        let text = profile::find(profile).unwrap().text;
        let config = Config::parse(text, profile, POLICIES).unwrap();
        let preferences = hardware::parse(&config.policy).unwrap().unwrap();
        let policy = Hardware::new(preferences, &platform);
        let point = OperatingPoint::full(&platform);
        Self(policy, platform, point, Time::ZERO)
    }
}

/// A machine whose frequency is controlled under a preference, and the governor that sets it, if
/// any.
struct Machine {
    controller: Controller,
    governor: Option<Governor>,
    preference: Preference,
    controller_asks: Time,
}

impl Machine {
    fn new(
        default: Found,
        profile: Option<&str>,
        context: &BuildContext<'_>,
    ) -> Result<Self, SpecError> {
        let governor = profile.map(|name| Governor::new(name, context.platform));
        let (preference, controller_asks) = (default.found(), Time::ZERO);
        let controller = Controller::new(default, context)?;
        Ok(Self { controller, governor, preference, controller_asks })
    }
}

impl Policy for Machine {
    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        let now = seen.now;
        let before = self.preference;
        let mut next = Time::NEVER;
        if let Some(Governor(governor, platform, wanted, asks)) = &mut self.governor {
            let begins = *asks == Time::ZERO;
            if begins || now >= *asks {
                let trigger = if begins { Trigger::Start } else { seen.trigger };
                let seen = Observation { platform, trigger, ..*seen };
                *asks = governor.decide(&seen, wanted).at;
                self.preference = Preference::ALL[wanted.cores[0].frequency];
            }
            next = *asks;
        }
        let changed = seen.trigger == Trigger::Start || before != self.preference;
        let fastest = self.preference == Preference::Performance;
        let controller: &mut dyn Policy = match &mut self.controller {
            Controller::Kernel(performance, _) if fastest => performance.as_mut(),
            Controller::Kernel(_, follows) => follows.as_mut(),
            Controller::Hardware(processor, control) => {
                processor.prefer(control.epp(self.preference.name()).unwrap());
                &mut **processor
            }
        };
        if changed || now >= self.controller_asks {
            self.controller_asks = controller.decide(seen, point).at;
        }
        AskAgain::at(next.min(self.controller_asks))
    }

    fn remark(&self) -> Option<String> {
        match &self.controller {
            Controller::Hardware(processor, _) => processor.remark(),
            Controller::Kernel(..) => None,
        }
    }
}

/// A machine, its load and its default, drawn at random.
struct Drawn {
    server: RequestServer,
    requests: RequestSpec,
    default: Found,
    moderation: Choice,
    cores: usize,
}

impl Drawn {
    fn new(seed: u64, default: usize) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut between = |low: f64, high: f64| low + (high - low) * random.random::<f64>();
        let base = ["xeon-silver-4108", "xeon-gold-6426y", "xeon-platinum-8470"];
        let base = base[between(0.0, 3.0) as usize];
        let mut server = ServerFile::load(base).unwrap().requests().unwrap().clone();
        // Cores, frequencies and voltages: a floor, then a power of the frequency.
        let cores = between(4.0, 33.0) as usize;
        (server.processor.sockets, server.processor.cores_per_socket) = (1, cores);
        server.nic.queues_per_port = cores;
        let (slowest, fastest) = (between(0.4, 1.2), between(1.8, 4.2));
        let states = between(6.0, 20.0) as usize;
        let step = (fastest - slowest) / (states - 1) as f64;
        let frequencies: Vec<f64> =
            (0..states).map(|state| slowest + step * state as f64).collect();
        let chip = between(0.0, 1.0) < 0.25;
        server.processor.dvfs =
            if chip { wattline_server::DvfsDomain::PerChip } else { server.processor.dvfs };
        server.processor.frequency_transition = Span::from_seconds(between(5e-6, 1e-4));
        let (low, high, knee) = (between(0.6, 0.8), between(0.85, 1.3), between(0.2, 0.7));
        let part = |f: f64| ((f / fastest - knee) / (1.0 - knee)).max(0.0);
        let power = &mut server.power;
        power.volts = frequencies.iter().map(|f| low + (high - low) * part(*f).powf(1.3)).collect();
        power.dynamic_per_gigahertz = between(0.5, 3.0);
        power.static_per_square_volt = between(0.1, 3.0);
        power.package = Watts(between(8.0, 100.0));
        let (uncore, rise) = (between(5.0, 40.0), between(0.0, 40.0));
        power.uncore = frequencies.iter().map(|f| Watts(uncore + rise * part(*f))).collect();
        server.processor.frequencies = frequencies.into_iter().map(Hertz::from_gigahertz).collect();
        for state in &mut server.idle_states {
            draw_idle_state(state, between(0.5, 2.0), between(0.5, 2.0));
        }
        server.idle_states.sort_by_key(|state| (state.exit_latency, state.target_residency));
        let kernel = &mut server.kernel;
        kernel.interrupt_cycles *= between(0.5, 1.5);
        kernel.segment_cycles *= between(0.5, 1.5);
        kernel.outside = Span::from_seconds(between(10e-6, 100e-6));
        let workload = if between(0.0, 1.0) < 0.5 { Workload::Memcached } else { Workload::Nginx };
        let service = server.services.get_mut(workload.name()).unwrap();
        service.cycles *= between(0.5, 3.0);
        service.spread = between(0.0, 1.0);
        service.stall = Span::from_seconds(between(0.0, 0.3) * service.cycles / fastest / 1e9);
        let seconds = service.stall.as_seconds()
            + (service.cycles + server.kernel.segment_cycles + server.kernel.completion_cycles)
                / (fastest * 1e9);
        // Half of the machines are calm.
        let load = if between(0.0, 1.0) < 0.5 { between(0.01, 0.2) } else { between(0.1, 0.7) };
        let link = 0.9 * server.nic.link.0;
        let mut requests = RequestSpec::new(workload, load * cores as f64 / seconds);
        requests.rate = requests.rate.min(link / (8.0 * requests.mean_response_bytes()));
        requests.burst = if between(0.0, 1.0) < 0.2 { 1.0 } else { between(1.0, 30.0) };
        requests.gap = Span::from_seconds(between(1e-6, 50e-6));
        let moderation = match between(0.0, 3.0) as usize {
            0 => Choice::parse("ixgbe"),
            1 => Choice::parse("dim"),
            _ => Some(Choice::Fixed(Span::from_micros(2 * between(4.0, 50.0) as u64))),
        };
        let assumed = Assumed {
            least_busy: between(0.2, 0.6),
            most_busy: between(0.7, 1.0),
            half_life: Span::from_seconds(between(1e-3, 20e-3)),
            efficient: between(0.25, 0.7),
        };
        let control = if between(0.0, 1.0) < 0.5 { Control::Hwp } else { Control::AmdPstateEpp };
        let default = match default {
            0 => Found::Performance,
            1 => Found::Schedutil,
            2 => Found::IntelPstate,
            3 => Found::Hardware(control, assumed),
            _ => Found::HardwarePerformance(control, assumed),
        };
        let moderation = moderation.unwrap();
        Self { server, requests, default, moderation, cores: if chip { 4 } else { 2 } }
    }

    fn run(&self, profile: Option<&str>, seconds: [u64; 2]) -> RequestReport {
        let [warmup, duration] = seconds.map(|seconds| Span::from_millis(1_000 * seconds));
        let setting = RequestSetting {
            server: &self.server,
            requests: self.requests,
            policy: POLICIES.parse("performance").unwrap(),
            duration,
            warmup,
            seed: 1,
            cores: Some(self.cores),
        };
        let make = |context: &BuildContext<'_>| {
            let machine = Box::new(Machine::new(self.default, profile, context)?);
            Ok(moderated::make(machine, self.moderation, context).unwrap())
        };
        run_requests_with(&setting, make).unwrap()
    }
}

fn draw_idle_state(state: &mut RequestIdleState, exit: f64, residency: f64) {
    state.exit_latency = Span::from_seconds(state.exit_latency.as_seconds() * exit);
    let least = state.target_residency.as_seconds() * residency;
    state.target_residency = Span::from_seconds(least).max(state.exit_latency);
}

/// Relative changes under `balanced`: of energy per answered request, and of the 99th percentile.
#[derive(Debug, Clone, Copy)]
struct Change {
    energy: f64,
    p99: f64,
}

/// Runs a drawn machine without a governor and under `balanced`.
fn change(drawn: &Drawn, seconds: [u64; 2]) -> Option<Change> {
    let default = drawn.run(None, seconds);
    // A full machine drops requests at every frequency.
    if !default.sustained {
        return None;
    }
    let balanced = drawn.run(Some("balanced"), seconds);
    let of = |report: &RequestReport| {
        (report.energy_per_request_joules.unwrap(), report.latency_p99_seconds.unwrap())
    };
    let ((energy, p99), (energy_b, p99_b)) = (of(&default), of(&balanced));
    Some(Change { energy: energy_b / energy - 1.0, p99: p99_b / p99 - 1.0 })
}

/// Returns warm-up and duration. The run starts after the half minute of calm that `balanced` waits
/// for, if relevant, and lasts a minute then: a few bursts of requests would decide a shorter run.
fn seconds(default: usize) -> [u64; 2] {
    if default >= 3 { [33, 60] } else { [1, 6] }
}

/// Machines drawn for each default.
const MACHINES: u64 = 60;

/// Prints the changes of all drawn machines by default:
/// `cargo test --release -p wattline-govern --lib balanced_against -- --ignored --nocapture`. Power
/// is modelled, and the rule of hardware P-states assumed.
#[test]
#[ignore = "takes ten minutes of a release build"]
fn balanced_against_each_default_draws_no_more_energy() {
    println!("changes by balanced; power is modelled, the rule of hardware P-states assumed");
    println!("{:<24} machines  energy and p99, % (least, 10 %, median, 90 %, most)", "default");
    for (default, name) in Found::NAMES.into_iter().enumerate() {
        let drawn = (0..MACHINES).map(|seed| Drawn::new(40_000 + seed, default));
        let changes: Vec<Change> =
            drawn.filter_map(|drawn| change(&drawn, seconds(default))).collect();
        let quantiles = |of: fn(&Change) -> f64| {
            let mut all: Vec<f64> = changes.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            [0.0, 0.1, 0.5, 0.9, 1.0].map(|q| 100.0 * all[(q * (all.len() - 1) as f64) as usize])
        };
        let (energy, p99) = (quantiles(|change| change.energy), quantiles(|change| change.p99));
        println!("{name:<24} {:>8}  {energy:.1?}, {p99:.1?}", changes.len());
        assert!(energy[4] <= 0.5, "{name}: {energy:?}");
        // Defaults that already follow the load are left unchanged.
        let follows = ["schedutil", "intel_pstate"].contains(&name);
        assert!(!follows || energy[0] == 0.0 && p99[4] == 0.0, "{name}: {energy:?} {p99:?}");
    }
}

/// The same for a few machines and seconds.
#[test]
fn balanced_saves_under_the_governor_performance_and_leaves_schedutil_alone() {
    for seed in [3, 6] {
        let performance = change(&Drawn::new(40_000 + seed, 0), [1, 1]).unwrap();
        assert!(performance.energy < -0.05, "{performance:?}");
        let schedutil = change(&Drawn::new(40_000 + seed, 1), [1, 1]).unwrap();
        assert_eq!((schedutil.energy, schedutil.p99), (0.0, 0.0));
    }
}
