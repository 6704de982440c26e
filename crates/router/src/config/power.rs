//! The `[power]` section.

use std::time::Duration;
use wattline_daemon::settings::{Key, Reader, Section, Table, defaulted};
use wattline_knobs::OnExit;
use wattline_policy::Registry;
use wattline_server::Application;

/// The section.
pub(super) const SECTION: Section = Section::Named("[power]");

/// Keys of the section, in the order of the reference.
#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    Key::new(SECTION, "platform", Some("\"none\""), "\"scale\"", "\"none\", \"scale\" or \"host\"",
        "Platform of the governor. scale: workers that behave like the cores of a server model, slowed down;\npower is emulated. host: the knobs of this machine. none: no governor."),
    Key::new(SECTION, "policy", Some("\"queue-length\""), "\"queue-length:c_up=2,batch=16\"", "a policy, NAME or NAME:key=value,key=value (`wattline policies` lists them)",
        "The governor."),
    Key::new(SECTION, "server", Some("\"westmere-2010\""), "\"server.toml\"", "the name of a shipped server model (`wattline servers` lists them) or the path of a file",
        "The server model: of the emulated server, or of this machine for policies that reckon with one."),
    Key::new(SECTION, "application", Some("\"ipv4\""), "\"ipsec\"", "\"ipv4\", \"netflow\", \"ipsec\" or \"re\"",
        "The application that the model runs on each packet."),
    Key::whole(SECTION, "scale", Some("500"), "100", 1..=1000000,
        "The factor by which time is stretched on platform scale."),
    Key::whole(SECTION, "seed", Some("1"), "2", 0..=u32::MAX,
        "Seed of policies and service times that draw random numbers."),
    Key::duration(SECTION, "sample", Some("\"1ms\""), "\"500us\"", ("100us", "1s", "1ms"),
        "On host: how often the queues are read for a policy that decides at batches."),
    Key::new(SECTION, "on_exit", Some("\"restore\""), "\"performance\"", "\"restore\", \"keep\" or \"performance\"",
        "On host: the state of the machine after the end, also when the router is killed. restore: as before.\nkeep: as it is. performance: as before, but with the CPUs at their fastest. `wattline restore` undoes the last two."),
    Key::new(SECTION, "uncore", Some("false"), "true", "true or false",
        "On host: whether the upper limit of the uncore's frequency (caches, mesh, memory controllers)\ngoes with the fastest core. It holds for all cores of a processor, those without workers too."),
    Key::new(SECTION, "may_raise", Some("false"), "true", "true or false",
        "On host: also set values that draw more power than those found: preference, governor, limits, idle states, moderation."),
];

/// Platform that a governor controls.
pub use wattline_status::PlatformName as PowerPlatform;

/// The `[power]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct PowerSettings {
    /// Machine that is governed.
    pub platform: PowerPlatform,
    /// The policy, by its present name: it exists, and its parameters are in range.
    pub policy: String,
    /// The policies of the program; empty in a program without a governor, which checks no policy.
    pub policies: Registry,
    /// Name or path of the server model.
    pub server: String,
    /// Application that the model runs on each packet.
    pub application: Application,
    /// Factor by which time is stretched on platform scale.
    pub scale: u32,
    /// Seed of policies and service times.
    pub seed: u32,
    /// Time between two samples of queues on platform host.
    pub sample: Duration,
    /// State in which the machine is left on platform host.
    pub on_exit: OnExit,
    /// True if on platform host the uncore's frequency follows the cores' frequency.
    pub uncore: bool,
    /// True if platform host may exceed the power that the machine's initial settings allow.
    pub may_raise: bool,
}

/// Reads the section. Missing keys get their defaults, and so do wrong ones, after a note.
pub(super) fn read(reader: &mut Reader, table: &Table, policies: Registry) -> PowerSettings {
    reader.refuse_unknown(table);
    let mut policy = reader.string(table, "policy");
    if let Some(policy) = policy.as_mut().filter(|_| !policies.is_empty()) {
        match policies.parse(&policy.value) {
            Ok(spec) => policy.value = spec.to_string(),
            // The error names the values that the policy allows, which the list of keys cannot.
            Err(error) => {
                let message = format!("is wrong: {error}");
                reader.problem(table.section, "policy", &policy.span, message);
            }
        }
    }
    let named = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    PowerSettings {
        platform: defaulted(reader.parsed(table, "platform", parse_platform)),
        policy: defaulted(policy),
        policies,
        server: defaulted(reader.parsed(table, "server", named)),
        application: defaulted(reader.parsed(table, "application", |text| text.parse().ok())),
        scale: defaulted(reader.number(table, "scale")),
        seed: defaulted(reader.number(table, "seed")),
        sample: defaulted(reader.duration(table, "sample")),
        on_exit: defaulted(reader.parsed(table, "on_exit", |text| text.parse().ok())),
        uncore: reader.flag(table, "uncore"),
        may_raise: reader.flag(table, "may_raise"),
    }
}

fn parse_platform(text: &str) -> Option<PowerPlatform> {
    match text {
        "none" => Some(PowerPlatform::None),
        "scale" => Some(PowerPlatform::Scale),
        "host" => Some(PowerPlatform::Host),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use wattline_policies::POLICIES;

    const PORT: &str = "[[port]]\nname = \"a\"\ninterface = \"x\"\n";

    fn parse(power: &str) -> Result<PowerSettings, String> {
        let text = format!("{PORT}[power]\n{power}");
        Config::parse_whole(&text, "x", &[], POLICIES)
            .map(|config| config.power)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn every_key_is_read() {
        let all = "platform = \"scale\"\npolicy = \"ondemand\"\nserver = \"own.toml\"\n\
                   application = \"ipsec\"\nscale = 100\nseed = 7\n\
                   sample = \"500us\"\non_exit = \"keep\"\nuncore = true\nmay_raise = true\n";
        let expected = PowerSettings {
            platform: PowerPlatform::Scale,
            policy: "ondemand".to_owned(),
            policies: POLICIES,
            server: "own.toml".to_owned(),
            application: Application::Ipsec,
            scale: 100,
            seed: 7,
            sample: Duration::from_micros(500),
            on_exit: OnExit::Keep,
            uncore: true,
            may_raise: true,
        };
        assert_eq!(parse(all), Ok(expected));
        let absent = Config::parse_whole(PORT, "x", &[], POLICIES);
        let absent = absent.unwrap().power;
        assert_eq!(parse(""), Ok(absent.clone()));
        assert_eq!(
            (absent.platform, absent.policy.as_str()),
            (PowerPlatform::None, "queue-length")
        );
        assert!(!absent.may_raise);
        assert_eq!((absent.scale, absent.sample), (500, Duration::from_millis(1)));
    }

    #[test]
    fn mistakes_name_the_allowed_values() {
        for (text, says) in [
            ("platform = \"moon\"", "\"host\""),
            ("policy = \"powersafe\"", "queue-length"),
            ("policy = \"queue-length:q_h=0\"", "q_h"),
            ("application = \"ipv5\"", "\"netflow\""),
            ("scale = 0", "1 to 1000000"),
            ("sample = \"1us\"", "100us"),
            ("on_exit = \"explode\"", "\"keep\""),
            ("server = \"\"", "path of a file"),
            ("scales = 1", "mean \"scale\""),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("[power]") && error.contains(says), "{text}: {error}");
        }
    }
}
