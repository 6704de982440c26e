//! From one operating point to the next, in an order in which no packet is lost.
//!
//! More capacity comes first: frequencies that rise, cores that wake, and only then a redirect
//! table that is wider. Less capacity comes last: the table is narrowed, the core that got
//! nothing more drains its rings, and then it sleeps (DESIGN.md, "How a decision travels";
//! PowerSave, section 5.3).

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
    /// The redirect tables send packets to these cores and no others.
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
    steps.clear();
    let can = &platform.can;
    let cores = || from.cores.iter().zip(&to.cores).enumerate();
    if can.set_frequency {
        steps.extend(
            cores()
                .filter(|(_, (old, new))| new.frequency > old.frequency)
                .map(|(core, (_, new))| Step::Frequency { core, index: new.frequency }),
        );
    }
    let (mut parked, mut woken) = (CoreSet::EMPTY, CoreSet::EMPTY);
    if can.set_cores {
        (woken, parked) = (to.active.without(from.active), from.active.without(to.active));
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
    if !woken.is_empty() || !parked.is_empty() {
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
}
