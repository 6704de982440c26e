//! Physical quantities as `f64` with a unit in the type.

use crate::time::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $unit:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub f64);

        impl $name {
            /// Zero.
            pub const ZERO: Self = Self(0.0);
            /// Returns the plain number, in the unit of the type.
            pub const fn get(self) -> f64 {
                self.0
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)?;
                f.write_str(concat!(" ", $unit))
            }
        }
        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }
        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }
        impl Mul<f64> for $name {
            type Output = Self;
            fn mul(self, factor: f64) -> Self {
                Self(self.0 * factor)
            }
        }
        impl Div<f64> for $name {
            type Output = Self;
            fn div(self, divisor: f64) -> Self {
                Self(self.0 / divisor)
            }
        }
        impl Div for $name {
            type Output = f64;
            /// Returns the ratio of two like quantities, a plain number.
            fn div(self, other: Self) -> f64 {
                self.0 / other.0
            }
        }
        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
                Self(parts.map(|part| part.0).sum())
            }
        }
    };
}

quantity!(
    /// Power, in watts.
    Watts, "W"
);
quantity!(
    /// Energy, in joules.
    Joules, "J"
);
quantity!(
    /// Frequency, in hertz.
    Hertz, "Hz"
);
quantity!(
    /// Packet rate, in packets per second.
    PacketsPerSecond, "pps"
);
quantity!(
    /// Bit rate, in bits per second.
    BitsPerSecond, "bit/s"
);

impl Hertz {
    /// Creates a frequency from gigahertz.
    pub fn from_gigahertz(gigahertz: f64) -> Self {
        Self(gigahertz * 1e9)
    }
    /// Returns the frequency in gigahertz, the unit of the papers' formulas.
    pub fn gigahertz(self) -> f64 {
        self.0 / 1e9
    }
}

impl PacketsPerSecond {
    /// Creates a rate from million packets per second.
    pub fn from_mpps(mpps: f64) -> Self {
        Self(mpps * 1e6)
    }
    /// Returns the rate in million packets per second.
    pub fn mpps(self) -> f64 {
        self.0 / 1e6
    }
}

impl Mul<Span> for Watts {
    type Output = Joules;
    fn mul(self, span: Span) -> Joules {
        Joules(self.0 * span.as_seconds())
    }
}

impl Div<Span> for Joules {
    type Output = Watts;
    /// Returns the mean power over a span; not a number or infinite over an empty one.
    fn div(self, span: Span) -> Watts {
        Watts(self.0 / span.as_seconds())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_times_time_is_energy() {
        assert_eq!(Watts(115.0) * Span::from_millis(500), Joules(57.5));
        assert_eq!(Joules(57.5) / Span::from_millis(500), Watts(115.0));
    }

    #[test]
    fn display_names_the_unit() {
        assert_eq!(format!("{:.1}", Watts(115.04)), "115.0 W");
    }
}
