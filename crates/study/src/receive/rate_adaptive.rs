//! A card that lowers its rate when the load is low (section 4.3 of the paper).

use serde::Serialize;
use wattline_units::{BitsPerSecond, Joules, Span, Watts};

/// One rate of the card.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gear {
    /// Rate that the card carries.
    pub rate: BitsPerSecond,
    /// Power at this rate.
    pub power: Watts,
}

/// The card. The paper prints the rates, the power at 10 Gbit/s (about 10 W) and the power of a 1G
/// card (about 1 W). Everything else is **assumed**: the power at 100 Mbit/s (the same as at 1
/// Gbit/s), the duration of a transition, the buffer, and the rule for changes.
#[derive(Debug, Clone, PartialEq)]
pub struct RateAdaptive {
    /// Rates, slowest first.
    pub gears: Vec<Gear>,
    /// Duration of a change of rate, during which nothing is carried.
    pub transition: Span,
    /// Bytes that the card can buffer meanwhile.
    pub buffer_bytes: f64,
    /// Time for which the load must fit the next lower rate before the card steps down.
    pub patience: Span,
}

impl Default for RateAdaptive {
    fn default() -> Self {
        let gear = |rate, watts| Gear { rate: BitsPerSecond(rate), power: Watts(watts) };
        Self {
            gears: vec![gear(1e8, 1.0), gear(1e9, 1.0), gear(1e10, 10.0)],
            transition: Span::from_millis(10),
            buffer_bytes: 512.0 * 1024.0,
            patience: Span::from_millis(100),
        }
    }
}

/// Results of a load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Shifted {
    /// Energy of the card.
    #[serde(rename = "energy_joules")]
    pub energy: Joules,
    /// Energy of the same card at its highest rate throughout.
    #[serde(rename = "fixed_joules")]
    pub fixed: Joules,
    /// Bytes offered.
    pub offered_bytes: f64,
    /// Bytes lost during a change of rate.
    pub lost_in_transition_bytes: f64,
    /// Bytes lost at other times.
    pub lost_otherwise_bytes: f64,
    /// Number of changes of rate.
    pub shifts: u32,
}

impl RateAdaptive {
    /// Carries a load, given as the offered rate in each `step` of time. During a transition the
    /// card draws the higher of the two powers.
    pub fn carry(&self, load: impl IntoIterator<Item = BitsPerSecond>, step: Span) -> Shifted {
        let Some(top) = self.gears.len().checked_sub(1) else { return Shifted::default() };
        let seconds = step.as_seconds();
        let mut result = Shifted::default();
        let (mut gear, mut backlog, mut quiet) = (top, 0.0_f64, 0.0_f64);
        let mut shifting: Option<(usize, f64)> = None;
        for offered in load {
            let bytes = offered.0 / 8.0 * seconds;
            result.offered_bytes += bytes;
            result.fixed += self.gears[top].power * step;
            backlog += bytes;
            let fits = |gear: usize| offered.0 <= 0.8 * self.gears[gear].rate.0;
            let wanted = (0..=top).find(|gear| fits(*gear)).unwrap_or(top);
            // A load above the rate starts the transition at once, and its first bytes arrive
            // during it.
            if shifting.is_none() && wanted > gear {
                shifting = Some((wanted, self.transition.as_seconds()));
                result.shifts += 1;
                quiet = 0.0;
            }
            let power = match &mut shifting {
                Some((to, left)) => {
                    *left -= seconds;
                    let power = self.gears[gear.max(*to)].power;
                    let over = (backlog - self.buffer_bytes).max(0.0);
                    backlog -= over;
                    result.lost_in_transition_bytes += over;
                    if *left <= 0.0 {
                        gear = *to;
                        shifting = None;
                    }
                    power
                }
                None => {
                    let now = self.gears[gear];
                    backlog = (backlog - now.rate.0 / 8.0 * seconds).max(0.0);
                    let over = (backlog - self.buffer_bytes).max(0.0);
                    backlog -= over;
                    result.lost_otherwise_bytes += over;
                    quiet = if wanted < gear { quiet + seconds } else { 0.0 };
                    if quiet >= self.patience.as_seconds() && backlog == 0.0 {
                        shifting = Some((wanted, self.transition.as_seconds()));
                        result.shifts += 1;
                        quiet = 0.0;
                    }
                    now.power
                }
            };
            result.energy += power * step;
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_off(card: &RateAdaptive, on: f64) -> Shifted {
        let load = (0..20_000).map(|i| BitsPerSecond(if i / 1000 % 2 == 0 { on } else { 0.0 }));
        card.carry(load, Span::from_millis(1))
    }

    #[test]
    fn idle_time_is_cheap_and_loss_is_in_transitions() {
        let result = on_off(&RateAdaptive::default(), 8e9);
        assert!(result.energy.0 < 0.7 * result.fixed.0, "{result:?}");
        assert!(result.lost_in_transition_bytes > 0.0, "{result:?}");
        assert_eq!(result.lost_otherwise_bytes, 0.0);
        // Each of the ten bursts loses at most 10 ms.
        assert!(result.lost_in_transition_bytes <= 10.0 * 8e9 / 8.0 * 0.011);
    }

    #[test]
    fn overload_is_lost_outside_transitions() {
        let result = on_off(&RateAdaptive::default(), 12e9);
        assert!(result.lost_otherwise_bytes > 0.0);
        let one_gear = RateAdaptive {
            gears: RateAdaptive::default().gears[2..].to_vec(),
            ..RateAdaptive::default()
        };
        let fixed = on_off(&one_gear, 8e9);
        assert_eq!((fixed.energy.0.round(), fixed.shifts), (fixed.fixed.0.round(), 0));
    }
}
