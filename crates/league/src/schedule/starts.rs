//! Schedules to begin with, from the packets alone.
//!
//! For each stretch of slots the capacity is known that its packets need to be in time; a dynamic
//! program over all cores and frequencies takes the cheapest way through the stretches, with the
//! energy of waking parked cores.

use super::player::Player;
use crate::error::LeagueError;
use crate::point::FixedPoint;
use crate::prediction::Prediction;
use wattline_policy::Wait;
use wattline_units::Span;

/// Method of making a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Kind {
    /// Slots of a stretch.
    pub slots: usize,
    /// Capacity over what is needed.
    pub spare: f64,
    /// Naps as a share of the longest that lets a packet pass in time; interrupts without.
    pub nap: Option<f64>,
}

/// Plans for a player's case.
pub(super) struct Starts<'a> {
    player: &'a Player<'a>,
    prediction: Prediction<'a>,
}

/// The packets in stretches.
struct Stretches {
    /// Packets per second that must be served for all of them to be in time.
    need: Vec<f64>,
    packets: Vec<f64>,
    seconds: Vec<f64>,
}

impl<'a> Starts<'a> {
    pub fn new(player: &'a Player<'a>) -> Result<Self, LeagueError> {
        let prediction = Prediction::of(player.case, u32::from(player.arrivals.shortest))?;
        // Interrupts as if packets came at random; they come in trains more often.
        Ok(Self { player, prediction: prediction.with_wake_share(0.5) })
    }

    fn stretches(&self, slots: usize) -> Stretches {
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
        Stretches {
            need: parts.iter().map(|part| needed(part, fine, self.player.slack)).collect(),
            packets: parts.iter().map(|part| part.iter().map(|n| f64::from(*n)).sum()).collect(),
            seconds: (0..count).map(|index| length(index) as f64 * 1e-12).collect(),
        }
    }

    /// The cheapest way through all stretches, slot by slot. Where no point carries what comes, the
    /// strongest one stands.
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
        let Stretches { need, packets, seconds } = self.stretches(kind.slots);
        let mut cost = vec![0.0; points.len()];
        let mut ways: Vec<Vec<usize>> = Vec::with_capacity(need.len());
        for stretch in (0..need.len()).rev() {
            let needed = (need[stretch] * kind.spare).min(most);
            // From the stretch on, when this point holds in it.
            let here = points.iter().zip(&cost).map(|(point, rest)| {
                let carries = self.prediction.capacity(point) >= needed;
                let energy = self.prediction.energy(point, packets[stretch], seconds[stretch]);
                if carries { energy + rest } else { f64::INFINITY }
            });
            let here: Vec<f64> = here.collect();
            // The cheapest next point for each number of cores before.
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
            ways.push(next.iter().map(|(_, index)| *index).collect());
        }
        let mut before = 0;
        let mut found = Vec::with_capacity(self.player.slots);
        for way in ways.iter().rev() {
            let point = points[way[before]];
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

/// Packets per second that must be served for those of a slot to be in time, when nothing waits
/// at its beginning: the most that come in any stretch, over that stretch and half the slack
/// (the other half is for naps and for uneven queues).
fn needed(packets: &[u32], slot_seconds: f64, slack: f64) -> f64 {
    let mut most = 0.0f64;
    let mut stretch = 1;
    while stretch <= packets.len() {
        let mut sum: u64 = packets[..stretch].iter().map(|count| u64::from(*count)).sum();
        let mut largest = sum;
        for end in stretch..packets.len() {
            sum = sum + u64::from(packets[end]) - u64::from(packets[end - stretch]);
            largest = largest.max(sum);
        }
        most = most.max(largest as f64 / (stretch as f64 * slot_seconds + 0.5 * slack));
        stretch *= 2;
    }
    // The whole slot, which no power of two may be.
    let all: u64 = packets.iter().map(|count| u64::from(*count)).sum();
    most.max(all as f64 / (packets.len().max(1) as f64 * slot_seconds))
}
