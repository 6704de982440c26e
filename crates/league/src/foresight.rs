//! Lead times of a schedule that is known in advance: its changes begin before its points hold.
//!
//! A core needs up to a few hundred microseconds to leave its idle state, a frequency transition
//! takes several, and a nap lasts until its timer expires. So cores wake before they get their
//! share of the table, the frequency rises early, and long naps stop in time. A parked core takes
//! the idle state with the least energy of residency and exit for its parking time.

use crate::point::FixedPoint;
use wattline_policy::{CoreSet, Wait};
use wattline_server::ServerModel;
use wattline_units::{Span, Time};

/// Lead time of a wake-up in addition to the time it takes.
const MARGIN: Span = Span::from_micros(1);

/// Setting that holds from a time on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Moment {
    /// Start time.
    pub at: Time,
    /// The point, with frequency and naps adjusted to the points that follow.
    pub point: FixedPoint,
    /// Waking cores in addition to the point's: they get no packets yet.
    pub waking: CoreSet,
    /// Idle state of each core while it is parked.
    pub parked: Vec<usize>,
}

/// A period in which a core is not in the table.
#[derive(Debug, Clone, Copy)]
struct Parked {
    from: u64,
    /// Start of its wake-up; `until` is when it is needed.
    wakes_at: u64,
    until: u64,
    state: usize,
}

/// Returns the moments of a server with `cores` cores. `points` are in order of time, and the first
/// holds from the start.
pub(crate) fn moments(
    points: &[(Time, FixedPoint)],
    server: &ServerModel,
    cores: usize,
) -> Vec<Moment> {
    let mut starts: Vec<(u64, FixedPoint)> = Vec::with_capacity(points.len());
    for (at, point) in points {
        let at = if starts.is_empty() { 0 } else { at.as_picos() };
        starts.retain(|(before, _)| *before < at);
        starts.push((at, *point));
    }
    let takes = server.processor.frequency_transition.as_picos();
    let parked: Vec<Vec<Parked>> = (0..cores).map(|core| parked(&starts, server, core)).collect();
    let mut times: Vec<u64> = Vec::with_capacity(3 * starts.len());
    for (index, (at, point)) in starts.iter().enumerate() {
        times.extend([*at, at.saturating_sub(takes)]);
        if let Wait::Sleep(nap) = point.wait {
            let end = starts.get(index + 1).map_or(u64::MAX, |(end, _)| *end);
            let later =
                starts[index + 1..].iter().map(|(next, _)| next.saturating_sub(nap.as_picos()));
            times.extend(later.take_while(|early| *early < end).map(|early| early.max(*at)));
        }
    }
    times.extend(parked.iter().flatten().map(|span| span.wakes_at).filter(|at| *at < u64::MAX));
    times.sort_unstable();
    times.dedup();
    let mut place = 0;
    let mut next = vec![0; cores];
    let mut found: Vec<Moment> = Vec::with_capacity(times.len());
    for now in times {
        while starts.get(place + 1).is_some_and(|(at, _)| *at <= now) {
            place += 1;
        }
        let point = foreseen(&starts[place..], now, takes);
        let mut moment = Moment {
            at: Time::from_picos(now),
            point,
            waking: CoreSet::default(),
            parked: vec![server.deepest_idle_state(); cores],
        };
        for core in point.cores..cores {
            let spans = &parked[core];
            while spans.get(next[core]).is_some_and(|span| span.until <= now) {
                next[core] += 1;
            }
            if let Some(span) = spans.get(next[core]).filter(|span| span.from <= now) {
                moment.parked[core] = span.state;
                if span.wakes_at <= now {
                    moment.waking.insert(core);
                }
            }
        }
        let same = |last: &Moment| Moment { at: last.at, ..moment.clone() } == *last;
        if !found.last().is_some_and(same) {
            found.push(moment);
        }
    }
    found
}

/// Returns the first point, adjusted to the points that follow.
fn foreseen(points: &[(u64, FixedPoint)], now: u64, takes: u64) -> FixedPoint {
    let (_, mut point) = points[0];
    let within =
        |reach: u64| points[1..].iter().take_while(move |(at, _)| *at <= now.saturating_add(reach));
    point.frequency =
        within(takes).map(|(_, later)| later.frequency).fold(point.frequency, usize::max);
    if let Wait::Sleep(nap) = point.wait {
        let mut shortest = nap;
        for (_, later) in within(nap.as_picos()) {
            let Wait::Sleep(nap) = later.wait else { break };
            shortest = shortest.min(nap);
        }
        point.wait = Wait::Sleep(shortest);
    }
    point
}

/// Returns the periods in which a core is parked, with its idle state.
fn parked(starts: &[(u64, FixedPoint)], server: &ServerModel, core: usize) -> Vec<Parked> {
    let mut spans = Vec::new();
    let mut since: Option<u64> = None;
    for (at, point) in starts {
        match since {
            None if point.cores <= core => since = Some(*at),
            Some(from) if point.cores > core => {
                // The core wakes at the frequency of that time.
                spans.push(park(server, from, *at, point.frequency));
                since = None;
            }
            _ => {}
        }
    }
    let state = server.deepest_idle_state();
    spans.extend(since.map(|from| Parked { from, wakes_at: u64::MAX, until: u64::MAX, state }));
    spans
}

/// Chooses the cheapest idle state for a core that is parked from `from` to `until`.
fn park(server: &ServerModel, from: u64, until: u64, frequency: usize) -> Parked {
    let frequencies = &server.processor.frequencies;
    let awake = server.awake_core_power(frequencies[frequency.min(frequencies.len() - 1)]).0;
    let work = server.wake_up_seconds(server.processor.lowest_frequency());
    let takes = |state: usize| server.extra_exit_latency(state) + Span::from_seconds(work) + MARGIN;
    let joules = |state: usize| {
        let exit = server.extra_exit_latency(state).as_seconds();
        let whole = (until - from) as f64 * 1e-12;
        server.idle_core_power(state).0 * (whole - exit) + awake * exit
    };
    let fits = |state: &usize| takes(*state).as_picos() < until - from;
    let states = (0..server.idle_states.len()).filter(fits);
    let state = states.min_by(|a, b| joules(*a).total_cmp(&joules(*b)));
    let state = state.unwrap_or(server.shallowest_idle_state());
    let wakes_at = until.saturating_sub(takes(state).as_picos()).max(from);
    Parked { from, wakes_at, until, state }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_server::ServerFile;

    fn at(micros: u64, cores: usize, frequency: usize, nap: u64) -> (Time, FixedPoint) {
        let wait = Wait::Sleep(Span::from_micros(nap));
        let point = FixedPoint { cores, frequency, nap: 0, wait, moderation: Span::ZERO };
        (Time::ZERO + Span::from_micros(micros), point)
    }

    fn micros(moment: &Moment) -> f64 {
        moment.at.as_seconds() * 1e6
    }

    #[test]
    fn slow_changes_begin_before_a_point_holds() {
        let file = ServerFile::load("westmere-2010").unwrap();
        let found = moments(&[at(0, 2, 0, 80), at(2_000, 8, 13, 30)], file.model().unwrap(), 12);
        // Cores wake 86 + 4.8 + 1 us early, naps shorten 80 us early, the frequency rises 10 us
        // early.
        let expected = [0.0, 1_908.2, 1_920.0, 1_990.0, 2_000.0];
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (moment, expected) in found.iter().zip(expected) {
            assert!((micros(moment) - expected).abs() < 0.1, "{expected} {moment:?}");
        }
        let six = CoreSet::first(8).without(CoreSet::first(2));
        assert_eq!(found[1], Moment { at: found[1].at, waking: six, ..found[0].clone() });
        assert_eq!(found[2].point.wait, Wait::Sleep(Span::from_micros(30)));
        assert_eq!((found[2].point.frequency, found[3].point.frequency), (0, 13));
        assert_eq!((found[3].point.cores, found[4].point.cores), (2, 8));
        assert!(found[4].waking.is_empty() && found[4].parked[8..] == [2; 4]);
    }

    /// C6 costs only 86 us of an awake core; C1 draws 1.5 W.
    #[test]
    fn core_needed_again_soon_is_parked_in_a_light_state() {
        let file = ServerFile::load("westmere-2010").unwrap();
        for (low, state, early) in [(200, 0, 5.8), (2_000, 2, 91.8)] {
            let points = [at(0, 3, 0, 10), at(1_000, 1, 0, 10), at(1_000 + low, 3, 0, 10)];
            let found = moments(&points, file.model().unwrap(), 3);
            assert_eq!((found.len(), found[1].parked[2]), (4, state), "{found:#?}");
            assert!((micros(&found[3]) - micros(&found[2]) - early).abs() < 0.1, "{found:#?}");
        }
    }
}
