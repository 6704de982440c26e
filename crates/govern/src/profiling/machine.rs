//! This machine, as a profile sets it.

use super::modelled::Modelled;
use crate::config::Config;
use crate::inventory::Inventory;
use crate::session::options;
use std::collections::BTreeSet;
use wattline_governor::machine::{Machine as _, Taken, View};
use wattline_governor::step::Step;
use wattline_host::{KernelStack, Supervision, TakeOverError, ThisMachine, hand_back, take_over};
use wattline_linux::sysfs::Tree;
use wattline_policy::Platform;
use wattline_policy::policies::copi;
use wattline_server::BusyTimePower;
use wattline_server::tables::Fingerprint;
use wattline_units::{Hertz, Span, Time};

/// This machine cannot be profiled, or was not given back.
pub type MachineError = TakeOverError;

/// The knobs and meters of this machine. All is as it was once it is gone.
pub struct Machine {
    tree: Tree,
    config: Config,
    platform: Platform,
    /// None only while it is taken over anew.
    held: Option<(ThisMachine, Supervision)>,
    /// Whether moderation is ours, not the driver's.
    moderates: bool,
    /// The state that was set last.
    state: usize,
    /// What reckons watts where no meter tells them.
    modelled: Option<Modelled>,
}

impl Machine {
    /// Takes over the CPUs and interfaces of a configuration: their frequencies and moderation;
    /// everything else stays as it is.
    ///
    /// # Errors
    /// When it cannot be governed, by another governor's presence among others; it is as before
    /// then.
    pub fn take(tree: &Tree, config: Config) -> Result<Self, MachineError> {
        let (machine, supervision) = begin(tree, &config, true)?;
        let platform = machine.platform().clone();
        let (tree, held) = (tree.clone(), Some((machine, supervision)));
        let state = platform.fastest();
        Ok(Self { tree, config, platform, held, moderates: true, state, modelled: None })
    }

    /// How many cores the queues of its interfaces lead to; none without queues.
    pub fn queue_cores(&self) -> Option<usize> {
        let cores: BTreeSet<usize> = self.platform.queues.iter().map(|queue| queue.core).collect();
        (!cores.is_empty()).then_some(cores.len())
    }

    /// Watts are reckoned by this model from how busy the cores are, where no meter tells them.
    pub fn model(&mut self, server: BusyTimePower) {
        self.modelled = (!self.platform.can.sees.power).then(|| Modelled::by(server));
    }

    /// What can be set, and over which ranges.
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    /// What tables made here are of.
    pub fn fingerprint(&self) -> Fingerprint {
        copi::fingerprint(&self.platform)
    }

    /// Where watts come from; none where no meter tells and no model reckons.
    pub fn power_source(&mut self) -> Option<String> {
        if let Some(modelled) = &self.modelled {
            return Some(modelled.source());
        }
        let sees = self.platform.can.sees.power;
        let (machine, _) = self.held.as_mut().filter(|_| sees)?;
        let now = machine.now();
        let energy = machine.energy(now);
        Some(format!("{}, {}", energy.source, energy.accuracy))
    }

    /// Energy in joules, and the time in seconds up to which it is known, for the differences between
    /// two looks at one point: a meter is read a few times a second, so that it lags behind the clock.
    pub fn energy(&mut self) -> Option<(f64, f64)> {
        let frequency = self.platform.frequencies.get(self.state).copied().unwrap_or(Hertz(0.0));
        let (machine, _) = self.held.as_mut()?;
        let now = machine.now();
        if let Some(modelled) = &mut self.modelled {
            let mut view = View::of(&self.platform);
            machine.observe(now, &mut view);
            let busy = view.cores.iter().map(|core| core.useful).collect();
            return Some((modelled.look(now, busy, frequency), now.since(Time::ZERO).as_seconds()));
        }
        let energy = machine.energy(now);
        let (joules, metered) = energy.whole.zip(energy.metered)?;
        Some((joules.0, metered.as_seconds()))
    }

    /// Packets that came to the queues since the machine was taken over; none where no interface of
    /// it is governed.
    pub fn arrivals(&mut self) -> Option<u64> {
        let (machine, _) = self.held.as_mut().filter(|_| !self.platform.queues.is_empty())?;
        let mut view = View::of(&self.platform);
        let now = machine.now();
        machine.observe(now, &mut view);
        Some(view.queues.iter().map(|queue| queue.arrivals).sum())
    }

    /// The fastest state, moderated as its drivers do it by themselves.
    ///
    /// # Errors
    /// In words.
    pub fn set_default(&mut self) -> Result<(), String> {
        self.turn(false)?;
        self.set_state(self.platform.fastest())
    }

    /// A state, and a moderation period of all queues. Gives the longest period in microseconds
    /// that a queue really holds, where that can be read.
    ///
    /// # Errors
    /// In words; somebody else's hands included.
    pub fn set(&mut self, state: usize, period: Span) -> Result<Option<f64>, String> {
        self.turn(true)?;
        self.set_state(state)?;
        if !self.platform.can.set_moderation {
            return Ok(None);
        }
        let Some((machine, _)) = &mut self.held else { return Ok(None) };
        let mut held = None::<Span>;
        for queue in 0..self.platform.queues.len() {
            let step = Step::Moderation { queue, period };
            check(machine.take(&step))?;
            if let Some(Step::Moderation { period, .. }) = machine.held(&step) {
                held = held.max(Some(period));
            }
        }
        Ok(held.map(|span| span.as_seconds() * 1e6))
    }

    /// Gives the machine back.
    ///
    /// # Errors
    /// When some of it could not be restored.
    pub fn end(mut self) -> Result<(), MachineError> {
        self.held
            .take()
            .map_or(Ok(()), |(machine, supervision)| hand_back(Some(machine), supervision))
    }

    fn set_state(&mut self, index: usize) -> Result<(), String> {
        if !self.platform.can.set_frequency {
            return Ok(());
        }
        self.state = index;
        let Some((machine, _)) = &mut self.held else { return Ok(()) };
        for core in 0..self.platform.cores {
            check(machine.take(&Step::Frequency { core, index }))?;
        }
        Ok(())
    }

    /// Moderates, or leaves that to the drivers: what was set goes back to what was found.
    fn turn(&mut self, moderates: bool) -> Result<(), String> {
        if self.moderates == moderates && self.held.is_some() {
            return Ok(());
        }
        let text = |error: MachineError| error.to_string();
        self.modelled.iter_mut().for_each(Modelled::forget);
        if let Some((machine, supervision)) = self.held.take() {
            hand_back(Some(machine), supervision).map_err(text)?;
        }
        self.held = Some(begin(&self.tree, &self.config, moderates).map_err(text)?);
        self.moderates = moderates;
        Ok(())
    }
}

fn begin(
    tree: &Tree,
    config: &Config,
    moderates: bool,
) -> Result<(ThisMachine, Supervision), MachineError> {
    let inventory = Inventory::find(tree, config);
    let (kernel, _) = KernelStack::new(tree, &inventory.layout);
    let mut options = options(config, &inventory, tree);
    let scope = &mut options.scope;
    (scope.frequency, scope.idle, scope.moderation) = (true, false, moderates);
    let (mut machine, supervision) = take_over(options, config.on_exit, Box::new(kernel))?;
    // Writes what the run begins with: the fastest frequency, the shortest moderation.
    let _ = machine.present();
    Ok((machine, supervision))
}

/// What another made of it is no point of ours; what the card rounded is read back.
fn check(taken: Taken) -> Result<(), String> {
    match taken {
        Taken::Done | Taken::Altered { .. } | Taken::Slow { .. } => Ok(()),
        Taken::Foreign { found } => {
            Err(format!("another program has set it to {found}; stop that program"))
        }
        Taken::Failed { why } => Err(why),
    }
}
