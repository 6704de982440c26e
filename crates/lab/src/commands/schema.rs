//! `wattline schema results`: the documents of simulations.

use super::{envelope, league, sim, sim_requests, sweep};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};
use wattline::exit::ExitError;
use wattline::output;

/// Runs the command.
pub fn run() -> Result<(), ExitError> {
    Ok(output::document(&mut output::stdout(), &results())?)
}

/// The JSON schema (draft 2020-12) of what these commands print with `--json`, `build` aside: one
/// definition for each in `properties`, by the command.
fn results() -> Value {
    fn part<T: JsonSchema>(to: &mut SchemaGenerator) -> Value {
        to.subschema_for::<T>().to_value()
    }
    // What is left out where it is empty is not required.
    let mut to = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let properties: Map<String, Value> = [
        ("sim", part::<sim::Output<'_>>(&mut to)),
        ("sim --requests", part::<sim_requests::Output<'_>>(&mut to)),
        ("sweep", part::<sweep::Results>(&mut to)),
        ("envelope", part::<envelope::Output<'_>>(&mut to)),
        ("league", part::<league::Output>(&mut to)),
    ]
    .map(|(name, schema)| (name.to_owned(), schema))
    .into_iter()
    .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Results of Wattline's simulations",
        "properties": properties,
        "$defs": to.take_definitions(true),
    })
}
