//! The policy `hardware`: processor or kernel control the frequency, and this policy sets their
//! preference.
//!
//! It changes slowly: the machine must be calm for half a minute before it may save, and one busy
//! second ends that.

use wattline_host::Preference;
use wattline_policy::{
    AskAgain, Observation, OperatingPoint, Platform, Policy, Reason, SpecError, SpecProblem,
    Trigger,
};
use wattline_units::{Span, Time};

/// Name of the policy.
pub(crate) const NAME: &str = "hardware";
/// Time between two decisions.
const PERIOD: Span = Span::from_millis(1_000);
/// Load of a CPU above which the machine is busy at once.
const BUSY: f64 = 0.6;
/// Load of every CPU below which the machine is calm.
const CALM: f64 = 0.3;
/// Time for which the machine must be calm.
const CALM_FOR: Span = Span::from_millis(30_000);

/// Reasons of its decisions.
const BUSY_WORDS: &str = "a CPU was busy for more than 60 % of a second";
const CALM_WORDS: &str = "no CPU was busy for more than 30 % of any second for half a minute";
/// Most changes of a setting per second: calm and busy again.
pub(crate) const CHANGES_PER_SECOND: f64 = 2.0 / 31.0;

/// Preferences of a busy and of a calm machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Preferences {
    /// While a CPU is busy, and at the start.
    pub busy: Preference,
    /// While all have been calm for half a minute.
    pub calm: Preference,
}

/// Returns true if the text of a policy names this one.
pub(crate) fn is_named(text: &str) -> bool {
    text.split(':').next() == Some(NAME)
}

/// Reads the text of this policy, NAME or NAME:busy=PREFERENCE,calm=PREFERENCE; `None` for another
/// policy.
pub(crate) fn parse(text: &str) -> Option<Result<Preferences, SpecError>> {
    let settings = text.strip_prefix(NAME)?;
    let settings = if settings.is_empty() { settings } else { settings.strip_prefix(':')? };
    let mut found =
        Preferences { busy: Preference::BalancePerformance, calm: Preference::BalancePower };
    let mut problems = Vec::new();
    for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
        let Some((key, value)) = setting.split_once('=') else {
            problems.push(SpecProblem::NoValue(setting.to_owned()));
            continue;
        };
        let place = match key {
            "busy" => &mut found.busy,
            "calm" => &mut found.calm,
            _ => {
                let why = format!("there is no parameter \"{key}\" (known: busy, calm)");
                problems.push(SpecProblem::Unsupported(why));
                continue;
            }
        };
        match Preference::find(value) {
            Some(preference) => *place = preference,
            None => {
                let names = Preference::ALL.map(Preference::name).join(", ");
                let why = format!("{key} = \"{value}\": must be one of {names}");
                problems.push(SpecProblem::Unsupported(why));
            }
        }
    }
    if found.calm > found.busy {
        let why = "calm must not be nearer to performance than busy".to_owned();
        problems.push(SpecProblem::Unsupported(why));
    }
    let text = text.to_owned();
    Some(if problems.is_empty() { Ok(found) } else { Err(SpecError { text, problems }) })
}

/// The policy.
pub(crate) struct Hardware {
    preferences: Preferences,
    looked: Time,
    /// Idle time of each core at the last decision.
    asleep: Vec<Span>,
    /// Time at which the machine became calm.
    calm_since: Option<Time>,
    words: &'static str,
}

impl Hardware {
    /// Creates the policy for a platform.
    pub fn new(preferences: Preferences, platform: &Platform) -> Self {
        let asleep = vec![Span::ZERO; platform.cores];
        let words = "governing has begun";
        Self { preferences, looked: Time::ZERO, asleep, calm_since: None, words }
    }

    /// Returns the points to which the policy leads, with the reasons.
    pub fn points(
        &self,
        platform: &Platform,
        full: &OperatingPoint,
    ) -> Vec<(String, OperatingPoint)> {
        let point = |words: &str, preference| {
            let mut point = full.clone();
            Self::begin(platform, &mut point);
            self.set(preference, platform, &mut point);
            (words.to_owned(), point)
        };
        let Preferences { busy, calm } = self.preferences;
        vec![point(CALM_WORDS, calm), point(BUSY_WORDS, busy)]
    }

    /// Leaves idle states and moderation to the kernel.
    fn begin(platform: &Platform, point: &mut OperatingPoint) {
        point.cores.iter_mut().for_each(|core| core.idle_limit = platform.deepest());
        point.leave_moderation(platform);
    }

    /// Returns the load of the busiest core since the last decision.
    fn load(&mut self, now: Time, seen: &Observation<'_>) -> f64 {
        let elapsed = now.since(self.looked).as_seconds();
        self.looked = now;
        let mut most: f64 = 0.0;
        for (before, core) in self.asleep.iter_mut().zip(seen.cores) {
            let asleep = (core.asleep - *before).as_seconds();
            *before = core.asleep;
            if elapsed > 0.0 {
                most = most.max(1.0 - asleep / elapsed);
            }
        }
        most
    }

    fn set(&self, preference: Preference, platform: &Platform, point: &mut OperatingPoint) {
        point.set_frequency(preference.index().min(platform.fastest()));
        // The uncore's own control decides below its upper limit.
        let highest = platform.uncore.len().checked_sub(1);
        point.uncore =
            if preference == self.preferences.busy { highest } else { highest.map(|_| 0) };
    }
}

impl Policy for Hardware {
    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        let now = seen.now;
        let platform = seen.platform;
        let load = self.load(now, seen);
        if seen.trigger == Trigger::Start {
            Self::begin(platform, point);
            self.set(self.preferences.busy, platform, point);
        } else if load >= CALM {
            self.calm_since = None;
            if load >= BUSY {
                self.words = BUSY_WORDS;
                self.set(self.preferences.busy, platform, point);
            }
        } else {
            let since = *self.calm_since.get_or_insert(now);
            if now.since(since) >= CALM_FOR {
                self.words = CALM_WORDS;
                self.set(self.preferences.calm, platform, point);
            }
        }
        AskAgain::at(now + PERIOD)
    }

    fn reason(&self) -> Option<Reason> {
        Some(Reason { words: self.words, rate: None, phase: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::profile;
    use std::collections::BTreeSet;
    use std::path::Path;
    use wattline_governor::machine::Machine;
    use wattline_governor::step::between;
    use wattline_host::{Host, HostOptions, Layout, NoWorkers, Scope};
    use wattline_knobs::{Machine as Settings, Plan};
    use wattline_linux::privileges::Rights;
    use wattline_linux::sysfs::Tree;
    use wattline_policies::POLICIES;
    use wattline_policy::CoreView;

    fn host(tree: &Tree, scope: Scope) -> Host<Plan<Settings>> {
        let options = HostOptions {
            tree: tree.clone(),
            layout: Layout { workers: 2, cpus: vec![0, 1], ports: Vec::new() },
            ring_size: None,
            busy_poll: false,
            sample: PERIOD,
            uncore: false,
            meters: false,
            rights: Rights::ALL,
            override_limits: false,
            may_raise: false,
            preferences: true,
            scope,
        };
        Host::new(options, Plan::new(Settings::new(tree)), Box::new(NoWorkers)).unwrap()
    }

    fn fixture(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../knobs/tests/fixtures").join(name)
    }

    /// Runs the profile `balanced` on a recorded machine.
    fn run(name: &str, loads: &[f64]) -> (BTreeSet<(String, String)>, usize) {
        run_profile("balanced", &Tree::at(fixture(name)), loads)
    }

    /// Runs a profile on a machine under the given loads, one per second. Returns the writes, as
    /// file and value, and their number.
    fn run_profile(
        profile: &str,
        tree: &Tree,
        loads: &[f64],
    ) -> (BTreeSet<(String, String)>, usize) {
        let config = Config::parse(profile::find(profile).unwrap().text, "test", POLICIES).unwrap();
        let mut host = host(tree, config.scope);
        let platform = host.platform().clone();
        let preferences = parse(&config.policy).expect("it is of this policy").unwrap();
        let mut policy = Hardware::new(preferences, &platform);
        let mut from = host.present();
        let mut cores = vec![CoreView::default(); platform.cores];
        let mut now = Time::ZERO;
        for (number, load) in [0.0].iter().chain(loads).enumerate() {
            let trigger = if number == 0 { Trigger::Start } else { Trigger::Timer };
            if number > 0 {
                now += PERIOD;
                let asleep = Span::from_seconds(1.0 - load);
                cores.iter_mut().for_each(|core| core.asleep += asleep);
            }
            let seen = Observation::new(now, &platform, trigger, &[], &cores);
            let mut to = from.clone();
            policy.decide(&seen, &mut to);
            to.bound(&platform, &from);
            let mut steps = Vec::new();
            between(&platform, &from, &to, &mut steps);
            for step in &steps {
                host.take(step);
            }
            from = to;
        }
        let file = |setting: String| setting.rsplit('/').next().unwrap_or_default().to_owned();
        let writes = host.knobs().writes().iter();
        let writes: Vec<_> =
            writes.map(|write| (file(write.setting.to_string()), write.value.clone())).collect();
        let count = writes.len();
        (writes.into_iter().collect(), count)
    }

    /// Under any load, nothing else is written: hardware and kernel thus stay in control of the
    /// frequency within the administrator's limits, without any model to show it.
    #[test]
    fn balanced_writes_preference_and_governor_alone() {
        let loads: Vec<f64> = (0..600).map(|second| f64::from(second * 37 % 101) / 100.0).collect();
        let days: Vec<f64> = (0..600).map(|second| f64::from(second / 60 % 2)).collect();
        for name in ["intel-pstate-hwp", "amd-pstate-epp", "acpi-cpufreq", "cppc"] {
            for loads in [&loads, &days] {
                let (writes, count) = run(name, loads);
                for (file, value) in &writes {
                    let allowed: &[&str] = match (file.as_str(), name) {
                        ("scaling_governor", "acpi-cpufreq") => &[],
                        ("scaling_governor", "cppc") => &["schedutil"],
                        ("scaling_governor", _) => &["powersave"],
                        ("energy_performance_preference", _) => {
                            &["balance_performance", "balance_power"]
                        }
                        _ => &[],
                    };
                    assert!(allowed.contains(&value.as_str()), "{name}: {file} = {value}");
                }
                // At most one change and one change back per minute, for each of two CPUs.
                assert!(count <= 2 * 2 * 11, "{name}: {count} writes in ten minutes");
            }
        }
    }

    /// Under every profile, processor and kernel stay in control of the frequency.
    #[test]
    fn no_profile_sets_a_frequency_or_a_limit() {
        let loads: Vec<f64> = (0..300).map(|second| f64::from(second / 60 % 2)).collect();
        for name in ["intel-pstate-hwp", "amd-pstate-epp", "acpi-cpufreq", "cppc"] {
            for profile in profile::PROFILES {
                let config = Config::parse(profile.text, profile.name, POLICIES).unwrap();
                if !config.scope.frequency {
                    continue;
                }
                let (writes, _) = run_profile(profile.name, &Tree::at(fixture(name)), &loads);
                for (file, value) in &writes {
                    let set = ["scaling_setspeed", "scaling_min_freq", "scaling_max_freq"];
                    let fixes = set.contains(&file.as_str()) || value == "userspace";
                    assert!(!fixes, "{} on {name}: {file} = {value}", profile.name);
                }
            }
        }
    }

    #[test]
    fn bias_stands_in_for_a_preference_and_turbo_is_off_while_calm() {
        let root = tempfile::tempdir().unwrap();
        let from = fixture("acpi-cpufreq");
        for directory in ["sys", "proc"] {
            let mut copy = std::process::Command::new("cp");
            let copied = copy.arg("-r").arg(from.join(directory)).arg(root.path()).status();
            assert!(copied.unwrap().success());
        }
        for cpu in [0, 1] {
            let file = format!("sys/devices/system/cpu/cpu{cpu}/power/energy_perf_bias");
            std::fs::write(root.path().join(file), "6\n").unwrap();
        }
        let boost = root.path().join("sys/devices/system/cpu/cpufreq/boost");
        std::fs::write(&boost, "1\n").unwrap();
        let tree = Tree::at(root.path());
        let calm = [0.1; 40];
        let values = |profile: &str, loads: &[f64]| {
            let (writes, _) = run_profile(profile, &tree, loads);
            let of = |name: &str| -> Vec<String> {
                let own = writes.iter().filter(|(file, _)| file == name);
                own.map(|(_, value)| value.clone()).collect()
            };
            (of("energy_perf_bias"), of("boost"))
        };
        let (bias, boost_values) = values("max-save", &calm[..20]);
        assert_eq!((bias, boost_values.len()), (vec!["8".to_owned()], 0));
        let (bias, boost_values) = values("max-save", &calm);
        assert!(bias.contains(&"15".to_owned()) && boost_values == ["0"], "{bias:?}");
        let busy: Vec<f64> = calm.iter().copied().chain([0.9]).collect();
        assert_eq!(values("max-save", &busy).1, ["0", "1"]);
        assert_eq!(values("balanced", &calm).1, Vec::<String>::new());
        assert_eq!(values("latency", &calm).0, Vec::<String>::new(), "6 saves more");
        // An administrator's decision to switch it off is respected.
        std::fs::write(&boost, "0\n").unwrap();
        assert_eq!(values("max-save", &busy).1, Vec::<String>::new());
    }

    #[test]
    fn busy_second_ends_the_saving_of_a_calm_half_minute() {
        let calm = [0.1; 40];
        let (writes, _) = run("amd-pstate-epp", &calm[..29]);
        assert!(writes.is_empty(), "it was found at balance_performance: {writes:?}");
        let (writes, _) = run("amd-pstate-epp", &calm);
        let preference = |value: &str| ("energy_performance_preference".into(), value.into());
        assert_eq!(writes, BTreeSet::from([preference("balance_power")]));
        let (_, once) = run("amd-pstate-epp", &calm);
        let busy: Vec<f64> = calm.iter().copied().chain([0.45, 0.9]).collect();
        let (writes, twice) = run("amd-pstate-epp", &busy);
        assert!(writes.contains(&preference("balance_performance")) && twice == 2 * once);
    }

    #[test]
    fn text_is_read_or_refused_with_the_allowed_values() {
        assert!(parse("ondemand").is_none() && parse("hardwarex").is_none());
        let read = parse("hardware:busy=performance,calm=power").unwrap().unwrap();
        assert_eq!((read.busy, read.calm), (Preference::Performance, Preference::Power));
        for (text, says) in [
            ("hardware:busy=fast", "balance_performance"),
            ("hardware:idle=power", "known: busy, calm"),
            ("hardware:busy", "not of the form"),
            ("hardware:busy=power,calm=performance", "must not be nearer"),
        ] {
            let error = parse(text).unwrap().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
