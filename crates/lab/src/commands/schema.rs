//! `wattline schema results`: the documents of simulations.

use super::{envelope, league, sim, sim_requests, sweep};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use wattline::exit::ExitError;
use wattline::output;
use wattline_status::schema_of;

/// Runs the command.
pub fn run() -> Result<(), ExitError> {
    Ok(output::document(&mut output::stdout(), &results())?)
}

/// Returns the JSON schema of these commands' output with `--json`, without `build`.
fn results() -> Map<String, Value> {
    // Fields that are left out if empty are not required.
    let mut to = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let documents = [
        ("sim", to.subschema_for::<sim::Output<'_>>()),
        ("sim --requests", to.subschema_for::<sim_requests::Output<'_>>()),
        ("sweep", to.subschema_for::<sweep::Results>()),
        ("envelope", to.subschema_for::<envelope::Output<'_>>()),
        ("league", to.subschema_for::<league::Output>()),
    ];
    schema_of("Results of Wattline's simulations", documents, to)
}
