//! Survey of the knobs and counters that this machine offers to a policy, with reasons for gaps.

use super::affinity::Affinity;
use super::frequency::Frequencies;
use super::idle::IdleStates;
use super::layout::Layout;
use super::moderation::{Moderation, Want};
use super::options::HostOptions;
use super::redirect::Tables;
use super::scope::Scope;
use super::uncore::Uncores;
use super::writes::Writes;
use wattline_governor::machine::Taken;
use wattline_governor::step::Step;
use wattline_knobs::Knobs;
use wattline_policy::{Asks, Can, CoreSet, Platform, Sees, Timing, Waits};
use wattline_units::Span;

/// Everything that can be set.
pub(super) struct Survey {
    pub frequencies: Frequencies,
    pub idle: IdleStates,
    pub tables: Tables,
    pub moderation: Moderation,
    pub affinity: Affinity,
    pub uncores: Uncores,
    /// Description of the hardware.
    pub hardware: Vec<String>,
    /// Missing parts, with the reasons.
    pub notes: Vec<String>,
}

impl Survey {
    pub fn find(options: &HostOptions, knobs: &impl Knobs) -> Self {
        let HostOptions { tree, layout, rights, scope, .. } = options;
        let rights = *rights;
        let mut notes = Vec::new();
        let uncores = Uncores::find(tree, options.uncore, options.override_limits, &mut notes);
        let frequencies = Frequencies::find(
            tree,
            layout,
            (options.override_limits, options.preferences, options.may_raise),
            &mut notes,
        );
        let idle = IdleStates::find(tree, layout, (rights, options.override_limits), &mut notes);
        let mut tables = Tables::default();
        let mut affinity = Affinity::default();
        let partial = !scope.workers;
        let moderation = Moderation::find(tree, knobs, layout, rights, partial, &mut notes);
        if scope.workers {
            tables = Tables::find(knobs, layout, rights, &mut notes);
            affinity = Affinity::find(tree, knobs, layout, &mut notes);
        } else if scope.cores {
            tables = Tables::find_for_kernel(tree, knobs, layout, rights, &mut notes);
            if tables.has_cards() {
                affinity = Affinity::find(tree, knobs, layout, &mut notes);
            }
        }
        let hardware = super::hardware::find(tree, layout, &idle, &moderation);
        let notes = scope.notes(notes);
        Self { hardware, frequencies, idle, tables, moderation, affinity, uncores, notes }
    }

    /// Returns the machine as shown to a policy. `sample` is the time between looks at queues for a
    /// policy that wants to be asked at batches.
    pub fn platform(
        &self,
        layout: &Layout,
        ring_size: Option<usize>,
        sample: Span,
        scope: Scope,
    ) -> Platform {
        let asked = if scope.every_packet { Timing::Sampled(sample) } else { Timing::Never };
        Platform {
            cores: layout.workers,
            hardware: self.hardware.clone(),
            frequencies: self.frequencies.steps.clone(),
            domain: self.frequencies.domain,
            idle_states: self.idle.states.clone(),
            queues: layout.platform_queues(),
            ring_size,
            moderation: self.moderation.range,
            moderation_found: self.moderation.found,
            frequency_transition: self.frequencies.transition,
            uncore: self.uncores.limits(),
            // Workers that see every packet report theirs.
            batch_max: None,
            can: Can {
                set_cores: self.tables.can_set && scope.cores,
                set_frequency: self.frequencies.can_set && scope.frequency,
                limit_idle: self.idle.can_limit && scope.idle,
                set_moderation: self.moderation.can_set && scope.moderation,
                set_weights: self.tables.have_weights() && scope.cores,
                set_batch: scope.every_packet,
                set_uncore: !self.uncores.limits().is_empty() && scope.frequency,
                driver_rules: false,
                // Workers that see every packet report their wait modes.
                waits: Waits { poll: false, pause: false, sleep: false, interrupt: true },
                sees: Sees::NOTHING,
                asks: Asks { batch: asked, fill: asked, ..Asks::NOTHING },
            },
        }
    }

    /// Takes a step that turns a knob of the machine, with these active cores; `None` for a step
    /// that concerns workers and their packets.
    pub fn take<K: Knobs>(
        &mut self,
        step: &Step,
        (layout, active): (&Layout, CoreSet),
        writes: &mut Writes<K>,
    ) -> Option<Taken> {
        Some(match *step {
            Step::Frequency { core, index } => self.frequencies.set((core, index), active, writes),
            Step::Uncore { index } => match self.uncores.limits().get(index) {
                Some(limit) => self.uncores.set(*limit, writes),
                None => Taken::Failed { why: format!("the uncore has no limit {index}") },
            },
            Step::IdleLimit { core, state } => self.idle.limit(core, state, writes),
            Step::Moderation { queue, period } => {
                self.moderation.set(queue, Want::Every(period), layout, writes)
            }
            Step::ModerationAsFound { queue, period } => {
                self.moderation.set(queue, Want::AsFound(period), layout, writes)
            }
            Step::Weight { .. }
            | Step::Redirect { .. }
            | Step::Wait { .. }
            | Step::Wake { .. }
            | Step::Park { .. }
            | Step::Batch { .. } => return None,
        })
    }

    /// Returns the present setting in place of a step, if readable.
    pub fn held(&mut self, step: &Step, layout: &Layout, knobs: &impl Knobs) -> Option<Step> {
        Some(match *step {
            Step::Frequency { core, index } => {
                Step::Frequency { core, index: self.frequencies.held(core, index, knobs)? }
            }
            Step::ModerationAsFound { queue, .. }
                if self.moderation.is_as_found(queue, layout, knobs) =>
            {
                *step
            }
            Step::Moderation { queue, .. } | Step::ModerationAsFound { queue, .. } => {
                let period = self.moderation.held(queue, layout, knobs)?;
                Step::Moderation { queue, period }
            }
            Step::IdleLimit { core, state } => {
                Step::IdleLimit { core, state: self.idle.held(core, state, knobs)? }
            }
            Step::Uncore { .. } => Step::Uncore { index: self.uncores.held(knobs)? },
            Step::Redirect { .. } => Step::Redirect { active: self.tables.reach(layout)? },
            Step::Weight { .. }
            | Step::Wait { .. }
            | Step::Wake { .. }
            | Step::Park { .. }
            | Step::Batch { .. } => return None,
        })
    }
}
