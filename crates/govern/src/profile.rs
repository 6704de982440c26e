//! The built-in profiles: configurations to start with, each a documented file to copy.

/// A profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// Its purpose, in a line.
    pub summary: &'static str,
    /// The file.
    pub text: &'static str,
}

/// All profiles, the default first.
pub const PROFILES: [Profile; 4] = [
    Profile {
        name: "balanced",
        summary: "processor or kernel control the frequency, with a preference for less power while calm; nothing else is touched",
        text: include_str!("../profiles/balanced.toml"),
    },
    Profile {
        name: "latency",
        summary: "processor or kernel control the frequency and prefer performance; no deep sleep",
        text: include_str!("../profiles/latency.toml"),
    },
    Profile {
        name: "max-save",
        summary: "processor or kernel control the frequency and prefer to save; answers may take longer",
        text: include_str!("../profiles/max-save.toml"),
    },
    Profile {
        name: "router",
        summary: "CPUs that get packets follow the kernel's queues; processor or kernel control the frequency",
        text: include_str!("../profiles/router.toml"),
    },
];

/// Returns the profile with this name.
pub fn find(name: &str) -> Option<Profile> {
    PROFILES.into_iter().find(|profile| profile.name == name)
}

/// Returns the names for an error message.
pub fn names() -> String {
    PROFILES.map(|profile| format!("\"{}\"", profile.name)).join(", ")
}
