//! Frequencies: cores ask, and each cpufreq policy gets the fastest that one of its own wants.

use super::layout::Layout;
use super::writes::{Writes, worse};
use std::num::NonZeroU8;
use wattline_governor::machine::Taken;
use wattline_knobs::{Knobs, cpufreq};
use wattline_linux::sysfs::Tree;
use wattline_policy::{CoreSet, FrequencyDomain};
use wattline_units::{Hertz, Span};

/// Distance of the steps where the driver has no list of its own; a turbo ratio of Intel's, and
/// what intel_pstate rounds to.
const STEP: f64 = 1e8;
/// No more steps than this are offered: no policy tells finer ones apart.
const MOST_STEPS: usize = 32;

/// The frequencies of the workers' CPUs.
pub(super) struct Frequencies {
    /// What a policy may choose, ascending.
    pub steps: Vec<Hertz>,
    pub domain: FrequencyDomain,
    pub can_set: bool,
    /// How long a change takes, as the driver says; zero where it does not.
    pub transition: Span,
    /// cpufreq policies with the cores that run there. What changes of them is read again before
    /// each use, as a setting: other ways to their files could hang.
    domains: Vec<(cpufreq::Policy, CoreSet)>,
    /// What each core wants, an index into the steps.
    wants: Vec<usize>,
}

impl Frequencies {
    /// Looks for what can be set; `notes` gets what is missing.
    pub fn find(tree: &Tree, layout: &Layout, notes: &mut Vec<String>) -> Self {
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
        let covered = served.iter().fold(CoreSet::EMPTY, |sum, (_, cores)| sum.union(*cores));
        let writable = served.iter().all(|(policy, _)| writable(tree, policy.number));
        if served.is_empty() {
            notes.push("frequency: no cpufreq policy for the governed CPUs".into());
        } else if covered != all {
            notes.push("frequency: not every governed CPU has a cpufreq policy".into());
        } else if !writable {
            notes.push(
                "frequency: scaling_max_freq may not be written (root, /sys not read-only)".into(),
            );
        } else if !pinned {
            notes.push(
                "frequency: workers are not pinned ([router] cpus), so all CPUs get one frequency"
                    .into(),
            );
        }
        let can_set = !served.is_empty() && covered == all && writable;
        let steps = match served.first() {
            Some((policy, _)) => steps(policy),
            None => vec![nominal(tree)],
        };
        if served.iter().any(|(policy, _)| range(policy) != range(served[0].0)) {
            notes.push(
                "frequency: the CPUs have different ranges; the first one's is offered, the \
                 others get the nearest that they have"
                    .into(),
            );
        }
        let one_policy = served.len() == 1;
        let chip = !pinned || one_policy || share_hardware(tree, layout);
        let groups: Vec<CoreSet> = served.iter().map(|(_, cores)| *cores).collect();
        let domain = if chip { FrequencyDomain::Chip } else { domain_of(&groups, layout.workers) };
        let shares = |(_, cores): &(_, CoreSet)| cores.len() > 1;
        if domain == FrequencyDomain::Core && served.iter().any(shares) {
            notes.push(
                "frequency: some CPUs share a cpufreq policy, but not by groups of equal neighbours \
                 ([router] cpus); each gets the fastest that one of its policy asks for"
                    .into(),
            );
        }
        let domains = served.iter().map(|(policy, cores)| ((*policy).clone(), *cores)).collect();
        let fastest = steps.len() - 1;
        let wants = vec![fastest; layout.workers];
        let transition = (cpufreq::FREQUENCY.dwell.on)(tree);
        Self { steps, domain, can_set, transition, domains, wants }
    }

    /// A core wants another frequency.
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

    /// Gives the policies of some cores the frequency that their active cores want now; where
    /// none is active, the fastest that any wants.
    pub fn settle<K: Knobs>(
        &mut self,
        cores: CoreSet,
        active: CoreSet,
        writes: &mut Writes<K>,
    ) -> Taken {
        let mut outcome = Taken::Done;
        for (policy, members) in &mut self.domains {
            if members.intersection(cores).is_empty() {
                continue;
            }
            let awake = members.intersection(active);
            let asking = if awake.is_empty() { *members } else { awake };
            let wanted = asking.iter().filter_map(|core| self.wants.get(core)).max();
            let Some(wish) = wanted.and_then(|index| self.steps.get(*index)) else { continue };
            outcome = worse(outcome, fix(policy, *wish, writes));
        }
        outcome
    }

    /// The frequency nearest to the one at which the policy of a core is held now.
    pub fn held(&mut self, core: usize, knobs: &impl Knobs) -> Option<usize> {
        let (policy, _) = self.domains.iter_mut().find(|(_, cores)| cores.contains(core))?;
        policy.refresh(knobs);
        let held = policy.held(knobs).get();
        let far = |step: &Hertz| (step.get() - held).abs();
        let steps = self.steps.iter().enumerate();
        steps.min_by(|(_, a), (_, b)| far(a).total_cmp(&far(b))).map(|(index, _)| index)
    }
}

/// Fixes the frequency of one policy, as near as its range allows.
fn fix<K: Knobs>(policy: &mut cpufreq::Policy, wish: Hertz, writes: &mut Writes<K>) -> Taken {
    // Looked at again each time: the order of its limits depends on where they are.
    policy.refresh(&writes.knobs);
    let wish = Hertz(wish.get().min(policy.highest_hertz.get()).max(policy.lowest_hertz.get()));
    match policy.run_at(wish) {
        Ok(changes) => writes.make(&changes),
        Err(error) => Taken::Failed { why: error.to_string() },
    }
}

/// The frequencies to choose from: the driver's list, else even steps over its range.
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

/// Which cores share a frequency, by the cores of each cpufreq policy; each its own where the groups
/// are no equal neighbours.
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

/// Whether the hardware gives all workers' CPUs one frequency although the driver has a policy
/// for each (`freqdomain_cpus` of acpi-cpufreq): it then takes the fastest request.
fn share_hardware(tree: &Tree, layout: &Layout) -> bool {
    let Some(first) = layout.cpus.first() else { return false };
    let file = format!("/sys/devices/system/cpu/cpu{first}/cpufreq/freqdomain_cpus");
    tree.cpus(file).is_ok_and(|domain| layout.cpus.iter().all(|cpu| domain.contains(cpu)))
}

fn writable(tree: &Tree, policy: u32) -> bool {
    let file = format!("/sys/devices/system/cpu/cpufreq/policy{policy}/scaling_max_freq");
    super::access::may_write(tree, &file)
}

/// The one frequency of a machine that cannot choose: what it says of itself, for policies
/// that count cycles. Its name comes first: `cpu MHz` can be the speed of this moment.
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
    fn the_speed_of_the_moment_counts_only_where_the_name_tells_none() {
        let told = |cpuinfo: &str| {
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
            let found = told(&format!("model name\t: {name}\n{momentary}\n"));
            assert!((found - hertz).abs() < 1.0, "{name}: {found}");
        }
        assert!((told("").abs() - 1e9).abs() < 1.0);
    }
}
