//! The files that a configuration names.

use super::{Config, SourceKind};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use wattline_server::tables::ProfileTables;

/// The parameter of `copi` that names a file.
const TABLES: &str = "tables";

/// Returns the path of the tables in the text of a policy.
fn tables(policy: &str) -> Option<&str> {
    let (name, settings) = policy.split_once(':')?;
    let named = settings.split(',').filter_map(|one| one.split_once('='));
    let path = named.filter(|(key, _)| *key == TABLES).map(|(_, path)| path).next()?;
    (name.split('+').next() == Some("copi") && path != "none").then_some(path)
}

impl Config {
    /// Makes relative paths of the configuration start at this directory, that of its file.
    pub(super) fn begin_at(&mut self, directory: &Path) {
        for source in &mut self.latency {
            if let SourceKind::Clients { socket, .. } = &mut source.kind {
                *socket = directory.join(&*socket);
            }
        }
        if let Some(path) = tables(&self.policy) {
            let whole = directory.join(path).display().to_string();
            let settings = format!("{TABLES}={path}");
            self.policy = self.policy.replacen(&settings, &format!("{TABLES}={whole}"), 1);
        }
        // Other values are names of shipped models.
        if self.server.ends_with(".toml") {
            self.server = directory.join(&self.server).display().to_string();
        }
    }

    /// Reads the contents of the files. An unreadable file counts as empty: its user reports it.
    pub(super) fn read_files(&mut self) {
        let mut contents = DefaultHasher::new();
        for path in tables(&self.policy).into_iter().chain([self.server.as_str()]) {
            // A device has no end, and the user of a larger file rejects it.
            let most = ProfileTables::MOST_BYTES;
            let has_an_end =
                std::fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() <= most);
            let read = has_an_end.then(|| std::fs::read(path).ok()).flatten();
            read.unwrap_or_default().hash(&mut contents);
        }
        self.files = contents.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_policies::POLICIES;

    #[test]
    fn a_device_is_not_read() {
        let text = "[govern]\npolicy = \"copi:tables=/dev/zero\"\n";
        let mut config = Config::parse(text, "test", POLICIES).unwrap();
        config.read_files();
        let error = crate::choice::check(&config).unwrap_err().to_string();
        assert!(error.contains("/dev/zero is no regular file"), "{error}");
    }

    #[test]
    fn paths_begin_at_the_file_and_changed_contents_are_another_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let text = "[govern]\npolicy = \"copi:period=1s,tables=t.csv\"\nserver = \"own.toml\"\n\
                    [[latency]]\nname = \"a\"\nclients = \"a.sock\"\n";
        std::fs::write(path("govern.toml"), text).unwrap();
        std::fs::write(path("t.csv"), "one").unwrap();
        let load = || Config::load(&path("govern.toml"), POLICIES).unwrap();
        let first = load();
        assert_eq!(first.policy, format!("copi:period=1s,tables={}", path("t.csv").display()));
        assert_eq!(first.server, path("own.toml").display().to_string());
        assert_eq!(load(), first);
        std::fs::write(path("t.csv"), "two").unwrap();
        let second = load();
        assert_ne!(second, first, "a new profile");
        std::fs::write(path("own.toml"), "").unwrap();
        assert_eq!(load(), second);
        std::fs::write(path("own.toml"), "[server]").unwrap();
        assert_ne!(load(), second);
    }

    #[test]
    fn names_and_whole_paths_stay() {
        for policy in
            ["copi:tables=/a/t.csv", "copi:tables=none", "copi", "ondemand", "wattline:p99=1ms"]
        {
            let text = format!("[govern]\npolicy = \"{policy}\"\n");
            let mut config = Config::parse(&text, "test", POLICIES).unwrap();
            config.begin_at(Path::new("/etc/wattline"));
            assert_eq!((config.policy.as_str(), config.server.as_str()), (policy, "westmere-2010"));
        }
    }
}
