//! The configuration of a governor: TOML; omitted keys come from a profile.

mod files;
pub mod keys;
mod listed;
mod overrides;
mod parse;
mod settings;

pub(crate) use listed::Listed;
pub use settings::{Config, Moderation, SourceKind, SourceSettings};

use crate::profile;
use std::path::Path;
use wattline_daemon::settings::{ConfigError, Problems, Reader, Table, read_text};
use wattline_policy::Registry;

impl Config {
    /// Returns the defaults that apply without a file.
    ///
    /// # Panics
    /// Never: the built-in profile is tested.
    pub fn built_in(policies: Registry) -> Self {
        let base = profile::PROFILES[0];
        Self::parse(base.text, base.name, policies).unwrap_or_else(|problems| panic!("{problems}"))
    }

    /// Reads and checks a file; paths in it begin at its directory.
    ///
    /// # Errors
    /// When it cannot be read, or with all mistakes in it.
    pub fn load(path: &Path, policies: Registry) -> Result<Self, ConfigError> {
        let mut config = Self::parse(&read_text(path)?, &path.display().to_string(), policies)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        config.begin_at(directory);
        config.read_files();
        Ok(config)
    }

    /// Returns the same configuration, with a policy that also accepts tables of another machine.
    #[must_use]
    pub fn forced(mut self) -> Self {
        let (name, rest) = self.policy.split_once(':').unwrap_or((&self.policy, ""));
        if name == "copi" && !rest.contains("force=") {
            let separator = if rest.is_empty() { "" } else { "," };
            self.policy = format!("{name}:force=yes{separator}{rest}");
        }
        self
    }

    /// Checks a text that may name one of these policies; `file` is its name in messages.
    ///
    /// # Errors
    /// With all mistakes in it.
    pub fn parse(text: &str, file: &str, policies: Registry) -> Result<Self, Problems> {
        let read = |reader: &mut Reader, root: &Table| parse::read(reader, root, policies);
        parse::document((text, file), "`wattline govern`", read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::PROFILES;
    use wattline_daemon::settings::LogLevel;
    use wattline_knobs::OnExit;
    use wattline_policies::POLICIES;
    use wattline_units::Span;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, "test", POLICIES).map_err(|problems| problems.to_string())
    }

    #[test]
    fn every_profile_lists_all_its_settings() {
        for profile in PROFILES {
            let config = parse(profile.text).unwrap();
            assert_eq!(config.profile, profile);
            crate::choice::check(&config).unwrap();
            for key in ["policy", "knobs", "idle_latency", "moderation", "uncore"] {
                let line = format!("\n{key} = ");
                assert!(profile.text.contains(&line), "{}: {key}", profile.name);
            }
            // Naming only the profile is equivalent.
            let short = format!("[govern]\nprofile = \"{}\"\n", profile.name);
            assert_eq!(parse(&short).unwrap(), config);
        }
        assert_eq!(parse("").unwrap(), Config::built_in(POLICIES));
        assert_eq!(Config::built_in(POLICIES).profile.name, "balanced");
    }

    #[test]
    fn every_key_is_read() {
        let config = parse(
            "[log]\nlevel = \"debug\"\n[metrics]\nlisten = \"127.0.0.1:9\"\n\
             [govern]\nprofile = \"max-save\"\npolicy = \"napi\"\nknobs = [\"idle\"]\n\
             cpus = [3, 1]\ninterfaces = [\"eth0\"]\nidle_latency = \"7us\"\n\
             moderation = \"policy\"\nuncore = false\noverride_limits = true\nmay_raise = true\nlatency_target = \"2ms\"\n\
             latency_hold = \"1s\"\nlatency_silence = \"3s\"\nserver = \"own.toml\"\nseed = 7\n\
             on_exit = \"keep\"\nsocket = \"/run/x\"\n\
             [[latency]]\nname = \"a\"\nclients = \"a.sock\"\nwindow = \"1s\"\n\
             [[latency]]\nname = \"b\"\nprometheus = \"http://127.0.0.1:1/m\"\n\
             histogram = \"x_seconds\"\nunit = \"1ms\"\nperiod = \"2s\"\n",
        )
        .unwrap();
        assert_eq!(config.policy, "napi");
        let scope = config.scope;
        assert_eq!((scope.frequency, scope.idle, scope.moderation), (false, true, false));
        assert_eq!((config.cpus, config.interfaces), (vec![1, 3], vec!["eth0".to_owned()]));
        assert_eq!(config.idle_latency, Some(Span::from_micros(7)));
        assert_eq!((config.moderation, config.uncore), (Moderation::Policy, false));
        assert!(config.override_limits && !Config::built_in(POLICIES).override_limits);
        assert!(config.may_raise && !Config::built_in(POLICIES).may_raise);
        assert_eq!(config.latency_target, Some(Span::from_millis(2)));
        assert_eq!(config.latency_hold, Span::from_millis(1000));
        assert_eq!(config.latency_silence, Span::from_millis(3000));
        assert_eq!((&*config.server, config.seed, config.on_exit), ("own.toml", 7, OnExit::Keep));
        assert_eq!(config.socket, Some("/run/x".into()));
        assert_eq!(config.log_level, LogLevel::Debug);
        assert_eq!(config.metrics, Some(([127, 0, 0, 1], 9).into()));
        let window = Span::from_millis(1000);
        let clients = SourceKind::Clients { socket: "a.sock".into(), window };
        assert_eq!(config.latency[0], SourceSettings { name: "a".into(), kind: clients });
        let SourceKind::Prometheus { unit, period, .. } = &config.latency[1].kind else { panic!() };
        assert_eq!((*unit, *period), (Span::from_millis(1), Span::from_millis(2000)));
    }

    #[test]
    fn mistakes_name_the_allowed_values() {
        const SOURCE: &str = "[[latency]]\nname = \"a\"\n";
        for (text, says) in [
            ("[govern]\nprofile = \"fast\"\n", "\"max-save\""),
            ("[govern]\npolicy = \"ondemnd\"\n", "ondemand"),
            ("[govern]\nknobs = [\"fans\"]\n", "\"moderation\""),
            ("[govern]\ncpus = [1, 1]\n", "without repetition"),
            ("[govern]\ninterfaces = [\"a b\"]\n", "names of interfaces"),
            ("[govern]\nidle_latency = \"never\"\n", "\"any\""),
            ("[govern]\nmoderation = \"1h\"\n", "\"keep\""),
            ("[govern]\nlatency_target = \"0s\"\n", "1us"),
            ("[govern]\nprofil = \"latency\"\n", "did you mean \"profile\""),
            ("[power]\nplatform = \"host\"\n", "configuration of a router"),
            ("[[port]]\nname = \"a\"\n", "configuration of a router"),
            ("[goven]\n", "did you mean `[govern]`"),
            ("[rooter]\n", "known here are [govern], [[latency]], [log], [metrics]"),
            ("[govern]\nworkers = 2\n", "known here are profile, policy, knobs"),
            ("[govern]\nroutes_file = \"x\"\n", "known here are profile, policy, knobs"),
            (
                "[[latency]]\nname = \"a\"\ntcp = [1]\nperiod = \"1min\"\n",
                "is 60 s, and after 10 s without news a source counts as silent",
            ),
            (
                "[govern]\nlatency_silence = \"1s\"\n[[latency]]\nname = \"a\"\n\
                 prometheus = \"http://x/\"\nhistogram = \"x_seconds\"\n",
                "allowed is less than that",
            ),
            (SOURCE, "one of `clients`, `prometheus` and `tcp`"),
            ("[[latency]]\nclients = \"x\"\n", "is missing"),
            ("[[latency]]\nname = \"a\"\nclients = \"x\"\ntcp = [1]\n", "has `clients` and `tcp`"),
            ("[[latency]]\nname = \"a\"\nprometheus = \"ftp://x\"\n", "http://"),
            ("[[latency]]\nname = \"a\"\nprometheus = \"http://x/\"\n", "histogram"),
            (
                "[[latency]]\nname=\"a\"\nclients=\"x\"\n[[latency]]\nname=\"a\"\nclients=\"y\"\n",
                "is used twice",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        let two = parse("[govern]\nseed = -1\nuncore = 3\n").unwrap_err();
        assert_eq!(two.lines().count(), 2, "{two}");
    }

    #[test]
    fn any_bytes_are_accepted_or_refused_with_a_reason() {
        bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
            let mut text = PROFILES[2].text.as_bytes().to_vec();
            for change in bytes.chunks_exact(3) {
                let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % text.len();
                text[at] = change[2];
            }
            if let Err(problems) = Config::parse(&String::from_utf8_lossy(&text), "fuzz", POLICIES)
            {
                assert!(!problems.list.is_empty());
            }
        });
    }

    #[test]
    fn round_trips_are_a_source_of_their_own_and_force_is_of_copi_alone() {
        let source = |text: &str| parse(&format!("[[latency]]\nname = \"a\"\n{text}\n"));
        let config = source("tcp = [11211, 80]\nperiod = \"200ms\"").unwrap();
        let SourceKind::Tcp { ports, period, .. } = &config.latency[0].kind else { panic!() };
        assert_eq!((&ports[..], *period), (&[11211, 80][..], Span::from_millis(200)));
        for wrong in ["tcp = [0]", "tcp = [70000]", "tcp = [80]\nclients = \"x\"", ""] {
            assert!(source(wrong).is_err(), "{wrong}");
        }
        let forced = |policy: &str| {
            let text = format!("[govern]\npolicy = \"{policy}\"\n");
            parse(&text).unwrap().forced().policy
        };
        assert_eq!(forced("copi:tables=x"), "copi:force=yes,tables=x");
        assert_eq!(forced("copi:tables=x,force=no"), "copi:tables=x,force=no");
        assert_eq!(forced("ondemand"), "ondemand");
    }
}
