//! Tables of a profile, which policies read from files.

use crate::{Platform, PolicySpec};
use wattline_server::tables::{Fingerprint, ProfileTables};
use wattline_units::Span;

/// The tables of a file; one that has no end, or does not begin, is refused before it is read.
///
/// # Errors
/// Says what is wrong with the file, and with which lines.
pub fn read_tables(path: &str) -> Result<ProfileTables, String> {
    if let Ok(file) = std::fs::metadata(path) {
        if !file.is_file() {
            return Err(format!("tables: {path} is no regular file"));
        }
        if file.len() > ProfileTables::MOST_BYTES {
            let most = ProfileTables::MOST_BYTES >> 20;
            return Err(format!("tables: {path} has {} bytes; {most} MiB are allowed", file.len()));
        }
    }
    // Says itself why a file cannot be read.
    ProfileTables::load(path).map_err(|error| {
        let hint = match path.rsplit_once('+') {
            Some((file, _)) if std::path::Path::new(file).exists() => {
                "; a moderation belongs to the name of the policy: copi+84us:tables=FILE"
            }
            _ => "",
        };
        format!("{error}{hint}")
    })
}

/// Reads the tables that a policy's parameter `tables` names, as the policy does itself on the
/// machine. Policies without this parameter read none.
///
/// # Errors
/// As [`read_tables`].
pub fn check_tables(spec: &PolicySpec) -> Result<(), String> {
    if !spec.policy.parameters.iter().any(|parameter| parameter.name == "tables") {
        return Ok(());
    }
    match spec.parameters.word("tables") {
        "none" => Ok(()),
        path => read_tables(path).map(drop),
    }
}

/// Returns the fingerprint that tables must have to fit a platform.
pub fn fingerprint(platform: &Platform) -> Fingerprint {
    let micros = |span: Span| span.as_seconds() * 1e6;
    Fingerprint {
        cores: platform.cores,
        frequencies_ghz: platform.frequencies.iter().map(|f| f.gigahertz()).collect(),
        moderation_us: [micros(platform.moderation.0), micros(platform.moderation.1)],
        hardware: platform.hardware.clone(),
    }
}
