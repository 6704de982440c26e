//! Knobs that `knobs` in a configuration can list.

use wattline_host::Scope;
use wattline_units::named;

named! {
    /// A kind of settings that a configuration lists in `knobs`. Each stands for all knobs of its
    /// kind; the governor's own ([`wattline_governor::knob::Knob`]) are finer.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Listed {
        Frequency = "frequency",
        Idle = "idle",
        Moderation = "moderation",
        Cores = "cores",
    }
}

impl Listed {
    /// Returns the kind with this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|listed| listed.name() == name)
    }

    /// Returns true if this kind of knob is in scope.
    pub fn is_in(self, scope: Scope) -> bool {
        match self {
            Self::Frequency => scope.frequency,
            Self::Idle => scope.idle,
            Self::Moderation => scope.moderation,
            Self::Cores => scope.cores,
        }
    }

    /// Returns the scope that a list of kinds allows.
    pub fn scope(list: &[Self]) -> Scope {
        Scope {
            frequency: list.contains(&Self::Frequency),
            idle: list.contains(&Self::Idle),
            moderation: list.contains(&Self::Moderation),
            cores: list.contains(&Self::Cores),
            ..Scope::KERNEL
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_knob_alone_is_in_scope() {
        for one in Listed::ALL {
            assert_eq!(Listed::find(one.name()), Some(one));
            let scope = Listed::scope(&[one]);
            for other in Listed::ALL {
                assert_eq!(other.is_in(scope), other == one, "{one:?} {other:?}");
            }
        }
        assert_eq!(Listed::find("uncore"), None);
    }
}
