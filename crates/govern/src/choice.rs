//! The policy of a configuration on a machine, and the rejection of an unsuitable one.

use crate::config::{Config, Moderation};
use crate::guard::{Bounds, Guarded, RuleSeen, Target};
use crate::hardware::{self, Hardware};
use wattline_policy::tables::check_tables;
use wattline_policy::{
    Asks, BuildContext, NeedsWorkers, Platform, Policy, PolicySpec, SpecError, SpecProblem, Timing,
    build,
};
use wattline_server::{Application, ServerFile, ServerModel};
use wattline_units::Span;

/// Mean length in bytes of a packet that policies assume: the traffic of a server is not known
/// beforehand.
const MEAN_BYTES: u32 = 600;

/// Policies to suggest instead of an unsuitable one.
const INSTEAD: &str = "use ondemand, conservative, table or performance";

/// A machine, and the reason if its polls cannot be observed.
pub type Observed<'a> = (&'a Platform, Option<String>);

/// Returns the policy of a configuration, within its bounds; `seen` is updated with the rule in
/// force.
///
/// # Errors
/// When the policy's text is invalid, or it cannot work on this machine.
pub fn policy(
    config: &Config,
    (platform, unobserved): Observed<'_>,
    seen: RuleSeen,
) -> Result<Guarded, SpecError> {
    let inner = match hardware::parse(&config.policy) {
        Some(preferences) => {
            server(config)?;
            Box::new(Hardware::new(preferences?, platform))
        }
        None => from_registry(config, (platform, unobserved))?,
    };
    let target = config.latency_target.map(|p99| Target { p99, hold: config.latency_hold });
    let bounds = Bounds::new(config, platform);
    let measured = !config.latency.is_empty();
    Ok(Guarded::new(inner, bounds, target, measured, seen))
}

/// Returns a policy that sets frequencies itself.
fn from_registry(
    config: &Config,
    (platform, unobserved): Observed<'_>,
) -> Result<Box<dyn Policy>, SpecError> {
    let (spec, file) = read(config)?;
    let server = file.model().map_err(|error| refused(&spec, error.to_string()))?;
    // A period fixed by the configuration is not the policy's choice.
    let mut own = platform.clone();
    own.can.set_moderation &= config.moderation == Moderation::Policy;
    let context = context(config, &own, server);
    unfit(&mut *build(&spec, &context)?, (platform, unobserved))
        .map_err(|why| refused(&spec, format!("{why}; {INSTEAD}")))?;
    // A new one: the tested one has already been started.
    build(&spec, &context)
}

/// Checks everything that does not depend on the machine: the server model and the policy's tables
/// can be read, and the policy needs nothing that only workers or a simulator provide. A policy
/// that reads tables of a machine is checked again on the machine.
///
/// # Errors
/// As [`policy`].
pub fn check(config: &Config) -> Result<(), SpecError> {
    if let Some(preferences) = hardware::parse(&config.policy) {
        return preferences.and_then(|_| server(config).map(drop));
    }
    let (spec, _) = read(config)?;
    if let Some(why) = spec.needs_simulated_driver() {
        return Err(refused(&spec, why));
    }
    let streaks = Asks { streaks: Timing::Exact, ..Asks::NOTHING };
    if let Some(needs) = NeedsWorkers::of_text(&spec, streaks) {
        return Err(refused(&spec, format!("{}; {INSTEAD}", lacking(needs, None))));
    }
    let read = check_tables(&spec);
    read.map_err(|why| refused(&spec, why))
}

/// Returns the 95th percentile that the policy itself keeps, if its text gives one: `target` of
/// copi, unless it ignores measured latency.
pub(crate) fn policy_target(config: &Config) -> Option<Span> {
    let spec = config.policies.parse(&config.policy).ok()?;
    let own = &spec.parameters;
    let holds = spec.policy.name == "copi" && own.number("correction") > 0.0;
    holds.then(|| own.span("target")).filter(|target| *target > Span::ZERO)
}

/// Returns the policy's text and the server model of a complete configuration.
fn read(config: &Config) -> Result<(PolicySpec, ServerFile), SpecError> {
    Ok((config.policies.parse(&config.policy)?, server(config)?))
}

/// Returns the server model of a complete configuration.
fn server(config: &Config) -> Result<ServerFile, SpecError> {
    let refused = |why: String| SpecError {
        text: config.policy.clone(),
        problems: vec![SpecProblem::Unsupported(why)],
    };
    let file = ServerFile::load(&config.server).map_err(|error| refused(error.to_string()))?;
    file.model().map_err(|error| refused(error.to_string()))?;
    Ok(file)
}

fn refused(spec: &PolicySpec, why: String) -> SpecError {
    SpecError { text: spec.to_string(), problems: vec![SpecProblem::Unsupported(why)] }
}

fn context<'a>(
    config: &Config,
    platform: &'a Platform,
    server: &'a ServerModel,
) -> BuildContext<'a> {
    let cost = server.packet_cost(Application::Ipv4, MEAN_BYTES);
    BuildContext {
        platform,
        server: Some(server),
        packet: cost.map(|cost| (cost, MEAN_BYTES)),
        seed: config.seed.into(),
    }
}

/// Checks that a policy can work where the kernel serves the packets.
fn unfit(policy: &mut dyn Policy, (platform, unobserved): Observed<'_>) -> Result<(), String> {
    let ask =
        NeedsWorkers::and_ask(policy, platform).map_err(|needs| lacking(needs, unobserved))?;
    ask.on_streak.check_polls().map_err(|why| why.to_string())
}

fn lacking(needs: NeedsWorkers, unobserved: Option<String>) -> String {
    match needs {
        NeedsWorkers::OfferedRate => {
            "it needs the offered rate, which only a simulator knows".to_owned()
        }
        NeedsWorkers::Batches => {
            let why = unobserved.map_or(String::new(), |why| format!(" ({why})"));
            format!(
                "it decides at batches of packets or fill levels of rings; here the kernel serves the \
                 packets, and of its polls only streaks can be counted, on the running machine, with \
                 CAP_BPF and CAP_PERFMON{why}. Wattline's own workers (`wattline run`) see all"
            )
        }
        NeedsWorkers::Polling => {
            "it lets cores poll for packets; here the kernel waits for interrupts".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_policies::POLICIES;
    use wattline_policy::{Asks, Can, FrequencyDomain, IdleState, Queue, Waits};
    use wattline_units::Hertz;

    fn platform() -> Platform {
        Platform {
            cores: 4,
            frequencies: vec![Hertz(1e9), Hertz(2e9)],
            domain: FrequencyDomain::Core,
            frequency_transition: Span::ZERO,
            idle_states: vec![IdleState {
                name: "C1".into(),
                exit_latency: Span::from_micros(1),
                exit_latency_measured: None,
            }],
            queues: (0..4).map(|core| Queue { port: 0, core }).collect(),
            ring_size: None,
            moderation: (Span::ZERO, Span::from_millis(1)),
            can: Can {
                waits: Waits { interrupt: true, ..Waits::NONE },
                asks: Asks::NOTHING,
                ..Can::EVERY_KNOB
            },
            ..Platform::BARE
        }
    }

    /// Rules of drivers decide at interrupts, which only drivers see; a fixed period is set.
    #[test]
    fn rules_of_drivers_are_refused_by_name_with_an_alternative() {
        let of = |text: &str| {
            let config =
                Config::parse(&format!("[govern]\npolicy = \"{text}\"\n"), "test", POLICIES)
                    .unwrap();
            let made = policy(&config, (&platform(), None), RuleSeen::default());
            // `wattline config --govern` reports the same without the machine.
            assert_eq!(check(&config).err(), made.as_ref().err().cloned());
            made.map(drop)
        };
        for rule in ["ixgbe", "ixgbe-classic", "dim"] {
            let error = of(&format!("ondemand+{rule}")).unwrap_err().to_string();
            for words in [&format!("moderation = \"{rule}\""), "adaptive-rx on", "such as 84us"] {
                assert!(error.contains(words), "{words}: {error}");
            }
        }
        of("ondemand+84us").unwrap();
    }

    #[test]
    fn target_of_copi_is_known_if_it_is_compared_with_measurements() {
        let of = |policy: &str| {
            let text = format!("[govern]\npolicy = \"{policy}\"\n");
            policy_target(&Config::parse(&text, "test", POLICIES).unwrap())
        };
        assert_eq!(of("copi:tables=t.csv,target=2ms"), Some(Span::from_millis(2)));
        assert_eq!(of("copi:tables=t.csv"), None, "the tables have it");
        assert_eq!(of("copi:tables=t.csv,target=2ms,correction=0"), None);
        assert_eq!(of("ondemand"), None);
    }

    /// `wattline config --govern` has no machine, and still finds tables that are invalid on any
    /// machine, with the policy's message.
    #[test]
    fn unreadable_tables_are_found_without_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tables.csv");
        let of = |path: &std::path::Path| {
            let text = format!("[govern]\npolicy = \"copi:tables={}\"\n", path.display());
            let config = Config::parse(&text, "test", POLICIES).unwrap();
            let made = policy(&config, (&platform(), None), RuleSeen::default()).map(drop);
            (check(&config), made)
        };
        let head = "#version = 1\n#server = \"s\"\n#workload = \"w\"\n#source = \"measured\"\n\
                    #percentile = 95.0\n#machine.cores = 4\n#machine.frequencies_ghz = [1.0, 2.0]\n\
                    #machine.moderation_us = [0.0, 1000.0]\n\
                    load_rps,frequency_ghz,period_us,latency_us,power_watts\n";
        for (rows, says) in [
            ("1000,2,default,500,20\n", "no row has a period"),
            ("1000,3,10,500,20\n", "none of the machine's frequencies"),
        ] {
            std::fs::write(&file, format!("{head}{rows}")).unwrap();
            let (early, made) = of(&file);
            let error = early.as_ref().unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("tables.csv"), "{error}");
            assert_eq!(early, made);
        }
        for path in [&folder.path().join("none.csv"), folder.path()] {
            let (early, made) = of(path);
            assert_eq!((early.is_err(), &early), (true, &made), "{early:?}");
        }
        let whole = "1000,1,10,900,10\n1000,2,10,500,20\n1000,2,default,500,20\n";
        std::fs::write(&file, format!("{head}{whole}")).unwrap();
        let (early, _) = of(&file);
        assert_eq!(early, Ok(()));
    }

    /// Tables describe points whose period is actually set.
    #[test]
    fn tables_of_several_periods_need_the_moderation() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tables.csv");
        let platform = platform();
        let rows =
            "1000,1,10,900,10\n1000,1,1000,9000,9\n1000,2,10,500,20\n1000,2,default,500,20\n";
        let text = "#version = 1\n#server = \"s\"\n#workload = \"w\"\n#source = \"measured\"\n\
                    #percentile = 95.0\n#machine.cores = 4\n#machine.frequencies_ghz = [1.0, 2.0]\n\
                    #machine.moderation_us = [0.0, 1000.0]\n\
                    load_rps,frequency_ghz,period_us,latency_us,power_watts\n";
        std::fs::write(&file, format!("{text}{rows}")).unwrap();
        let of = |moderation: &str, can: bool| {
            let text = format!(
                "[govern]\npolicy = \"copi:tables={}\"\nknobs = [\"frequency\", \"moderation\"]\n\
                 moderation = \"{moderation}\"\n",
                file.display()
            );
            let config = Config::parse(&text, "test", POLICIES).unwrap();
            // As a session derives it from the configuration.
            let mut platform = platform.clone();
            platform.can.set_moderation = can && config.moderates();
            policy(&config, (&platform, None), RuleSeen::default())
                .map(drop)
                .map_err(|e| e.to_string())
        };
        assert_eq!(of("policy", true), Ok(()));
        for (moderation, can) in [("keep", true), ("1ms", true), ("policy", false)] {
            let error = of(moderation, can).unwrap_err();
            assert!(error.contains("2 moderation periods"), "{moderation}: {error}");
        }
    }

    /// Every policy works or is rejected by name with a suggestion; none is accepted that would
    /// never be asked.
    #[test]
    fn policies_that_need_batches_are_refused_by_name() {
        let (mut works, mut refused, mut known) = (Vec::new(), Vec::new(), Vec::new());
        for info in POLICIES.iter() {
            let text = format!("[govern]\npolicy = \"{}\"\n", info.name);
            let Ok(config) = Config::parse(&text, "test", POLICIES) else { continue };
            match policy(&config, (&platform(), None), RuleSeen::default()) {
                Ok(_) => {
                    check(&config).unwrap();
                    works.push(info.name);
                }
                Err(error) => {
                    let error = error.to_string();
                    assert!(error.contains(info.name), "{error}");
                    refused.push(info.name);
                    // Known without the machine, too, with the same message.
                    if let Err(early) = check(&config) {
                        assert_eq!(early.to_string(), error);
                        known.push(info.name);
                    }
                }
            }
        }
        for name in ["ondemand", "conservative", "table", "performance", "napi"] {
            assert!(works.contains(&name), "{name}: {works:?}");
        }
        // It works without counts of full polls.
        assert!(works.contains(&"wattline"), "{works:?}");
        for name in ["oracle", "poll"] {
            assert!(refused.contains(&name), "{name}: {refused:?}");
            assert!(known.contains(&name), "{name}: {known:?}");
        }
        assert!(refused.contains(&"queue-length"), "{refused:?}");
        assert!(!known.contains(&"queue-length"), "another machine may count streaks: {known:?}");
        let config =
            Config::parse("[govern]\npolicy = \"queue-length\"\n", "test", POLICIES).unwrap();
        let error =
            policy(&config, (&platform(), None), RuleSeen::default()).err().unwrap().to_string();
        assert!(error.contains("CAP_PERFMON") && error.contains("use ondemand"), "{error}");
        let mut observed = platform();
        observed.can.asks.streaks = Timing::Exact;
        let of = |text: &str| {
            let text = format!("[govern]\npolicy = \"{text}\"\n");
            let config = Config::parse(&text, "test", POLICIES).unwrap();
            policy(&config, (&observed, None), RuleSeen::default())
                .map(drop)
                .map_err(|e| e.to_string())
        };
        assert_eq!(of("queue-length"), Ok(()));
        assert_eq!(of("wattline:p99=250us"), Ok(()));
        for (text, word) in [("read=after", "only `before` works"), ("q_h=64", "below 64")] {
            let error = of(&format!("queue-length:{text}")).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
        let config =
            Config::parse("[govern]\nserver = \"nobodys-2099\"\n", "test", POLICIES).unwrap();
        let error = check(&config).unwrap_err().to_string();
        assert!(error.contains("nobodys-2099"), "{error}");
    }
}
