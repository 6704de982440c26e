//! This machine, as a profile sets it.

use super::measure::NotSet;
use super::modelled::Modelled;
use crate::config::Config;
use crate::inventory::Inventory;
use crate::session::options;
use std::collections::BTreeSet;
use wattline_governor::machine::{Machine as Governed, Taken, View};
use wattline_governor::step::Step;
use wattline_host::{
    Ending, KernelStack, Supervision, TakeOverError, ThisMachine, hand_back, take_over,
};
use wattline_linux::sysfs::Tree;
use wattline_policy::Platform;
use wattline_policy::tables::fingerprint;
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
    /// Power model, used where no meter shows watts.
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

    /// The names of its interfaces.
    pub fn interfaces(&self) -> Vec<String> {
        Inventory::find(&self.tree, &self.config).interfaces()
    }

    /// Returns the number of cores that serve the interfaces' queues; none without queues.
    pub fn queue_cores(&self) -> Option<usize> {
        let cores: BTreeSet<usize> = self.platform.queues.iter().map(|queue| queue.core).collect();
        (!cores.is_empty()).then_some(cores.len())
    }

    /// Watts are reckoned by this model from how busy the cores are, where no meter tells them.
    pub fn model(&mut self, server: BusyTimePower) {
        self.modelled = (!self.platform.can.sees.power).then(|| Modelled::by(server));
    }

    /// Returns the knobs with their ranges.
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    /// Returns the fingerprint that tables made here carry.
    pub fn fingerprint(&self) -> Fingerprint {
        fingerprint(&self.platform)
    }

    /// Returns the source of watts; none without a meter or model.
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
            let mut view = View::new(&self.platform);
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
        let mut view = View::new(&self.platform);
        let now = machine.now();
        machine.observe(now, &mut view);
        Some(view.queues.iter().map(|queue| queue.arrivals).sum())
    }

    /// The fastest state, moderated as its drivers do it by themselves.
    ///
    /// # Errors
    /// Like [`Self::set`].
    pub fn set_default(&mut self) -> Result<(), NotSet> {
        self.turn(false)?;
        self.set_state(self.platform.fastest())
    }

    /// A state, and a moderation period of all queues. Gives the longest period in microseconds
    /// that a queue really holds, where that can be read.
    ///
    /// # Errors
    /// [`NotSet::Refused`] by the machine, or since somebody else has set it; [`NotSet::Altered`]
    /// where it holds another frequency.
    pub fn set(&mut self, state: usize, period: Span) -> Result<Option<f64>, NotSet> {
        self.turn(true)?;
        self.set_state(state)?;
        if !self.platform.can.set_moderation {
            return Ok(None);
        }
        let Some((machine, _)) = &mut self.held else { return Ok(None) };
        let mut held = None::<Span>;
        for queue in 0..self.platform.queues.len() {
            let step = Step::Moderation { queue, period };
            // What the card rounded is read back.
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
        self.held.take().map_or(Ok(()), |(machine, supervision)| {
            hand_back(Some(machine), supervision, Ending::Final)
        })
    }

    /// Whether all cores still hold the frequency that was set last.
    ///
    /// # Errors
    /// [`NotSet::Altered`] where one does not.
    pub fn holds(&mut self) -> Result<(), NotSet> {
        let Some((machine, _)) = self.held.as_mut().filter(|_| self.platform.can.set_frequency)
        else {
            return Ok(());
        };
        held_by_all(machine, self.state, &self.platform)
    }

    fn set_state(&mut self, index: usize) -> Result<(), NotSet> {
        if !self.platform.can.set_frequency {
            return Ok(());
        }
        self.state = index;
        let Some((machine, _)) = &mut self.held else { return Ok(()) };
        set_all(machine, index, &self.platform)
    }

    /// Moderates, or leaves that to the drivers: what was set goes back to what was found.
    fn turn(&mut self, moderates: bool) -> Result<(), NotSet> {
        if self.moderates == moderates && self.held.is_some() {
            return Ok(());
        }
        let text = |error: MachineError| NotSet::Refused(error.to_string());
        self.modelled.iter_mut().for_each(Modelled::forget);
        if let Some((machine, supervision)) = self.held.take() {
            hand_back(Some(machine), supervision, Ending::Pause).map_err(text)?;
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
    // A profile measures every state, those above the one found among them, and gives the machine back.
    options.may_raise = true;
    let scope = &mut options.scope;
    (scope.frequency, scope.idle, scope.moderation) = (true, false, moderates);
    scope.cores = false;
    let (mut machine, supervision) = take_over(options, config.on_exit, Box::new(kernel))?;
    // Writes what the run begins with: the fastest frequency, the shortest moderation.
    let _ = machine.present();
    Ok((machine, supervision))
}

/// All cores at a frequency.
fn set_all<M: Governed>(machine: &mut M, index: usize, platform: &Platform) -> Result<(), NotSet> {
    for core in 0..platform.cores {
        match machine.take(&Step::Frequency { core, index }) {
            // A core of a domain may wait for the others of it; what all hold is read back below.
            Taken::Altered { .. } if machine.held(&Step::Frequency { core, index }).is_some() => {}
            Taken::Altered { found } => {
                return Err(NotSet::Altered(format!("core {core} holds a frequency of {found}")));
            }
            taken => check(taken)?,
        }
    }
    held_by_all(machine, index, platform)
}

/// Reads back which frequency the cores hold, where that can be read. Watts and latency of another
/// frequency are not those of the point.
fn held_by_all<M: Governed>(
    machine: &mut M,
    index: usize,
    platform: &Platform,
) -> Result<(), NotSet> {
    let gigahertz = |index: usize| platform.frequencies.get(index).map_or(0.0, |f| f.gigahertz());
    for core in 0..platform.cores {
        let held = machine.held(&Step::Frequency { core, index });
        if let Some(Step::Frequency { index: held, .. }) = held
            && held != index
        {
            return Err(NotSet::Altered(format!(
                "core {core} holds {:.2} GHz, not {:.2} GHz: the firmware, the driver or the \
                 processor's temperature limits it; lift that limit, or leave such states out with \
                 --states",
                gigahertz(held),
                gigahertz(index)
            )));
        }
    }
    Ok(())
}

/// Rejects a setting of another program: the machine is not at the point asked for.
fn check(taken: Taken) -> Result<(), NotSet> {
    match taken {
        Taken::Done | Taken::Altered { .. } | Taken::Slow { .. } => Ok(()),
        Taken::Foreign { found } => Err(NotSet::Refused(format!(
            "another program has set it to {found}; stop that program"
        ))),
        Taken::Failed { why } => Err(NotSet::Refused(why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose firmware allows no more than one of its frequencies.
    struct Clamped {
        platform: Platform,
        most: usize,
        /// Whether what holds can be read back.
        reads: bool,
        held: Vec<usize>,
    }

    impl Clamped {
        fn new(most: usize, reads: bool) -> Self {
            let platform = Platform {
                cores: 2,
                frequencies: [1e9, 2e9, 3e9].map(Hertz).to_vec(),
                ..Platform::BARE
            };
            Self { platform, most, reads, held: vec![0; 2] }
        }

        fn set(&mut self, index: usize) -> Result<(), NotSet> {
            let platform = self.platform.clone();
            set_all(self, index, &platform)
        }
    }

    impl Governed for Clamped {
        fn platform(&self) -> &Platform {
            &self.platform
        }
        fn now(&self) -> Time {
            Time::ZERO
        }
        fn observe(&mut self, _now: Time, _view: &mut View) {}
        fn take(&mut self, step: &Step) -> Taken {
            let Step::Frequency { core, index } = *step else { return Taken::Done };
            self.held[core] = index.min(self.most);
            match index <= self.most {
                true => Taken::Done,
                false => Taken::Altered { found: "2000000".into() },
            }
        }
        fn held(&mut self, step: &Step) -> Option<Step> {
            let Step::Frequency { core, .. } = *step else { return None };
            self.reads.then(|| Step::Frequency { core, index: self.held[core] })
        }
    }

    #[test]
    fn a_frequency_that_the_firmware_clamps_is_not_taken_for_the_one_that_was_asked_for() {
        let mut machine = Clamped::new(1, true);
        assert_eq!((machine.set(0), machine.set(1)), (Ok(()), Ok(())));
        let Err(NotSet::Altered(told)) = machine.set(2) else { panic!("3 GHz is clamped") };
        assert!(told.contains("core 0 holds 2.00 GHz, not 3.00 GHz"), "{told}");
        // What is not asked for here was clamped by somebody in between.
        machine.most = 0;
        machine.held[1] = 0;
        let platform = machine.platform.clone();
        let Err(NotSet::Altered(told)) = held_by_all(&mut machine, 1, &platform) else {
            panic!("2 GHz is no longer held")
        };
        assert!(told.contains("core 1 holds 1.00 GHz, not 2.00 GHz"), "{told}");
        // A driver that cannot be read back is taken at its word, unless it says otherwise.
        let mut machine = Clamped::new(1, false);
        assert_eq!(machine.set(1), Ok(()));
        assert!(matches!(machine.set(2), Err(NotSet::Altered(told)) if told.contains("2000000")));
    }
}
