//! Makes a schedule cheaper, piece by piece.
//!
//! A change of a few slots affects these slots and their neighbourhood: cores wake shortly before,
//! and the backlog is served shortly after. So one run tries many changes at once, far enough
//! apart, and each is judged by the energy and the late packets of its neighbourhood. A late packet
//! has a price, which rises while more packets are late than allowed and falls while fewer are. So
//! late packets end up where they save most.

use super::chances::Chances;
use super::join::Donor;
use super::moves::Limits;
use super::player::{Outcome, Player};
use super::price::Price;
use crate::draws::Draws;
use crate::error::LeagueError;
use crate::play::Played;
use crate::point::FixedPoint;
use wattline_units::Span;

/// Rounds in which changes that seemed to help are played again without the others.
const CHECKS: usize = 3;
/// The search ends when this many schedules have not saved the share `WORTHWHILE` of the energy.
const PATIENCE: usize = 120;
const WORTHWHILE: f64 = 3e-5;
/// Work of waking, in addition to leaving the deepest state.
const WAKING: Span = Span::from_micros(6);
/// The price of a late packet rises and falls by these factors. It stays while the used share of
/// the allowance is above `USED`.
const DEARER: f64 = 1.08;
const CHEAPER: f64 = 0.95;
const USED: f64 = 0.9;
/// A change has to save the price of this many late packets: changes are judged one by one, and
/// together they save less. The number rises and falls by these factors, within these bounds.
const MARGIN: (f64, f64) = (0.5, 20.0);
const DOUBT: f64 = 1.15;
const TRUST: f64 = 0.85;

pub(super) struct Search<'a, 'b> {
    player: &'b mut Player<'a>,
    donors: &'b [Donor],
    limits: Limits,
    price: Price,
    /// Least gain of a change, in late packets.
    margin: f64,
    /// The best schedule so far, and its outcome.
    held: (Vec<FixedPoint>, Outcome),
    draws: Draws,
    /// Lengths of segments, with their moves and the mean joules that a run saved.
    lengths: Vec<(usize, Chances, f64)>,
}

/// Points for the slots from `from` up to `to`, made by the move of this index.
struct Change {
    index: usize,
    from: usize,
    to: usize,
    points: Vec<FixedPoint>,
    /// Energy saved by the change in all its runs.
    saved: f64,
}

/// The best schedule that keeps the budget.
pub(super) type Best = Option<(Vec<FixedPoint>, Played)>;

/// Keeps a schedule if it is the best so far.
pub(super) fn note(best: &mut Best, points: &[FixedPoint], played: &Played) {
    let cheaper = best.as_ref().is_none_or(|(_, other)| played.energy_joules < other.energy_joules);
    if played.feasible && cheaper {
        *best = Some((points.to_vec(), played.clone()));
    }
}

impl<'a, 'b> Search<'a, 'b> {
    /// Begins with a schedule and its outcome.
    pub fn new(
        player: &'b mut Player<'a>,
        donors: &'b [Donor],
        price: Price,
        (points, outcome): (Vec<FixedPoint>, Outcome),
    ) -> Self {
        let server = player.case.server;
        let limits = Limits {
            cores: player.case.cores(),
            frequencies: server.processor.frequencies.len(),
            deepest: server.deepest_idle_state(),
            nap: player.slack - server.wake_up_seconds(server.processor.highest_frequency()),
        };
        let mut lengths = Vec::new();
        let mut length = 1;
        while length < player.slots {
            lengths.push((length, Chances::new(donors.len()), 0.0));
            length *= 2;
        }
        lengths.push((player.slots, Chances::new(donors.len()), 0.0));
        Self {
            player,
            donors,
            limits,
            price,
            margin: MARGIN.0,
            held: (points, outcome),
            draws: Draws(1),
            lengths,
        }
    }

    /// Searches until `until` schedules have been played, or until there is no more progress.
    pub fn run(&mut self, until: usize, best: &mut Best) -> Result<(), LeagueError> {
        let joules = |best: &Best| best.as_ref().map_or(f64::INFINITY, |(_, of)| of.energy_joules);
        let mut since = (self.player.played, joules(best));
        while self.player.played < until {
            let class = self.class();
            let changes = self.attempt(class, best)?;
            self.keep(class, changes, best)?;
            if joules(best) < since.1 * (1.0 - WORTHWHILE) || joules(best).is_infinite() {
                since = (self.player.played, joules(best));
            }
            if self.player.played > since.0 + PATIENCE {
                break;
            }
        }
        Ok(())
    }

    /// Draws a length to try: lengths that recently saved more are more likely.
    fn class(&mut self) -> usize {
        let most = self.lengths.iter().map(|(_, _, saved)| *saved).fold(0.0, f64::max);
        let weight = |saved: f64| 0.15 + if most > 0.0 { saved / most } else { 0.0 };
        self.draws.by_weight(self.lengths.iter().map(|(_, _, saved)| weight(*saved)))
    }

    /// Tries changes all over the run.
    fn attempt(&mut self, class: usize, best: &mut Best) -> Result<Vec<Change>, LeagueError> {
        let segments = self.segments(self.lengths[class].0);
        let mut trial = self.held.0.clone();
        let donors: Vec<&[FixedPoint]> =
            self.donors.iter().map(|donor| donor.points.as_slice()).collect();
        let mut changes = Vec::with_capacity(segments.len());
        for (from, to) in segments {
            let index = self.lengths[class].1.draw(&mut self.draws);
            self.lengths[class].1.at(index).apply(&mut trial, (from, to), &self.limits, &donors);
            if trial[from..to] != self.held.0[from..to] {
                let points = trial[from..to].to_vec();
                changes.push(Change { index, from, to, points, saved: 0.0 });
            }
        }
        if changes.is_empty() {
            // Counts as a play so that the search ends.
            self.player.played += 1;
            return Ok(changes);
        }
        let outcome = self.player.play(&trial)?;
        note(best, &trial, &outcome.played);
        for change in &mut changes {
            change.saved = self.saved(change, &outcome);
        }
        Ok(changes)
    }

    /// Returns the energy that a run saved in the neighbourhood of a change, compared with the held
    /// schedule.
    fn saved(&self, change: &Change, outcome: &Outcome) -> f64 {
        let (before, after) = self.reach();
        let near = change.from.saturating_sub(before)..(change.to + after).min(self.player.slots);
        let sum = |of: &Outcome| -> f64 {
            of.tallies[near.clone()].iter().map(|tally| self.price.of(tally)).sum()
        };
        sum(&self.held.1) - sum(outcome)
    }

    /// Plays the changes that seemed to help, and drops those that do not help on average: the
    /// times at which naps end differ between runs, so many changes seem good once by luck.
    fn keep(
        &mut self,
        class: usize,
        changes: Vec<Change>,
        best: &mut Best,
    ) -> Result<(), LeagueError> {
        let mut merit = self.price.merit(&self.held.1, self.player.allowed());
        let before = merit;
        let mut better = None;
        let tried: Vec<usize> = changes.iter().map(|change| change.index).collect();
        let mut left: Vec<Change> =
            changes.into_iter().filter(|change| change.saved > self.least()).collect();
        let mut price = self.price;
        for round in 2..2 + CHECKS {
            if left.is_empty() {
                break;
            }
            let mut points = self.held.0.clone();
            for change in &left {
                points[change.from..change.to].copy_from_slice(&change.points);
            }
            let outcome = self.player.play(&points)?;
            note(best, &points, &outcome.played);
            let used = self.player.used(&outcome);
            if used > 1.0 {
                price.0 = self.price.0 * DEARER;
            } else if used < USED {
                price.0 = self.price.0 * CHEAPER;
            }
            for change in &mut left {
                change.saved += self.saved(change, &outcome);
            }
            let now = self.price.merit(&outcome, self.player.allowed());
            if now < merit {
                merit = now;
                better = Some((points, outcome));
            }
            let count = left.len();
            left.retain(|change| change.saved > round as f64 * self.least());
            if left.len() == count {
                break;
            }
        }
        let chances = &mut self.lengths[class].1;
        for index in tried {
            chances.tried(index);
        }
        match better {
            Some(better) => {
                left.iter().for_each(|change| chances.helped(change.index));
                self.held = better;
                self.margin = (self.margin * TRUST).max(MARGIN.0);
            }
            None => self.margin = (self.margin * DOUBT).min(MARGIN.1),
        }
        let (_, _, mean) = &mut self.lengths[class];
        *mean += 0.3 * (before - merit - *mean);
        self.price = price;
        Ok(())
    }

    /// Returns the least gain of a change.
    fn least(&self) -> f64 {
        self.margin * self.price.0
    }

    /// Returns the number of slots before and after a change that it affects.
    fn reach(&self) -> (usize, usize) {
        let server = self.player.case.server;
        let slots = |span: Span| span.as_picos().div_ceil(self.player.slot.as_picos()) as usize;
        let exit = server.extra_exit_latency(server.deepest_idle_state()) + WAKING;
        (slots(exit), slots(Span::from_seconds(self.player.slack)) + 1)
    }

    /// Draws segments of a length, far enough apart not to affect each other.
    fn segments(&mut self, length: usize) -> Vec<(usize, usize)> {
        let slots = self.player.slots;
        let (before, after) = self.reach();
        let period = length + before + after;
        if length >= slots {
            return vec![(0, slots)];
        }
        let first = self.draws.below(period.min(slots));
        (first..slots).step_by(period).map(|from| (from, (from + length).min(slots))).collect()
    }
}
