//! The reference page of all documents, made from their schemas.

use crate::contract::CONTRACT;
use crate::schema::documents;
use schemars::SchemaGenerator;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Unit suffixes of keys, with their names, the longest first.
const UNITS: &[(&str, &str)] = &[
    ("_rate_pps", "packets/s"),
    ("_bits_per_second", "bit/s"),
    ("_per_second", "1/s"),
    ("_cycles", "cycles"),
    ("_seconds_per_packet", "s/packet"),
    ("_per_packet", "cycles/packet"),
    ("_seconds_ago", "s"),
    ("_seconds", "s"),
    ("_millis", "ms"),
    ("_watts", "W"),
    ("_joules", "J"),
    ("_hertz", "Hz"),
    ("_bytes", "bytes"),
    ("_packets", "packets"),
    ("_ratio", "0 to 1"),
    ("_share", "0 to 1"),
];

/// Returns the unit of a key, by its suffix.
fn unit(key: &str) -> &'static str {
    match key {
        "packets" => "packets",
        "bytes" | "mtu" => "bytes",
        _ => {
            let mut units = UNITS.iter();
            units
                .find(|(end, _)| key.ends_with(end) || key == &end[1..])
                .map_or("", |(_, unit)| unit)
        }
    }
}

/// Returns the page, in Markdown.
pub fn reference() -> String {
    let mut generator = SchemaGenerator::default();
    let documents = documents(&mut generator);
    let parts = generator.take_definitions(true);
    let mut text = format!(
        "# JSON of a running daemon\n\n\
         <!-- Generated: UPDATE_GOLDEN=1 cargo test -p wattline-status. A test compares. -->\n\
         `wattline stats`, `show`, `graph`, `explain`, `trace`, `capture`, `top`, `reload` and `active` \
         print these documents with `--json`; the control socket answers with them. `contract` is the \
         number of this format, now {CONTRACT}. It rises when a key goes, changes its meaning or becomes \
         required; optional keys may be added without. A program of another number refuses the answer \
         and says which side is older. `wattline schema` prints the same as a JSON schema.\n\n\
         Every document has it. A key that is not always present is marked *optional*.\n\n"
    );
    let line = |text: &mut String, cells: std::fmt::Arguments<'_>| {
        // Writing into a string does not fail.
        let _ = writeln!(text, "{cells}");
    };
    let mut queue: Vec<String> = Vec::new();
    for (name, schema) in documents {
        let schema = schema.to_value();
        line(&mut text, format_args!("- {name}: {}", kind(&schema)));
        queue.extend(named(&schema));
    }
    let mut seen = BTreeSet::new();
    let mut at = 0;
    while let Some(name) = queue.get(at).cloned() {
        at += 1;
        if !seen.insert(name.clone()) {
            continue;
        }
        let Some(part) = parts.get(&name) else { continue };
        queue.extend(named(part));
        let about = description(part);
        line(&mut text, format_args!("\n## {name}\n{about}\n"));
        let keys = keys(part);
        let values = values(part);
        for (key, schema, required) in keys.into_iter().filter(|(key, ..)| *key != "contract") {
            let unit = Some(unit(key)).filter(|unit| !unit.is_empty());
            let unit = unit.map(|unit| format!(", {unit}")).unwrap_or_default();
            let optional = if required { "" } else { ", *optional*" };
            let (kind, about) = (kind(schema), description(schema));
            line(&mut text, format_args!("- `{key}` ({kind}{unit}{optional}): {about}"));
        }
        for (value, about) in values {
            line(&mut text, format_args!("- {value}: {about}"));
        }
    }
    text
}

fn text_of<'a>(schema: &'a Value, key: &str) -> Option<&'a str> {
    schema.get(key)?.as_str()
}

fn list<'a>(schema: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    schema.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Returns the description on one line.
fn description(schema: &Value) -> String {
    text_of(schema, "description").unwrap_or_default().replace('\n', " ")
}

fn reference_of(schema: &Value) -> Option<&str> {
    text_of(schema, "$ref")?.rsplit('/').next()
}

/// Returns the names of the types that a schema mentions, in order.
fn named(schema: &Value) -> Vec<String> {
    let mut names = Vec::new();
    match schema {
        Value::Object(object) => {
            names.extend(reference_of(schema).map(str::to_owned));
            for (key, value) in object {
                if key != "$ref" {
                    names.extend(named(value));
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| names.extend(named(item))),
        _ => {}
    }
    names
}

/// Returns the keys of an object with their schemas; true for required keys.
fn keys(part: &Value) -> Vec<(&str, &Value, bool)> {
    let required: BTreeSet<&str> = list(part, "required").filter_map(Value::as_str).collect();
    let properties = part.get("properties").and_then(Value::as_object).into_iter().flatten();
    properties.map(|(key, schema)| (&**key, schema, required.contains(&**key))).collect()
}

/// Returns the values of a choice, with their meanings.
fn values(part: &Value) -> Vec<(String, String)> {
    let one = |schema: &Value| {
        let word = text_of(schema, "const").map(|word| format!("`{word}`"));
        let tagged = || {
            let tag = keys(schema).into_iter().find_map(|(key, schema, _)| {
                let value = text_of(schema, "const")?;
                Some(format!("`\"{key}\": \"{value}\"`"))
            })?;
            Some(format!("{tag}, and the keys of {}", kind_name(reference_of(schema)?)))
        };
        Some((word.or_else(tagged)?, description(schema)))
    };
    let words = list(part, "enum").filter_map(Value::as_str).map(|word| format!("`{word}`"));
    let words = words.map(|word| (word, String::new()));
    list(part, "oneOf").filter_map(one).chain(words).collect()
}

fn kind_name(name: &str) -> String {
    format!("[{name}](#{})", name.to_lowercase())
}

/// Returns the type of a value, in words.
fn kind(schema: &Value) -> String {
    if let Some(name) = reference_of(schema) {
        return kind_name(name);
    }
    let choices: Vec<String> =
        list(schema, "anyOf").chain(list(schema, "allOf")).map(kind).collect();
    if !choices.is_empty() {
        return choices.join(" or ");
    }
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => return "any".to_owned(),
    };
    let one = |name: &&str| match *name {
        "array" => match schema.get("items") {
            Some(items) => format!("list of {}", kind(items)),
            None => "list".to_owned(),
        },
        "object" => match schema.get("additionalProperties") {
            Some(values @ Value::Object(_)) => format!("map of {}", kind(values)),
            _ => "object".to_owned(),
        },
        other => other.to_owned(),
    };
    types.iter().map(one).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/daemon-json.md");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(path, reference()).unwrap();
        }
        let page = std::fs::read_to_string(path).unwrap_or_default();
        let hint = "docs/reference/daemon-json.md: UPDATE_GOLDEN=1 cargo test -p wattline-status";
        assert!(page == reference(), "{hint}");
    }

    #[test]
    fn every_key_is_described_and_every_quantity_has_a_unit() {
        let mut generator = SchemaGenerator::default();
        documents(&mut generator);
        let parts = generator.take_definitions(true);
        let mut wrong = Vec::new();
        for (name, part) in &parts {
            if description(part).is_empty() {
                wrong.push(name.clone());
            }
            for (key, schema, _) in keys(part) {
                let tag = text_of(schema, "const").is_some();
                let number = kind(schema).split(' ').any(|word| word == "number");
                if description(schema).is_empty() && !tag {
                    wrong.push(format!("{name}.{key} has no description"));
                }
                if number && unit(key).is_empty() {
                    wrong.push(format!("{name}.{key} is a quantity without a unit"));
                }
            }
        }
        assert!(wrong.is_empty() && parts.len() > 40, "{} parts: {wrong:#?}", parts.len());
    }
}
