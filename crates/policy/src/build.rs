//! Making a policy from its specification.

use crate::Policy;
use crate::info::BuildContext;
use crate::moderated;
use crate::spec::{PolicySpec, SpecError, SpecProblem};

/// Makes the policy.
///
/// # Errors
/// When the platform or its model lacks what the policy needs.
pub fn build(spec: &PolicySpec, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, SpecError> {
    let unsupported = |problem| SpecError {
        text: spec.to_string(),
        problems: vec![SpecProblem::Unsupported(problem)],
    };
    let Some(choice) = spec.moderation else {
        return (spec.policy.make)(&spec.parameters, context).map_err(unsupported);
    };
    // The policy itself sets no moderation beside the one that was chosen for it.
    let mut platform = context.platform.clone();
    platform.can.set_moderation = false;
    let own = BuildContext { platform: &platform, ..*context };
    let policy = (spec.policy.make)(&spec.parameters, &own).map_err(unsupported)?;
    moderated::make(policy, choice, context).map_err(unsupported)
}
