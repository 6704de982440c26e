//! Figures in a document of JSON.

use serde_json::Value;
use std::collections::BTreeMap;

/// Keys that distinguish the entries of a list; the first present key is used.
const NAMES: [&str; 6] = ["name", "policy", "id", "label", "frames", "knob"];
/// Largest number of figures of a document; a larger document is a table of points, which cannot be
/// compared by eye.
pub const MOST: usize = 20_000;

/// Returns true if a list holds the points of a curve, such as a distribution: pairs of numbers or
/// longer rows. The index of a point has no meaning, so points of two curves cannot be compared by
/// it.
fn is_curve(entries: &[Value]) -> bool {
    let point = |entry: &Value| {
        entry.as_array().is_some_and(|row| row.len() > 1 && row.iter().all(Value::is_number))
    };
    !entries.is_empty() && entries.iter().all(point)
}

/// Returns all numbers of a document by their path, such as
/// `policies.queue-length.mean_power_watts`, except the points of curves. `None` if there are more
/// than [`MOST`].
pub fn figures(document: &Value) -> Option<BTreeMap<String, f64>> {
    let mut found = BTreeMap::new();
    walk(document, String::new(), &mut found).then_some(found)
}

fn walk(value: &Value, path: String, found: &mut BTreeMap<String, f64>) -> bool {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Number(number) => {
            if let Some(number) = number.as_f64().filter(|number| number.is_finite()) {
                found.insert(path, number);
            }
            found.len() <= MOST
        }
        Value::Object(fields) => fields.iter().all(|(key, value)| walk(value, below(key), found)),
        Value::Array(entries) if is_curve(entries) => true,
        Value::Array(entries) => {
            let named = NAMES.iter().find_map(|key| names(entries, key));
            let name =
                |index: usize| named.as_ref().map_or(index.to_string(), |all| all[index].clone());
            let mut entries = entries.iter().enumerate();
            entries.all(|(index, entry)| walk(entry, below(&name(index)), found))
        }
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

/// Returns the texts of a key if all entries have it with different texts.
fn names(entries: &[Value], key: &str) -> Option<Vec<String>> {
    let names: Option<Vec<String>> =
        entries.iter().map(|entry| entry[key].as_str().map(str::to_owned)).collect();
    let names = names?;
    let mut sorted = names.clone();
    sorted.sort();
    sorted.dedup();
    (sorted.len() == names.len()).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_found_by_paths_that_do_not_depend_on_order() {
        let document = json!({"power": {"watts": 130.5, "source": "emulated"}, "lost": 0,
            "policies": [{"name": "poll", "p99": 1e-5}, {"name": "napi", "p99": 2e-5}],
            "twice": [{"name": "a", "n": 1}, {"name": "a", "n": 2}], "none": null, "yes": true});
        let found = figures(&document).unwrap();
        let paths: Vec<_> = found.iter().map(|(path, value)| (path.as_str(), *value)).collect();
        let expected = [
            ("lost", 0.0),
            ("policies.napi.p99", 2e-5),
            ("policies.poll.p99", 1e-5),
            ("power.watts", 130.5),
            ("twice.0.n", 1.0),
            ("twice.1.n", 2.0),
        ];
        assert_eq!(paths, expected);
    }

    #[test]
    fn points_of_a_curve_are_not_figures() {
        let document = json!({"latency_curve": [[0.0005, 1.8e-6], [0.106, 2e-6]], "watts": 3,
            "shares": [0.25, 0.75], "mixed": [[1, 2], 3]});
        let found: Vec<String> = figures(&document).unwrap().into_keys().collect();
        assert_eq!(found, ["mixed.0.0", "mixed.0.1", "mixed.1", "shares.0", "shares.1", "watts"]);
    }

    #[test]
    fn excess_figures_are_reported() {
        assert!(figures(&json!(vec![1; MOST])).is_some());
        assert!(figures(&json!(vec![1; MOST + 1])).is_none());
    }
}
