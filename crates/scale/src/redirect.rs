//! Writers of indirection tables.

use super::card::Card;
use super::order::Order;
use std::sync::Arc;
use wattline_policy::CoreSet;
use wattline_units::Time;

/// Writer of the indirection tables that spread packets over the workers.
pub trait Redirect: Send {
    /// Sends arrivals after `now` to these cores, in shares by their weights (by number of the
    /// core). Returns the number of moved entries.
    ///
    /// # Errors
    /// Returns the reason why nothing was changed.
    fn redirect(&mut self, now: Time, active: CoreSet, weights: &[u8]) -> Result<u64, String>;

    /// Performs the deferred part of [`Self::redirect`], if possible now. Returns the number of
    /// moved entries.
    ///
    /// # Errors
    /// Returns the reason of the failure.
    fn resume(&mut self) -> Result<u64, String> {
        Ok(0)
    }

    /// Returns true if packets are counted by the entry that steered them ([`Self::entries`]).
    fn counts_entries(&self) -> bool {
        false
    }

    /// Returns the packets that arrived by each entry up to `now`, port after port; empty if they
    /// are not counted.
    fn entries(&mut self, _now: Time, counts: &mut Vec<u64>) {
        counts.clear();
    }

    /// Returns the mechanism that keeps flows in order meanwhile.
    fn order(&self) -> Arc<Order>;
}

impl Redirect for Arc<Card> {
    fn redirect(&mut self, now: Time, active: CoreSet, weights: &[u8]) -> Result<u64, String> {
        Ok(Card::redirect(self, now, active, weights))
    }

    fn counts_entries(&self) -> bool {
        true
    }

    fn entries(&mut self, now: Time, counts: &mut Vec<u64>) {
        Card::entries(self, now, counts);
    }

    fn order(&self) -> Arc<Order> {
        Card::order(self)
    }
}
