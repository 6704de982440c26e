//! Making a policy from its specification.

use crate::Policy;
use crate::info::BuildContext;
use crate::spec::{PolicySpec, SpecError, SpecProblem};

/// Makes the policy.
///
/// # Errors
/// When the platform or its model lacks what the policy needs.
pub fn build(spec: &PolicySpec, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, SpecError> {
    (spec.policy.make)(&spec.parameters, context).map_err(|problem| SpecError {
        text: spec.to_string(),
        problems: vec![SpecProblem::Unsupported(problem)],
    })
}
