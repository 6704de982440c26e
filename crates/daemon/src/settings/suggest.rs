//! Suggestions for mistyped names.

/// Returns true if both are the same word except for capitals, hyphens and the plural: the
/// commonest near misses, and the surest.
pub(super) fn is_same_word(name: &str, known: &str) -> bool {
    let (name, known) = (plain(name), plain(known));
    let is_plural = |one: &str, other: &str| matches!(one.strip_prefix(other), Some("s" | "es"));
    name == known || is_plural(&name, &known) || is_plural(&known, &name)
}

/// Returns the nearest of the known names, if it is near enough to be meant.
pub(super) fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let far = |known: &str| match (is_same_word(name, known), is_longer_form(name, known)) {
        (true, _) => 0,
        (false, true) => 1,
        _ => strsim::damerau_levenshtein(&plain(name), &plain(known)),
    };
    let (far, known) =
        known.into_iter().map(|known| (far(known), known)).min_by_key(|(far, _)| *far)?;
    (far <= 1 + known.len() / 3).then_some(known)
}

/// Returns true for a longer form, such as `logging` for `log`.
fn is_longer_form(name: &str, known: &str) -> bool {
    known.len() >= 3 && plain(name).starts_with(&plain(known))
}

fn plain(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_word_is_nearer_than_one_with_another_letter() {
        let known = ["router", "route", "log", "port", "flow_records"];
        for (name, meant) in [
            ("routes", Some("route")),
            ("Router", Some("router")),
            ("rooter", Some("router")),
            ("logging", Some("log")),
            ("ports", Some("port")),
            ("flow-record", Some("flow_records")),
            ("bridge", None),
        ] {
            assert_eq!(nearest(name, known), meant, "{name}");
        }
        assert!(is_same_word("address", "addresses") && !is_same_word("port", "route"));
    }
}
