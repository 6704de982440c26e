//! An operating point that a client holds in place of the policy, until its lease ends.

use super::Governor;
use super::machine::Machine;
use wattline_policy::{OperatingPoint, Platform, Trigger, Wait};
use wattline_status::{Contract, HeldPoint};
use wattline_units::{Hertz, Span, Time};

/// Longest time that a client may stay silent.
pub const LONGEST: Span = Span::from_millis(600_000);
/// Longest name of an owner.
const LONGEST_NAME: usize = 64;
/// Part by which a frequency may differ from the machine's.
const BESIDE: f64 = 1e-3;

/// Cores and frequency that a client asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// Name of the client, such as `characterise 4711`.
    pub owner: String,
    /// Number of active cores.
    pub cores: usize,
    /// Their frequency; zero for the fastest.
    pub frequency: Hertz,
    /// Time until the lease ends, unless its owner asks again.
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

    /// Returns the same for a machine in whose time everything lasts so many times shorter.
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

/// An operating point that is held.
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
        if !fastest && (nearest.0 - wanted.frequency.0).abs() > BESIDE * nearest.0 {
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

impl<M: Machine> Governor<M> {
    /// Lets a client hold an operating point in place of the policy, which begins anew when the
    /// lease has ended. Returns the point that the machine took; nothing after a release.
    ///
    /// # Errors
    /// Fails when another client holds a point, or when the machine has no such point.
    pub fn lease(&mut self, now: Time, asked: &Asked) -> Result<Option<HeldPoint>, String> {
        let now = now.max(self.now);
        let wanted = match asked {
            Asked::Hold(wanted) => wanted,
            Asked::Release(owner) => {
                self.control.release(now, owner)?;
                self.decide(now, Trigger::Timer);
                return Ok(None);
            }
        };
        self.control.hold(now, wanted, self.machine.platform())?;
        self.decide(now, Trigger::Timer);
        let (point, platform) = (self.control.point(), self.machine.platform());
        let active =
            point.frequencies(platform).zip(0..).filter(|(_, core)| point.active.contains(*core));
        let hertz = |index: usize| platform.frequencies.get(index).map_or(0.0, |it| it.0);
        Ok(Some(HeldPoint {
            contract: Contract::default(),
            owner: wanted.owner.clone(),
            cores_active: point.active.len(),
            frequency_hertz: active.map(|(index, _)| hertz(index)).collect(),
            lease_seconds: wanted.lease.as_seconds(),
            under_way: point != self.control.target(),
            cores: platform.cores,
            can_set_cores: platform.can.set_cores,
            frequencies_hertz: platform.frequencies.iter().map(|it| it.0).collect(),
        }))
    }
}
