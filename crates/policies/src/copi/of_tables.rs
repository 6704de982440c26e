//! Checks of Co-PI's tables: they must belong to this machine, and contain only knobs that can be
//! turned here. Also the remarks on them for users.

use super::options::Options;
use std::sync::Arc;
use wattline_policy::Platform;
use wattline_policy::tables::fingerprint;
use wattline_server::tables::{Conditions, EnergyOrder, NOT_MEASURED, ProfileTables};

/// Percentile by which tables are corrected ([`wattline_policy::LatencyView::p95`]).
const MEASURED: f64 = 95.0;

/// Returns the tables unchanged, or carried over from another machine.
pub(super) fn forced(tables: Arc<ProfileTables>, platform: &Platform) -> Arc<ProfileTables> {
    let machine = fingerprint(platform);
    if tables.conditions.machine.differs_from(&machine).is_none() {
        return tables;
    }
    // Tables that cannot be carried over are refused later.
    tables.carried_to(machine).map_or(tables, Arc::new)
}

/// Returns the reason why tables do not fit this machine, or do not suffice for decisions.
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

/// Returns the reason why tables need a knob that the policy cannot turn here: it would choose
/// among states or periods that are never set.
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
    let stated = tables.conditions.energy.as_deref();
    let energy = match tables.energy_order() {
        Some(EnergyOrder::StateThenPeriod) => Some(stated.unwrap_or(NOT_MEASURED)),
        _ => stated,
    };
    let energy = energy.map(|energy| format!("copi: energy of the tables: {energy}"));
    let (known, all) = (tables.known_points(), tables.all_points());
    let sparse = (known * 2 < all).then(|| {
        format!(
            "copi: the tables have {known} of {all} points: those of a sparse profile serve the target that \
             it searched for, and under another one more energy is used than would have to be"
        )
    });
    energy.into_iter().chain(sparse).collect()
}
