//! Initial schedules, planned from the packets alone.
//!
//! The packets of a segment of slots determine the capacity that they need to be in time. A dynamic
//! program over all cores and frequencies finds the cheapest sequence of points for the segments,
//! including the energy of waking parked cores.

use super::player::Player;
use crate::error::LeagueError;
use crate::point::FixedPoint;
use crate::prediction::Prediction;
use wattline_policy::Wait;
use wattline_units::Span;

/// Method of making a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Kind {
    /// Slots per segment.
    pub slots: usize,
    /// Capacity relative to the need.
    pub spare: f64,
    /// Naps as a share of the longest after which a packet is in time; `None` for interrupts.
    pub nap: Option<f64>,
}

/// Plans for a player's case.
pub(super) struct Starts<'a> {
    player: &'a Player<'a>,
    prediction: Prediction<'a>,
}

/// The packets by segment.
struct Segments {
    /// Packets per second that must be served for all to be in time.
    need: Vec<f64>,
    packets: Vec<f64>,
    seconds: Vec<f64>,
}

impl<'a> Starts<'a> {
    pub fn new(player: &'a Player<'a>) -> Result<Self, LeagueError> {
        let prediction = Prediction::of(player.case, u32::from(player.arrivals.shortest))?;
        // Half the interrupts of random arrivals, since packets often arrive in trains.
        Ok(Self { player, prediction: prediction.with_wake_share(0.5) })
    }

    fn segments(&self, slots: usize) -> Segments {
        let arrivals = self.player.arrivals;
        let long = self.player.slot.as_picos() * slots as u64;
        let count = arrivals.duration.div_ceil(long) as usize;
        let fine = arrivals.slot as f64 * 1e-12;
        let mut parts: Vec<Vec<u32>> = vec![Vec::new(); count];
        for (index, packets) in arrivals.packets.iter().enumerate() {
            let at = (index as u64 * arrivals.slot / long) as usize;
            parts[at.min(count - 1)].push(*packets);
        }
        let length = |index: usize| (arrivals.duration - index as u64 * long).min(long);
        Segments {
            need: parts.iter().map(|part| needed(part, fine, self.player.slack)).collect(),
            packets: parts.iter().map(|part| part.iter().map(|n| f64::from(*n)).sum()).collect(),
            seconds: (0..count).map(|index| length(index) as f64 * 1e-12).collect(),
        }
    }

    /// Returns the cheapest points for all segments, slot by slot. A segment beyond the capacity of
    /// every point gets the strongest one.
    pub fn plan(&self, kind: Kind) -> Vec<FixedPoint> {
        let server = self.player.case.server;
        let cores = self.player.case.cores();
        let points: Vec<FixedPoint> = (1..=cores)
            .flat_map(|cores| (0..server.processor.frequencies.len()).map(move |f| (cores, f)))
            .map(|(cores, frequency)| self.point(cores, frequency, kind.nap))
            .collect();
        let most = points.iter().map(|of| self.prediction.capacity(of)).fold(0.0, f64::max);
        // A parked core leaves its state and does the work of waking.
        let exit = server.extra_exit_latency(server.deepest_idle_state()).as_seconds();
        let wake = |point: &FixedPoint| {
            exit * server.awake_core_power(server.processor.frequencies[point.frequency]).0
        };
        let Segments { need, packets, seconds } = self.segments(kind.slots);
        let mut cost = vec![0.0; points.len()];
        let mut choices: Vec<Vec<usize>> = Vec::with_capacity(need.len());
        for segment in (0..need.len()).rev() {
            let needed = (need[segment] * kind.spare).min(most);
            // Cost from this segment on if this point holds in it.
            let here = points.iter().zip(&cost).map(|(point, rest)| {
                let carries = self.prediction.capacity(point) >= needed;
                let energy = self.prediction.energy(point, packets[segment], seconds[segment]);
                if carries { energy + rest } else { f64::INFINITY }
            });
            let here: Vec<f64> = here.collect();
            // The cheapest point of this segment for each number of cores before it.
            let next: Vec<(f64, usize)> = (0..=cores)
                .map(|before| {
                    let of = |(index, point): (usize, &FixedPoint)| {
                        let more = point.cores.saturating_sub(before) as f64;
                        let more = if before == 0 { 0.0 } else { more };
                        (here[index] + more * wake(point), index)
                    };
                    let all = points.iter().enumerate().map(of);
                    all.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::INFINITY, 0))
                })
                .collect();
            cost = points.iter().map(|point| next[point.cores].0).collect();
            choices.push(next.iter().map(|(_, index)| *index).collect());
        }
        let mut before = 0;
        let mut found = Vec::with_capacity(self.player.slots);
        for choice in choices.iter().rev() {
            let point = points[choice[before]];
            before = point.cores;
            let room = self.player.slots - found.len();
            found.extend(std::iter::repeat_n(point, kind.slots.min(room)));
        }
        found
    }

    fn point(&self, cores: usize, frequency: usize, nap: Option<f64>) -> FixedPoint {
        let mut point =
            FixedPoint { cores, frequency, nap: 0, wait: Wait::Interrupt, moderation: Span::ZERO };
        let longest =
            self.player.slack - self.prediction.wake_up(&point) - self.prediction.service(&point);
        if let Some(nap) = nap.filter(|_| longest > 0.0) {
            point.wait = Wait::Sleep(Span::from_seconds(nap * longest));
        }
        point
    }
}

/// Returns the packets per second that must be served for the packets of a segment to be in time if
/// its queues begin empty: the most that arrive in any window, over the window and half the slack.
/// The other half is for naps and for uneven queues.
fn needed(packets: &[u32], slot_seconds: f64, slack: f64) -> f64 {
    let mut most = 0.0f64;
    let mut window = 1;
    while window <= packets.len() {
        let mut sum: u64 = packets[..window].iter().map(|count| u64::from(*count)).sum();
        let mut largest = sum;
        for end in window..packets.len() {
            sum = sum + u64::from(packets[end]) - u64::from(packets[end - window]);
            largest = largest.max(sum);
        }
        most = most.max(largest as f64 / (window as f64 * slot_seconds + 0.5 * slack));
        window *= 2;
    }
    // The whole segment, whose length need not be a power of two.
    let all: u64 = packets.iter().map(|count| u64::from(*count)).sum();
    most.max(all as f64 / (packets.len().max(1) as f64 * slot_seconds))
}
