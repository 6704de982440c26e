//! Sets all knobs together for a latency budget: cores, frequency, and the length and end of naps.
//!
//! The budget gives the time that a packet may spend in queue and core. With the measured rate and
//! its variability, this time gives the longest nap and the points that keep the budget; the policy
//! takes the cheapest. `docs/explanation/wattline.md` is its page.

mod constants;
mod falls;
mod knobs;
mod lateness;
mod machine;
mod phase;
mod plan;
mod rate;
mod waking;
mod why;

use constants::*;
use falls::{Falls, Rent};
use knobs::{Frequencies, Steps};
use lateness::Lateness;
use machine::Machine;
use phase::Phase;
use plan::{Choice, Requirements, Rise, notice};
use rate::{Rate, Recent};
use waking::Waking;
use wattline_policy::{
    AskAgain, BuildContext, CoreSet, CoreView, IdleState, Kind, Level, Looks, MAX_CORES,
    Observation, OperatingPoint, Parameter, Parameters, Platform, Policy, PolicyInfo, Reason,
    StreakRule, Streaks, Trigger, Wait,
};
use wattline_units::{PacketsPerSecond, Span, Time};

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "wattline",
    summary: "Keeps 99 of 100 packets within a latency and takes the cheapest cores, frequency and naps that do",
    source: "ours; M/G/1 with vacations (Levy and Yechiali 1975), power-down by break-even (Irani, Shukla, Gupta 2003)",
    parameters: &[
        Parameter {
            name: "p99",
            kind: Kind::Duration { min_micros: 1, max_micros: MOST_MICROS },
            default: "100us",
            meaning: "latency that at most 1 % of the packets may exceed",
            source: "the operator's choice",
        },
        Parameter {
            name: "guard",
            kind: Kind::Word,
            default: "measured",
            meaning: "what may come without a warning: `measured` (ten times the mean rate, while rises come at most twice the recent peak; at least a quarter more than that peak) or `link` (line rate at all ports; needs a server model)",
            source: "ours",
        },
        Parameter {
            name: "floor",
            kind: Kind::Count { min: 1, max: MAX_CORES as u64 },
            default: "1",
            meaning: "fewest active cores",
            source: "the operator's choice",
        },
    ],
    make,
};

/// Purposes of a search: the next point, the point of the recent peak, the point of the load.
#[derive(Debug, Clone, Copy)]
enum Purpose {
    Next,
    Peak,
    Low,
}

/// A decision of the policy.
#[derive(Debug, Clone, Copy)]
struct Update {
    now: Time,
    /// Seconds since the last decision.
    seconds: f64,
    /// Mean and highest rate before a rise that has just been detected.
    rise: Option<(f64, f64)>,
    /// True if a queue grew although the rate did not rise.
    crowded: bool,
}

/// Parameters and figures of the platform.
#[derive(Debug, Clone, Copy, Default)]
struct Given {
    late_after: Span,
    /// Seconds that a packet may spend in queue and core.
    slack: f64,
    floor: usize,
    /// Packets per second at all ports at line rate, where `guard` is `link`.
    link: Option<f64>,
    /// Packets that the rings of a core hold.
    ring: f64,
    ports: usize,
    /// Time that a core takes from its deepest state to its first packet.
    exit: Span,
    /// Seconds that a change of frequency takes.
    transition: f64,
    /// Time between two decisions, normally and while a rise is answered.
    periods: [Span; 2],
    /// True if the kernel or XDP programs take the packets: the fill of queues is not visible, and
    /// counters are read only now and then.
    by_kernel: bool,
}

#[derive(Default)]
struct Wattline {
    given: Given,
    /// Queue fill at which the policy asked to be called, in the last decision.
    level: u32,
    /// Number of packets up to which a queue that the kernel polls is not alarming: bursts fill it
    /// at any speed. Decays like the remembered peak of the rate.
    usual: f64,
    /// Level of the last decision, if a queue had grown.
    reached: f64,
    phase: Phase,
    machine: Machine,
    rate: Rate,
    /// Recent peak of the rate that is needed if some packets may wait.
    needed: Recent,
    falls: Falls,
    rent: Rent,
    lateness: Lateness,
    waking: Waking,
    steps: Steps,
    frequencies: Frequencies,
    /// The last sudden rise, and the one before, as the last one may turn out to be a burst.
    risen: Option<Time>,
    risen_before: Option<Time>,
    present: Option<Choice>,
    /// Frequency requested last.
    asked: Option<usize>,
    last: Time,
    /// Time at which the answer to a growing queue takes effect.
    eased: Time,
    /// True if the last decision ended longer naps.
    cuts_short: bool,
    /// Number of waiting packets.
    waiting: f64,
    cores: Vec<CoreView>,
    /// Requirements and result of the last search for each purpose.
    searched: [Option<(Requirements, Choice)>; Purpose::Low as usize + 1],
    why: Option<Reason>,
}

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let platform = context.platform;
    let model = context.server.zip(context.packet.map(|(cost, _)| cost));
    let machine = Machine::new(platform, model);
    let late_after = parameters.span("p99");
    let slack = late_after.as_seconds() - machine.outside;
    let fastest = machine.frequencies.len() - 1;
    let least = machine.wake[fastest] + machine.delivery + machine.service(1, fastest);
    let micros = |seconds: f64| seconds / Span::from_micros(1).as_seconds();
    if slack <= least {
        return Err(format!(
            "p99 = {:.1} us: a packet that wakes a core takes {:.1} us; allowed is more than that",
            micros(late_after.as_seconds()),
            micros(least + machine.outside)
        ));
    }
    let link = match (parameters.word("guard"), context.server) {
        ("measured", _) => None,
        ("link", Some(server)) => Some(server.link_capacity(SHORTEST_FRAME).0),
        ("link", None) => return Err("guard = \"link\": needs a server model".into()),
        (other, _) => return Err(format!("guard = \"{other}\": must be measured or link")),
    };
    let floor = parameters.count("floor") as usize;
    if floor > platform.cores {
        return Err(format!("floor = {floor}: the platform has {} cores", platform.cores));
    }
    let ports = (platform.queues.len() / platform.cores.max(1)).max(1);
    let exit = platform.idle_states.last().map_or(Span::ZERO, IdleState::wakes_within);
    let exit = exit + Span::from_seconds(machine.wake[0]);
    // If unknown, the rings impose no limit.
    let ring = platform.ring_size.map_or(f64::INFINITY, |ring| (ring * ports) as f64);
    // Until all cores are awake, the rings of the active cores hold the arrivals at line rate.
    let comes = link.map_or(0.0, |link| link * (exit + ALERT).as_seconds());
    let by_kernel = !platform.can.asks.fill.is_noticed();
    let given = Given {
        late_after,
        slack,
        floor: floor.max((comes / ring).ceil() as usize).min(platform.cores),
        link,
        ring: ring - comes / platform.cores as f64,
        ports,
        exit,
        transition: platform.frequency_transition.as_seconds(),
        periods: if by_kernel { [KERNEL_PERIOD; 2] } else { [PERIOD, ALERT] },
        by_kernel,
    };
    let cores = vec![CoreView::default(); platform.cores];
    // With interrupts, the governor does not have to wake workers.
    let step = if by_kernel { 0.0 } else { exit.as_seconds() };
    let (frequencies, steps) = (Frequencies::new(fastest), Steps::new(step));
    Ok(Box::new(Wattline { given, machine, cores, frequencies, steps, ..Wattline::default() }))
}

/// Requirements of the load and the machine.
impl Wattline {
    fn required(&self, need: f64) -> Requirements {
        let (all, carries) = (self.machine.most(), self.phase.carried() > 0.0);
        // If the recent peak is carried, the load reaches its height now and then anyway.
        let mut surprise = if carries { 0.0 } else { SURPRISE * self.rate.mean };
        if self.risen_before.is_some() && self.has_risen() {
            // At its height the load does not rise tenfold again.
            surprise = surprise.min(2.0 * self.rate.peak);
        }
        let measured = surprise.max(MARGIN * self.rate.peak).min(all).max(need);
        let surprise = self.given.link.unwrap_or(measured);
        let has_known = self.risen.is_some() && self.given.link.is_none();
        Requirements {
            need,
            mean: if carries { self.rate.long } else { self.rate.mean },
            ports: self.given.ports,
            dispersion: self.rate.dispersion,
            slack: self.given.slack * self.lateness.naps,
            floor: self.given.floor,
            ring: self.given.ring,
            waits: carries,
            rise: Rise {
                rate: surprise,
                known: if has_known { all.min(self.known_peak()) } else { all },
                late: self.lateness.allows(self.risen.is_some()),
                transition: self.given.transition,
                step: self.steps.seconds(),
            },
        }
    }

    /// Returns the usual rate that a rise reaches.
    fn known_peak(&self) -> f64 {
        (1.0 + TRUSTED) * self.rate.peak
    }

    /// Returns true if a rise came recently.
    fn has_risen(&self) -> bool {
        self.risen.is_some_and(|at| self.last.since(at) < CALM)
    }

    /// Returns the cheapest point; reuses that of the last search for this purpose if it still
    /// holds.
    fn search(&mut self, purpose: Purpose, required: &Requirements) -> Choice {
        match self.searched[purpose as usize] {
            Some((planned, best)) if planned.covers(required) => best,
            _ => {
                let best = self.machine.choose(required);
                self.searched[purpose as usize] = Some((*required, best));
                best
            }
        }
    }

    /// Returns the energy in joules of going from one point to another and back: cores wake, tables
    /// are written, and all cores wait for the frequency.
    fn switch_joules(&self, from: &Choice, to: &Choice) -> f64 {
        let awake = self.machine.awake[to.frequency];
        let changed = from.cores.abs_diff(to.cores) as f64;
        let wake = self.machine.exit() + self.machine.wake[to.frequency];
        let tables = if from.cores == to.cores { 0.0 } else { self.given.ports as f64 };
        let write = tables * ALERT.as_seconds();
        let change =
            2.0 * self.given.transition * self.machine.awake[from.frequency] * from.cores as f64;
        (changed * wake + write) * awake + change
    }

    /// Returns the energy in joules of a rise back to a point: cores wake, and all run fast for a
    /// while.
    fn return_joules(&self, stays: &Choice, low: &Choice, at_peak: &Requirements) -> f64 {
        let answer = self.machine.at_full_speed(MARGIN * self.rate.peak, 1, at_peak);
        let added = answer.cores.saturating_sub(low.cores);
        let awake = |choice: &Choice| choice.cores as f64 * self.machine.awake[choice.frequency];
        let faster = (awake(&answer) - awake(stays)).max(0.0) * self.holds(added).as_seconds();
        self.switch_joules(low, &answer) + faster + self.switch_joules(&answer, stays)
    }

    /// Returns the duration of the answer to a rise that adds so many cores.
    fn holds(&self, added: usize) -> Span {
        let steps = self.steps.seconds() * (added + 1) as f64;
        HOLD + Span::from_seconds(steps.min(2.0 * RECENT))
    }
}

/// The phases.
impl Wattline {
    /// Returns the rate to carry though the load is lower, or zero if a fall of the load is worth
    /// following. `before` is the rate carried so far.
    fn carry(&mut self, seconds: f64, need: f64, before: f64) -> f64 {
        let (peak, required) = (self.needed.highest(), self.required(need));
        let fell_from = |rate: f64| rate >= 2.0 / MARGIN * need;
        if fell_from(peak) {
            let at_peak = Requirements { need: peak, ..required };
            let stays = self.search(Purpose::Peak, &at_peak);
            let low = self.search(Purpose::Low, &required);
            let saved = (stays.watts - low.watts).max(0.0) * seconds;
            let change = self.switch_joules(&stays, &low);
            self.falls.falls(saved, change + self.return_joules(&stays, &low, &at_peak));
        } else {
            // A fall that outlasts the memory of its peak was worth following.
            self.falls.ends(fell_from(before));
        }
        if self.falls.stays() { peak } else { 0.0 }
    }

    /// Answers a rise with capacity for one as high as before. The height of the first rise, and of
    /// one that continues, is unknown. `mean` and `peak` are the rates before this decision, whose
    /// interval contains part of the rise.
    fn answer(&mut self, now: Time, need: f64, (mean, peak): (f64, f64)) -> Choice {
        let goes_on = self.phase.answers(now);
        let known = peak > 2.0 * mean && !goes_on;
        if !goes_on {
            self.risen_before = self.risen;
        }
        self.risen = Some(now);
        self.falls.ends(false);
        self.rent = Rent::default();
        self.phase = Phase::Answer { until: now, known };
        let required = self.required(need);
        let (before, capacity) = self.present.map_or((1, 0.0), |at| (at.cores, at.capacity));
        let wanted = match (known, goes_on) {
            (true, _) => MARGIN * self.rate.peak,
            (false, true) => 2.0 * capacity,
            (false, false) => 2.0 * required.rise.rate,
        };
        // Until all of them are awake, their rings hold the arrivals.
        let rings =
            (wanted * self.given.exit.as_seconds() / (USABLE * self.given.ring)).ceil() as usize;
        let least = before.max(rings.min(self.machine.cores));
        let answer = self.machine.at_full_speed(wanted, least, &required);
        let until = now + self.holds(answer.cores.saturating_sub(before));
        self.phase = Phase::Answer { until, known };
        answer
    }

    /// Returns the point until a rate is known: everything on at first, then as many cores parked
    /// as the load allows, up to half of them, to time the steps of the machine. Polling cores park
    /// at once.
    fn start(&self, now: Time, need: f64) -> Choice {
        let required = self.required(need);
        let is_timed = 2.0 * now.as_seconds() >= RECENT;
        let (rate, least) =
            if is_timed { (MARGIN * need, self.machine.cores / 2) } else { (f64::INFINITY, 1) };
        self.machine.at_full_speed(rate, least.max(1), &required)
    }

    /// Returns the next choice, and its reason.
    fn next(&mut self, update: Update) -> (Choice, &'static str) {
        let (now, need) = (update.now, self.rate.need());
        if self.phase == Phase::Start && now.as_seconds() < RECENT {
            return (self.start(now, need), why::START);
        }
        if let Some(before) = update.rise {
            return (self.answer(now, need, before), why::RISE);
        }
        if self.phase.answers(now) {
            return self.follow(need, update);
        }
        let was = std::mem::replace(&mut self.phase, Phase::Follow);
        let rate = self.carry(update.seconds, need, was.carried());
        if rate > 0.0 {
            self.phase = Phase::Carry { rate };
            return self.follow(rate, update);
        }
        // The answer to a rise was not chosen for its energy, so it is dropped at once.
        match was {
            Phase::Follow | Phase::Carry { .. } => self.follow(need, update),
            _ => (self.best(need, update.crowded), why::SETTLED),
        }
    }

    /// Returns the cheapest point, with more capacity than the present one if a queue grows at the
    /// planned rate.
    fn best(&mut self, need: f64, crowded: bool) -> Choice {
        let present = self.present.filter(|_| crowded).map_or(0.0, |present| present.capacity);
        self.search(Purpose::Next, &self.required(need.max(present)))
    }

    /// Returns the present point with the naps that fit now. Returns the cheapest point if the
    /// present one does not carry the load, or if waiting has cost as much as the change.
    fn follow(&mut self, need: f64, update: Update) -> (Choice, &'static str) {
        let best = self.best(need, update.crowded);
        let Some(present) = self.present else { return (best, why::START) };
        let at_least = if update.crowded { present.capacity } else { 0.0 };
        let required = self.required(need.max(at_least));
        let carries =
            present.capacity * MOST_LOAD >= required.need && present.cores >= required.floor;
        let same = self.machine.evaluate((present.cores, present.frequency), &required);
        let answers = matches!(self.phase, Phase::Answer { .. });
        let Some(same) = same.filter(|_| carries) else {
            self.rent = Rent::default();
            let why = match (carries, update.crowded) {
                (true, _) => why::GUARD,
                (false, true) => why::CROWDED,
                (false, false) => why::NEED,
            };
            // Capacity never falls during a rise; another rise is not expected meanwhile.
            if answers && best.capacity < present.capacity {
                return (self.machine.at_full_speed(0.0, present.cores, &required), why::RISE);
            }
            return (best, why);
        };
        if answers {
            return (same, why::RISE);
        }
        let costs = self.switch_joules(&same, &best);
        let pays = self.rent.pays((same.watts - best.watts) * update.seconds, costs);
        (if pays { best } else { same }, why::CHEAPER)
    }
}

/// Queues.
impl Wattline {
    /// Returns the rate whose return is no alarm: the carried rate, while the cores for it are
    /// awake.
    fn returning(&self, now: Time) -> f64 {
        let carried = self.phase.carried();
        let is_there = self.present.is_some_and(|choice| choice.capacity >= carried);
        if is_there && self.waking.is_over(now) { carried } else { 0.0 }
    }

    /// Returns the rate to carry if the present arrivals return and part of them waits: at most
    /// what fills half of the rings of the fewest cores that carry it.
    fn needed(&self) -> f64 {
        let peak = self.rate.peak.max(1.0);
        let held = self.given.ring * self.machine.fewest(peak, 1) as f64;
        self.rate.window.highest((GOAL * self.given.slack).min(held / (2.0 * peak)))
    }

    /// Returns the seconds of arrivals that wait by plan: the time in which a core does not poll
    /// its queues.
    fn blind(&self, choice: &Choice) -> f64 {
        choice.nap.unwrap_or(0.0) + self.machine.wake[choice.frequency]
    }

    /// Returns the queue fill, in packets, at which to ask again.
    fn level(&self, choice: &Choice, now: Time, seen: &Observation<'_>) -> u32 {
        let queues = choice.cores as f64 * self.given.ports as f64;
        let ring = self.given.ring / self.given.ports as f64;
        let need = self.rate.need().max(self.phase.carried());
        let planned = need * self.blind(choice) / queues;
        let alarm = notice(planned, self.rate.dispersion / choice.cores as f64);
        let alarm = (planned + alarm).min(ring / 2.0).max(self.usual);
        let level = if self.phase.answers(now) { USABLE * ring } else { alarm };
        // A queue that is fuller than planned, but not alarming, would trigger again with each
        // packet.
        let grown = self.grew(seen).map_or(0.0, |(_, fill)| MARGIN * fill + DEVIATIONS);
        level.max(grown.min(ring.max(2.0 * self.usual))).max(1.0) as u32
    }

    /// Returns the queue that is fuller than planned, and its packets; if they are not visible, the
    /// level that the policy asked for.
    fn grew(&self, seen: &Observation<'_>) -> Option<(usize, f64)> {
        match seen.trigger {
            Trigger::Fill { queue } => Some((queue, f64::from(seen.queues[queue].fill))),
            Trigger::Streak { queue, above: true } => Some((queue, f64::from(self.level))),
            _ => None,
        }
    }

    /// Adds to `ask` the fill of these cores' queues at which to be called. If the level exceeds
    /// one poll of the kernel, it corresponds to as many full polls in a row.
    fn ask_at_level(&self, ask: AskAgain, cores: usize, platform: &Platform) -> AskAgain {
        let cores = CoreSet::first(cores);
        if !self.given.by_kernel {
            return ask.and_on_fill(cores, self.level);
        }
        if !platform.can.asks.streaks.is_noticed() {
            return ask;
        }
        let (packets, samples) = (self.level.min(FULL_POLL), self.level / (FULL_POLL + 1));
        let rule = StreakRule { above: Level { packets, samples }, ..StreakRule::NEVER };
        AskAgain { on_streak: Streaks { cores, rule, at_above: true, ..Streaks::NEVER }, ..ask }
    }

    /// Returns true if a queue has too many packets although the rate did not rise: twice the
    /// planned fill, and more than half of the slack to serve.
    fn is_crowded(&self, fill: f64) -> bool {
        let Some(choice) = self.present else { return false };
        let half = self.given.ring / self.given.ports as f64 / 2.0;
        let service = self.machine.service(choice.cores, choice.frequency);
        let queues = (choice.cores * self.given.ports) as f64;
        let planned = self.rate.need() * self.blind(&choice) / queues;
        let budget = self.given.slack / service / self.given.ports as f64 / 2.0;
        let most = 2.0 * planned + notice(planned, self.rate.dispersion);
        fill > most.max(2.0 * f64::from(BATCH)).max(budget).min(half).max(self.usual)
    }
}

/// Knobs.
impl Wattline {
    /// Returns the added cores at which packets would be late before they are awake, and the cores
    /// whose rings would overflow. A parked core may be deeper than its limit.
    fn asleep(
        &self,
        choice: &Choice,
        rate: f64,
        seen: &Observation<'_>,
        point: &OperatingPoint,
    ) -> [CoreSet; 2] {
        let [mut slow, mut full] = [CoreSet::EMPTY; 2];
        let each = rate / (choice.cores * self.given.ports) as f64;
        for core in point.active.len()..choice.cores {
            let state = point.cores[core].idle_limit.max(seen.cores[core].idle_state.unwrap_or(0));
            let exit = self.machine.idle.get(state).map_or(0.0, |state| state.1);
            let wakes = exit + self.machine.wake[0];
            if wakes > self.given.slack {
                slow.insert(core);
            }
            // If an empty ring could not hold the share either, all cores have to share it.
            let held = USABLE * self.given.ring / self.given.ports as f64 - each * wakes;
            let mut queues = seen.queues.iter().skip(core).step_by(self.machine.cores);
            if held >= 0.0 && queues.any(|queue| f64::from(queue.fill) > held) {
                full.insert(core);
            }
        }
        [slow, full]
    }

    /// Sets the knobs for a choice.
    fn take(
        &mut self,
        choice: Choice,
        update: Update,
        seen: &Observation<'_>,
        point: &mut OperatingPoint,
    ) {
        let (now, rises, deepest) = (update.now, update.rise.is_some(), seen.platform.deepest());
        let rate = if rises { choice.capacity } else { self.rate.need() };
        let asleep = self.asleep(&choice, rate, seen, point);
        point.set_active(choice.cores, choice.idle, deepest);
        for core in point.cores.iter_mut().skip(choice.cores).take(choice.ready) {
            core.idle_limit = choice.parked.min(deepest);
        }
        if seen.platform.can.set_weights {
            self.waking.update(now, point);
            let awake = self.waking.wake(now, self.given.exit, asleep, point);
            let carried = self.machine.capacity(awake, choice.frequency);
            match self.phase {
                _ if self.present.is_none() => {}
                // In a rise, cores that are awake also serve the waiting packets.
                Phase::Answer { known, .. } if rises => {
                    let carried = carried - self.waiting / self.given.exit.as_seconds();
                    let rate = if known { self.known_peak() } else { choice.capacity };
                    self.waking.divide(carried, rate, point);
                }
                _ if self.waking.is_over(now) => {}
                _ => self.waking.divide(carried, self.rate.need(), point),
            }
        }
        point.set_frequency(choice.frequency);
        point.batch = BATCH;
        let all = rises || self.phase == Phase::Start;
        self.set_waits(&choice, all, seen.platform, point);
        (self.asked, self.present) = (Some(choice.frequency), Some(choice));
    }

    /// Sets the wait mode of cores. New cores poll until the next decision, so that they wake. All
    /// cores do so at the start, in a rise, or when much longer naps end: a napping core wakes by
    /// the timer that it set.
    fn set_waits(&mut self, choice: &Choice, all: bool, on: &Platform, point: &mut OperatingPoint) {
        let sleep = |nap| Wait::Sleep(Span::from_seconds(nap));
        let wait = choice.nap.map_or(Wait::Interrupt, sleep);
        let wait = if on.can.waits.allows(wait) { wait } else { Wait::Interrupt };
        let before = self.present.unwrap_or(*choice);
        let nap_before = before.nap.unwrap_or(0.0);
        // With fewer cores, each receives more during the rest of the old nap.
        let held = USABLE * self.given.ring * choice.cores as f64;
        let overfills = choice.cores < before.cores && MARGIN * self.rate.peak * nap_before > held;
        self.cuts_short = 2.0 * choice.nap.unwrap_or(0.0) < nap_before || overfills;
        for (number, core) in point.cores.iter_mut().enumerate().take(choice.cores) {
            let wakes = number >= before.cores || all || self.cuts_short;
            core.wait = if wakes && on.can.waits.poll { Wait::Poll } else { wait };
        }
        let moderated = choice.nap.filter(|_| wait == Wait::Interrupt).unwrap_or(0.0);
        point.set_moderation(on, Span::from_seconds(moderated));
    }

    /// Evaluates the last decision. If a frequency was refused, measurements belong to the
    /// frequency that holds.
    fn check(&mut self, now: Time, seen: &Observation<'_>, point: &OperatingPoint) {
        if !self.given.by_kernel {
            self.steps.update(self.last, self.given.exit, seen.cores);
        }
        let (Some(present), Some(asked)) = (&mut self.present, self.asked) else { return };
        let held = point.cores[0].frequency.min(self.machine.frequencies.len() - 1);
        present.frequency = held;
        let usable = self.frequencies.update(now, asked, held);
        if self.machine.usable != usable {
            self.machine.usable = usable;
            self.searched = Default::default();
        }
    }

    /// Learns from arrivals and departures since the last decision. Returns the rates before a
    /// rise, if one is detected.
    fn learn(&mut self, now: Time, seconds: f64, seen: &Observation<'_>) -> Option<(f64, f64)> {
        let mut read = now;
        if self.given.by_kernel {
            // Cards are not read for each decision: packets that had arrived at the last reading
            // are not new.
            let age = seen.queues.iter().map(|queue| queue.age).max().unwrap_or(Span::ZERO);
            read = Time::ZERO + (now.since(Time::ZERO) - age.min(now.since(Time::ZERO)));
        }
        let (at, arrivals) = (read.as_seconds(), seen.arrivals());
        let grew = self.grew(seen).is_some();
        let rises = grew && self.rate.rises(at, arrivals, self.returning(now));
        let before = (self.rate.mean, self.rate.peak);
        let news = self.rate.update(at, arrivals);
        if news {
            self.needed.update(at, self.needed());
        }
        if let Some(latency) = seen.latency.filter(|latency| latency.samples > 0) {
            let (left, rises) = ((latency.samples, latency.late), self.has_risen());
            let answers = matches!(self.phase, Phase::Answer { .. });
            self.lateness.book(left, self.rate.mean, rises, answers);
        }
        if self.given.by_kernel && !grew {
            // At a steady rate, the present fill of queues counts as usual.
            let steady = !self.has_risen() && self.rate.now <= MARGIN * before.0;
            let reached = if steady { self.reached } else { 0.0 };
            self.usual = (self.usual * (-seconds / MEMORY).exp2()).max(reached);
        }
        self.last = now;
        if let Some(present) = self.present.filter(|_| news) {
            let point = (present.cores, present.frequency);
            if self.machine.learn(point, seconds, [&self.cores, seen.cores]) {
                self.searched = Default::default();
            }
            self.cores.copy_from_slice(seen.cores);
        }
        rises.then_some(before)
    }
}

impl Policy for Wattline {
    fn looks_at(&self) -> Looks {
        Looks::WHOLE.and_late(self.given.late_after)
    }

    fn reason(&self) -> Option<Reason> {
        self.why
    }

    fn remark(&self) -> Option<String> {
        Some(format!("Last change: {}.", self.reason()?))
    }

    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        let now = seen.now;
        self.check(now, seen, point);
        let seconds = now.since(self.last).as_seconds();
        let crowded =
            now >= self.eased && self.grew(seen).is_some_and(|(_, fill)| self.is_crowded(fill));
        if crowded {
            // Parked cores wake, and the waiting packets leave.
            self.eased = now + self.given.exit + Span::from_seconds(self.given.slack);
        }
        let rise = self.learn(now, seconds, seen);
        let update = Update { now, seconds, rise, crowded };
        self.waiting = seen.queues.iter().map(|queue| f64::from(queue.fill)).sum();
        let (choice, why) = self.next(update);
        let before = self.present.map(|present| (present.cores, self.asked));
        if before != Some((choice.cores, Some(choice.frequency))) {
            let rate = (why != why::START).then_some(PacketsPerSecond(self.rate.need()));
            self.why = Some(Reason { words: why, rate, phase: Some(self.phase.name()) });
        }
        self.steps.ask(now, (point.active.len(), choice.cores), choice.parked, seen.cores);
        self.take(choice, update, seen, point);
        let calm = !self.phase.answers(now) && !self.cuts_short && self.phase != Phase::Start;
        let [normal, alert] = self.given.periods;
        let next = now + if calm { normal } else { alert };
        let everything =
            choice.cores == self.machine.cores && choice.frequency == self.machine.usable.1;
        // A point of full capacity cannot react to a fuller queue.
        let ask = AskAgain::at(next.min(self.waking.until.unwrap_or(next)));
        self.level = self.level(&choice, now, seen);
        self.reached = self.grew(seen).map_or(0.0, |_| f64::from(self.level));
        if everything { ask } else { self.ask_at_level(ask, choice.cores, seen.platform) }
    }
}

#[cfg(test)]
mod tests;
