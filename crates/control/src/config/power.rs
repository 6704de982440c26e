//! The `[power]` section: who governs what.

use super::keys::Section;
use super::parse_duration;
use super::reader::{Reader, Table};
use std::time::Duration;
use wattline_knobs::OnExit;
use wattline_policy::PolicySpec;

/// The `[power]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct PowerSettings {
    /// What is governed.
    pub platform: PowerPlatform,
    /// The policy, in the form that [`PolicySpec::parse`] reads and has read.
    pub policy: String,
    /// How often queues are looked at.
    pub sample: Duration,
    /// How the machine is left.
    pub on_exit: OnExit,
}

/// What a governor drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerPlatform {
    /// Nothing.
    None,
    /// This machine.
    Host,
}

impl Default for PowerSettings {
    fn default() -> Self {
        Self {
            platform: PowerPlatform::None,
            policy: "powersave".to_owned(),
            sample: Duration::from_millis(1),
            on_exit: OnExit::Restore,
        }
    }
}

pub(super) fn read(reader: &mut Reader, table: &Table) -> PowerSettings {
    let mut settings = PowerSettings::default();
    reader.refuse_unknown(table);
    let platform = |text: &str| match text {
        "none" => Some(PowerPlatform::None),
        "host" => Some(PowerPlatform::Host),
        _ => None,
    };
    if let Some(platform) = reader.parsed(table, "platform", platform) {
        settings.platform = platform.value;
    }
    if let Some(policy) = reader.string(table, "policy") {
        match PolicySpec::parse(&policy.value) {
            Ok(_) => settings.policy = policy.value,
            Err(error) => {
                reader.problem(Section::Power, "policy", &policy.span, error.to_string());
            }
        }
    }
    let range = Duration::from_micros(100)..=Duration::from_secs(1);
    let sample = |text: &str| parse_duration(text).filter(|sample| range.contains(sample));
    if let Some(sample) = reader.parsed(table, "sample", sample) {
        settings.sample = sample.value;
    }
    if let Some(on_exit) = reader.parsed(table, "on_exit", |text| text.parse().ok()) {
        settings.on_exit = on_exit.value;
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const PORT: &str = "[[port]]\nname = \"a\"\ninterface = \"eth0\"\n";

    #[test]
    fn every_key_is_read_and_its_default_is_as_documented() {
        let text = format!(
            "{PORT}[power]\nplatform = \"host\"\npolicy = \"powersave:q_h=64\"\n\
             sample = \"500us\"\non_exit = \"performance\"\n"
        );
        let power = Config::parse(&text, "t").unwrap().power;
        let expected = PowerSettings {
            platform: PowerPlatform::Host,
            policy: "powersave:q_h=64".into(),
            sample: Duration::from_micros(500),
            on_exit: OnExit::Performance,
        };
        assert_eq!(power, expected);
        assert_eq!(Config::parse(PORT, "t").unwrap().power, PowerSettings::default());
    }

    #[test]
    fn every_mistake_is_named() {
        let text = format!(
            "{PORT}[power]\nplatform = \"moon\"\npolicy = \"powersafe\"\nsample = \"1us\"\n\
             on_exit = \"explode\"\nsampel = \"1ms\"\n"
        );
        let problems = Config::parse(&text, "t").unwrap_err().to_string();
        for what in
            ["\"none\" or \"host\"", "did you mean \"powersave\"", "100us", "keep", "sampel"]
        {
            assert!(problems.contains(what), "{what}: {problems}");
        }
    }
}
