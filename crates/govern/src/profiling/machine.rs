//! The profiled machine: its knobs and meters.
//!
//! Points are set by all their steps, not by `wattline_governor::transition`, which takes only the steps
//! that differ, counts altered values as done and lets failed knobs rest: a profile sets every knob at
//! every point, to see changes by other programs, and leaves out points that the machine alters.

use super::measure::NotSet;
use super::modelled::Modelled;
use crate::config::Config;
use crate::inventory::Inventory;
use crate::session::options;
use std::collections::BTreeSet;
use wattline_governor::machine::{Machine as Governed, Taken, View};
use wattline_governor::step::{Step, establish};
use wattline_host::{
    Ending, KernelStack, Supervision, TakeOverError, ThisMachine, hand_back, take_over,
};
use wattline_linux::sysfs::Tree;
use wattline_policy::tables::fingerprint;
use wattline_policy::{OperatingPoint, Platform};
use wattline_server::BusyTimePower;
use wattline_server::tables::Fingerprint;
use wattline_units::{Hertz, Span, Time};

/// Reason why the machine cannot be profiled, or was not restored completely.
pub type MachineError = TakeOverError;

/// The knobs and meters of this machine. Dropping it restores the machine.
pub struct Machine {
    tree: Tree,
    config: Config,
    platform: Platform,
    /// `None` only while it is taken over anew.
    held: Option<(ThisMachine, Supervision)>,
    /// True if moderation is taken over; false if it is left to the drivers.
    moderates: bool,
    /// The state that was set last, an index into the platform's frequencies.
    state: usize,
    /// Power model, used if no meter measures watts.
    modelled: Option<Modelled>,
}

impl Machine {
    /// Takes over the frequencies of a configuration's CPUs and the moderation of its interfaces.
    /// All other settings stay as they are.
    ///
    /// # Errors
    /// Fails if the machine cannot be governed, for example because another governor is running.
    /// The machine is unchanged then.
    pub fn take(tree: &Tree, config: Config) -> Result<Self, MachineError> {
        let (machine, supervision) = begin(tree, &config, true)?;
        let platform = machine.platform().clone();
        let (tree, held) = (tree.clone(), Some((machine, supervision)));
        let state = platform.fastest();
        Ok(Self { tree, config, platform, held, moderates: true, state, modelled: None })
    }

    /// Returns the names of the governed interfaces.
    pub fn interfaces(&self) -> Vec<String> {
        Inventory::find(&self.tree, &self.config).interfaces()
    }

    /// Returns the number of cores that serve the interfaces' queues; `None` without queues.
    pub fn queue_cores(&self) -> Option<usize> {
        let cores: BTreeSet<usize> = self.platform.queues.iter().map(|queue| queue.core).collect();
        (!cores.is_empty()).then_some(cores.len())
    }

    /// Computes power by this model, from the busy time of the cores, unless a meter measures it.
    pub fn model(&mut self, server: BusyTimePower) {
        self.modelled = (!self.platform.can.sees.power).then(|| Modelled::new(server));
    }

    /// Returns the knobs with their ranges.
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    /// Returns the fingerprint of this machine for its tables.
    pub fn fingerprint(&self) -> Fingerprint {
        fingerprint(&self.platform)
    }

    /// Returns the source of watts; `None` without a meter or model.
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

    /// Returns the energy in joules and the time in seconds of the meter's last reading. Only
    /// differences between two calls at one point are meaningful. A meter is read a few times a
    /// second, so its time lags behind the clock.
    pub fn energy(&mut self) -> Option<(f64, f64)> {
        let frequency = self.platform.frequencies.get(self.state).copied().unwrap_or(Hertz(0.0));
        let (machine, _) = self.held.as_mut()?;
        let now = machine.now();
        if let Some(modelled) = &mut self.modelled {
            let mut view = View::new(&self.platform);
            machine.observe(now, &mut view);
            let busy = view.cores.iter().map(|core| core.useful).collect();
            let joules = modelled.update(now, busy, frequency);
            return Some((joules, now.since(Time::ZERO).as_seconds()));
        }
        let energy = machine.energy(now);
        let (joules, metered) = energy.whole.zip(energy.metered)?;
        Some((joules.0, metered.as_seconds()))
    }

    /// Returns the number of packets that arrived at the queues since the machine was taken over;
    /// `None` if no interface is governed.
    pub fn arrivals(&mut self) -> Option<u64> {
        let (machine, _) = self.held.as_mut().filter(|_| !self.platform.queues.is_empty())?;
        let mut view = View::new(&self.platform);
        let now = machine.now();
        machine.observe(now, &mut view);
        Some(view.queues.iter().map(|queue| queue.arrivals).sum())
    }

    /// Sets the state of all cores and the moderation period of all queues. Without a period, the
    /// drivers moderate the queues as they did before. Returns the longest period in microseconds
    /// that a queue holds, if it can be read: cards round.
    ///
    /// # Errors
    /// [`NotSet::Refused`] if a write fails or another program has changed the setting;
    /// [`NotSet::Altered`] if a core holds another frequency.
    pub fn set(&mut self, state: usize, period: Option<Span>) -> Result<Option<f64>, NotSet> {
        self.moderate(period.is_some())?;
        self.state = state;
        let Some((machine, _)) = &mut self.held else { return Ok(None) };
        let held = set_all(machine, state, period.unwrap_or(Span::ZERO))?;
        Ok(held.map(|span| span.as_seconds() * 1e6))
    }

    /// Restores the machine.
    ///
    /// # Errors
    /// Fails if some settings could not be restored.
    pub fn end(mut self) -> Result<(), MachineError> {
        self.held.take().map_or(Ok(()), |(machine, supervision)| {
            hand_back(Some(machine), supervision, Ending::Final)
        })
    }

    /// Checks that all cores still hold the frequency that was set last.
    ///
    /// # Errors
    /// [`NotSet::Altered`] if one does not.
    pub fn holds(&mut self) -> Result<(), NotSet> {
        self.held.as_mut().map_or(Ok(()), |(machine, _)| check_frequency(machine, self.state))
    }

    /// Takes moderation over, or leaves it to the drivers. In between the machine is given back, so
    /// the drivers have exactly the settings that were found.
    fn moderate(&mut self, moderates: bool) -> Result<(), NotSet> {
        if self.moderates == moderates && self.held.is_some() {
            return Ok(());
        }
        let text = |error: MachineError| NotSet::Refused(error.to_string());
        self.modelled.iter_mut().for_each(Modelled::restart);
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
    // A profile also measures states above the present one, and restores the machine at the end.
    options.may_raise = true;
    let scope = &mut options.scope;
    (scope.frequency, scope.idle, scope.moderation) = (true, false, moderates);
    scope.cores = false;
    let (mut machine, supervision) = take_over(options, config.on_exit, Box::new(kernel))?;
    // Sets the fastest frequency and the shortest moderation. This also finds cards that show their
    // moderation but refuse to have it set.
    let _ = machine.present();
    Ok((machine, supervision))
}

/// Sets the state of all cores and, if moderation is taken over, the period of all queues. Returns
/// the longest period that a queue holds. All steps are taken, since another program may have
/// changed any setting after the last point.
fn set_all<M: Governed>(
    machine: &mut M,
    state: usize,
    period: Span,
) -> Result<Option<Span>, NotSet> {
    let platform = machine.platform();
    let mut point = OperatingPoint::full(platform);
    point.set_frequency(state);
    point.set_moderation(platform, period);
    let mut held = None::<Span>;
    for step in establish(platform, &point) {
        match (machine.take(&step), step) {
            (Taken::Foreign { found }, _) => {
                return Err(NotSet::Refused(format!(
                    "another program has set it to {found}; stop that program"
                )));
            }
            (Taken::Failed { why }, _) => return Err(NotSet::Refused(why)),
            // If it can be read back, it is checked below: other cores of the same domain may still
            // ask for a higher frequency.
            (Taken::Altered { found }, Step::Frequency { core, .. })
                if machine.held(&step).is_none() =>
            {
                return Err(NotSet::Altered(format!("core {core} holds a frequency of {found}")));
            }
            (_, Step::Moderation { .. }) => {
                let Some(Step::Moderation { period, .. }) = machine.held(&step) else { continue };
                held = held.max(Some(period));
            }
            _ => {}
        }
    }
    check_frequency(machine, state)?;
    Ok(held)
}

/// Checks that all cores hold a frequency, as far as that can be read. Latency and power at another
/// frequency do not belong to the point.
fn check_frequency<M: Governed>(machine: &mut M, index: usize) -> Result<(), NotSet> {
    if !machine.platform().can.set_frequency {
        return Ok(());
    }
    for core in 0..machine.platform().cores {
        let held = machine.held(&Step::Frequency { core, index });
        if let Some(Step::Frequency { index: held, .. }) = held
            && held != index
        {
            let frequencies = &machine.platform().frequencies;
            let gigahertz = |index: usize| frequencies.get(index).map_or(0.0, |f| f.gigahertz());
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

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_policy::Can;

    /// A machine whose firmware limits the frequency.
    struct Clamped {
        platform: Platform,
        most: usize,
        /// True if the present frequency can be read back.
        reads: bool,
        held: Vec<usize>,
    }

    impl Clamped {
        fn new(most: usize, reads: bool) -> Self {
            let platform = Platform {
                cores: 2,
                frequencies: [1e9, 2e9, 3e9].map(Hertz).to_vec(),
                can: Can { set_frequency: true, ..Can::NOTHING },
                ..Platform::BARE
            };
            Self { platform, most, reads, held: vec![0; 2] }
        }

        fn set(&mut self, index: usize) -> Result<(), NotSet> {
            set_all(self, index, Span::ZERO).map(|_| ())
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
    fn clamped_frequency_is_reported() {
        let mut machine = Clamped::new(1, true);
        assert_eq!((machine.set(0), machine.set(1)), (Ok(()), Ok(())));
        let Err(NotSet::Altered(why)) = machine.set(2) else { panic!("3 GHz is clamped") };
        assert!(why.contains("core 0 holds 2.00 GHz, not 3.00 GHz"), "{why}");
        // The limit fell after the last step.
        machine.most = 0;
        machine.held[1] = 0;
        let Err(NotSet::Altered(why)) = check_frequency(&mut machine, 1) else {
            panic!("2 GHz is no longer held")
        };
        assert!(why.contains("core 1 holds 1.00 GHz, not 2.00 GHz"), "{why}");
        // Without a value to read back, the result of the write counts.
        let mut machine = Clamped::new(1, false);
        assert_eq!(machine.set(1), Ok(()));
        assert!(matches!(machine.set(2), Err(NotSet::Altered(why)) if why.contains("2000000")));
    }
}
