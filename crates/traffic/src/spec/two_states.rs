//! Traffic whose rate switches between two values.

use super::Spec;
use super::kinds::Kind;
use crate::source::{Wave, WaveShape};

/// A rate that switches between a low and a high value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TwoStates {
    /// Packets per second in the low state, and its mean duration in seconds.
    pub low: (f64, f64),
    /// The same of the high state.
    pub high: (f64, f64),
}

impl Spec {
    /// Returns the two states of an MMPP, a square wave or a flash crowd, without the time in which
    /// a wave rises and falls; `None` for other traffic and for mixes.
    pub fn two_states(&self) -> Option<TwoStates> {
        let [part] = &self.parts[..] else { return None };
        let (rate, ratio, high, low) = match &part.kind {
            Kind::Mmpp { rate, ratio, high, low } => {
                (rate, *ratio, high.as_seconds(), low.as_seconds())
            }
            Kind::Wave { rate, shape: WaveShape::Square, ratio, period, share, .. } => {
                let period = period.as_seconds();
                (rate, *ratio, share * period, (1.0 - share) * period)
            }
            _ => return None,
        };
        let peak = Wave::peak(WaveShape::Square, ratio, high / (high + low));
        let highest = rate.packets_per_second(part.mean_bytes()?) * peak;
        Some(TwoStates { low: (highest / ratio, low), high: (highest, high) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_states_have_the_mean_rate_and_the_ratio() {
        for (text, high, low) in [
            ("mmpp:5Mpps,ratio=10,high=2ms,low=8ms", 2e-3, 8e-3),
            ("square:5Mpps,ratio=10,period=2ms", 1e-3, 1e-3),
            ("flash:3Mpps,ratio=10,period=50ms", 5e-3, 45e-3),
        ] {
            let spec = Spec::parse(text).unwrap();
            let states = spec.two_states().unwrap();
            assert!((states.high.1 - high).abs() < 1e-12 && (states.low.1 - low).abs() < 1e-12);
            assert!((states.high.0 / states.low.0 - 10.0).abs() < 1e-9, "{text}");
            let mean = (states.high.0 * high + states.low.0 * low) / (high + low);
            assert!((mean / spec.packet_rate().unwrap().0 - 1.0).abs() < 1e-9, "{text}");
        }
        for text in ["poisson:5Mpps", "sawtooth:5Mpps", "mmpp:1Mpps + poisson:1Mpps"] {
            assert_eq!(Spec::parse(text).unwrap().two_states(), None, "{text}");
        }
    }
}
