//! Frequencies: cores request, and each cpufreq policy gets the fastest request of its cores. Cores
//! request a preference instead if hardware or the kernel controls the frequency.

use super::envelope::{self, Preference};
use super::layout::Layout;
use super::writes::{Writes, worse};
use std::num::NonZeroU8;
use wattline_governor::machine::Taken;
use wattline_knobs::{Change, Knobs, cpufreq};
use wattline_linux::sysfs::Tree;
use wattline_policy::{CoreSet, FrequencyDomain};
use wattline_units::{Hertz, Span};

/// Distance of the steps if the driver has no list: a turbo ratio of Intel's, to which intel_pstate
/// rounds.
const STEP: f64 = 1e8;
/// Largest number of offered steps: no policy distinguishes finer ones.
const MOST_STEPS: usize = 32;

/// The frequencies of the workers' CPUs.
pub(super) struct Frequencies {
    /// Frequencies that a policy may choose, ascending.
    pub steps: Vec<Hertz>,
    pub domain: FrequencyDomain,
    pub can_set: bool,
    /// Time that a change takes according to the driver; zero if unknown.
    pub transition: Span,
    /// Settable cpufreq policies.
    domains: Vec<Domain>,
    /// Step that each core requests, an index into the steps.
    wants: Vec<usize>,
    /// True if hardware or the kernel controls the frequency, so that steps are preferences.
    pub preferences: bool,
}

/// A cpufreq policy with its cores.
struct Domain {
    /// Its range is the one in which it may be governed. Its changing values are read again before
    /// each use, as settings: other accesses to its files could hang.
    policy: cpufreq::Policy,
    cores: CoreSet,
    /// True if it may leave the limits that it had at the start.
    beyond: bool,
    /// True if its lower limit may rise and its governor change, to fix a frequency exactly.
    may_raise: bool,
    /// Limits last set by others.
    foreign: (Hertz, Hertz),
    /// Limits after this governor's last write.
    written: Option<(Hertz, Hertz)>,
}

impl Frequencies {
    /// Finds the settable policies; adds what is missing to `notes`. `beyond`: the limits set by an
    /// administrator may be left. `preferences`: hardware or the kernel controls the frequency.
    pub fn find(
        tree: &Tree,
        layout: &Layout,
        (beyond, preferences, may_raise): (bool, bool, bool),
        notes: &mut Vec<String>,
    ) -> Self {
        let (policies, broken) = cpufreq::find(tree);
        notes.extend(broken.iter().map(|why| format!("frequency: {why}")));
        let all = CoreSet::first(layout.workers);
        let of = |cpus: &[u32]| -> CoreSet {
            let own = layout.cpus.iter().enumerate().filter(|(_, cpu)| cpus.contains(cpu));
            own.map(|(core, _)| core).collect()
        };
        let pinned = !layout.cpus.is_empty();
        let served: Vec<(&cpufreq::Policy, CoreSet)> = policies
            .iter()
            .map(|policy| (policy, if pinned { of(&policy.cpus) } else { all }))
            .filter(|(_, cores)| !cores.is_empty())
            .collect();
        let none_found = served.is_empty();
        let (served, locked): (Vec<_>, Vec<_>) =
            served.into_iter().partition(|(policy, _)| writable(tree, policy.number));
        let union = |sets: &[(&cpufreq::Policy, CoreSet)]| {
            sets.iter().fold(CoreSet::EMPTY, |sum, (_, cores)| sum.union(*cores))
        };
        let covered = union(&served);
        let missing = all.without(covered).without(union(&locked));
        if none_found {
            notes.push(
                "frequency: no cpufreq policy for the governed CPUs (enable P-states in the firmware)"
                    .into(),
            );
        } else {
            let named = |cores: CoreSet| {
                let names = cores.iter().filter_map(|core| layout.cpus.get(core));
                names.map(u32::to_string).collect::<Vec<_>>().join(", ")
            };
            if !missing.is_empty() {
                notes.push(format!(
                    "frequency: CPU {} has no cpufreq policy (enable P-states in the firmware)",
                    named(missing)
                ));
            }
            if !locked.is_empty() {
                let cpus = if pinned { named(union(&locked)) } else { "all".to_owned() };
                notes.push(format!(
                    "frequency: scaling_max_freq may not be written (root, /sys not read-only): \
                     CPU {cpus}"
                ));
            }
            if !pinned {
                notes.push(
                    "frequency: workers are not pinned ([router] cpus), so all CPUs get one \
                     frequency"
                        .into(),
                );
            }
        }
        let domain = |(policy, cores): &(&cpufreq::Policy, CoreSet)| Domain {
            policy: if beyond {
                (*policy).clone()
            } else {
                policy.within(policy.minimum_hertz, policy.maximum_hertz)
            },
            cores: *cores,
            beyond,
            may_raise,
            foreign: (policy.minimum_hertz, policy.maximum_hertz),
            written: None,
        };
        let domains: Vec<Domain> = served.iter().map(domain).collect();
        let steps = match &domains[..] {
            [] => vec![nominal(tree)],
            domains if preferences => places(domains),
            domains => all_steps(domains),
        };
        if !preferences && domains.iter().any(|one| range(&one.policy) != range(&domains[0].policy))
        {
            notes.push(
                "frequency: the CPUs have different ranges; each gets the nearest frequency of its \
                 own"
                    .into(),
            );
        }
        let chooses = |one: &Domain| {
            Preference::ALL.iter().any(|choice| !envelope::changes(&one.policy, *choice).is_empty())
        };
        let can_set = steps.len() > 1 && (!preferences || domains.iter().any(chooses));
        if preferences {
            notes.extend(domains.iter().filter_map(|one| envelope::lacking(&one.policy)));
        } else if !domains.is_empty() && !can_set {
            notes.push(
                "frequency: minimum and maximum of the governed CPUs are equal, which leaves no \
                 choice (raise scaling_max_freq)"
                    .into(),
            );
        }
        let one_policy = domains.len() == 1 && covered == all;
        let chip = !pinned || one_policy || share_hardware(tree, layout);
        let groups: Vec<CoreSet> = domains.iter().map(|one| one.cores).collect();
        let domain = if chip { FrequencyDomain::Chip } else { domain_of(&groups, layout.workers) };
        if domain == FrequencyDomain::Core && groups.iter().any(|cores| cores.len() > 1) {
            notes.push(
                "frequency: some CPUs share a cpufreq policy, but not by groups of equal neighbours \
                 ([router] cpus); each gets the fastest request of its policy"
                    .into(),
            );
        }
        let fastest = steps.len() - 1;
        let wants = vec![fastest; layout.workers];
        let transition = (cpufreq::FREQUENCY.dwell.on)(tree);
        Self { steps, domain, can_set, transition, domains, wants, preferences }
    }

    /// Sets the frequency that a core requests.
    pub fn set<K: Knobs>(
        &mut self,
        (core, index): (usize, usize),
        active: CoreSet,
        writes: &mut Writes<K>,
    ) -> Taken {
        match self.wants.get_mut(core) {
            Some(want) if index < self.steps.len() => *want = index,
            _ => return Taken::Failed { why: format!("core {core} has no frequency {index}") },
        }
        self.settle(CoreSet::only(core), active, writes)
    }

    /// Gives the policies of some cores the fastest frequency that their active cores request now;
    /// without an active one, the fastest of all requests.
    pub fn settle<K: Knobs>(
        &mut self,
        cores: CoreSet,
        active: CoreSet,
        writes: &mut Writes<K>,
    ) -> Taken {
        let mut outcome = Taken::Done;
        for domain in &mut self.domains {
            if domain.cores.intersection(cores).is_empty() {
                continue;
            }
            let awake = domain.cores.intersection(active);
            let asking = if awake.is_empty() { domain.cores } else { awake };
            let wanted = asking.iter().filter_map(|core| self.wants.get(core)).max();
            let Some(&wanted) = wanted else { continue };
            let taken = if self.preferences {
                Preference::ALL.get(wanted).map(|preference| domain.prefer(*preference, writes))
            } else {
                self.steps.get(wanted).map(|target| domain.fix(*target, writes))
            };
            if let Some(taken) = taken {
                outcome = worse(outcome, taken);
            }
        }
        outcome
    }

    /// Records the step of a core without a write.
    pub fn adopt(&mut self, core: usize, index: usize) {
        self.wants.get_mut(core).into_iter().for_each(|want| *want = index);
    }

    /// Returns the frequency nearest to the one that the policy of a core is held at; its
    /// preference if it has no frequencies; `asked` if several look the same.
    pub fn held(&mut self, core: usize, asked: usize, knobs: &impl Knobs) -> Option<usize> {
        let domain = self.domains.iter_mut().find(|domain| domain.cores.contains(core))?;
        if self.preferences {
            domain.policy.refresh(knobs);
            let has = |index: &usize| domain.has(*index, knobs);
            return std::iter::once(asked).chain(0..Preference::ALL.len()).find(has);
        }
        let held = domain.policy.held(knobs)?.get();
        let far = |step: &Hertz| (step.get() - held).abs();
        let steps = self.steps.iter().enumerate();
        steps.min_by(|(_, a), (_, b)| far(a).total_cmp(&far(b))).map(|(index, _)| index)
    }
}

impl Domain {
    /// Gives a preference to hardware or the kernel's governor.
    fn prefer<K: Knobs>(&mut self, preference: Preference, writes: &mut Writes<K>) -> Taken {
        self.policy.refresh(&writes.knobs);
        writes.make(&envelope::changes(&self.policy, preference))
    }

    /// Returns true if its settings are those of this preference.
    fn has(&self, index: usize, knobs: &impl Knobs) -> bool {
        let changes = Preference::ALL.get(index).map(|one| envelope::changes(&self.policy, *one));
        let shows =
            |change: &Change| knobs.read(&change.setting).ok().as_ref() == Some(&change.value);
        changes.is_some_and(|changes| !changes.is_empty() && changes.iter().all(shows))
    }

    /// Fixes the frequency, as near as its range allows.
    fn fix<K: Knobs>(&mut self, target: Hertz, writes: &mut Writes<K>) -> Taken {
        let policy = &mut self.policy;
        // Read again each time: the order of the writes depends on the present limits.
        policy.refresh(&writes.knobs);
        // Others move the limits meanwhile, such as thermald and firmware.
        let present = (policy.minimum_hertz, policy.maximum_hertz);
        if self.written != Some(present) {
            self.foreign = present;
        }
        let narrower = (!self.beyond).then(|| policy.within(self.foreign.0, self.foreign.1));
        let wanted = narrower.as_ref().unwrap_or(policy);
        let (low, high) = range(wanted);
        let target = Hertz(target.get().min(high).max(low));
        let changes = if self.may_raise { wanted.run_at(target) } else { wanted.cap_at(target) };
        let changes = match changes {
            Ok(changes) => changes,
            Err(error) => return Taken::Failed { why: error.to_string() },
        };
        let taken = writes.make(&changes);
        // The governor `userspace` leaves the limits to others.
        if changes.iter().any(|change| change.setting == policy.upper_limit()) {
            policy.refresh(&writes.knobs);
            self.written = Some((policy.minimum_hertz, policy.maximum_hertz));
        }
        taken
    }
}

/// Returns a frequency for each preference, evenly over the range of all policies: the hardware may
/// choose any within the range under each of them.
fn places(domains: &[Domain]) -> Vec<Hertz> {
    let ranges = domains.iter().map(|one| range(&one.policy));
    let (low, high) = ranges.fold((f64::MAX, 0.0_f64), |(low, high), (own_low, own_high)| {
        (low.min(own_low), high.max(own_high))
    });
    // Equal limits still leave a choice of preference.
    let low = if low < high { low } else { high / 2.0 };
    let last = Preference::ALL.len() - 1;
    (0..=last).map(|place| Hertz(low + (high - low) * place as f64 / last as f64)).collect()
}

/// Returns the frequencies that at least one policy can run at, ascending.
fn all_steps(domains: &[Domain]) -> Vec<Hertz> {
    let mut all: Vec<Hertz> = domains.iter().flat_map(|one| steps(&one.policy)).collect();
    all.sort_by(|a, b| a.get().total_cmp(&b.get()));
    all.dedup();
    let most = MOST_STEPS + 2;
    if all.len() <= most || domains.iter().all(|one| one.policy.steps_hertz.len() == all.len()) {
        return all;
    }
    (0..most).filter_map(|place| all.get(place * (all.len() - 1) / (most - 1))).copied().collect()
}

/// Returns the selectable frequencies: the driver's list, or even steps over its range.
fn steps(policy: &cpufreq::Policy) -> Vec<Hertz> {
    if !policy.steps_hertz.is_empty() {
        let mut steps = policy.steps_hertz.clone();
        steps.dedup();
        return steps;
    }
    let (low, high) = range(policy);
    let tenths = ((high - low) / STEP).ceil() as usize;
    // Wider steps, still whole multiples, where the range is large.
    let width = STEP * tenths.div_ceil(MOST_STEPS - 1).max(1) as f64;
    let mut steps = vec![Hertz(high)];
    let mut next = (high / width).ceil() * width - width;
    while next > low {
        steps.push(Hertz(next));
        next -= width;
    }
    if low < high {
        steps.push(Hertz(low));
    }
    steps.reverse();
    steps
}

fn range(policy: &cpufreq::Policy) -> (f64, f64) {
    (policy.lowest_hertz.get(), policy.highest_hertz.get().max(policy.lowest_hertz.get()))
}

/// Returns the frequency domain for the cores of each cpufreq policy; one domain per core if the
/// groups are not neighbours of equal size.
fn domain_of(groups: &[CoreSet], cores: usize) -> FrequencyDomain {
    let size = groups.iter().map(|group| group.len()).max().unwrap_or(1);
    let cluster = u8::try_from(size).ok().and_then(NonZeroU8::new).map(FrequencyDomain::Cluster);
    let is_of = |domain: FrequencyDomain, group: &CoreSet| {
        group.iter().next().is_some_and(|first| domain.sharers(first, cores) == *group)
    };
    match cluster {
        Some(cluster) if size > 1 && groups.iter().all(|group| is_of(cluster, group)) => cluster,
        _ => FrequencyDomain::Core,
    }
}

/// Returns true if the hardware gives all workers' CPUs one frequency although the driver has a
/// policy for each (`freqdomain_cpus` of acpi-cpufreq): it then takes the fastest request.
fn share_hardware(tree: &Tree, layout: &Layout) -> bool {
    let Some(first) = layout.cpus.first() else { return false };
    let file = format!("/sys/devices/system/cpu/cpu{first}/cpufreq/freqdomain_cpus");
    tree.cpus(file).is_ok_and(|domain| layout.cpus.iter().all(|cpu| domain.contains(cpu)))
}

fn writable(tree: &Tree, policy: u32) -> bool {
    let file = format!("/sys/devices/system/cpu/cpufreq/policy{policy}/scaling_max_freq");
    super::access::may_write(tree, &file)
}

/// Returns the one frequency of a machine without a choice, as the machine reports it, for policies
/// that count cycles. Its name is preferred: `cpu MHz` can be the momentary speed.
fn nominal(tree: &Tree) -> Hertz {
    let text = tree.text("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.split(':').nth(1));
        value.map(str::trim)
    };
    let named = || {
        let gigahertz = field("model name")?.rsplit_once('@')?.1.trim().strip_suffix("GHz")?;
        Some(gigahertz.trim().parse::<f64>().ok()? * 1e3)
    };
    let shown = || field("cpu MHz")?.parse::<f64>().ok();
    let sound = |megahertz: &f64| (100.0..20_000.0).contains(megahertz);
    let megahertz = named().filter(sound).or_else(|| shown().filter(sound)).unwrap_or(1000.0);
    Hertz(megahertz * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_neighbours_are_clusters_and_uneven_groups_are_not() {
        let cluster = |size| FrequencyDomain::Cluster(NonZeroU8::new(size).unwrap());
        for (groups, cores, domain) in [
            (&[&[0, 1][..], &[2, 3]][..], 4, cluster(2)),
            (&[&[2, 3], &[0, 1]], 4, cluster(2)),
            (&[&[0, 1, 2, 3], &[4, 5]], 6, cluster(4)),
            (&[&[0], &[1], &[2]], 3, FrequencyDomain::Core),
            (&[&[0, 2], &[1, 3]], 4, FrequencyDomain::Core),
            (&[&[0, 1], &[2, 3, 4]], 5, FrequencyDomain::Core),
        ] {
            let groups: Vec<CoreSet> =
                groups.iter().map(|group| group.iter().copied().collect()).collect();
            assert_eq!(domain_of(&groups, cores), domain, "{groups:?}");
        }
    }

    #[test]
    fn momentary_speed_counts_only_if_the_name_gives_none() {
        let nominal_of = |cpuinfo: &str| {
            let root = tempfile::tempdir().unwrap();
            std::fs::create_dir(root.path().join("proc")).unwrap();
            std::fs::write(root.path().join("proc/cpuinfo"), cpuinfo).unwrap();
            nominal(&Tree::at(root.path())).0
        };
        let momentary = "cpu MHz\t\t: 3412.771";
        for (name, hertz) in [
            ("Intel(R) Xeon(R) Silver 4108 CPU @ 1.80GHz", 1.8e9),
            ("AMD EPYC", 3412.771e6),
            ("Odd @ 0.00GHz", 3412.771e6),
            ("Odd @ fastGHz", 3412.771e6),
        ] {
            let found = nominal_of(&format!("model name\t: {name}\n{momentary}\n"));
            assert!((found - hertz).abs() < 1.0, "{name}: {found}");
        }
        assert!((nominal_of("").abs() - 1e9).abs() < 1.0);
    }
}
