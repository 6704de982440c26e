//! Policies as they are written in leagues.

use wattline_policy::PolicySpec;
use wattline_units::Span;

/// Placeholder for the budget in the text of a policy.
const BUDGET: &str = "{p99}";

/// Parses the text of a policy, with the budget in place of `{p99}`.
///
/// # Errors
/// A message that says what is wrong.
pub fn policy(text: &str, budget: Span) -> Result<PolicySpec, String> {
    let micros = format!("{}us", budget.as_picos() as f64 / 1e6);
    PolicySpec::parse(&text.replace(BUDGET, &micros)).map_err(|error| error.to_string())
}
