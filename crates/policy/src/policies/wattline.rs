//! Sets all knobs together for a latency budget: cores, frequency, naps and how they end.
//!
//! The budget gives the time that a packet may spend in queue and core. With the measured rate and
//! its variability, this time gives the longest nap and the operating points that keep the budget.
//! The policy takes the cheapest of them. It adds capacity at once. It takes capacity away only
//! when waiting has cost as much energy as the change and a return would cost (ski rental: never
//! more than twice the best in hindsight). It is called at once when a queue holds more than the
//! plan foresees. Naps and parked cores are chosen for a sudden leap of load, too: such a leap makes
//! no more packets late than the packets in time so far have paid for ([`account`]).

mod account;
mod choose;
mod demand;
mod lateness;
mod leap;
mod limits;
mod machine;
mod requirements;
mod rhythm;
mod stand;
mod steps;
mod waking;
mod why;

use crate::{
    AskAgain, BuildContext, CoreSet, CoreView, IdleState, Kind, Looks, Observation, OperatingPoint,
    Parameter, Parameters, Policy, PolicyInfo, Reason, Trigger, Wait,
};
use account::Account;
use choose::{BACKLOG_IN_RINGS, Choice};
use demand::Demand;
use lateness::{Lateness, Left, Situation};
use leap::{RING_SHARE, notice};
use limits::Limits;
use machine::Machine;
use requirements::{Leap, MOST_LOAD, Requirements};
use rhythm::{Expected, Rhythm};
use stand::{SPLITS, Split, Stand};
use steps::Steps;
use waking::{Asleep, Waking};
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
            meaning: "what may come without a warning: `measured` (ten times the mean rate, while leaps come, after the fourth, at most twice the recent peak; at least a quarter more than that peak) or `link` (line rate at all ports; needs a server model)",
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

/// Time between two looks. It bounds the reaction to changes that fill no queue. A decision on a slow
/// machine takes a tenth of it.
const LOOK: Span = Span::from_micros(200);
/// Time between two looks while the policy answers a leap of load.
const ALERT: Span = Span::from_micros(50);
/// After a leap, capacity stays for so long: parked cores wake, queues drain, and the new rate is
/// measured.
const HOLD: Span = Span::from_micros(300);
/// Most seconds on top of `HOLD`, where a machine takes its time for each step.
const MOST_STEPS: f64 = 2e-3;
/// For so long after a leap, late packets may be its own.
const AFTERMATH: Span = Span::from_millis(5);
/// Time after the start in which the rate is not known yet.
const LEARN: Span = Span::from_millis(1);
/// Share of a ring at whose fill the policy is asked for the first time in any case, and what a queue
/// that was no news has to grow to until it is asked again: a factor, and packets.
const FULL_RING: f64 = 0.75;
const GROWN: (f64, f64) = (1.25, 4.0);
/// Packets that wait beyond the plan are to be served within this time, a few times the usual slack.
const DRAIN: Span = Span::from_micros(200);
/// Factor by which the rate may leap above its mean though it never did: flash crowds do so.
const SURPRISE: f64 = 10.0;
/// After so many leaps their height is known.
const ENOUGH_LEAPS: u32 = 4;
/// Factor by which a leap may exceed the highest rate that was seen.
const MARGIN: f64 = 1.25;
/// Factor on the highest rate that was seen, up to which no packet may wait for a core in its deepest
/// state: the peak of many leaps is the same by chance alone.
const KNOWN: f64 = 1.05;
/// A leap of known height is answered by the cheapest point for it where the slack is so many times what a core
/// takes from its deepest state.
const SLOW_ANSWER: f64 = 3.0;
/// Factor of capacity for a load that goes on to leap. The very first leap gets so many times
/// what was expected at most.
const UNKNOWN: f64 = 2.0;
/// Processor time to write the indirection table of a port, in seconds: one request to its driver.
const TABLE_SECONDS: f64 = 50e-6;
/// The load is steady if its peak is at most so many times its mean: at 1 Mpps the highest of 50,000
/// looks is a third above it by chance.
const STEADY_PEAK: f64 = 1.5;
/// The load is steady if no leap came for so long.
const STEADY: Span = Span::from_millis(400);
/// Another split of the slack has to save so much of the watts.
const DIFFERENCE: f64 = 0.003;

/// Purposes of a search: the next point, that of the recent peak, that of the load, those of a carried rate by
/// how the slack is divided, and the answer to a leap.
const NEXT: usize = 0;
const AT_PEAK: usize = 1;
const LOW: usize = 2;
const CARRIED: usize = 3;
const ANSWER: usize = CARRIED + SPLITS.len();
const PURPOSES: usize = ANSWER + 1;

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
    /// The present choice.
    present: Option<Choice>,
    /// Joules that a cheaper choice would have saved since it was found.
    saved: f64,
    last: Time,
    hold: Time,
    /// A growing queue was answered. Until then the answer takes effect, and the same queue is no news.
    eased: Time,
    /// Duration of a change of cores, and the frequencies that the machine takes.
    steps: Steps,
    limits: Limits,
    /// The frequency that was asked for last.
    asked: Option<usize>,
    /// Until then packets may come that were held back while entries of the table moved.
    moved: Time,
    /// The last decision ended naps that were longer.
    cuts_short: bool,
    /// New cores poll until then, so that they wake at once.
    polling: Option<Time>,
    /// Those that get few packets until they are awake.
    waking: Waking,
    /// Whether falls of the load are worth following.
    stand: Stand,
    /// Rate that is carried though the load is lower, and how the slack is divided then.
    carried: f64,
    split: usize,
    /// When leaps come, and whether cores are ready for one.
    rhythm: Rhythm,
    is_ready: bool,
    /// Whether the platform lets cores be awake without packets.
    can_be_ready: bool,
    /// Packets that may still be late.
    account: Account,
    /// Length of naps and weight of bursts, by what was late.
    lateness: Lateness,
    alerted: bool,
    /// A leap was answered, and no capacity was taken away since.
    leapt: bool,
    /// When cores are awake for which the others stayed fast.
    settles: Option<Time>,
    /// Leaps so far, and the last one.
    leaps: u32,
    /// The height of the last leap was known: it neither was the first one nor went on.
    known: bool,
    /// Packets that wait.
    waiting: f64,
    last_leap: Option<Time>,
    /// Both before the last one, should it turn out to be a burst.
    leaps_before: (Option<Time>, u32),
    /// Seconds that a change of frequency takes.
    transition: f64,
    cores: Vec<CoreView>,
    /// Scratch space of a search.
    found: Vec<Choice>,
    /// Requirements and result of the last search for each purpose.
    searched: [Option<(Requirements, Choice)>; PURPOSES],
    /// The same of the last evaluation of one point, given by cores and frequency. The result is
    /// `None` where the point does not meet the requirements.
    evaluated: Option<(Requirements, (usize, usize), Option<Choice>)>,
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
    let exit = platform.idle_states.last().map_or(Span::ZERO, IdleState::wakes_within);
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
        eased: Time::ZERO,
        moved: Time::ZERO,
        steps: Steps::default(),
        limits: Limits::new(fastest),
        asked: None,
        cuts_short: false,
        polling: None,
        waking: Waking::default(),
        stand: Stand::default(),
        carried: 0.0,
        split: 0,
        rhythm: Rhythm::default(),
        is_ready: false,
        can_be_ready: machine.polls && platform.can.set_weights && platform.can.limit_idle,
        account: Account::default(),
        lateness: Lateness::default(),
        alerted: false,
        leapt: false,
        settles: None,
        leaps: 0,
        known: false,
        waiting: 0.0,
        last_leap: None,
        leaps_before: (None, 0),
        transition: platform.frequency_transition.as_seconds(),
        cores: vec![CoreView::default(); platform.cores],
        found: Vec::with_capacity(machine.points()),
        searched: [None; PURPOSES],
        evaluated: None,
        reasons: Reasons::default(),
        machine,
    }))
}

impl Wattline {
    fn required(&self, need: f64) -> Requirements {
        // A leap beyond the capacity of the machine cannot be answered.
        let all = self.machine.capacity(self.machine.cores, self.machine.usable.1);
        // Where the recent peak is carried, the load is at its height already now and then.
        let mut surprise = if self.carried > 0.0 { 0.0 } else { SURPRISE * self.demand.mean };
        if self.leaps >= ENOUGH_LEAPS && self.has_leapt() {
            // At their height the load does not leap ten times as high again.
            surprise = surprise.min(UNKNOWN * self.demand.peak);
        }
        let measured = surprise.max(MARGIN * self.demand.peak);
        let surprise = self.link.unwrap_or(measured.min(all).max(need));
        let ring = self.ring * self.ports as f64;
        // Until all cores are awake, the rings of the active cores have to hold what comes at line
        // rate. That sets a least number of cores.
        let reaction = self.exit.as_seconds() + ALERT.as_seconds();
        let cores = self.link.map_or(0.0, |link| (link * reaction / ring).ceil());
        Requirements {
            need,
            mean: if self.carried > 0.0 { self.demand.long } else { self.demand.mean },
            ports: self.ports,
            // What varies within the slack is in the rate that is carried already.
            dispersion: if self.carried > 0.0 {
                1.0
            } else {
                self.demand.dispersion * self.lateness.burst_share
            },
            trains: self.demand.dispersion,
            slack: self.slack * self.nap_share(),
            floor: self.floor.max(cores as usize).min(self.machine.cores),
            ring: ring
                - if self.link.is_some() {
                    surprise * reaction / self.machine.cores as f64
                } else {
                    0.0
                },
            waits: self.carried > 0.0,
            surprise,
            leap: Leap {
                rate: surprise,
                late: self.account.allows(self.leaps > 0),
                transition: self.transition,
                burst: self.demand.burst(),
                step: self.steps.seconds(),
                known: if self.leaps > 0 && self.link.is_none() {
                    all.min(KNOWN * self.demand.peak)
                } else {
                    all
                },
            },
            polls: self.is_steady(),
        }
    }

    /// Share of the slack that naps may use.
    fn nap_share(&self) -> f64 {
        let naps = self.lateness.nap_share;
        if self.carried > 0.0 { naps.min(self.split().naps) } else { naps }
    }

    /// Whether neither the load nor a lack of capacity explains late packets.
    fn is_settled(&self) -> bool {
        let leapt = self.last_leap.is_some_and(|at| self.last.since(at) < AFTERMATH);
        let all = self.machine.capacity(self.machine.cores, self.machine.usable.1);
        self.demand.is_settled() && !leapt && self.demand.need() * self.lateness.strain < all
    }

    /// Adjusts naps, and the packets that a leap may make late, by the lateness since the last look.
    /// Where the platform does not measure latency, a leap may make none late.
    fn judge(&mut self, seen: &Observation<'_>, seconds: f64) {
        let Some(latency) = seen.latency.filter(|latency| latency.samples > 0) else { return };
        let (packets, late, rate) = (latency.samples, latency.late, self.demand.mean);
        self.account.book(packets, late, rate);
        let situation = Situation {
            leaps: self.has_leapt(),
            settled: self.is_settled(),
            overdrawn: self.account.is_overdrawn(),
            answering: self.alerted,
        };
        self.lateness.learn(Left { packets, late, seconds, rate }, situation);
    }

    /// The cheapest point that meets the requirements: that of the last search for this purpose where
    /// it still holds.
    fn searched_for(&mut self, purpose: usize, required: &Requirements) -> Choice {
        match self.searched[purpose] {
            Some((planned, best)) if planned.covers(required) => best,
            _ => {
                let best = self.machine.choose(required, &mut self.found);
                self.searched[purpose] = Some((*required, best));
                best
            }
        }
    }

    /// Forgets results that rest on old figures of the machine.
    fn forget(&mut self) {
        self.searched = [None; PURPOSES];
        self.evaluated = None;
    }

    /// A point of these cores and frequency with its naps; `None` where no nap meets the
    /// requirements.
    fn evaluate(&mut self, point: (usize, usize), required: &Requirements) -> Option<Choice> {
        match self.evaluated {
            Some((planned, of, choice)) if of == point && planned.covers(required) => choice,
            _ => {
                let choice = self.machine.evaluate(point.0, point.1, required);
                self.evaluated = Some((*required, point, choice));
                choice
            }
        }
    }

    /// Energy of going from one point to another and back, in joules.
    fn switch_joules(&self, from: &Choice, to: &Choice) -> f64 {
        let fewer = from.cores.abs_diff(to.cores) as f64;
        let deepest = self.machine.idle.last().map_or(0.0, |state| state.1);
        let wake = deepest + self.machine.wake[to.frequency];
        let tables = if from.cores == to.cores { 0.0 } else { self.ports as f64 };
        let write = TABLE_SECONDS * self.machine.awake[to.frequency];
        // A change of frequency alone costs its own delay on all cores, some microseconds.
        let change = 20e-6 * self.machine.awake[from.frequency] * from.cores as f64;
        fewer * wake * self.machine.awake[to.frequency] + tables * write + change
    }

    /// The cores that are added and may get no packets yet. A parked core may be deeper than its present
    /// limit: it stays where it is. One that was parked just before may have packets still.
    fn asleep(
        &self,
        added: std::ops::Range<usize>,
        rate: f64,
        seen: &Observation<'_>,
        point: &OperatingPoint,
    ) -> Asleep {
        let each = rate / (added.end.max(1) * self.ports) as f64;
        let mut asleep = Asleep::default();
        for core in added {
            let state = point.cores[core].idle_limit.max(seen.cores[core].idle_state.unwrap_or(0));
            let exit = self.machine.idle.get(state).map_or(0.0, |state| state.1);
            let wakes = exit + self.machine.wake[0];
            if wakes > self.slack {
                asleep.slow.insert(core);
            }
            // Where an empty ring would not hold it either, all cores have to share it.
            let held = RING_SHARE * self.ring - each * wakes;
            let mut queues = seen.queues.iter().skip(core).step_by(self.machine.cores);
            if held >= 0.0 && queues.any(|queue| f64::from(queue.fill) > held) {
                asleep.full.insert(core);
            }
        }
        asleep
    }

    /// Packets per second that cores which are awake carry until the others are, and those that come.
    fn shares(&self, awake: usize, choice: &Choice, leap: bool) -> (f64, f64) {
        let carried = self.machine.capacity(awake, choice.frequency);
        if !leap {
            return (carried, self.demand.need());
        }
        // They serve what waits, too.
        let carried = carried - self.waiting / self.exit.as_seconds();
        (carried, if self.known { KNOWN * self.demand.peak } else { choice.capacity })
    }

    /// A choice until its sleeping cores are awake: the others carry what comes, as fast as before if
    /// need be.
    fn until_awake(
        &mut self,
        mut choice: Choice,
        frequency_before: usize,
        (asleep, leap): (Asleep, bool),
        point: &mut OperatingPoint,
        now: Time,
    ) -> Choice {
        let awake = self.waking.wake(now, self.exit, asleep, point);
        let faster = frequency_before.max(choice.frequency);
        let carried = self.machine.capacity(awake, choice.frequency) * MOST_LOAD;
        if faster > choice.frequency && carried < self.demand.need() {
            choice.frequency = faster;
            choice.capacity = self.machine.capacity(choice.cores, faster);
            self.settles = self.waking.until();
        }
        if leap || !asleep.is_empty() {
            self.waking.divide(self.shares(awake, &choice, leap), point);
        }
        choice
    }

    fn take(
        &mut self,
        mut choice: Choice,
        leap: bool,
        seen: &Observation<'_>,
        point: &mut OperatingPoint,
        now: Time,
    ) {
        let platform = seen.platform;
        // What is asked for in the end: a machine that refuses it shows that meanwhile, too.
        self.asked = Some(choice.frequency);
        let before = point.active.len();
        let grown = self.present.is_some() && choice.cores > before;
        let rate = if leap { choice.capacity } else { self.demand.need() };
        let asleep = self.asleep(before..choice.cores, rate, seen, point);
        point.set_active(choice.cores, choice.idle, platform.deepest());
        for core in point.cores.iter_mut().skip(choice.cores).take(choice.ready) {
            core.idle_limit = choice.parked.min(platform.deepest());
        }
        if platform.can.set_weights {
            self.waking.look(now, point);
        }
        if let Some(present) = self.present.filter(|_| platform.can.set_weights) {
            choice = self.until_awake(choice, present.frequency, (asleep, leap), point, now);
        }
        point.set_frequency(choice.frequency);
        point.batch = choose::BATCH;
        let wait = match choice.nap {
            _ if choice.polls => Wait::Poll,
            Some(nap) => Wait::Sleep(Span::from_seconds(nap)),
            None => Wait::Interrupt,
        };
        let wait = if platform.can.waits.allows(wait) { wait } else { Wait::Interrupt };
        let still_waking = self.polling.is_some();
        // A core that naps wakes by the timer that it set, whatever it is to do next.
        let nap_before = self.present.and_then(|present| present.nap).unwrap_or(0.0);
        let nap_now = choice.nap.unwrap_or(0.0);
        // With fewer cores, more comes to each in what is left of the old nap.
        let held = RING_SHARE * self.ring * (self.ports * choice.cores) as f64;
        let overfills = choice.cores < before && MARGIN * self.demand.peak * nap_before > held;
        self.cuts_short = nap_now < 0.5 * nap_before || overfills;
        let wakes_all = leap || self.cuts_short;
        for core in 0..choice.cores {
            let polls = point.cores[core].wait == Wait::Poll && still_waking;
            // In a leap, cores that were active before wake at once, too.
            let wakes = (grown && core >= before) || wakes_all;
            point.cores[core].wait = if wakes || polls { Wait::Poll } else { wait };
        }
        if let (Wait::Interrupt, Some(nap)) = (wait, choice.nap) {
            point.set_moderation(platform, Span::from_seconds(nap));
        } else {
            point.set_moderation(platform, Span::ZERO);
        }
        if grown || leap {
            self.polling = Some(now + self.exit);
        }
        if choice.cores != before {
            self.moved = now + self.exit + DRAIN;
        }
        self.present = Some(choice);
    }

    /// Takes what became of the last decision. A frequency that was refused is not the present one:
    /// what is measured was measured at the one that holds.
    fn check(&mut self, now: Time, seen: &Observation<'_>, point: &OperatingPoint) {
        self.steps.look(self.last, self.exit, Span::from_seconds(self.slack), seen.cores);
        let (Some(present), Some(asked)) = (&mut self.present, self.asked) else { return };
        let held = point.cores[0].frequency.min(self.machine.frequencies.len() - 1);
        present.frequency = held;
        self.limits.look(now, asked, held);
        if self.machine.usable != self.limits.usable() {
            self.machine.usable = self.limits.usable();
            self.forget();
        }
    }

    /// Whether a leap came of late.
    fn has_leapt(&self) -> bool {
        self.last_leap.is_some_and(|at| self.last.since(at) < STEADY)
    }

    /// Whether no leap came of late, and the load was not much higher. Where leaps come, they cost the
    /// late packets that are paid for.
    fn is_steady(&self) -> bool {
        !self.has_leapt() && self.demand.peak < STEADY_PEAK * self.demand.mean
    }

    /// Seconds of arrivals that wait by plan: those in which a core does not look at its queues. The
    /// queue of a core that always looks varies, too, as the slack allows.
    fn blind(&self, choice: &Choice) -> f64 {
        if choice.polls {
            return 0.5 * self.slack;
        }
        choice.nap.unwrap_or(0.0) + self.machine.wake[choice.frequency]
    }

    /// Fill of a queue, in packets, that the plan does not foresee.
    fn alarm(&self, choice: &Choice) -> u32 {
        let cores = choice.cores as f64;
        let need = self.demand.need().max(self.carried);
        let planned = need * self.blind(choice) / (cores * self.ports as f64);
        let burst = self.demand.burst() / (cores * self.ports as f64);
        let level = planned + notice(planned, self.demand.dispersion / cores) + burst;
        level.min(0.5 * self.ring).max(1.0) as u32
    }

    /// Fill of a queue, in packets, at which to ask again.
    fn level(&self, choice: &Choice, calm: bool, seen: &Observation<'_>) -> u32 {
        let most = (FULL_RING * self.ring) as u32;
        let level = if calm { self.alarm(choice) } else { most };
        // A queue that is fuller than planned, and is no news, would be so again with each packet.
        let grown = match seen.trigger {
            Trigger::Fill { queue } => GROWN.0 * f64::from(seen.queues[queue].fill) + GROWN.1,
            _ => 0.0,
        };
        level.max((grown as u32).min(self.ring as u32)).max(1)
    }

    /// Packets that wait, beyond those that come in a nap.
    fn overhang(&self, waiting: f64) -> f64 {
        let planned =
            self.present.map_or(0.0, |choice| self.demand.need() * 0.5 * self.blind(&choice));
        // The carried rate serves what comes at once within its share of the slack.
        let planned = planned.max(self.carried * self.split().with_chance() * self.slack);
        (waiting - planned - 2.0 * planned.sqrt()).max(0.0)
    }

    /// Whether a queue has too many packets. Where the recent peak is carried, bursts come at one port:
    /// then all queues of the core count, and the last packet may wait as long as the slack.
    fn is_crowded(&self, queue: usize, seen: &Observation<'_>) -> bool {
        let Some(choice) = self.present.filter(|_| self.carried > 0.0) else {
            return f64::from(seen.queues[queue].fill) > self.crowded();
        };
        let cores = self.machine.cores;
        let of_core = seen.queues.iter().skip(queue % cores).step_by(cores);
        let waiting: f64 = of_core.map(|queue| f64::from(queue.fill)).sum();
        waiting * self.machine.service(choice.cores, choice.frequency) > self.slack
            || f64::from(seen.queues[queue].fill) > 0.5 * self.ring
    }

    /// Fill of a queue, in packets, that is too much though the rate does not leap: twice the planned
    /// fill, and more than half of the slack to serve; three times as much where the load is steady and
    /// late packets are paid for, since a plan with 1 % of its packets late has such queues.
    fn crowded(&self) -> f64 {
        let Some(choice) = self.present else { return f64::INFINITY };
        let planned = self.demand.need() * self.blind(&choice) / (choice.cores * self.ports) as f64;
        let spread = 6.0 * (planned * self.demand.dispersion.max(1.0)).sqrt();
        let service = self.machine.service(choice.cores, choice.frequency);
        let share = if self.account.is_overdrawn() || !self.is_steady() { 0.5 } else { 1.5 };
        let budget = share * self.slack / service / self.ports as f64;
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

    fn reason(&self) -> Option<Reason> {
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
        self.check(now, seen, point);
        let seconds = now.since(self.last).as_seconds();
        let arrivals = seen.arrivals();
        let leap = match seen.trigger {
            Trigger::Fill { .. } => {
                // Packets whose entries moved were held back, and come at once.
                let held = now < self.moved && self.is_steady();
                let held = if held { self.demand.need() * self.slack } else { 0.0 };
                self.demand.leaps(now.as_seconds(), arrivals, held, self.returning(now))
            }
            // Cores that are awake let no queue grow.
            _ => self.is_ready && self.demand.leaps(now.as_seconds(), arrivals, 0.0, 0.0),
        };
        if leap && now >= self.hold {
            let began = self.demand.began(now.as_seconds(), arrivals);
            self.rhythm.leaps(began);
        }
        let crowded = match seen.trigger {
            Trigger::Fill { queue } => now >= self.eased && self.is_crowded(queue, seen),
            _ => false,
        };
        if crowded {
            // Parked cores wake, and what waits leaves.
            self.eased = now + self.exit + Span::from_seconds(self.slack);
        }
        if leap {
            self.demand.alarm(now.as_seconds(), arrivals);
        }
        let rates_before = (self.demand.mean, self.demand.peak);
        let news = self.demand.look(now.as_seconds(), arrivals);
        if news {
            let needed = SPLITS.map(|split| self.needed(split));
            self.stand.look(now.as_seconds(), needed, self.demand.height());
        }
        if now >= self.hold && self.demand.was_burst(now.as_seconds(), arrivals) {
            (self.last_leap, self.leaps) = self.leaps_before;
        }
        self.judge(seen, seconds);
        self.last = now;
        if self.polling.is_some_and(|until| until <= now) {
            self.polling = None;
        }
        if let Some(present) = self.present
            && news
        {
            if self.machine.learn((present.cores, present.frequency), &self.cores, seen.cores) {
                self.forget();
            }
            self.cores.copy_from_slice(seen.cores);
        }
        let first = now < Time::ZERO + LEARN;
        let (choice, why) = if seen.trigger == Trigger::Start || first {
            let need = self.machine.capacity(self.machine.cores, 0);
            (self.machine.everything(&self.required(need)), Why::Start)
        } else {
            self.waiting = seen.queues.iter().map(|queue| f64::from(queue.fill)).sum();
            self.next(now, seconds, (leap, rates_before), crowded)
        };
        let before = self.present.map(|present| (present.cores, self.asked));
        if before != Some((choice.cores, Some(choice.frequency))) {
            self.reasons.note(why, &choice, self.demand.need());
        }
        self.steps.ask(now, (point.active.len(), choice.cores), choice.parked, seen.cores);
        self.take(choice, leap, seen, point, now);
        let all = CoreSet::first(choice.cores);
        let calm = now >= self.hold;
        let next = if calm && !self.cuts_short { LOOK } else { ALERT };
        let at = self.waking.until().map_or(now + next, |until| until.min(now + next));
        let at = match self.due() {
            Some((from, _)) if from > now => at.min(from),
            _ if self.is_ready => at.min(now + ALERT),
            _ => at,
        };
        let ask = AskAgain::at(at);
        let everything =
            choice.cores == self.machine.cores && choice.frequency == self.machine.usable.1;
        // A point of full capacity has no answer to a fuller queue.
        if everything { ask } else { ask.and_on_fill(all, self.level(&choice, calm, seen)) }
    }
}

impl Wattline {
    /// The rate to carry beyond the load, or zero where a fall of the load is worth following.
    /// `required` is what the load needs.
    fn stand(&mut self, seconds: f64, required: &Requirements) -> f64 {
        let peak = self.stand.peak(0);
        if self.stand.is_low(required.need) {
            let at_peak = Requirements { need: peak, ..*required };
            let stays = self.searched_for(AT_PEAK, &at_peak);
            let low = self.searched_for(LOW, required);
            let saved = (stays.watts - low.watts).max(0.0) * seconds;
            let change = self.switch_joules(&stays, &low);
            let costs = change + self.way_back_joules(&stays, &low, &at_peak);
            self.stand.falls(saved, costs, change);
        } else {
            self.stand.rises();
        }
        if self.stand.stays() { self.cheapest_split() } else { 0.0 }
    }

    /// The rate that is no news if it returns. Less than its height is carried, since some of it may wait.
    /// It is news while the cores for it are not there yet.
    fn returning(&self, now: Time) -> f64 {
        let carries = |choice: Choice| choice.capacity >= self.carried;
        let is_awake = self.waking.is_over(now);
        match self.carried {
            carried if carried == 0.0 || !is_awake || !self.present.is_some_and(carries) => 0.0,
            // More were late than may be: what is carried is too little.
            carried if self.account.is_overdrawn() => carried,
            _ => self.stand.height(),
        }
    }

    /// Divides the slack between naps and what is faster than the carried rate, and says what that is.
    fn cheapest_split(&mut self) -> f64 {
        let mut least = f64::INFINITY;
        let (mut best, mut carried) = (0, 0.0);
        // Only the first keeps most of the slack.
        let tried = if self.account.is_overdrawn() { 1 } else { SPLITS.len() };
        for split in 0..tried {
            self.split = split;
            self.carried = self.stand.peak(split);
            let required = self.required(self.carried);
            let watts = self.searched_for(CARRIED + split, &required).watts;
            if watts < least * (1.0 - DIFFERENCE) {
                (least, best, carried) = (watts, split, self.carried);
            }
        }
        self.split = best;
        carried
    }

    /// The rate to carry with this split if what comes now returns. No more of it may wait than the rings of
    /// the fewest cores hold that carry it.
    fn needed(&self, split: Split) -> f64 {
        let within = split.backlog * self.slack;
        let needed = self.demand.needed(within);
        let cores = self.machine.fewest(needed, self.floor) as f64;
        let held = BACKLOG_IN_RINGS * self.ring * self.ports as f64 * cores / needed.max(1.0);
        if held < within { self.demand.needed(held) } else { needed }
    }

    fn split(&self) -> Split {
        SPLITS[self.split]
    }

    /// Returns how long a leap's answer of so many cores stays.
    fn holds(&self, added: usize) -> Span {
        let steps = self.steps.seconds() * (added + 1) as f64;
        HOLD + Span::from_seconds(steps.min(MOST_STEPS))
    }

    /// Energy of a leap back to a point, from a lower one.
    fn way_back_joules(&self, stays: &Choice, low: &Choice, at_peak: &Requirements) -> f64 {
        // The leap is answered by cores that wake, and all are fast for a while.
        let at_peak = Requirements { mean: at_peak.need, ..*at_peak };
        let wanted = MARGIN * self.demand.peak;
        let answer = self.machine.at_full_speed(wanted, 1, &at_peak);
        let exit = self.machine.idle.last().map_or(0.0, |state| state.1);
        let wake =
            (exit + self.machine.wake[answer.frequency]) * self.machine.awake[answer.frequency];
        let added = answer.cores.saturating_sub(low.cores);
        let wakes = added as f64 * wake;
        let slower = self.machine.watts(stays, &at_peak);
        let fast = (answer.watts - slower).max(0.0) * self.holds(added).as_seconds();
        wakes + fast + self.switch_joules(&answer, stays)
    }

    /// The answer to a leap: capacity for one as high as before. How high the first leap goes, or one that goes
    /// on, is not known, so it gets everything. What is too much goes when it is over. `mean` and `peak` are the
    /// rates before this look, which has part of the leap in it.
    fn answer(&mut self, now: Time, need: f64, (mean, peak): (f64, f64)) -> Choice {
        let goes_on = now < self.hold;
        let before = self.present.map_or(1, |present| present.cores);
        self.leapt = true;
        if !goes_on {
            self.leaps_before = (self.last_leap, self.leaps);
        }
        self.leaps = self.leaps.saturating_add(u32::from(!goes_on));
        self.last_leap = Some(now);
        self.saved = 0.0;
        self.stand.rises();
        self.lateness.forget_bursts();
        self.carried = 0.0;
        let required = self.required(need);
        self.known = (peak > 2.0 * mean || self.is_ready) && !goes_on;
        self.is_ready = false;
        let mut least = before;
        // The height of the first leap, and of one that goes on, is not known.
        let present = self.present.map_or(0.0, |present| present.capacity);
        let mut wanted = UNKNOWN * if goes_on { present } else { required.surprise };
        if self.known {
            let peak = self.demand.peak;
            wanted = MARGIN * peak;
            least = least.max(self.cores_at(peak, &required));
        }
        // Until all of them are awake, their rings hold what comes.
        let come = wanted * self.exit.as_seconds();
        let rings = come / (RING_SHARE * self.ring * self.ports as f64);
        least = least.max((rings.ceil() as usize).min(self.machine.cores));
        // Where packets may wait for the new cores, those need not be fast.
        let answer = if self.known && self.slack > SLOW_ANSWER * self.exit.as_seconds() {
            let need = KNOWN * self.demand.peak;
            let floor = required.floor.max(rings.ceil() as usize).min(self.machine.cores);
            self.searched_for(ANSWER, &Requirements { need, mean: need, floor, ..required })
        } else {
            self.machine.at_full_speed(wanted, least, &required)
        };
        self.hold = now + self.holds(answer.cores.saturating_sub(before));
        answer
    }

    /// The next leap that is due, and when its cores begin to wake.
    fn due(&self) -> Option<(Time, Expected)> {
        let steps = self.steps.seconds() * self.machine.cores as f64;
        let lead = self.exit.as_seconds() + self.transition + steps;
        let expected = self.rhythm.next(lead)?;
        let from = Span::from_seconds((expected.from - lead).max(0.0));
        Some((Time::ZERO + from, expected))
    }

    /// A point that is ready for the leap that is due now, if one is: all cores of the answer wake, and
    /// then sleep lightly beside those that carry the load. Only where packets that wait for a core in
    /// its deepest state are late, and too few are paid for.
    fn expect(&mut self, now: Time, need: f64) -> Option<Choice> {
        let Some((from, expected)) = self.due().filter(|_| self.carried == 0.0) else {
            self.stand_down();
            return None;
        };
        if now < from || now < self.hold {
            return None;
        }
        if now.as_seconds() > expected.until {
            self.rhythm.fails();
            self.stand_down();
            return None;
        }
        let is_no_use = self.exit.as_seconds() <= self.slack || self.account.needs_no_more();
        if !self.can_be_ready || is_no_use {
            self.stand_down();
            return None;
        }
        let required = self.required(need);
        let peak = self.demand.peak;
        let least = self.cores_at(peak, &required);
        let answer = self.machine.at_full_speed(MARGIN * peak, least, &required);
        let are_awake = self.is_ready && self.waking.is_over(now);
        self.is_ready = true;
        self.saved = 0.0;
        let ready = if are_awake {
            let low = self.machine.at_full_speed(need, 1, &required);
            Choice { parked: 0, ready: answer.cores.saturating_sub(low.cores), ..low }
        } else {
            answer
        };
        Some(Choice { nap: None, polls: true, ..ready })
    }

    /// No leap is expected any more: what was added for it goes at once.
    fn stand_down(&mut self) {
        self.leapt |= std::mem::take(&mut self.is_ready);
    }

    /// Cores of the point that follows a leap to this peak. The answer has them, too: packets would be late
    /// again if more cores woke for it.
    fn cores_at(&mut self, peak: f64, required: &Requirements) -> usize {
        let at_peak = Requirements { need: peak, mean: peak, ..*required };
        self.searched_for(AT_PEAK, &at_peak).cores
    }

    /// The next choice. `before` are the mean and the highest rate before a leap.
    fn next(
        &mut self,
        now: Time,
        seconds: f64,
        (leap, before): (bool, (f64, f64)),
        crowded: bool,
    ) -> (Choice, Why) {
        let more = self.lateness.strain;
        let need = self.demand.need() * more;
        self.alerted = leap || now < self.hold;
        if leap {
            return (self.answer(now, need, before), Why::Leap);
        }
        self.carried = 0.0;
        if now >= self.hold {
            self.carried = self.stand(seconds, &self.required(need));
        }
        if let Some(choice) = self.expect(now, need) {
            return (choice, Why::Expected);
        }
        // The slack evens out what is faster, unless that lasts.
        let lasting = self.demand.lasting() * more;
        let need = if self.carried > 0.0 { self.carried.max(lasting) } else { need };
        // A queue that grows at the planned rate: the point carries less than planned.
        let at_least =
            if crowded { self.present.map_or(0.0, |present| present.capacity) } else { 0.0 };
        let required = self.required(need.max(at_least));
        // Another point has to serve the packets that wait beyond the plan, too.
        let mut wanted =
            self.required(required.need + self.overhang(self.waiting) / DRAIN.as_seconds());
        if crowded && !self.has_leapt() {
            // A little more than the present capacity. With the tail that bursts would have at that rate,
            // it would mostly be all cores.
            wanted.dispersion = wanted.dispersion.min(1.0);
        }
        let best = self.searched_for(NEXT, &wanted);
        let Some(present) = self.present else { return (best, Why::Start) };
        let carries =
            present.capacity * MOST_LOAD >= required.need && present.cores >= required.floor;
        // The same cores and frequency with the naps that fit now.
        let same = self.evaluate((present.cores, present.frequency), &required);
        let Some(same) = same.filter(|_| carries) else {
            self.saved = 0.0;
            let why = match (carries, crowded) {
                (true, _) => Why::Guard,
                (false, true) => Why::Crowded,
                (false, false) => Why::Need,
            };
            // During a leap, capacity never falls.
            if now < self.hold && best.capacity < present.capacity {
                return (self.machine.everything(&required), why);
            }
            return (best, why);
        };
        if now < self.hold {
            return (same, Why::Leap);
        }
        // The answer to a leap was not chosen for its energy. So it goes at once.
        if self.leapt || self.settles.is_some_and(|at| at <= now) {
            (self.leapt, self.settles) = (false, None);
            self.saved = 0.0;
            return (best, Why::Settled);
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
