//! The reference page of the policies, written from the registry.

use crate::POLICIES;
use std::fmt::Write;

/// Returns `docs/reference/policies.md`: every policy with its parameters.
pub fn reference_markdown() -> String {
    let mut page = String::from(
        "# Policies\n\nWritten from the registry; `wattline policies` prints the same. \
         A policy is chosen as `name` or `name:key=value,key=value`. \
         Default and allowed values of a parameter are in brackets, its source in italics.\n\n\
         Any of them takes a moderation of interrupts after its name, in place of its own: \
         `ondemand+84us` for a period that stays; `ondemand+ixgbe` for the adaptive rule of Intel's \
         10G driver (10 to 84 us), `ondemand+ixgbe-classic` for its older one, and `ondemand+dim` for Linux's dynamic interrupt moderation, \
         where the platform has a driver to leave it to (`sim --requests`).\n",
    );
    // Writing to a string cannot fail.
    for policy in POLICIES.iter() {
        let _ = write!(
            page,
            "\n## {}\n\n{}.\n\nSource: {}.\n",
            policy.name, policy.summary, policy.source
        );
        if policy.parameters.is_empty() {
            page.push_str("\nIt has no parameters.\n");
            continue;
        }
        page.push('\n');
        for parameter in policy.parameters {
            let _ = writeln!(
                page,
                "- `{}` (`{}`; {}): {}. *{}.*",
                parameter.name,
                parameter.default,
                parameter.kind,
                parameter.meaning,
                parameter.source
            );
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn readme_counts_the_policies() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
        let count = crate::POLICIES.iter().count();
        assert!(std::fs::read_to_string(path).unwrap().contains(&format!("{count} policies (")));
    }

    /// `UPDATE_GOLDEN=1 cargo test -p wattline-policies` rewrites the page.
    #[test]
    fn the_page_in_docs_is_the_registry() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/policies.md");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, reference_markdown()).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(written, reference_markdown(), "run with UPDATE_GOLDEN=1");
    }
}
