//! JSON schemas of all documents.

use crate::applications::{AclTable, SaTable};
use crate::contract::{CONTRACT, Document};
use crate::{
    ActiveWorkers, Empty, Explanation, FibEntry, FlowTable, Graph, NeighbourTable, PortTable,
    Rates, ReloadReport, RouteTable, Stats, WatchEnd, WatchStart, Way,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Documents by name: each with its schema, whose parts are in `to`.
pub fn documents(to: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
    fn of<T: Document>(to: &mut SchemaGenerator) -> (&'static str, Schema) {
        (T::NAME, to.subschema_for::<T>())
    }
    fn part<T: JsonSchema>(name: &'static str, to: &mut SchemaGenerator) -> (&'static str, Schema) {
        (name, to.subschema_for::<T>())
    }
    vec![
        of::<Stats>(to),
        of::<Graph>(to),
        of::<PortTable>(to),
        of::<RouteTable>(to),
        of::<NeighbourTable>(to),
        of::<FibEntry>(to),
        of::<FlowTable>(to),
        of::<SaTable>(to),
        of::<AclTable>(to),
        of::<WatchStart>(to),
        part::<Way>("trace, packet", to),
        part::<WatchEnd>("capture and trace, end", to),
        part::<Explanation>("explain", to),
        part::<Rates>("top", to),
        of::<ReloadReport>(to),
        of::<ActiveWorkers>(to),
        of::<Empty>(to),
    ]
}

/// The JSON schema (draft 2020-12) of everything that a daemon says: one definition for each document
/// in `properties`, by name.
pub fn schema() -> Value {
    let mut generator = SchemaGenerator::default();
    let documents = documents(&mut generator);
    let properties: Map<String, Value> =
        documents.into_iter().map(|(name, schema)| (name.to_owned(), schema.to_value())).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Answers of a Wattline daemon",
        "x-contract": CONTRACT,
        "properties": properties,
        "$defs": generator.take_definitions(true),
    })
}
