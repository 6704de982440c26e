//! A lower bound on the energy of every schedule that keeps the budget.
//!
//! Energy follows the server model: base watts, awake cores, naps, the shared part of the chips,
//! traffic. Four relaxations give a problem that is solved exactly. Each only removes energy, so
//! the solution is below the energy of every schedule, including those made in hindsight:
//!
//! 1. While `k` cores serve packets at frequency `f`, the server draws at least `k·P(f) + U(f)`
//!    above its base and serves at most `k / s(f, k)` packets per second ([`serving`]). All other
//!    cores, sleeping, waking or polling, cost nothing here. Free mixing of such moments makes the
//!    cost of the packets served in a slot convex.
//! 2. While no core serves (a *gap*), some core either stays awake or pays for its next wake-up.
//!    The budget limits the length of a gap, since the first packet in it must not be late
//!    ([`gaps`]). So a second of any gap costs at least as much as a second of the longest
//!    admissible gap.
//! 3. Packets flow like water between cores: no table, no queue per core, any order; a packet may
//!    be served from the beginning of its slot until its deadline ([`dynamic`]).
//! 4. The share of late packets is priced: late packets vanish for a price, and the allowance is
//!    given back. By weak duality every price gives a lower bound; the best of some is taken.
//!
//! No schedule keeps the budget if all cores at their highest frequency already make more packets
//! late than it allows ([`possible`]). Then there is no bound: the price of a late packet would
//! grow without limit.
//!
//! Changes of frequency and of cores are free and instant here.
//!
//! The simulator deviates from the model in two points, and [`per_change_joules`] bounds the gain
//! of a change of operating point by them. A packet in service keeps its service time when the
//! frequency changes. A core removed from the table serves its backlog at the contention of the
//! remaining cores alone.

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

/// Slots per deadline: more slots give a higher bound and take longer.
const SLOTS_PER_DEADLINE: f64 = 12.0;
/// Limit on the slots of a run, which bounds the time of long runs.
const MOST_SLOTS: u64 = 400_000;
/// Rounds of the search for prices.
const ROUNDS: usize = 3;
/// A line search ends when its prices differ by less than this, as a natural logarithm.
const CLOSE: f64 = 0.2;
/// Later rounds search up to this factor around the best price so far.
const NEAR: f64 = 8.0;

/// The bound with its parts, all in joules.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LowerBound {
    /// Sum of the parts.
    pub joules: f64,
    /// Base energy, including that of unused cores.
    pub base_joules: f64,
    /// Energy of forwarding the bits.
    pub traffic_joules: f64,
    /// Energy of serving and of gaps, less the allowance for late packets.
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

/// Returns a lower bound on the energy of every schedule that keeps the budget; `None` if no
/// schedule keeps it.
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

/// Computes the energy that no decision changes: base energy, including that of unused cores.
pub(crate) fn base_joules(case: &Case<'_>, arrivals: &Arrivals) -> f64 {
    let server = case.server;
    let unused = server.processor.cores().saturating_sub(case.cores()) as f64;
    let parked = server.idle_core_power(server.deepest_idle_state()).0 * unused;
    (server.power.base.total().0 + parked) * arrivals.duration as f64 * 1e-12
}

/// Bounds the gain of one change of the operating point beyond the model, in joules: on every core
/// a packet and a wake-up in progress at the power of another frequency, and the contents of all
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

/// Finds prices of late packets that nearly maximise the bound, a concave function of the prices.
fn search(value: &impl Fn((f64, f64)) -> f64, scale: f64) -> ((f64, f64), f64) {
    let mut best = ((0.0, 0.0), value((0.0, 0.0)));
    for round in 0..ROUNDS {
        let before = best.1;
        for second in [false, true] {
            let at = |price: f64| if second { (best.0.0, price) } else { (price, best.0.1) };
            let here = if second { best.0.1 } else { best.0.0 };
            // Later rounds search near the prices of the first.
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

/// Returns the highest value between two prices by golden-section search on a logarithmic axis,
/// where a unimodal function stays unimodal. Each step takes one value and keeps 0.618 of the
/// interval.
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

    /// At a high price only late packets count.
    #[test]
    fn fewest_late_packets_remain_at_the_highest_price() {
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
    fn search_finds_the_top_of_a_concave_function_in_few_steps() {
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
