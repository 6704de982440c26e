//! JSON schemas of all documents.

use crate::applications::{AclTable, SaTable};
use crate::contract::{CONTRACT, Document};
use crate::{
    ActiveWorkers, AuditReport, Empty, Explanation, FibEntry, FlowTable, Graph, HeldPoint,
    NeighbourTable, PortTable, Rates, ReloadReport, RouteTable, Stats, TracedPacket, WatchEnd,
    WatchStart,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};

/// Returns the documents by name: each with its schema, whose parts are in `to`.
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
        of::<AuditReport>(to),
        of::<WatchStart>(to),
        part::<TracedPacket>("trace, packet", to),
        part::<WatchEnd>("capture and trace, end", to),
        part::<Explanation>("explain", to),
        part::<Rates>("top", to),
        of::<ReloadReport>(to),
        of::<ActiveWorkers>(to),
        of::<HeldPoint>(to),
        of::<Empty>(to),
    ]
}

/// Returns the JSON schema of all documents of a daemon.
pub fn schema() -> Value {
    let mut generator = SchemaGenerator::default();
    let documents = documents(&mut generator);
    let mut schema = schema_of("Answers of a Wattline daemon", documents, generator);
    schema.insert("x-contract".into(), CONTRACT.into());
    schema.into()
}

/// Returns the JSON schema (draft 2020-12) of these documents, whose parts are in `generator`: one
/// definition for each in `properties`, by name.
pub fn schema_of<'n>(
    title: &str,
    documents: impl IntoIterator<Item = (&'n str, Schema)>,
    mut generator: SchemaGenerator,
) -> Map<String, Value> {
    let documents = documents.into_iter();
    let properties: Map<String, Value> =
        documents.map(|(name, schema)| (name.to_owned(), schema.to_value())).collect();
    let members = [
        ("$schema", "https://json-schema.org/draft/2020-12/schema".into()),
        ("title", title.into()),
        ("properties", properties.into()),
        ("$defs", generator.take_definitions(true).into()),
    ];
    members.map(|(name, member)| (name.to_owned(), member)).into_iter().collect()
}
