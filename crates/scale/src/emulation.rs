//! State shared by the cores of an emulated server and its governor.

use super::clock::ModelClock;
use super::energy_account::{Change, EnergyAccount};
use super::mailbox::{Mailbox, Report};
use super::order::Order;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use wattline_cores::Costs;
use wattline_governor::energy::Energy;
use wattline_policy::{CoreSet, Platform};
use wattline_server::ServerModel;
use wattline_units::{Joules, Provenance, Span};

/// State shared by cores and machine.
pub struct Emulation {
    pub(super) server: ServerModel,
    pub(super) platform: Platform,
    pub(super) clock: ModelClock,
    /// Costs of a core, by frequency and number of active cores less one.
    pub(super) costs: Vec<Vec<Costs>>,
    pub(super) transition: Span,
    pub(super) mailboxes: Vec<Mailbox>,
    pub(super) energy_account: Mutex<EnergyAccount>,
    pub(super) reported: Condvar,
    /// Keeps flows in order if indirection tables are written.
    pub(super) order: Option<Arc<Order>>,
}

impl Emulation {
    pub(super) fn costs(&self, frequency: usize, active_cores: usize) -> Costs {
        let row = &self.costs[frequency.min(self.costs.len() - 1)];
        row[active_cores.clamp(1, row.len()) - 1].clone()
    }

    pub(super) fn report(&self, report: Report) {
        if self.energy_account().take(report) {
            self.reported.notify_all();
        }
    }

    /// Notes the frequency of each core, as an index, from a time on.
    pub(super) fn will_run_at(&self, due: u64, frequencies: &[usize]) {
        let now = self.clock.now().as_picos().min(due);
        self.energy_account().change(due, now, Change::Frequencies(frequencies.to_vec()));
    }

    /// Notes the active cores from a time on.
    pub(super) fn is_active_at(&self, at: u64, active: CoreSet) {
        self.energy_account().change(at, at, Change::Active(Box::new(active)));
    }

    /// Returns the energy at the start of a run.
    pub(super) fn initial_energy(&self) -> Energy {
        let parts = self.server.power.base.parts();
        let parts = parts.map(|(component, _)| (component.name(), Joules::ZERO));
        Energy::new(Joules::ZERO, parts, Provenance::EMULATED)
    }

    pub(super) fn last_energy(&self) -> Energy {
        self.energy_account().energy().clone()
    }

    pub(super) fn energy_account(&self) -> MutexGuard<'_, EnergyAccount> {
        self.energy_account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
