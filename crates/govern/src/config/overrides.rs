//! Settings of a configuration that differ from its profile.

use super::Config;
use super::listed::Listed;

impl Config {
    /// Returns the keys behind the profile's summary whose values differ from the profile's.
    pub(crate) fn overrides(&self) -> Vec<&'static str> {
        // The built-in profiles are tested.
        let Ok(own) = Self::parse(self.profile.text, self.profile.name, self.policies) else {
            return Vec::new();
        };
        let knobs = |config: &Self| Listed::ALL.map(|knob| knob.is_in(config.scope));
        [
            ("policy", self.policy != own.policy),
            ("knobs", knobs(self) != knobs(&own)),
            ("idle_latency", self.idle_latency != own.idle_latency),
            ("moderation", self.moderation != own.moderation),
            ("uncore", self.uncore != own.uncore),
        ]
        .into_iter()
        .filter_map(|(key, differs)| differs.then_some(key))
        .collect()
    }

    /// Returns the profile in words, with its summary only if it applies.
    pub(crate) fn profile_in_words(&self) -> String {
        let name = self.profile.name;
        match &self.overrides()[..] {
            [] => format!("profile {name}: {}", self.profile.summary),
            [one] => format!("profile {name}, with {one} of the configuration"),
            [first @ .., last] => {
                format!("profile {name}, with {} and {last} of the configuration", first.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::PROFILES;
    use wattline_policies::POLICIES;

    fn words(text: &str) -> String {
        Config::parse(text, "test", POLICIES).unwrap().profile_in_words()
    }

    /// "Nothing else is touched" is untrue of a configuration that sets something else.
    #[test]
    fn summary_of_a_profile_is_shown_only_if_it_applies() {
        for profile in PROFILES {
            let whole = format!("profile {}: {}", profile.name, profile.summary);
            assert_eq!(words(profile.text), whole);
            // Cores and sources do not affect the summary.
            let more = format!("[govern]\nprofile = \"{}\"\nseed = 7\n", profile.name);
            assert_eq!(words(&more), whole);
        }
        let all = "[govern]\npolicy = \"copi\"\nknobs = [\"frequency\", \"moderation\"]\n\
                   moderation = \"policy\"\n";
        assert_eq!(
            words(all),
            "profile balanced, with policy, knobs and moderation of the configuration"
        );
        for (text, says) in [
            ("policy = \"performance\"\n", "balanced, with policy of the configuration"),
            (
                "profile = \"latency\"\nidle_latency = \"any\"\nuncore = true\n",
                "latency, with idle_latency and uncore of the configuration",
            ),
        ] {
            assert_eq!(words(&format!("[govern]\n{text}")), format!("profile {says}"));
        }
    }
}
