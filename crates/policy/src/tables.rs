//! Tables of a profile, which policies read from files.

use crate::{Platform, PolicySpec};
use wattline_server::ServerModel;
use wattline_server::tables::{Fingerprint, ProfileTables};
use wattline_units::Span;

/// Reads the tables of a file; endless files, and those that block on opening, are refused first.
///
/// # Errors
/// Describes the problems of the file, with their lines.
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
    // The error describes itself why a file cannot be read.
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

/// Returns the model of a server by its name, or from a file.
///
/// # Errors
/// Describes the problems of the file, with their lines.
pub fn read_server(name_or_path: &str) -> Result<ServerModel, String> {
    ServerModel::load(name_or_path).map_err(|error| format!("server: {error}"))
}

/// Reads the files named by a policy's parameters `tables` and `server`, as the policy itself does
/// on the machine. Policies without these parameters read none.
///
/// # Errors
/// As [`read_tables`] and [`read_server`].
pub fn check_tables(spec: &PolicySpec) -> Result<(), String> {
    let word = |name: &str| {
        let has = spec.policy.parameters.iter().any(|parameter| parameter.name == name);
        has.then(|| spec.parameters.word(name))
    };
    match word("tables") {
        None | Some("none") => {}
        Some(path) => drop(read_tables(path)?),
    }
    match word("server") {
        None | Some("same") => Ok(()),
        Some(name) => read_server(name).map(drop),
    }
}

/// Returns the fingerprint of tables that fit a platform.
pub fn fingerprint(platform: &Platform) -> Fingerprint {
    let micros = |span: Span| span.as_seconds() * 1e6;
    Fingerprint {
        cores: platform.cores,
        frequencies_ghz: platform.frequencies.iter().map(|f| f.gigahertz()).collect(),
        moderation_us: [micros(platform.moderation.0), micros(platform.moderation.1)],
        hardware: platform.hardware.clone(),
    }
}
