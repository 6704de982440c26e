//! Upper bound for a policy without foresight: a plan of two modes that is informed of each leap
//! and fall of an MMPP 3 and 10 us after it came, with its parameters found by trying. `cargo run
//! --release -p wattline-league --example told -- FILE [TRIES]`: for each traffic `mmpp:` and
//! budget of a league file the best plan, over all its seeds. No policy can be informed so early;
//! the bound knows the future beside.

use std::path::Path;
use wattline_league::bound::{lower_bound, slot_length};
use wattline_league::{Arrivals, Budget, Case, LeagueError, Plan};
use wattline_policies::POLICIES;
use wattline_policy::{AskAgain, Looks, Observation, OperatingPoint, Platform, Policy, Wait};
use wattline_sim::Scenario;
use wattline_traffic::source::{Mmpp, Modulator};
use wattline_units::{Span, Time};

/// When the plan is told of a leap and of a fall, and when a core of the deepest state is awake, in
/// microseconds after it came.
const TOLD: (u64, u64) = (3, 10);
const AWAKE: u64 = 92;
const FULL: u8 = u8::MAX;
/// A run is worth so many times its late packets beyond the budget.
const PENALTY: f64 = 20.0;

/// Modes of the plan. Cores of the high that are not `ready` wake from the deepest state, and get
/// packets once they are awake.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Modes {
    /// Cores, frequency (an index) and wait of the low.
    low: (usize, usize, Wait),
    /// Parked cores in the lightest idle state.
    ready: usize,
    /// The same of the high, after so many microseconds at the highest frequency.
    high: (usize, usize, Wait),
    fast: u64,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Leap,
    Awake,
    Settle,
    Fall,
}

struct Told {
    modes: Modes,
    events: Vec<(Time, Event)>,
    next: usize,
}

impl Told {
    fn new(modes: Modes, changes: &[(f64, bool)]) -> Self {
        let mut events = Vec::new();
        for (number, (at, high)) in changes.iter().enumerate() {
            let at = Time::ZERO + Span::from_seconds(*at);
            let end = changes.get(number + 1).map_or(Time::NEVER, |(end, _)| {
                Time::ZERO + Span::from_seconds(*end) + Span::from_micros(TOLD.0)
            });
            let of_it = if *high {
                vec![(TOLD.0, Event::Leap), (AWAKE, Event::Awake), (modes.fast, Event::Settle)]
            } else {
                vec![(TOLD.1, Event::Fall)]
            };
            let of_it = of_it.into_iter().map(|(micros, of)| (at + Span::from_micros(micros), of));
            events.extend(of_it.filter(|(at, _)| *at < end));
        }
        events.sort_by_key(|(at, _)| *at);
        Self { modes, events, next: 0 }
    }

    fn act(&self, event: Event, platform: &Platform, point: &mut OperatingPoint) {
        let deepest = platform.deepest();
        let Modes { low, ready, high, .. } = self.modes;
        match event {
            Event::Fall => {
                point.set_active(low.0, 0, deepest);
                point.set_frequency(low.1);
                point.set_wait(low.2);
                point.cores.iter_mut().skip(low.0).take(ready).for_each(|core| core.idle_limit = 0);
            }
            Event::Leap => {
                point.set_active(high.0.max(low.0 + ready), 0, deepest);
                point.set_frequency(platform.fastest());
                point.set_wait(Wait::Poll);
                point.weights.fill(FULL);
                point.weights.iter_mut().skip(low.0 + ready).for_each(|weight| *weight = 1);
            }
            Event::Awake => point.weights.fill(FULL),
            Event::Settle => {
                point.set_active(high.0, 0, deepest);
                point.set_frequency(high.1);
                point.set_wait(high.2);
            }
        }
    }
}

impl Policy for Told {
    fn name(&self) -> &'static str {
        "told"
    }

    fn looks_at(&self) -> Looks {
        Looks::TRIGGER
    }

    fn decide(
        &mut self,
        now: Time,
        seen: &Observation<'_>,
        point: &mut OperatingPoint,
    ) -> AskAgain {
        point.batch = 8;
        while let Some((_, event)) = self.events.get(self.next).filter(|(at, _)| *at <= now) {
            self.act(*event, seen.platform, point);
            self.next += 1;
        }
        AskAgain::at(self.events.get(self.next).map_or(Time::NEVER, |(at, _)| *at))
    }
}

/// A case with when its rate changes, and whether to the higher one; and its lower bound in joules.
struct Known<'a> {
    case: Case<'a>,
    changes: Vec<(f64, bool)>,
    bound: f64,
}

impl<'a> Known<'a> {
    fn new(case: Case<'a>, text: &str, budget: Budget) -> Result<Self, LeagueError> {
        let field = |key: &str| {
            let value = text.split([':', ',']).find_map(|field| field.strip_prefix(key));
            value.unwrap_or_else(|| panic!("{text}: {key} is to be given"))
        };
        let seconds = |key| field(key).parse::<Span>().expect("a span").as_seconds();
        let ratio = field("ratio=").parse().expect("a number");
        let (high, low) = (seconds("high="), seconds("low="));
        let mut states = Mmpp::new(1.0, ratio, high, low, case.seed);
        let end = (case.warmup + case.duration).as_seconds();
        let (mut changes, mut at) = (Vec::new(), 0.0);
        while at < end {
            let (rate, lasts) = states.next_step();
            changes.push((at, rate > 1.0));
            at += lasts;
        }
        let arrivals = Arrivals::of(&case, slot_length(&case, case.slack_seconds(budget, 64)?))?;
        let bound = lower_bound(&case, budget, &arrivals)?;
        let bound = bound.map_or(f64::NAN, |bound| bound.joules);
        Ok(Self { case, changes, bound })
    }

    /// Returns the gap of a plan to the bound, and its share of late packets.
    fn play(&self, modes: Modes, budget: Budget) -> Result<(f64, f64), LeagueError> {
        let Case { server, application, traffic, duration, warmup, seed } = self.case;
        let policy = POLICIES.parse("poll").expect("a policy");
        let (interval, output_links, profile) = (None, false, false);
        let scenario = Scenario {
            server,
            application,
            policy,
            traffic,
            duration,
            warmup,
            interval,
            output_links,
            seed,
            profile,
        };
        let told = Told::new(modes, &self.changes);
        let report = scenario.run_counting_late(budget.p99, |_| Ok(Box::new(told)))?;
        let late = report.late_packets.unwrap_or(0) + report.dropped_packets;
        Ok((report.energy_joules / self.bound - 1.0, late as f64 / report.offered_packets as f64))
    }
}

fn main() -> Result<(), LeagueError> {
    let file = std::env::args().nth(1).expect("a league file");
    let tries: usize = std::env::args().nth(2).map_or(200, |tries| tries.parse().expect("tries"));
    let plan = Plan::load(Path::new(&file))?;
    let (server, cores) = (&plan.servers[0], plan.servers[0].processor.cores());
    let frequencies = server.processor.frequencies.len();
    let nap = |micros| Wait::Sleep(Span::from_micros(micros));
    let waits = [Wait::Interrupt, Wait::Poll, nap(8), nap(12), nap(16), nap(20), nap(30), nap(40)];
    for (text, traffic) in plan.traffics.iter().filter(|(text, _)| text.starts_with("mmpp:")) {
        for &within in &plan.budgets {
            let budget = Budget::p99(within);
            let (application, duration, warmup) = (plan.application, plan.duration, plan.warmup);
            let case = |seed: u64| Case { server, application, traffic, duration, warmup, seed };
            let known = plan.seeds.iter().map(|seed| Known::new(case(*seed), text, budget));
            let known = known.collect::<Result<Vec<_>, _>>()?;
            let mean = |modes: Modes| -> Result<(f64, f64), LeagueError> {
                let runs = known.iter().map(|known| known.play(modes, budget));
                let sum = runs.collect::<Result<Vec<_>, _>>()?;
                let of = |part: fn(&(f64, f64)) -> f64| {
                    sum.iter().map(part).sum::<f64>() / sum.len() as f64
                };
                Ok((of(|run| run.0), of(|run| run.1)))
            };
            let worth = |(gap, late): (f64, f64)| gap + PENALTY * (late - budget.late).max(0.0);
            let mut best = Modes {
                low: (1, frequencies / 2, Wait::Interrupt),
                ready: 6,
                high: (10, frequencies - 3, nap(12)),
                fast: 200,
            };
            let mut found = mean(best)?;
            // A plain random walk that only goes down; it does not depend on the clock.
            let mut state = 1_u64;
            let mut random = |below: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as usize % below
            };
            for _ in 0..tries {
                let mut next = best;
                for _ in 0..=random(2) {
                    let step = |value: usize, by: usize, least: usize, most: usize| {
                        (value + by).saturating_sub(2).clamp(least, most)
                    };
                    let by = random(5);
                    match random(8) {
                        0 => next.low.0 = step(next.low.0, by, 1, cores),
                        1 => next.low.1 = step(next.low.1, by, 0, frequencies - 1),
                        2 => next.low.2 = waits[random(waits.len())],
                        3 => next.ready = step(next.ready, by, 0, cores),
                        4 => next.high.0 = step(next.high.0, by, 1, cores),
                        5 => next.high.1 = step(next.high.1, by, 0, frequencies - 1),
                        6 => next.high.2 = waits[random(waits.len())],
                        _ => next.fast = 92 + 30 * random(10) as u64,
                    }
                }
                next.ready = next.ready.min(cores - next.low.0);
                let played = mean(next)?;
                if worth(played) < worth(found) {
                    (best, found) = (next, played);
                }
            }
            println!(
                "{text} {:.0} us: {:.2} % above the bound, {:.3} % late, {best:?}",
                within.as_seconds() * 1e6,
                found.0 * 100.0,
                found.1 * 100.0
            );
        }
    }
    Ok(())
}
