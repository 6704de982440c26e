//! Checks of Co-PI's tables: they must be readable, of this machine and of knobs that can be turned
//! here. Also the remarks on them for users.

use super::options::Options;
use crate::{Parameters, Platform};
use std::sync::Arc;
use wattline_server::tables::{Conditions, EnergyOrder, Fingerprint, NOT_MEASURED, ProfileTables};
use wattline_units::Span;

/// The percentile by which tables are corrected ([`crate::LatencyView::p95`]).
const MEASURED: f64 = 95.0;

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

/// Reads the tables that a policy of this name and with these parameters names, as it does itself
/// on the machine. Other policies read none.
///
/// # Errors
/// As [`read_tables`].
pub fn check_tables(policy: &str, parameters: &Parameters) -> Result<(), String> {
    if policy != "copi" {
        return Ok(());
    }
    match parameters.word("tables") {
        "none" => Ok(()),
        path => read_tables(path).map(drop),
    }
}

/// The tables as they are, or carried over from another machine.
pub(super) fn forced(tables: Arc<ProfileTables>, platform: &Platform) -> Arc<ProfileTables> {
    let machine = fingerprint(platform);
    if tables.conditions.machine.differs_from(&machine).is_none() {
        return tables;
    }
    // What cannot be carried over is refused as before.
    tables.carried_to(machine).map_or(tables, Arc::new)
}

/// Returns why tables do not fit this machine, or do not suffice to decide by.
pub(super) fn unfit(
    tables: &ProfileTables,
    options: &Options,
    platform: &Platform,
) -> Option<String> {
    let Conditions { server, percentile, machine, .. } = &tables.conditions;
    if let Some(differs) = machine.differs_from(&fingerprint(platform)) {
        return Some(format!(
            "tables: made on another machine ({server}): {differs}; profile this one, or \
             take them with force=yes"
        ));
    }
    if tables.energy_order().is_none() {
        return Some(format!(
            "tables: watts are known of some points and not of others ({server}): nothing says which \
             point takes less; profile again, with a meter that answers throughout (`wattline \
             meter list`) or with --without-power"
        ));
    }
    if (percentile - MEASURED).abs() > 1e-6 && options.correction > 0.0 {
        return Some(format!(
            "tables: their latencies are percentile {percentile}, and what is measured under copi, by \
             which it corrects them, is percentile {MEASURED}; profile that one, or trust the tables by \
             correction=0, with a target of their percentile"
        ));
    }
    unturned(tables, platform)
}

/// Returns why tables over a knob that the policy cannot turn here are of no use: of several states
/// or periods it would choose one that nobody sets.
fn unturned(tables: &ProfileTables, platform: &Platform) -> Option<String> {
    let (loads, states, periods) =
        (0..tables.loads().len(), tables.frequencies().len(), tables.periods().len());
    let known = |state: usize, period: usize| {
        loads.clone().any(|load| tables.point(load, state, period).is_some())
    };
    let with_period = (0..periods).filter(|period| (0..states).any(|state| known(state, *period)));
    let with_state = (0..states).filter(|state| (0..periods).any(|period| known(*state, period)));
    let listed = |values: &[String]| values.join(", ");
    let micros = with_period.map(|at| format!("{}", tables.periods()[at].as_seconds() * 1e6));
    let micros: Vec<String> = micros.collect();
    if !platform.can.set_moderation && micros.len() > 1 {
        return Some(format!(
            "tables: they have {} moderation periods ({} us), and copi cannot set the period here, \
             so nothing says which of them will hold; let it (under `wattline govern` by knobs with \
             \"moderation\" and moderation = \"policy\", without +PERIOD behind the policy, with cards \
             that can be moderated), or profile the server with the moderation that it will have",
            micros.len(),
            listed(&micros)
        ));
    }
    let gigahertz = with_state.map(|at| format!("{}", tables.frequencies()[at].gigahertz()));
    let gigahertz: Vec<String> = gigahertz.collect();
    if !platform.can.set_frequency && gigahertz.len() > 1 {
        return Some(format!(
            "tables: they have {} V/F states ({} GHz), and copi cannot set the frequency here, so \
             nothing says which of them will hold; let it (under `wattline govern` by knobs with \
             \"frequency\", on CPUs whose frequency can be set), or profile the server without it",
            gigahertz.len(),
            listed(&gigahertz)
        ));
    }
    None
}

/// Returns remarks on the tables for users: the order of points if no watts were measured here, and
/// that a search picked the points.
pub(super) fn notes(tables: &ProfileTables) -> Vec<String> {
    let told = tables.conditions.energy.as_deref();
    let told = match tables.energy_order() {
        Some(EnergyOrder::StateThenPeriod) => Some(told.unwrap_or(NOT_MEASURED)),
        _ => told,
    };
    let energy = told.map(|told| format!("copi: energy of the tables: {told}"));
    let (known, all) = (tables.known_points(), tables.all_points());
    let sparse = (known * 2 < all).then(|| {
        format!(
            "copi: the tables have {known} of {all} points: those of a sparse profile serve the target that \
             it searched for, and under another one more energy is used than would have to be"
        )
    });
    energy.into_iter().chain(sparse).collect()
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
