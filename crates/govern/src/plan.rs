//! Writes that a governor would make on a machine, with reasons; nothing is written.

use crate::choice;
use crate::config::Config;
use crate::guard::{Bounds, Rule, RuleSeen};
use crate::hardware::{self, Hardware};
use crate::inventory::{Inventory, LeftOut};
use crate::left_alone;
use crate::messages;
use crate::pressure;
use crate::session::{kernel, options};
use serde::Serialize;
use wattline_host::{Course, PlanError, PowerPlan, Workers, plan_with};
use wattline_knobs::{STATE_DIRECTORY, restore_commands};
use wattline_linux::sysfs::Tree;
use wattline_policy::{OperatingPoint, Platform, Policy};

/// A plan, and its subject.
#[derive(Debug, Clone, Serialize)]
pub struct GovernPlan {
    /// The profile.
    pub profile: &'static str,
    /// Governed parts with the reasons, a line each.
    pub intent: Vec<String>,
    /// CPUs and interfaces that are left out.
    pub left_out: Vec<LeftOut>,
    /// Writes to be made.
    #[serde(flatten)]
    pub plan: PowerPlan,
    /// Ways to enable missing knobs, if nothing can be set.
    pub remedies: Vec<&'static str>,
}

/// Reason why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GovernPlanError {
    /// The configuration leaves nothing of this machine to govern.
    #[error("{0}")]
    Nothing(String),
    /// The policy cannot work here.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// Returns the plan of a configuration on the machine of `tree`.
///
/// # Errors
/// [`GovernPlanError`].
pub fn plan(config: &Config, tree: &Tree) -> Result<GovernPlan, GovernPlanError> {
    let inventory = Inventory::find(tree, config);
    if let Some(why) = inventory.refusal() {
        return Err(GovernPlanError::Nothing(why));
    }
    let alone = left_alone::find(config, &inventory, tree);
    let mut intent = Vec::new();
    let mut remedies = Vec::new();
    // An unwritable knob looks like a missing one, and an existing knob needs no remedy.
    let blind = tree.is_live() && !rustix::process::geteuid().is_root();
    let (mut kernel, _) = kernel(&inventory, tree);
    let unobserved = kernel.missing();
    let make = |platform: &wattline_policy::Platform| {
        intent.extend(blind.then(|| messages::BLIND.to_owned()));
        let left = restore_commands(tree, &tree.path(STATE_DIRECTORY));
        let changed = left.is_ok_and(|left| !left.commands.is_empty());
        intent.extend(changed.then(|| messages::SET_BY_ANOTHER_GOVERNOR.to_owned()));
        intent.extend(messages::lines(config, &inventory, platform, &alone));
        intent.extend(inventory.unknown_names.iter().cloned());
        if !blind {
            remedies = messages::remedies(platform.can, &alone);
        }
        let guarded = choice::policy(config, (platform, unobserved), RuleSeen::default())?;
        let policy: Box<dyn Policy> = Box::new(guarded);
        intent.extend(policy.remark());
        Ok(policy)
    };
    let options = options(config, &inventory, tree);
    let course = |platform: &Platform, full: &OperatingPoint| course(config, tree, platform, full);
    let mut plan = plan_with(config.policy.clone(), make, course, (options, Box::new(kernel)))?;
    plan.rivals = messages::relevant(plan.rivals, config);
    let left_out = inventory.left_out;
    Ok(GovernPlan { profile: config.profile.name, intent, left_out, plan, remedies })
}

/// Returns the operating points that the configuration may lead to, each with its rule.
fn course(config: &Config, tree: &Tree, platform: &Platform, full: &OperatingPoint) -> Course {
    let bounds = Bounds::new(config, platform);
    let mut course = match hardware::parse(&config.policy).and_then(Result::ok) {
        Some(preferences) => Course {
            points: Hardware::new(preferences, platform).points(platform, full),
            changes_per_second: Some(hardware::CHANGES_PER_SECOND),
        },
        None => Course::any(&format!("as {} decides", config.policy), platform, full),
    };
    course.points.iter_mut().for_each(|(_, point)| bounds.apply(platform, point));
    let rules = [
        (Rule::Pressure, pressure::gauge(tree).is_some()),
        (Rule::Late, config.latency_target.is_some()),
        (Rule::Silent, config.latency_target.is_some()),
    ];
    for (rule, _) in rules.into_iter().filter(|(_, rules)| *rules) {
        let mut point = full.clone();
        bounds.overrule(rule, platform, &mut point);
        course.points.push((rule.words().to_owned(), point));
    }
    if config.latency_target.is_some() {
        let hold = config.latency_hold.as_seconds().max(0.1);
        course.changes_per_second = course.changes_per_second.map(|own| own + 2.0 / hold);
    }
    course
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use wattline_policies::POLICIES;

    /// Creates a machine whose only knob is a card's interrupt moderation.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        };
        write("sys/devices/system/cpu/online", "0-1");
        write("sys/devices/system/cpu/present", "0-1");
        write("ethtool/eth9/rx-usecs", "3");
        write("ethtool/eth9/combined-channels", "2");
        root
    }

    const CPU: &str = "sys/devices/system/cpu";

    /// Creates a machine of two CPUs as driver and administrator leave it: governor, preference,
    /// bias and limits in MHz.
    fn set_up(
        driver: &str,
        governor: &str,
        (preference, bias): (&str, &str),
        limits: (u32, u32),
    ) -> tempfile::TempDir {
        let root = machine();
        let write = |path: &str, text: &str| {
            let path = root.path().join(CPU).join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        };
        std::fs::write(root.path().join("ethtool/eth9/adaptive-rx"), "0\n").unwrap();
        let autonomous = ["intel_pstate", "amd-pstate-epp"].contains(&driver);
        for cpu in 0..2 {
            let file = |name: &str| format!("cpufreq/policy{cpu}/{name}");
            // The second CPU is of the slow kind.
            let highest = if cpu == 0 { 3_600_000 } else { 2_800_000 };
            let speed = if governor == "userspace" { "1500000" } else { "<unsupported>" };
            let governors = if autonomous {
                "performance powersave"
            } else {
                "conservative ondemand userspace powersave performance schedutil"
            };
            for (name, text) in [
                ("related_cpus", cpu.to_string()),
                ("affected_cpus", cpu.to_string()),
                ("scaling_driver", driver.to_owned()),
                ("scaling_governor", governor.to_owned()),
                ("scaling_available_governors", governors.to_owned()),
                ("scaling_setspeed", speed.to_owned()),
                ("cpuinfo_min_freq", "800000".to_owned()),
                ("cpuinfo_max_freq", highest.to_string()),
                ("scaling_min_freq", (limits.0 * 1000).to_string()),
                ("scaling_max_freq", (limits.1 * 1000).min(highest).to_string()),
                ("scaling_cur_freq", "800000".to_owned()),
            ] {
                write(&file(name), &text);
            }
            if !preference.is_empty() {
                write(&file("energy_performance_preference"), preference);
                let names = "default performance balance_performance balance_power power";
                write(&file("energy_performance_available_preferences"), names);
            }
            if !bias.is_empty() {
                write(&format!("cpu{cpu}/power/energy_perf_bias"), bias);
            }
            write(&format!("cpu{cpu}/power/pm_qos_resume_latency_us"), "0");
            for (state, name, latency) in [(0, "POLL", 0), (1, "C1", 2), (2, "C6", 133)] {
                let file = |file: &str| format!("cpu{cpu}/cpuidle/state{state}/{file}");
                write(&file("name"), name);
                write(&file("latency"), &latency.to_string());
                write(&file("residency"), &latency.to_string());
                for zero in ["disable", "usage", "time"] {
                    write(&file(zero), "0");
                }
            }
        }
        write(
            if driver == "intel_pstate" { "intel_pstate/no_turbo" } else { "cpufreq/boost" },
            "0",
        );
        root
    }

    /// Ranks a value by the power that it allows, independently of the tested code.
    fn rank(file: &str, value: &str, autonomous: bool) -> f64 {
        let number = value.parse::<f64>();
        match file {
            "energy_performance_preference" => match value {
                "performance" => 0.0,
                "default" | "balance_performance" => -128.0,
                "balance_power" => -192.0,
                "power" => -255.0,
                _ => -number.unwrap(),
            },
            "scaling_governor" => match value {
                "performance" => 2.0,
                "powersave" if !autonomous => 0.0,
                // At 1.5 of 0.8 to 3.6 GHz.
                "userspace" => 0.25,
                _ => 1.0,
            },
            "energy_perf_bias" | "no_turbo" | "rx-usecs" => -number.unwrap(),
            "pm_qos_resume_latency_us" if value == "0" => f64::MIN,
            "pm_qos_resume_latency_us" => -number.unwrap(),
            // A speed instead of none.
            _ => number.unwrap_or(f64::MIN),
        }
    }

    /// TuneD, power-profiles-daemon or an administrator has set the machine to save, to balance or
    /// to perform: no profile and no policy exceeds that under any load.
    #[test]
    fn no_write_lets_the_machine_draw_more_than_it_was_found_with() {
        let all = (800, 3600);
        let machines = [
            ("intel_pstate", "powersave", ("power", ""), all),
            ("intel_pstate", "powersave", ("balance_power", ""), (800, 2000)),
            ("intel_pstate", "powersave", ("balance_performance", ""), all),
            ("intel_pstate", "performance", ("performance", ""), (2000, 3600)),
            ("intel_pstate", "powersave", ("170", ""), all),
            ("intel_pstate", "powersave", ("", "15"), all),
            ("amd-pstate-epp", "powersave", ("power", ""), all),
            ("amd-pstate-epp", "powersave", ("default", ""), all),
            ("amd-pstate-epp", "performance", ("performance", ""), all),
            ("acpi-cpufreq", "powersave", ("", "15"), all),
            ("acpi-cpufreq", "userspace", ("", "6"), all),
            ("acpi-cpufreq", "ondemand", ("", ""), (800, 2400)),
            ("acpi-cpufreq", "performance", ("", "0"), all),
            ("cppc_cpufreq", "powersave", ("", ""), all),
            ("cppc_cpufreq", "schedutil", ("", ""), (1000, 1000)),
            ("cppc_cpufreq", "conservative", ("", ""), all),
            ("intel_cpufreq", "schedutil", ("balance_performance", "6"), all),
            ("amd-pstate", "performance", ("", ""), all),
        ];
        let every = "knobs = [\"frequency\", \"idle\", \"moderation\"]\n";
        let configurations = [
            String::new(),
            "profile = \"latency\"\n".to_owned(),
            "profile = \"max-save\"\n".to_owned(),
            "profile = \"max-save\"\nlatency_target = \"1ms\"\nmoderation = \"0us\"\n".to_owned(),
            format!("policy = \"hardware:busy=performance,calm=power\"\n{every}"),
            format!("policy = \"ondemand\"\n{every}moderation = \"policy\"\n"),
            format!("policy = \"performance\"\n{every}"),
            format!("policy = \"conservative\"\n{every}override_limits = true\n"),
        ];
        let (mut lowered, mut kept, mut raised) = (0, 0, 0);
        for (driver, governor, set, limits) in machines {
            let root = set_up(driver, governor, set, limits);
            let autonomous = ["intel_pstate", "amd-pstate-epp"].contains(&driver);
            for text in &configurations {
                let of = |more: &str| {
                    let text = format!("[govern]\n{more}{text}");
                    let config = Config::parse(&text, "test", POLICIES).unwrap();
                    plan(&config, &Tree::at(root.path())).unwrap().plan
                };
                let found = |setting: &str| {
                    let path = setting.replacen(':', "/", 1);
                    let path = root.path().join(path.trim_start_matches('/'));
                    std::fs::read_to_string(path).unwrap().trim().to_owned()
                };
                let writes = |plan: &PowerPlan| {
                    let start =
                        plan.at_start.iter().map(|it| (it.setting.to_string(), it.value.clone()));
                    let later = plan.later.iter().flat_map(|it| {
                        it.values.iter().map(|value| (it.setting.to_string(), value.clone()))
                    });
                    start.chain(later).collect::<Vec<_>>()
                };
                let rises = |(setting, value): &(String, String)| {
                    let file = setting.rsplit('/').next().unwrap();
                    let ranks = [value, &found(setting)].map(|one| rank(file, one, autonomous));
                    ranks[0] > ranks[1]
                };
                let own = of("");
                for write in writes(&own) {
                    assert!(!rises(&write), "{driver} {governor} {set:?}, {text}: {write:?}");
                    lowered += 1;
                }
                kept += own.kept.len();
                assert!(own.problems.is_empty(), "{driver} {governor}, {text}: {:?}", own.problems);
                // The same configuration raises if the user allows it.
                raised += writes(&of("may_raise = true\n")).iter().filter(|it| rises(it)).count();
            }
        }
        assert!(lowered > 100 && kept > 50 && raised > 100, "{lowered} {kept} {raised}");
    }

    fn intent_of(root: &Path, text: &str) -> (String, Vec<&'static str>) {
        let config = Config::parse(text, "test", POLICIES).unwrap();
        let plan = plan(&config, &Tree::at(root)).unwrap();
        (plan.intent.join("\n"), plan.remedies)
    }

    /// Without tables copi never saves anything; the user learns that before the start.
    #[test]
    fn plan_contains_the_remark_of_the_policy() {
        let root = machine();
        let (intent, _) = intent_of(root.path(), "[govern]\npolicy = \"copi\"\n");
        assert!(intent.contains("copi has no tables"), "{intent}");
    }

    #[test]
    fn leftovers_of_a_killed_governor_are_not_taken_for_an_administrators() {
        let root = machine();
        let tree = Tree::at(root.path());
        let boot = tree.path("/proc/sys/kernel/random/boot_id");
        std::fs::create_dir_all(boot.parent().unwrap()).unwrap();
        std::fs::write(boot, "b\n").unwrap();
        assert!(!intent_of(root.path(), "").0.contains("wattline restore"));
        let state = tree.path(STATE_DIRECTORY);
        let machine = wattline_knobs::Machine::new(&tree);
        let (mut session, _) = wattline_knobs::Session::begin(machine, &tree, &state).unwrap();
        let moderation = "ethtool:eth9/rx-usecs";
        session.set(&moderation.parse().unwrap(), "1").unwrap();
        session.keep();
        assert!(intent_of(root.path(), "").0.contains("wattline restore"));
    }

    #[test]
    fn unknown_interfaces_are_named_with_the_existing_ones() {
        let root = machine();
        let (intent, _) = intent_of(root.path(), "[govern]\ninterfaces = [\"eht9\"]\n");
        assert!(intent.contains("no interface eht9; there are eth9"), "{intent}");
        let config = Config::parse("[govern]\ncpus = [7]\n", "test", POLICIES).unwrap();
        let begun = crate::session::Session::begin(&config, &Tree::at(root.path()));
        let planned = plan(&config, &Tree::at(root.path()));
        for error in [begun.err().unwrap().to_string(), planned.unwrap_err().to_string()] {
            assert!(error.contains("no CPU 7") && error.contains("on line are 0, 1"), "{error}");
        }
    }

    #[test]
    fn knob_left_alone_is_not_reported_missing() {
        let root = machine();
        let (intent, remedies) = intent_of(root.path(), "");
        for words in [
            "this configuration turns none of the knobs that this machine has",
            "interrupt moderation of eth9: there is this knob",
            "knobs = [\"frequency\", \"moderation\"] and moderation = \"100us\" in [govern]",
            "or profile \"max-save\"",
        ] {
            assert!(intent.contains(words), "{words}: {intent}");
        }
        assert!(!intent.contains("this machine has no knob"), "{intent}");
        assert_eq!(remedies.len(), 3, "{remedies:?}");
        assert!(!remedies.iter().any(|hint| hint.starts_with("interrupt")), "{remedies:?}");

        // A listed knob only needs a value.
        let (intent, _) = intent_of(root.path(), "[govern]\nknobs = [\"moderation\"]\n");
        assert!(intent.contains("to use it: moderation = \"100us\" in [govern]"), "{intent}");
        let (intent, remedies) = intent_of(root.path(), "[govern]\nprofile = \"max-save\"\n");
        assert!(intent.contains("interrupt moderation of eth9: 100 us"), "{intent}");
        assert!(!intent.contains("leaves it alone") && remedies.is_empty(), "{intent}");

        std::fs::remove_dir_all(root.path().join("ethtool")).unwrap();
        let (intent, remedies) = intent_of(root.path(), "");
        assert!(intent.contains("this machine has no knob that could be turned"), "{intent}");
        assert_eq!(remedies.len(), 4, "{remedies:?}");
    }
}
