//! Building a policy from its specification.

use crate::Policy;
use crate::info::BuildContext;
use crate::moderated;
use crate::spec::{PolicySpec, SpecError, SpecProblem};

/// Builds the policy.
///
/// # Errors
/// Fails if the platform or its model lacks something that the policy needs.
pub fn build(spec: &PolicySpec, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, SpecError> {
    let unsupported = |problem| SpecError {
        text: spec.to_string(),
        problems: vec![SpecProblem::Unsupported(problem)],
    };
    let Some(choice) = spec.moderation else {
        return (spec.policy.make)(&spec.parameters, context).map_err(unsupported);
    };
    // The policy itself must not set a moderation in addition to the chosen one.
    let mut platform = context.platform.clone();
    platform.can.set_moderation = false;
    let own = BuildContext { platform: &platform, ..*context };
    let policy = (spec.policy.make)(&spec.parameters, &own).map_err(unsupported)?;
    moderated::make(policy, choice, context).map_err(unsupported)
}
