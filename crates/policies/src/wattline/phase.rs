//! Phases of the policy.

use wattline_units::Time;

/// Phase of the policy, with its state.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) enum Phase {
    /// No rate is known yet: everything is on.
    #[default]
    Start,
    /// The cheapest point follows the load.
    Follow,
    /// Falls of the load do not pay: the point carries the recent peak, in packets per second.
    Carry { rate: f64 },
    /// A rise is answered. Capacity stays until `until`. A known rise resembles earlier ones.
    Answer { until: Time, known: bool },
}

impl Phase {
    /// Returns the name that `wattline explain` prints.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "Start",
            Self::Follow => "Follow",
            Self::Carry { .. } => "Carry",
            Self::Answer { .. } => "Answer",
        }
    }

    /// Returns the rate carried in excess of the load; zero in other phases.
    pub fn carried(self) -> f64 {
        if let Self::Carry { rate } = self { rate } else { 0.0 }
    }

    /// Returns true while a rise is being answered.
    pub fn answers(self, now: Time) -> bool {
        matches!(self, Self::Answer { until, .. } if now < until)
    }
}
