//! Policies available to a program.

use crate::PolicyInfo;
use crate::spec::{PolicySpec, SpecError};
use std::fmt;
use std::ops::Deref;

/// List of policies that a program hands to the libraries that choose by name.
#[derive(Clone, Copy, Default)]
pub struct Registry(&'static [PolicyInfo]);

impl Registry {
    /// Creates a registry of these policies.
    pub const fn new(policies: &'static [PolicyInfo]) -> Self {
        Self(policies)
    }

    /// Finds the policy with this name.
    pub fn find(self, name: &str) -> Option<&'static PolicyInfo> {
        self.0.iter().find(|policy| policy.name == name)
    }

    /// Reads the text form of a policy: `name`, `name+moderation` or
    /// `name+moderation:key=value,key=value`.
    ///
    /// Lists all problems of the text, each with the allowed values.
    pub fn parse(self, text: &str) -> Result<PolicySpec, SpecError> {
        PolicySpec::read(text, self.0)
    }
}

impl Deref for Registry {
    type Target = [PolicyInfo];

    fn deref(&self) -> &[PolicyInfo] {
        self.0
    }
}

impl PartialEq for Registry {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}
