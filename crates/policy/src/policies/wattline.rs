//! All knobs together for a budget of latency: cores, frequency, naps and how they end.
//!
//! From the budget follow the time that a packet may spend in queue and core, the longest nap
//! that leaves enough of it, and with the measured rate and variability the points that keep it;
//! of these the cheapest is taken. More capacity comes at once, less only when the watts that
//! waiting has cost equal what the change and a return would cost (ski rental: never more than
//! twice the best in hindsight). A queue that fills beyond what the plan lets it is asked about
//! at once. Naps and parked cores are chosen so that a leap of load makes no more packets late
//! than those that left in time so far have paid for.

mod account;
mod asked;
mod choose;
mod demand;
mod leap;
mod machine;
mod why;

use crate::{
    AskAgain, BuildContext, CoreSet, CoreView, Kind, Looks, Observation, OperatingPoint, Parameter,
    Parameters, Platform, Policy, PolicyInfo, Trigger, Wait,
};
use account::Account;
use asked::{Asked, Leap, MOST_LOAD};
use choose::{Choice, LATE};
use demand::Demand;
use leap::notice;
use machine::Machine;
use wattline_units::{Span, Time};
use why::{Reasons, Why};

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "wattline",
    summary: "Keeps 99 of 100 packets within a latency and takes the cheapest cores, frequency and naps that do",
    source: "ours; M/G/1 with vacations (Levy and Yechiali 1975), power-down by break-even (Irani, Shukla, Gupta 2003)",
    parameters: &[
        Parameter {
            name: "p99",
            kind: Kind::Duration { min_micros: 10, max_micros: 1_000_000 },
            default: "100us",
            meaning: "latency that at most 1 % of the packets may exceed",
            source: "the operator's wish",
        },
        Parameter {
            name: "guard",
            kind: Kind::Word,
            default: "measured",
            meaning: "what may come without a warning: `measured` (ten times the mean rate, or a quarter more than the recent peak) or `link` (line rate at all ports; needs a server model)",
            source: "ours",
        },
        Parameter {
            name: "floor",
            kind: Kind::Count { min: 1, max: 128 },
            default: "1",
            meaning: "fewest active cores",
            source: "the operator's wish",
        },
    ],
    make,
};

/// Time between two looks. It enters the reaction to what no full queue announces; ten times as
/// long as a decision takes on a slow machine.
const LOOK: Span = Span::from_micros(200);
/// The same while a leap of load is being answered.
const ALERT: Span = Span::from_micros(50);
/// So long after a leap nothing is taken back: parked cores wake, queues drain, and the rate is
/// known.
const HOLD: Span = Span::from_micros(300);
/// Before so long nothing is known.
const LEARN: Span = Span::from_millis(1);
/// What waits beyond the plan is to be gone after so long, a few times the usual slack.
const DRAIN: Span = Span::from_micros(200);
/// So many times the mean rate may come from one moment to the next though it never did: what
/// flash crowds are known for.
const SURPRISE: f64 = 10.0;
/// A leap may go so far beyond the highest one that was seen.
const MARGIN: f64 = 1.25;
/// What moving an entry of the table costs besides watts, in joules: packets that wait for the
/// order of their flow. A guess, to be measured.
const MOVE_JOULES: f64 = 20e-6;
/// Time over which lateness is judged, in seconds, and its goal as a share of what is allowed.
const JUDGE_SECONDS: f64 = 50e-3;
const GOAL: f64 = 0.4;

struct Wattline {
    machine: Machine,
    demand: Demand,
    slack: f64,
    late_after: Span,
    floor: usize,
    /// Packets per second at all ports at line rate, where `guard` is `link`.
    link: Option<f64>,
    ring: f64,
    ports: usize,
    /// Time that a core takes from its deepest state to its first packet.
    exit: Span,
    /// Present choice, and the watts that a cheaper one would have saved so far, in joules.
    present: Option<Choice>,
    saved: f64,
    last: Time,
    hold: Time,
    /// New cores poll until then, so that they wake at once.
    waking: Option<Time>,
    /// Packets that may still be late, and share of the slack that naps may use.
    account: Account,
    nap_share: f64,
    alerted: bool,
    /// Seconds that a change of frequency takes.
    transition: f64,
    cores: Vec<CoreView>,
    /// Scratch space of a search.
    found: Vec<Choice>,
    reasons: Reasons,
}

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let platform = context.platform;
    let model = context.server.zip(context.packet.map(|(cost, _)| cost));
    let machine = Machine::new(platform, model);
    let late_after = parameters.span("p99");
    let slack = late_after.as_seconds() - machine.pass_through;
    let fastest = machine.frequencies.len() - 1;
    let least = machine.wake[fastest] + machine.delivery + machine.service(1, fastest);
    if slack <= least {
        return Err(format!(
            "p99 = {:.1} us: a packet that wakes a core takes {:.1} us; allowed is more than that",
            late_after.as_seconds() * 1e6,
            (least + machine.pass_through) * 1e6
        ));
    }
    let link = match (parameters.word("guard"), context.server) {
        ("measured", _) => None,
        ("link", Some(server)) => Some(server.link_capacity(64).0),
        ("link", None) => return Err("guard = \"link\": needs a server model".into()),
        (other, _) => return Err(format!("guard = \"{other}\": must be measured or link")),
    };
    let floor = parameters.count("floor") as usize;
    if floor > platform.cores {
        return Err(format!("floor = {floor}: the platform has {} cores", platform.cores));
    }
    let ports = (platform.queues.len() / platform.cores.max(1)).max(1);
    let ring = platform.ring_size.unwrap_or(4096) as f64;
    let exit = platform.idle_states.last().map_or(Span::ZERO, |state| state.exit_latency);
    let exit = exit + Span::from_seconds(machine.wake[0]);
    Ok(Box::new(Wattline {
        demand: Demand::default(),
        slack,
        late_after,
        floor,
        link,
        ring,
        ports,
        exit,
        present: None,
        saved: 0.0,
        last: Time::ZERO,
        hold: Time::ZERO + LEARN,
        waking: None,
        account: Account::default(),
        nap_share: 0.7,
        alerted: false,
        transition: platform.frequency_transition.as_seconds(),
        cores: vec![CoreView::default(); platform.cores],
        found: Vec::with_capacity(machine.points()),
        reasons: Reasons::default(),
        machine,
    }))
}

impl Wattline {
    fn asked(&self, need: f64) -> Asked {
        let measured = (SURPRISE * self.demand.mean).max(MARGIN * self.demand.peak);
        // Beyond what the machine carries nothing helps.
        let fastest = self.machine.frequencies.len() - 1;
        let all = self.machine.capacity(self.machine.cores, fastest);
        let surprise = self.link.unwrap_or(measured.min(all).max(need));
        let ring = self.ring * self.ports as f64;
        // Line rate at all ports has to fit into the rings of the active cores until all cores
        // are of use: that sets a floor of cores.
        let reaction = self.exit.as_seconds() + ALERT.as_seconds();
        let cores = self.link.map_or(0.0, |link| (link * reaction / ring).ceil());
        Asked {
            need,
            mean: self.demand.mean,
            ports: self.ports,
            dispersion: self.demand.dispersion,
            slack: self.slack * self.nap_share,
            floor: self.floor.max(cores as usize).min(self.machine.cores),
            ring: ring
                - if self.link.is_some() {
                    surprise * reaction / self.machine.cores as f64
                } else {
                    0.0
                },
            surprise,
            leap: Leap {
                rate: surprise,
                late: self.account.allows(),
                transition: self.transition,
                burst: self.demand.burst(),
            },
        }
    }

    /// Lateness since the last look sets the length of naps, and what a leap may cost. Where
    /// nobody measures it, a leap may cost nothing.
    fn judge(&mut self, seen: &Observation<'_>, seconds: f64) {
        let Some(latency) = seen.latency else { return };
        if latency.samples == 0 {
            return;
        }
        self.account.book(latency.samples, latency.late, self.demand.mean);
        let share = latency.late as f64 / latency.samples as f64;
        // Against what usually comes in the time over which it is judged.
        let usual = (self.demand.mean * JUDGE_SECONDS).max(1.0);
        let weight = (latency.samples as f64 / usual).min(1.0).min(seconds / JUDGE_SECONDS * 4.0);
        let goal = if self.account.is_overdrawn() { 0.5 * GOAL } else { GOAL };
        let error = (share / LATE - goal) * weight;
        // Late in a leap is the account's. Late otherwise: naps are too long.
        if !self.alerted || error < 0.0 {
            self.nap_share = (self.nap_share - 0.1 * error).clamp(0.4, 0.99);
        }
    }

    /// What going from one point to another and back costs, in joules.
    fn switch_joules(&self, from: &Choice, to: &Choice) -> f64 {
        let fewer = from.cores.abs_diff(to.cores) as f64;
        let deepest = self.machine.idle.last().map_or(0.0, |state| state.1);
        let wake = deepest + self.machine.wake[to.frequency];
        let moved = fewer * 128.0 * self.ports as f64 / from.cores.max(to.cores) as f64;
        // A change of frequency alone costs its own delay on all cores, some microseconds.
        let change = 20e-6 * self.machine.awake[from.frequency] * from.cores as f64;
        fewer * wake * self.machine.awake[to.frequency] + moved * MOVE_JOULES + change
    }

    fn take(
        &mut self,
        choice: Choice,
        leap: bool,
        platform: &Platform,
        point: &mut OperatingPoint,
        now: Time,
    ) {
        let before = point.active.len();
        let grown = self.present.is_some() && choice.cores > before;
        point.set_active(choice.cores, choice.idle, choice.parked.min(platform.deepest()));
        point.set_frequency(choice.frequency);
        point.batch = choose::BATCH;
        let wait = choice.nap.map_or(Wait::Interrupt, |nap| Wait::Sleep(Span::from_seconds(nap)));
        let wait = if platform.can.waits.allows(wait) { wait } else { Wait::Interrupt };
        let still_waking = self.waking.is_some();
        for core in 0..choice.cores {
            let polls = point.cores[core].wait == Wait::Poll && still_waking;
            // In a leap the others wake at once, too.
            let wakes = (grown && core >= before) || leap;
            point.cores[core].wait = if wakes || polls { Wait::Poll } else { wait };
        }
        if let (Wait::Interrupt, Some(nap)) = (wait, choice.nap) {
            point.set_moderation(platform, Span::from_seconds(nap));
        } else {
            point.set_moderation(platform, Span::ZERO);
        }
        if grown || leap {
            self.waking = Some(now + self.exit);
        }
        self.present = Some(choice);
    }

    /// Fill of a queue that the plan does not foresee.
    fn alarm(&self, choice: &Choice) -> u32 {
        let nap = choice.nap.unwrap_or(0.0) + self.machine.wake[choice.frequency];
        let cores = choice.cores as f64;
        let planned = self.demand.need() * nap / (cores * self.ports as f64);
        let burst = self.demand.burst() / (cores * self.ports as f64);
        let level = planned + notice(planned, self.demand.dispersion / cores) + burst;
        level.min(0.5 * self.ring).max(1.0) as u32
    }

    /// Packets that wait beyond those that come in a nap.
    fn overhang(&self, waiting: f64) -> f64 {
        let planned = self.present.map_or(0.0, |choice| {
            let nap = choice.nap.unwrap_or(0.0) + self.machine.wake[choice.frequency];
            self.demand.need() * 0.5 * nap
        });
        (waiting - planned - 2.0 * planned.sqrt()).max(0.0)
    }

    /// Fill of a queue that is too much though no leap shows: twice what the plan lets come, and
    /// more than half of the slack by itself.
    fn crowded(&self) -> f64 {
        let Some(choice) = self.present else { return f64::INFINITY };
        let nap = choice.nap.unwrap_or(0.0) + self.machine.wake[choice.frequency];
        let planned = self.demand.need() * nap / (choice.cores * self.ports) as f64;
        let spread = 6.0 * (planned * self.demand.dispersion.max(1.0)).sqrt();
        let service = self.machine.service(choice.cores, choice.frequency);
        let budget = 0.5 * self.slack / service / self.ports as f64;
        (2.0 * planned + spread).max(16.0).max(budget).min(0.5 * self.ring)
    }
}

impl Policy for Wattline {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn looks_at(&self) -> Looks {
        Looks::WHOLE.and_late(self.late_after)
    }

    fn reason(&self) -> Option<&'static str> {
        self.reasons.last()
    }

    fn remark(&self) -> Option<String> {
        self.reasons.tell(&self.machine.frequencies)
    }

    fn decide(
        &mut self,
        now: Time,
        seen: &Observation<'_>,
        point: &mut OperatingPoint,
    ) -> AskAgain {
        let platform = seen.platform;
        let seconds = now.since(self.last).as_seconds();
        let arrivals = seen.arrivals();
        let leap = match seen.trigger {
            Trigger::Fill { .. } => self.demand.leaps(now.as_seconds(), arrivals),
            _ => false,
        };
        let crowded = match seen.trigger {
            Trigger::Fill { queue } => f64::from(seen.queues[queue].fill) > self.crowded(),
            _ => false,
        };
        if leap {
            self.demand.alarm(now.as_seconds(), arrivals);
        }
        let news = self.demand.look(now.as_seconds(), arrivals);
        if now >= self.hold {
            self.demand.judge_alarm(now.as_seconds(), arrivals);
        }
        self.judge(seen, seconds);
        self.last = now;
        if self.waking.is_some_and(|until| until <= now) {
            self.waking = None;
        }
        if let Some(present) = self.present
            && news
        {
            self.machine.learn((present.cores, present.frequency), &self.cores, seen.cores);
            self.cores.copy_from_slice(seen.cores);
        }
        let first = now < Time::ZERO + LEARN;
        let (choice, why) = if seen.trigger == Trigger::Start || first {
            let need = self.machine.capacity(self.machine.cores, 0);
            (self.machine.everything(&self.asked(need)), Why::Start)
        } else {
            let waiting = seen.queues.iter().map(|queue| f64::from(queue.fill)).sum();
            self.next(now, seconds, leap, crowded, waiting)
        };
        let before = self.present.map(|present| (present.cores, present.frequency));
        if before != Some((choice.cores, choice.frequency)) {
            self.reasons.note(why, &choice, self.demand.need());
        }
        self.take(choice, leap, platform, point, now);
        let all = CoreSet::first(choice.cores);
        let calm = now >= self.hold;
        let next = if calm { LOOK } else { ALERT };
        // While everything is being done there is nothing to be told.
        let level = if calm { self.alarm(&choice) } else { (0.75 * self.ring) as u32 };
        let ask = AskAgain::at(now + next);
        let everything = choice.cores == self.machine.cores
            && choice.frequency + 1 == self.machine.frequencies.len();
        if everything { ask } else { ask.and_on_fill(all, level.max(1)) }
    }
}

impl Wattline {
    fn next(
        &mut self,
        now: Time,
        seconds: f64,
        leap: bool,
        crowded: bool,
        waiting: f64,
    ) -> (Choice, Why) {
        let need = self.demand.need();
        self.alerted = leap || now < self.hold;
        if leap {
            // As far as leaps went before; where this is the first one or goes on, nobody knows
            // how far, and what is too much is taken back when it is over.
            let goes_on = now < self.hold;
            self.hold = now + HOLD;
            self.saved = 0.0;
            let asked = self.asked(need);
            let known = self.demand.peak > 2.0 * self.demand.mean && !goes_on;
            let wanted = if known { MARGIN * self.demand.peak } else { f64::INFINITY };
            let least = self.present.map_or(1, |present| present.cores);
            return (self.machine.at_full_speed(wanted, least, &asked), Why::Leap);
        }
        // A queue that grows while no more comes than is planned: the plan is too narrow.
        let more = if crowded { self.present.map_or(0.0, |present| present.capacity) } else { 0.0 };
        let asked = self.asked(need.max(more));
        // Another point has to serve what waits beyond the plan, too.
        let wanted = self.asked(asked.need + self.overhang(waiting) / DRAIN.as_seconds());
        let best = self.machine.choose(&wanted, &mut self.found);
        let Some(present) = self.present else { return (best, Why::Start) };
        let carries = present.capacity * MOST_LOAD >= asked.need && present.cores >= asked.floor;
        // The same cores and frequency with the naps that fit now.
        let same = self.machine.reckon(present.cores, present.frequency, &asked);
        let Some(same) = same.filter(|_| carries) else {
            self.saved = 0.0;
            let why = match (carries, crowded) {
                (true, _) => Why::Guard,
                (false, true) => Why::Crowded,
                (false, false) => Why::Need,
            };
            // Never less than there is while a leap is being answered.
            if now < self.hold && best.capacity < present.capacity {
                return (self.machine.everything(&asked), why);
            }
            return (best, why);
        };
        if now < self.hold {
            return (same, Why::Leap);
        }
        let saves = (same.watts - best.watts) * seconds;
        self.saved = if saves > 0.0 { self.saved + saves } else { 0.0 };
        if self.saved >= self.switch_joules(&same, &best) && saves > 0.0 {
            self.saved = 0.0;
            return (best, Why::Cheaper);
        }
        (same, Why::Cheaper)
    }
}

#[cfg(test)]
mod tests;
