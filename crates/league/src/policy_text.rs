//! Text of policies in league files.

use wattline_policies::POLICIES;
use wattline_policy::{PolicySpec, SpecError};
use wattline_units::Span;

/// Placeholder for the budget in the text of a policy.
pub(crate) const BUDGET: &str = "{p99}";

/// Parses the text of a policy, with the budget in place of `{p99}`.
///
/// # Errors
/// Lists all problems of the text.
pub fn policy(text: &str, budget: Span) -> Result<PolicySpec, SpecError> {
    let micros = format!("{}us", budget.as_picos() as f64 / 1e6);
    POLICIES.parse(&text.replace(BUDGET, &micros))
}

/// Describes the problems of a policy, without its text.
pub(crate) fn problems_of(error: &SpecError) -> Vec<String> {
    error.problems.iter().map(ToString::to_string).collect()
}
