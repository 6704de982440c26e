//! From one operating point to the next, in an order in which no packet is lost.
//!
//! More capacity comes first: an uncore and frequencies that rise, cores that wake, and only then
//! a redirect table that is wider. Less capacity comes last: the table is narrowed, the core that
//! got nothing more drains its rings, and then it sleeps (DESIGN.md, "How a decision travels";
//! PowerSave, section 5.3). So any number of steps from the front may be taken, and the rest left
//! out or put off.

use wattline_policy::{CoreSet, OperatingPoint, Platform, Wait};
use wattline_units::Span;

/// One change of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A core goes to a frequency, an index into [`Platform::frequencies`].
    Frequency {
        /// The core.
        core: usize,
        /// The frequency.
        index: usize,
    },
    /// The uncore gets another upper limit, an index into [`Platform::uncore`].
    Uncore {
        /// The limit.
        index: usize,
    },
    /// A core may sleep down to an idle state, an index into [`Platform::idle_states`].
    IdleLimit {
        /// The core.
        core: usize,
        /// The state.
        state: usize,
    },
    /// A core waits in another way.
    Wait {
        /// The core.
        core: usize,
        /// How.
        wait: Wait,
    },
    /// A core that was parked becomes ready to serve its queues.
    Wake {
        /// The core.
        core: usize,
    },
    /// A core gets another share of the redirect tables, from the next [`Step::Redirect`] on that
    /// succeeds.
    Weight {
        /// The core.
        core: usize,
        /// Its share relative to the others, at least 1.
        weight: u8,
    },
    /// The redirect tables send packets to these cores and no others, by their weights.
    Redirect {
        /// The cores, at least one.
        active: CoreSet,
    },
    /// A core that gets no more packets serves what is left in its rings, and then sleeps.
    Park {
        /// The core.
        core: usize,
    },
    /// Interrupts of a queue keep this distance.
    Moderation {
        /// The queue.
        queue: usize,
        /// The distance.
        period: Span,
    },
    /// As many packets are taken from a queue at once.
    Batch {
        /// Packets.
        packets: u32,
    },
}

/// The steps from one operating point to another, in the order in which they are to be taken;
/// what the platform cannot do is left out. `steps` is overwritten.
pub fn between(
    platform: &Platform,
    from: &OperatingPoint,
    to: &OperatingPoint,
    steps: &mut Vec<Step>,
) {
    let beside = Beside { awake: from.active, uncore: from.uncore_limit(platform) };
    between_beside(platform, (from, beside, &from.weights), to, steps);
}

/// How a machine runs in what an operating point does not say by itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beside {
    /// Cores that are awake: beside the active ones those that were woken and got no packets
    /// yet, or got no more and are not parked yet.
    pub awake: CoreSet,
    /// The uncore's limit, which an operating point may leave to the cores.
    pub uncore: Option<usize>,
}

/// [`between`] from a point that was left half way; `told` are the weights that cores were given.
pub(super) fn between_beside(
    platform: &Platform,
    (from, beside, told): (&OperatingPoint, Beside, &[u8]),
    to: &OperatingPoint,
    steps: &mut Vec<Step>,
) {
    let Beside { awake, uncore } = beside;
    steps.clear();
    let can = &platform.can;
    let cores = || from.cores.iter().zip(&to.cores).enumerate();
    let uncore = (uncore, to.uncore_limit(platform));
    if let (true, (Some(old), Some(new))) = (can.set_uncore, uncore)
        && new > old
    {
        steps.push(Step::Uncore { index: new });
    }
    if can.set_frequency {
        steps.extend(
            cores()
                .filter(|(_, (old, new))| new.frequency > old.frequency)
                .map(|(core, (_, new))| Step::Frequency { core, index: new.frequency }),
        );
    }
    let (mut parked, mut woken) = (CoreSet::EMPTY, CoreSet::EMPTY);
    if can.set_cores {
        (woken, parked) = (to.active.without(awake), awake.without(to.active));
    }
    for (core, (old, new)) in cores() {
        // One that is being parked sleeps deeper only when it is drained.
        if can.limit_idle && new.idle_limit != old.idle_limit && !parked.contains(core) {
            steps.push(Step::IdleLimit { core, state: new.idle_limit });
        }
        if new.wait != old.wait && can.waits.allows(new.wait) {
            steps.push(Step::Wait { core, wait: new.wait });
        }
    }
    if can.set_moderation {
        let periods = from.moderation.iter().zip(&to.moderation).enumerate();
        steps.extend(
            periods
                .filter(|(_, (old, new))| old != new)
                .map(|(queue, (_, &period))| Step::Moderation { queue, period }),
        );
    }
    if from.batch != to.batch {
        steps.push(Step::Batch { packets: to.batch });
    }
    steps.extend(woken.iter().map(|core| Step::Wake { core }));
    let mut redirect = can.set_cores && from.active != to.active;
    if can.set_weights {
        let weights = told.iter().zip(&to.weights).enumerate();
        steps.extend(
            weights
                .filter(|(_, (old, new))| old != new)
                .map(|(core, (_, &weight))| Step::Weight { core, weight }),
        );
        redirect |= from.weights != to.weights;
    }
    if redirect {
        steps.push(Step::Redirect { active: to.active });
    }
    for core in parked.iter() {
        steps.push(Step::Park { core });
        if can.limit_idle && from.cores[core].idle_limit != to.cores[core].idle_limit {
            steps.push(Step::IdleLimit { core, state: to.cores[core].idle_limit });
        }
    }
    if can.set_frequency {
        steps.extend(
            cores()
                .filter(|(_, (old, new))| new.frequency < old.frequency)
                .map(|(core, (_, new))| Step::Frequency { core, index: new.frequency }),
        );
    }
    if let (true, (Some(old), Some(new))) = (can.set_uncore, uncore)
        && new < old
    {
        steps.push(Step::Uncore { index: new });
    }
}
