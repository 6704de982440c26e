//! An operating point that a client holds in place of the policy, until its lease ends.

use wattline_policy::{OperatingPoint, Platform, Wait};
use wattline_units::{Hertz, Span, Time};

/// Longest time that a client may stay silent.
pub const LONGEST: Span = Span::from_millis(600_000);
/// Longest name of an owner.
const LONGEST_NAME: usize = 64;
/// Relative difference to the machine's frequency that is accepted.
pub const FREQUENCY_TOLERANCE: f64 = 1e-3;
/// Reason against a lease while no governor is active.
pub const NOTHING_GOVERNED: &str = "nothing is governed now: `stats` says why";

/// Cores and frequency that a client requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// Name of the client, such as `characterise 4711`.
    pub owner: String,
    /// Number of active cores.
    pub cores: usize,
    /// Their frequency; zero for the fastest.
    pub frequency: Hertz,
    /// Time until the lease ends, unless renewed.
    pub lease: Span,
}

/// Request of a client.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// Hold a point.
    Hold(Wanted),
    /// End the lease of this owner.
    Release(String),
}

impl Asked {
    /// Returns a request over the control socket to hold a point.
    pub fn hold(owner: String, cores: usize, kilohertz: u32, seconds: u32) -> Self {
        let frequency = Hertz(f64::from(kilohertz) * 1e3);
        let lease = Span::from_millis(u64::from(seconds) * 1000);
        Self::Hold(Wanted { owner, cores, frequency, lease })
    }

    /// Returns the same request for a machine whose time runs slower by this factor: all durations
    /// are that much shorter.
    pub fn slowed(&self, times: u32) -> Self {
        match self {
            Self::Hold(wanted) => {
                let lease = wanted.lease / u64::from(times.max(1));
                Self::Hold(Wanted { lease, ..wanted.clone() })
            }
            Self::Release(owner) => Self::Release(owner.clone()),
        }
    }
}

/// A held operating point.
#[derive(Debug, Clone)]
pub(crate) struct Lease {
    pub owner: String,
    cores: usize,
    frequency: usize,
    pub until: Time,
}

impl Lease {
    pub fn new(wanted: &Wanted, platform: &Platform, now: Time) -> Result<Self, String> {
        let refused = |field: &str, value: String, allowed: String| {
            Err(format!("{field} = {value}: allowed is {allowed}"))
        };
        let knob = |name| {
            Err(format!(
                "{name} cannot be set by this governor; `stats` shows the settings that can"
            ))
        };
        let owner = &wanted.owner;
        if owner.is_empty() || owner.len() > LONGEST_NAME || owner.chars().any(char::is_control) {
            let allowed = format!("1 to {LONGEST_NAME} bytes without control characters");
            return refused("owner", format!("{owner:?}"), allowed);
        }
        if wanted.lease == Span::ZERO || wanted.lease > LONGEST {
            let (value, most) = (wanted.lease.as_seconds(), LONGEST.as_seconds());
            return refused("lease", format!("{value} s"), format!("up to {most} s"));
        }
        let can = &platform.can;
        if !(1..=platform.cores).contains(&wanted.cores) {
            let allowed = format!("1 to {}", platform.cores);
            return refused("cores", wanted.cores.to_string(), allowed);
        }
        if !can.set_cores && wanted.cores != platform.cores {
            return knob("the number of cores");
        }
        let fastest = wanted.frequency.0 == 0.0;
        let frequency =
            if fastest { platform.fastest() } else { platform.closest(wanted.frequency) };
        let nearest = platform.frequencies.get(frequency).copied().unwrap_or(Hertz(0.0));
        if !fastest && (nearest.0 - wanted.frequency.0).abs() > FREQUENCY_TOLERANCE * nearest.0 {
            let all = platform.frequencies.iter().map(|it| format!("{:.3}", it.gigahertz()));
            let allowed = format!("one of {} GHz", all.collect::<Vec<_>>().join(", "));
            return refused(
                "frequency",
                format!("{:.3} GHz", wanted.frequency.gigahertz()),
                allowed,
            );
        }
        if !can.set_frequency && platform.frequencies.len() > 1 {
            return knob("the frequency");
        }
        let (owner, cores) = (owner.clone(), wanted.cores);
        Ok(Self { owner, cores, frequency, until: now + wanted.lease })
    }

    /// Sets the point: its cores wait for interrupts in the lightest idle state, the others park.
    pub fn apply(&self, platform: &Platform, point: &mut OperatingPoint) {
        point.set_active(self.cores, 0, platform.deepest());
        point.set_frequency(self.frequency);
        point.set_wait(Wait::Interrupt);
    }
}
