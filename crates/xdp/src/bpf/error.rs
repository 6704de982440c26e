//! Errors of bpf(2).

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capabilities};

/// Reason why the kernel refused a BPF operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BpfError {
    /// The process lacks privileges.
    #[error("{action} needs {}, which this process lacks", missing.join(" and "))]
    MissingCapability {
        /// The action that was refused.
        action: String,
        /// Names such as `CAP_BPF`.
        missing: Vec<&'static str>,
    },
    /// The kernel was built without a feature or is too old.
    #[error("this kernel lacks what {action} needs: {feature} ({source})")]
    MissingFeature {
        /// The action that failed.
        action: String,
        /// Name and first kernel version.
        feature: &'static str,
        /// The kernel's error.
        source: Errno,
    },
    /// The verifier refused the program: a defect of Wattline.
    #[error("the kernel refused the program {name} ({source}):\n{log}")]
    Rejected {
        /// Name of the program.
        name: String,
        /// The verifier's log.
        log: String,
        /// The kernel's error.
        source: Errno,
    },
    /// A built-in program cannot be used: a defect of Wattline.
    #[error("the built-in program {name} cannot be used: {action}: {reason}")]
    Unusable {
        /// Name of the program.
        name: String,
        /// The action that failed.
        action: String,
        /// Reason of the failure.
        reason: String,
    },
    /// Any other error.
    #[error("{action}: {source}")]
    System {
        /// The action that failed.
        action: String,
        /// The kernel's error.
        source: Errno,
    },
}

impl BpfError {
    /// Classifies an error number of an operation that needs the given capabilities.
    pub(super) fn new(action: impl Into<String>, needed: CapabilitySet, source: Errno) -> Self {
        let action = action.into();
        match source {
            Errno::PERM | Errno::ACCESS => {
                Self::MissingCapability { action, missing: missing_capabilities(needed) }
            }
            Errno::NOSYS => {
                Self::MissingFeature { action, feature: "bpf(2) (CONFIG_BPF_SYSCALL)", source }
            }
            _ => Self::System { action, source },
        }
    }

    /// Returns the underlying error number, if there is one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::MissingCapability { .. } | Self::Unusable { .. } => None,
            Self::MissingFeature { source, .. }
            | Self::Rejected { source, .. }
            | Self::System { source, .. } => Some(*source),
        }
    }
}

/// Returns the needed capabilities that are not in effect; all of them if none is missing (another
/// rule, such as kernel lockdown, forbids the operation) or they cannot be read.
fn missing_capabilities(needed: CapabilitySet) -> Vec<&'static str> {
    let effective = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    let missing = needed.difference(effective);
    let named = if missing.is_empty() { needed } else { missing };
    [
        (CapabilitySet::BPF, "CAP_BPF"),
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
        (CapabilitySet::NET_RAW, "CAP_NET_RAW"),
        (CapabilitySet::PERFMON, "CAP_PERFMON"),
        (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
    ]
    .into_iter()
    .filter(|(capability, _)| named.contains(*capability))
    .map(|(_, name)| name)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_names_the_missing_capabilities() {
        let needed = CapabilitySet::BPF | CapabilitySet::NET_ADMIN;
        let text = BpfError::new("loading a program", needed, Errno::PERM).to_string();
        assert!(text.starts_with("loading a program needs CAP_"), "{text}");
        let other = BpfError::new("creating a map", needed, Errno::NOMEM);
        assert_eq!(other.errno(), Some(Errno::NOMEM));
    }
}
