//! A lower bound on the energy of every schedule that keeps the budget.
//!
//! Energy is that of the model of the server: base watts, awake cores, naps, the shared part of
//! the chips, traffic. Four relaxations make it a problem that is solved exactly; each only
//! takes energy away, so the solution is below every schedule, whoever made it and whatever it
//! knows:
//!
//! 1. At a moment at which `k` cores serve packets at frequency `f` the server draws at least
//!    `k·P(f) + U(f)` above its base, and at most `k / s(f, k)` packets per second are served
//!    ([`serving`]). Sleeping cores and cores that wake or poll beside them cost nothing here. Mixing
//!    such moments at will gives a convex cost of the packets served in a slot.
//! 2. While no core serves (a *gap*), some core either stays awake or pays for its next wake-up,
//!    and the budget limits how long a gap lasts, since the first packet in it must not be late
//!    ([`gaps`]). So a second of a gap costs at least what the longest admissible gap costs.
//! 3. Packets flow like water between cores: no table, no queue per core, any order; a packet may
//!    be served from the beginning of its slot until its deadline ([`dynamic`]).
//! 4. The share of late packets is priced: late packets vanish for a price, and the allowance is
//!    given back. By weak duality every price gives a lower bound; the best of some is taken.
//!
//! No schedule keeps the budget if even all cores at their fastest make more packets late than it allows
//! ([`possible`]). Then there is no bound: late packets would be worth any price.
//!
//! Changes of frequency and of cores are free and instant here.
//!
//! Two liberties of the simulator lie outside of the model, and [`per_change_joules`] bounds what
//! a change of operating point can gain by them: a packet in service ends as it began when the
//! frequency changes, and a core that was taken out serves its backlog at the contention
//! of the remaining cores alone.

mod dynamic;
mod gaps;
mod possible;
mod serving;

use crate::arrivals::Arrivals;
use crate::case::{Budget, Case};
use crate::error::LeagueError;
use dynamic::Slots;
use gaps::GapCost;
use serde::Serialize;
use serving::Serving;
use wattline_units::Span;

/// Slots of a deadline: more of them give a higher bound and take longer.
const SLOTS_PER_DEADLINE: f64 = 12.0;
/// Slots of a run, so that long runs take bounded time.
const MOST_SLOTS: u64 = 400_000;
/// Rounds of the search for prices.
const ROUNDS: usize = 3;
/// A line of that search ends when its prices differ by less than this, as a natural logarithm.
const CLOSE: f64 = 0.2;
/// Later rounds look up to this factor around the price so far.
const NEAR: f64 = 8.0;

/// The bound with its parts, all in joules.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LowerBound {
    /// All of it.
    pub joules: f64,
    /// Base power, with cores that take no part.
    pub base_joules: f64,
    /// Energy of moving the bits.
    pub traffic_joules: f64,
    /// Serving and gaps, after the allowance for late packets was given back.
    pub cores_joules: f64,
    /// Price of a late packet in the queues, and in gaps.
    pub late_price_joules: (f64, f64),
}

/// Returns the length of the bound's slots for a case.
pub fn slot_length(case: &Case<'_>, slack_seconds: f64) -> Span {
    let wanted = Span::from_seconds(slack_seconds / SLOTS_PER_DEADLINE);
    wanted.max(case.duration / MOST_SLOTS).max(Span::from_nanos(1))
}

/// Tolerance for rounding, in packets.
const ROUNDING: f64 = 1e-6;

/// No schedule that keeps the budget takes less than this; `None` where no schedule keeps it.
///
/// # Errors
/// When service times are random or the budget is shorter than any packet takes.
pub fn lower_bound(
    case: &Case<'_>,
    budget: Budget,
    arrivals: &Arrivals,
) -> Result<Option<LowerBound>, LeagueError> {
    let shortest = u32::from(arrivals.shortest);
    let slack = case.slack_seconds(budget, shortest)?;
    let server = case.server;
    let serving = Serving::of(case, shortest)?;
    let gaps = GapCost::of(server);
    let slots = Slots::new(arrivals, slack, &serving, &gaps);
    let allowed = budget.late * arrivals.total() as f64;
    if slots.fewest_late() > allowed * (1.0 + ROUNDING) + ROUNDING {
        return Ok(None);
    }
    let value = |prices: (f64, f64)| slots.least(prices) - (prices.0 + prices.1) * allowed;
    let (prices, cores) = search(&value, serving.most_joules_per_packet());
    let base = base_joules(case, arrivals);
    let traffic = traffic_joules(case, budget, arrivals, slack);
    // The gap at the end of the run may end with a wake-up that lies beyond it.
    let cores = (cores - gaps.longest_wake_joules()).max(0.0);
    Ok(Some(LowerBound {
        joules: base + traffic + cores,
        base_joules: base,
        traffic_joules: traffic,
        cores_joules: cores,
        late_price_joules: prices,
    }))
}

/// Computes the energy that no decision changes: base power, with cores that take no part.
pub(crate) fn base_joules(case: &Case<'_>, arrivals: &Arrivals) -> f64 {
    let server = case.server;
    let unused = server.processor.cores().saturating_sub(case.cores()) as f64;
    let parked = server.idle_core_power(server.deepest_idle_state()).0 * unused;
    (server.power.base.total().0 + parked) * arrivals.duration as f64 * 1e-12
}

/// Bounds the gain of one change of the operating point beyond the model, in joules: on every core
/// a packet and a wake-up under way at the power of another frequency, and the contents of all
/// rings at the contention of a single core.
pub fn per_change_joules(case: &Case<'_>) -> f64 {
    let server = case.server;
    let (slow, fast) = (server.processor.lowest_frequency(), server.processor.highest_frequency());
    let cores = case.cores();
    let step = server.awake_core_power(fast).0 - server.awake_core_power(slow).0;
    let wake = server.wake_up_seconds(slow);
    let service = case.cost(1_518).map_or(0.0, |cost| server.service_seconds(cost, slow, cores));
    let contention = server.capacity.contention_seconds * (cores - 1) as f64;
    // A run that keeps its budget queues no more packets than it serves within the budget.
    let held = server.nic.rx_ring.unwrap_or(0) as f64;
    cores as f64 * step.max(0.0) * (wake + service)
        + held * contention * server.awake_core_power(fast).0
}

/// Computes the energy of the bits that must have left, excluding packets near the end and late
/// packets.
fn traffic_joules(case: &Case<'_>, budget: Budget, arrivals: &Arrivals, slack: f64) -> f64 {
    let recent = arrivals.slots_around(slack) + 1;
    let due = arrivals.bytes.len().saturating_sub(recent);
    let bytes: f64 = arrivals.bytes[..due].iter().map(|bytes| *bytes as f64).sum();
    let late = budget.late * arrivals.total() as f64 * f64::from(arrivals.longest);
    let bits = (bytes - late).max(0.0) * 8.0;
    case.server.power.traffic_per_gigabit.0 * bits * 1e-9
}

/// Prices of late packets that nearly maximise the bound, a concave function of the prices.
fn search(value: &impl Fn((f64, f64)) -> f64, scale: f64) -> ((f64, f64), f64) {
    let mut best = ((0.0, 0.0), value((0.0, 0.0)));
    for round in 0..ROUNDS {
        let before = best.1;
        for second in [false, true] {
            let at = |price: f64| if second { (best.0.0, price) } else { (price, best.0.1) };
            let here = if second { best.0.1 } else { best.0.0 };
            // Later rounds look near what the first one found.
            let (low, high) = match round {
                0 => (scale * 1e-3, scale * 1e4),
                _ if here > 0.0 => (here / NEAR, here * NEAR),
                _ => continue,
            };
            let found = along(&|price| value(at(price)), low, high);
            if found.1 > best.1 {
                best = (at(found.0), found.1);
            }
        }
        if best.1 - before <= 1e-6 * best.1.abs() {
            break;
        }
    }
    best
}

/// The highest value between two prices, by golden section on a logarithmic axis: a unimodal
/// function stays unimodal there. Each step takes one value and keeps 0.618 of the interval.
pub(crate) fn along(value: &impl Fn(f64) -> f64, low: f64, high: f64) -> (f64, f64) {
    let golden = 0.5 * (5.0f64.sqrt() - 1.0);
    let (mut low, mut high) = (low.ln(), high.ln());
    let of = |x: f64| (x.exp(), value(x.exp()));
    let (mut left, mut right) = (high - golden * (high - low), low + golden * (high - low));
    let (mut of_left, mut of_right) = (of(left), of(right));
    let mut best = if of_left.1 > of_right.1 { of_left } else { of_right };
    while high - low > CLOSE {
        if of_left.1 < of_right.1 {
            (low, left, of_left) = (left, right, of_right);
            right = low + golden * (high - low);
            of_right = of(right);
        } else {
            (high, right, of_right) = (right, left, of_left);
            left = high - golden * (high - low);
            of_left = of(left);
        }
        for seen in [of_left, of_right] {
            if seen.1 > best.1 {
                best = seen;
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// With a high price only late packets count.
    #[test]
    fn the_fewest_late_packets_are_those_that_any_price_leaves() {
        let file = wattline_server::ServerFile::load("westmere-2010").unwrap();
        for (text, some) in [
            ("poisson:30Mpps,size=64", true),
            ("mmpp:22Mpps,size=64,ratio=10,high=1ms,low=1ms", true),
            ("poisson:8Mpps,size=64", false),
        ] {
            let traffic = wattline_traffic::Spec::parse(text).unwrap();
            let case = Case {
                server: file.model().unwrap(),
                application: wattline_server::Application::Ipv4,
                traffic: &traffic,
                duration: Span::from_millis(5),
                warmup: Span::ZERO,
                seed: 1,
            };
            let slack = case.slack_seconds(Budget::p99(Span::from_micros(50)), 64).unwrap();
            let arrivals = Arrivals::of(&case, slot_length(&case, slack)).unwrap();
            let serving = Serving::of(&case, 64).unwrap();
            let slots = Slots::new(&arrivals, slack, &serving, &GapCost::of(case.server));
            let (late, price) = (slots.fewest_late(), 1e5);
            assert_eq!(late > 1.0, some, "{text}: {late}");
            let left = slots.least((price, 0.0)) / price;
            assert!((left - late).abs() < 0.01, "{text}: {left} {late}");
        }
    }

    #[test]
    fn the_search_finds_the_top_of_a_concave_function_in_few_steps() {
        for (a, b) in [(0.02, 3.0), (5.0, 0.1), (900.0, 40.0)] {
            let taken = Cell::new(0);
            let value = |(x, y): (f64, f64)| {
                taken.set(taken.get() + 1);
                10.0 - (x / a - 1.0).powi(2) - (y / b - 1.0).powi(2)
            };
            let ((x, y), top) = search(&value, 1.0);
            assert!((x / a - 1.0).abs() < 0.1 && (y / b - 1.0).abs() < 0.1, "{x} {a}, {y} {b}");
            // 1, then 12 for each of two lines, then twice 9 for each.
            assert!(top > 9.98 && taken.get() <= 61, "{top} after {}", taken.get());
        }
        let falls = |(x, y): (f64, f64)| -x - y;
        assert_eq!(search(&falls, 1.0), ((0.0, 0.0), 0.0));
    }
}
