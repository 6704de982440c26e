//! A policy within bounds: the configuration's limits on idle states and moderation, and the
//! latency target, which takes precedence over savings.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use wattline_linux::sysfs::Tree;
use wattline_policy::{
    AskAgain, LatencyView, Looks, Observation, OperatingPoint, Platform, Policy, Reason, Trigger,
};
use wattline_units::{Span, Time};

use crate::config::{Config, Moderation};
use crate::hardware;
use crate::pressure;

/// Period of checking target and drops.
const CHECK: Span = Span::from_millis(100);
/// Time with all cores after a drop.
const AFTER_DROP: Span = Span::from_millis(1_000);

/// Rule of the operating point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The policy.
    Policy,
    /// The highest capacity, because the latency target is missed.
    Late,
    /// The highest capacity, because a source is silent: it is unknown whether the target is met.
    Silent,
    /// The safe point, because tasks wait longer for a CPU than usual.
    Pressure,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Policy, Self::Late, Self::Silent, Self::Pressure];

    /// Returns the reason of a decision by this rule.
    pub fn words(self) -> &'static str {
        match self {
            Self::Policy => "the policy decides",
            Self::Late => "the latency target was missed",
            Self::Silent => "a source of latency is silent",
            Self::Pressure => "tasks wait longer for a CPU than usual",
        }
    }
}

/// The present rule, for readers.
#[derive(Debug, Clone, Default)]
pub struct RuleSeen(Arc<AtomicU8>);

impl RuleSeen {
    /// Reads the rule.
    pub fn get(&self) -> Rule {
        Rule::ALL[usize::from(self.0.load(Ordering::Relaxed)).min(Rule::ALL.len() - 1)]
    }

    fn set(&self, rule: Rule) {
        self.0.store(rule as u8, Ordering::Relaxed);
    }
}

/// Bounds of the configuration on every operating point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Index of the deepest idle state.
    deepest: usize,
    /// The fixed time between interrupts, if configured.
    moderation: Option<Span>,
    /// Lowest and highest index of a frequency, if the frequencies are preferences.
    frequency: Option<(usize, usize)>,
}

impl Bounds {
    /// Creates the bounds of a configuration on a platform.
    pub fn new(config: &Config, platform: &Platform) -> Self {
        let within = |longest: Span| {
            platform.idle_states.iter().rposition(|state| state.exit_latency <= longest)
        };
        // The lightest state is always allowed: a CPU has to wait somehow.
        let deepest =
            config.idle_latency.map_or(platform.deepest(), |span| within(span).unwrap_or(0));
        let moderation = match config.moderation {
            Moderation::Fixed(span) => Some(span),
            Moderation::Keep | Moderation::Policy => None,
        };
        let preferences = hardware::parse(&config.policy).and_then(Result::ok);
        let frequency = preferences.map(|own| (own.calm.index(), own.busy.index()));
        Self { deepest, moderation, frequency }
    }

    /// Brings an operating point within the bounds.
    pub fn apply(&self, platform: &Platform, point: &mut OperatingPoint) {
        for core in &mut point.cores {
            core.idle_limit = core.idle_limit.min(self.deepest);
            if let Some((low, high)) = self.frequency {
                core.frequency = core.frequency.max(low).min(high);
            }
        }
        if let Some(span) = self.moderation {
            point.set_moderation(platform, span);
        }
    }

    /// Turns an operating point into the one of a rule that overrules the policy.
    pub fn overrule(&self, rule: Rule, platform: &Platform, point: &mut OperatingPoint) {
        let safe = self.frequency.map(|(_, busy)| busy);
        let safe = safe.filter(|_| rule == Rule::Pressure).unwrap_or(platform.fastest());
        point.set_frequency(safe.min(platform.fastest()));
        activate_all(platform, point);
        // A limit chosen by the policy does not follow the frequency.
        point.uncore = point.uncore.and(platform.uncore.len().checked_sub(1));
        point.cores.iter_mut().for_each(|core| core.idle_limit = 0);
        point.leave_moderation(platform);
    }
}

/// Makes all cores active if they can be chosen.
fn activate_all(platform: &Platform, point: &mut OperatingPoint) {
    let first = point.active.lowest().and_then(|core| point.cores.get(core));
    let Some(limit) = first.map(|core| core.idle_limit).filter(|_| platform.can.set_cores) else {
        return;
    };
    for core in platform.all_cores().without(point.active).iter() {
        point.cores.get_mut(core).into_iter().for_each(|core| core.idle_limit = limit);
    }
    point.active = platform.all_cores();
}

/// Drops of the CPUs' backlogs, and polls cut short with packets left.
pub struct Drops {
    tree: Tree,
    cpus: Vec<u32>,
    last: Option<u32>,
    looked: Time,
    until: Time,
    /// True while all cores are active because of drops.
    hold: bool,
}

impl Drops {
    /// Counts the drops of these CPUs.
    pub fn new(tree: &Tree, cpus: &[u32]) -> Self {
        let (tree, cpus) = (tree.clone(), cpus.to_vec());
        Self { tree, cpus, last: None, looked: Time::ZERO, until: Time::ZERO, hold: false }
    }

    /// Returns true if there were drops since the last look.
    fn look(&mut self, now: Time) -> bool {
        if self.last.is_some() && now.since(self.looked) < CHECK {
            return false;
        }
        self.looked = now;
        let all = wattline_napi::softnet::read(&self.tree);
        let own = self.cpus.iter().filter_map(|cpu| all.get(cpu));
        // Both counters wrap.
        let sum =
            own.fold(0_u32, |sum, cpu| sum.wrapping_add(cpu.dropped.wrapping_add(cpu.squeezed)));
        self.last.replace(sum).is_some_and(|last| last != sum)
    }
}

/// A latency target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Upper bound of the 99th percentile.
    pub p99: Span,
    /// Time without a miss before the policy decides again.
    pub hold: Span,
}

/// A policy within bounds.
pub struct Guarded {
    inner: Box<dyn Policy>,
    bounds: Bounds,
    target: Option<Target>,
    /// True if latency is measured and the policy uses it.
    uses_latency: bool,
    seen: RuleSeen,
    /// Last time at which another rule than the policy was in force.
    overruled: Option<Time>,
    /// The policy's point, and when it asks to be called again.
    wanted: Option<OperatingPoint>,
    ask: AskAgain,
    /// The target counts as missed until then.
    late_until: Time,
    /// Watches the tasks that wait for a CPU, if the kernel counts them.
    pressure: Option<pressure::Watch>,
    /// Watches drops, if cores can be chosen.
    drops: Option<Drops>,
    /// Reason for the safe point.
    risen: &'static str,
}

impl Guarded {
    /// Puts a policy within bounds. `measured` is true if there are sources of latency; `seen` is
    /// updated with the rule in force.
    pub fn new(
        inner: Box<dyn Policy>,
        bounds: Bounds,
        target: Option<Target>,
        measured: bool,
        seen: RuleSeen,
    ) -> Self {
        Self {
            bounds,
            target,
            uses_latency: measured && inner.looks_at().latency,
            inner,
            seen,
            overruled: None,
            wanted: None,
            ask: AskAgain::NEVER,
            late_until: Time::ZERO,
            pressure: None,
            drops: None,
            risen: "",
        }
    }

    /// Returns to the safe point when tasks wait longer for a CPU than usual.
    #[must_use]
    pub fn watching(mut self, gauge: Option<pressure::Gauge>) -> Self {
        self.pressure = gauge.map(pressure::Watch::new);
        self
    }

    /// Activates all cores as soon as packets are dropped.
    #[must_use]
    pub fn counting(mut self, drops: Option<Drops>) -> Self {
        self.drops = drops;
        self
    }

    /// Returns true while all cores are active since packets were dropped.
    fn dropped(&mut self, now: Time, platform: &Platform) -> bool {
        let Some(drops) = &mut self.drops else { return false };
        if drops.look(now) {
            drops.until = now + AFTER_DROP;
            // The policy goes on from there.
            self.wanted.iter_mut().for_each(|wanted| activate_all(platform, wanted));
        }
        drops.hold = now < drops.until;
        drops.hold
    }

    /// Returns the rule that the latency requires.
    fn rule(&mut self, now: Time, latency: Option<LatencyView>) -> Rule {
        // Without a view, a source is silent. A view without samples belongs to a service without
        // requests, which meets every target.
        let Some(view) = latency else {
            let matters = self.target.is_some() || self.uses_latency;
            return if matters { Rule::Silent } else { Rule::Policy };
        };
        let Some(target) = self.target else { return Rule::Policy };
        if view.samples > 0 && view.p99 > target.p99 {
            self.late_until = now + target.hold;
            return Rule::Late;
        }
        if now < self.late_until { Rule::Late } else { Rule::Policy }
    }

    /// Returns the latency while the policy's own points were in force: the effect of another rule
    /// must not be taken for theirs.
    fn own_latency(&self, now: Time, latency: Option<LatencyView>) -> Option<LatencyView> {
        let own = |view: &LatencyView| {
            self.overruled.is_none_or(|at| at < view.since(now).unwrap_or(now))
        };
        latency.filter(own)
    }
}

impl Policy for Guarded {
    fn looks_at(&self) -> Looks {
        let looks = self.inner.looks_at();
        if self.target.is_some() { looks.and_latency() } else { looks }
    }

    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        let now = seen.now;
        let risen = self.pressure.as_mut().and_then(|watch| watch.look(now));
        let rule = match (self.rule(now, seen.latency), risen) {
            (Rule::Policy, Some(words)) => {
                self.risen = words;
                Rule::Pressure
            }
            (rule, _) => rule,
        };
        self.seen.set(rule);
        if rule != Rule::Policy {
            self.overruled = Some(now);
        }
        let seen = &Observation { latency: self.own_latency(now, seen.latency), ..*seen };
        self.wanted.get_or_insert_with(|| point.clone());
        let dropped = self.dropped(now, seen.platform);
        let wanted = self.wanted.get_or_insert_with(|| point.clone());
        // Between its own times the policy is not called: its rules count periods.
        let due = seen.trigger != Trigger::Timer || now >= self.ask.at;
        if due {
            self.ask = self.inner.decide(seen, wanted);
        }
        point.copy_from(wanted);
        self.bounds.apply(seen.platform, point);
        if rule != Rule::Policy {
            self.bounds.overrule(rule, seen.platform, point);
        }
        if dropped {
            activate_all(seen.platform, point);
        }
        let mut ask = self.ask;
        if self.target.is_some() || self.drops.is_some() {
            ask.at = ask.at.min(now + CHECK);
        }
        if self.pressure.is_some() {
            ask.at = ask.at.min(now + pressure::PERIOD);
        }
        ask
    }

    fn reason(&self) -> Option<Reason> {
        let words = match self.seen.get() {
            Rule::Policy if self.drops.as_ref().is_some_and(|drops| drops.hold) => {
                "packets were dropped, or a poll was cut short while packets waited"
            }
            Rule::Policy => return self.inner.reason(),
            Rule::Pressure => self.risen,
            rule => rule.words(),
        };
        Some(Reason { words, rate: None, phase: None })
    }

    fn remark(&self) -> Option<String> {
        self.inner.remark()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_policies::POLICIES;
    use wattline_policy::{
        BuildContext, Can, CoreView, FrequencyDomain, IdleState, Queue, QueueView, build,
    };
    use wattline_units::Hertz;

    fn platform() -> Platform {
        let idle = |name: &str, micros| IdleState {
            name: name.into(),
            exit_latency: Span::from_micros(micros),
            exit_latency_measured: None,
        };
        Platform {
            cores: 2,
            frequencies: [1e9, 2e9, 3e9].map(Hertz).to_vec(),
            domain: FrequencyDomain::Core,
            frequency_transition: Span::ZERO,
            idle_states: vec![idle("C1", 1), idle("C3", 60), idle("C6", 130)],
            queues: (0..2).map(|core| Queue { port: 0, core }).collect(),
            ring_size: None,
            moderation: (Span::ZERO, Span::from_millis(1)),
            can: Can::EVERY_KNOB,
            ..Platform::BARE
        }
    }

    struct Bench {
        platform: Platform,
        policy: Guarded,
        seen: RuleSeen,
        point: OperatingPoint,
        cores: [CoreView; 2],
        now: Time,
    }

    impl Bench {
        fn new(config: &str) -> Self {
            let config = Config::parse(config, "test", POLICIES).unwrap();
            let platform = platform();
            let sampled = "ondemand:sampling_rate=100ms,up_threshold=70";
            let is_default = hardware::is_named(&config.policy);
            let config = Config {
                policy: if is_default { sampled.to_owned() } else { config.policy.clone() },
                ..config
            };
            let spec = POLICIES.parse(&config.policy).unwrap();
            let context = BuildContext { platform: &platform, server: None, packet: None, seed: 0 };
            let bounds = Bounds::new(&config, &platform);
            let target = config.latency_target.map(|p99| Target { p99, hold: config.latency_hold });
            let seen = RuleSeen::default();
            let policy =
                Guarded::new(build(&spec, &context).unwrap(), bounds, target, true, seen.clone());
            let point = OperatingPoint::full(&platform);
            let cores = [CoreView::default(); 2];
            Self { platform, policy, seen, point, cores, now: Time::ZERO }
        }

        /// Asks some milliseconds later, in which both cores slept.
        fn ask(&mut self, millis: u64, trigger: Trigger, latency: Option<LatencyView>) -> AskAgain {
            self.now += Span::from_millis(millis);
            self.cores.iter_mut().for_each(|core| core.asleep += Span::from_millis(millis));
            let queues = [QueueView::default(); 2];
            let observation = Observation {
                latency,
                ..Observation::new(self.now, &self.platform, trigger, &queues, &self.cores)
            };
            self.policy.decide(&observation, &mut self.point)
        }

        fn timer(&mut self, millis: u64, latency: Option<LatencyView>) -> (Rule, usize, usize) {
            self.ask(millis, Trigger::Timer, latency);
            (self.seen.get(), self.point.cores[1].frequency, self.point.cores[1].idle_limit)
        }
    }

    fn p99(micros: u64) -> Option<LatencyView> {
        let p99 = Span::from_micros(micros);
        Some(LatencyView { samples: 10, p99, ..LatencyView::default() })
    }

    #[test]
    fn first_drop_activates_all_cores_for_a_while() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/net")).unwrap();
        let softnet = |squeezed: u32, of_other: u32| {
            let line = |cpu: u32, squeezed: u32| {
                format!("10 0 {squeezed:x}{} {cpu:x} 0 0\n", " 0".repeat(9))
            };
            let text = line(0, squeezed) + &line(7, of_other);
            std::fs::write(root.path().join("proc/net/softnet_stat"), text).unwrap();
        };
        softnet(3, 0);
        let mut bench = Bench::new("[govern]\npolicy = \"queue-length\"\n");
        let drops = Drops::new(&Tree::at(root.path()), &[0, 1]);
        bench.policy = bench.policy.counting(Some(drops));
        assert!(bench.ask(0, Trigger::Start, None).at <= bench.now + CHECK);
        assert_eq!(bench.point.active.len(), 1);
        softnet(3, 5);
        bench.ask(200, Trigger::Timer, None);
        assert_eq!(bench.point.active.len(), 1, "a CPU that is not governed dropped");
        softnet(4, 5);
        bench.ask(200, Trigger::Timer, None);
        assert_eq!(bench.point.active.len(), 2);
        assert!(bench.policy.reason().unwrap().words.contains("dropped"));
        let below = Trigger::Streak { queue: 0, above: false };
        bench.ask(200, below, None);
        assert_eq!(bench.point.active.len(), 2, "whatever the policy says");
        bench.ask(900, Trigger::Timer, None);
        assert_eq!(bench.point.active.len(), 1, "as the policy said");
    }

    #[test]
    fn configuration_bounds_any_request_of_the_policy() {
        let mut bench = Bench::new("[govern]\nidle_latency = \"100us\"\nmoderation = \"80us\"\n");
        bench.ask(0, Trigger::Start, None);
        bench.timer(100, None);
        assert!(bench.point.cores.iter().all(|core| core.idle_limit == 1 && core.frequency == 0));
        assert_eq!(bench.point.moderation, [Span::from_micros(80); 2]);
        let mut lightest = Bench::new("[govern]\nidle_latency = \"0us\"\n");
        lightest.ask(0, Trigger::Start, None);
        assert_eq!(lightest.timer(100, None), (Rule::Policy, 0, 0));
    }

    /// A fixed time equal to the one found is held without the driver's logic.
    #[test]
    fn fixed_moderation_is_never_taken_for_the_found_one() {
        let text = "[govern]\nmoderation = \"80us\"\nlatency_target = \"1ms\"\n";
        let mut bench = Bench::new(text);
        let found = Span::from_micros(80);
        bench.platform.moderation_found = Some(found);
        bench.ask(0, Trigger::Start, p99(1));
        assert_eq!((&bench.point.moderation, bench.point.as_found[0]), (&vec![found; 2], false));
        assert_eq!(bench.timer(100, p99(1_001)).0, Rule::Late);
        assert!(bench.point.as_found[0], "the driver as it was, logic included");
    }

    const TARGET: &str = "[govern]\nlatency_target = \"1ms\"\nlatency_hold = \"1s\"\n";

    #[test]
    fn a_silent_source_leads_to_the_highest_capacity_and_a_service_without_requests_does_not() {
        let mut bench = Bench::new(TARGET);
        let ask = bench.ask(0, Trigger::Start, None);
        assert_eq!(ask.at, Time::ZERO + CHECK);
        assert_eq!(bench.timer(100, None), (Rule::Silent, 2, 0));
        let idle = Some(LatencyView::default());
        assert_eq!(bench.timer(100, idle), (Rule::Policy, 0, 2));
        assert_eq!(bench.timer(100, None), (Rule::Silent, 2, 0));
        assert_eq!(bench.point.moderation, [Span::ZERO; 2]);
        assert_eq!(bench.timer(100, p99(500)), (Rule::Policy, 0, 2));
    }

    #[test]
    fn rising_pressure_leads_to_the_safe_point_within_a_second_with_its_reason() {
        let waited = Arc::new(std::sync::Mutex::new(Span::ZERO));
        let mut bench = Bench::new("[govern]\n");
        let shown = Arc::clone(&waited);
        let gauge: pressure::Gauge = Box::new(move || pressure::Waited {
            pressure: Some(*shown.lock().unwrap()),
            delay: None,
        });
        bench.policy = bench.policy.watching(Some(gauge));
        bench.ask(0, Trigger::Start, None);
        for _ in 0..50 {
            assert_eq!(bench.timer(100, None), (Rule::Policy, 0, 2));
        }
        let mut passed = 0;
        while bench.seen.get() == Rule::Policy {
            *waited.lock().unwrap() += Span::from_millis(50);
            bench.timer(100, None);
            passed += 100;
        }
        assert!(passed <= 1000, "{passed} ms");
        assert_eq!((bench.point.cores[1].frequency, bench.point.cores[1].idle_limit), (2, 0));
        let reason = bench.policy.reason().unwrap();
        assert!(reason.words.contains("/proc/pressure/cpu"), "{reason}");
        // Calm again: the policy decides after the hold time of the safe point.
        assert_eq!(bench.timer(10_000, None).0, Rule::Pressure);
        assert_eq!(bench.timer(30_000, None).0, Rule::Policy);
    }

    #[test]
    fn missed_target_holds_the_capacity_for_a_while() {
        let mut bench = Bench::new(TARGET);
        bench.ask(0, Trigger::Start, p99(1));
        assert_eq!(bench.timer(100, p99(1_000)), (Rule::Policy, 0, 2), "kept");
        assert_eq!(bench.timer(100, p99(1_001)), (Rule::Late, 2, 0));
        assert_eq!(bench.timer(900, p99(10)), (Rule::Late, 2, 0));
        assert_eq!(bench.timer(100, p99(10)), (Rule::Policy, 0, 2));
    }

    impl Bench {
        /// Creates a bench with a policy that uses latency and requests the least of everything;
        /// also returns the latencies that it is shown.
        fn with_latency(config: &str) -> (Self, Arc<std::sync::Mutex<Vec<Option<u64>>>>) {
            let mut bench = Self::new(config);
            let shown: Arc<std::sync::Mutex<Vec<_>>> = Arc::default();
            let noted = Arc::clone(&shown);
            let looks = Looks::WHOLE.and_latency();
            bench.policy.inner = wattline_policy::testing::policy(looks, move |seen, point| {
                noted.lock().unwrap().push(seen.latency.map(|view| view.samples));
                point.set_frequency(0);
                AskAgain::at(seen.now + CHECK)
            });
            bench.policy.uses_latency = true;
            (bench, shown)
        }
    }

    /// As with Co-PI's correction.
    #[test]
    fn silence_leads_to_the_highest_capacity_if_the_policy_uses_latency() {
        let (mut bench, _) = Bench::with_latency("[govern]\n");
        bench.ask(0, Trigger::Start, None);
        assert_eq!(bench.timer(100, None), (Rule::Silent, 2, 0));
        assert_eq!(bench.timer(100, p99(1)).0, Rule::Policy);
        assert_eq!(bench.point.cores[1].frequency, 0);
        assert_eq!(bench.timer(100, None), (Rule::Silent, 2, 0));
    }

    #[test]
    fn policy_does_not_see_the_effect_of_another_rule() {
        let (mut bench, shown) = Bench::with_latency(TARGET);
        bench.ask(0, Trigger::Start, p99(1));
        let view = |micros: u64, samples: u64| {
            let window = Span::from_millis(300);
            p99(micros).map(|view| LatencyView { samples, window, ..view })
        };
        assert_eq!(bench.timer(100, view(1_001, 1)).0, Rule::Late);
        for samples in 2..11 {
            assert_eq!(bench.timer(100, view(10, samples)).0, Rule::Late);
        }
        // The policy is in force again; measurements then cover the last 300 ms.
        for samples in 11..17 {
            assert_eq!(bench.timer(100, view(10, samples)).0, Rule::Policy);
        }
        let seen: Vec<u64> = shown.lock().unwrap().iter().flatten().copied().collect();
        assert_eq!(seen, [10, 14, 15, 16], "at the start, and from a window later on");
    }

    #[test]
    fn the_policy_is_asked_at_its_own_times_only() {
        let text = "[govern]\npolicy = \"conservative:sampling_rate=1s,freq_step=40\"\n\
                    latency_target = \"1ms\"\n";
        let mut bench = Bench::new(text);
        bench.ask(0, Trigger::Start, p99(1));
        for _ in 0..9 {
            assert_eq!(bench.timer(100, p99(1)).1, 2);
        }
        assert_eq!(bench.timer(100, p99(1)).1, 1);
    }
}
