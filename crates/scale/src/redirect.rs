//! Who rewrites indirection tables.

use super::card::Card;
use super::order::Order;
use std::sync::Arc;
use wattline_policy::CoreSet;
use wattline_units::Time;

/// Writer of the indirection tables that spread packets over the workers.
pub trait Redirect: Send {
    /// Sends what arrives after `now` to these cores, in shares by their weights (by number of the
    /// core); says how many entries moved.
    ///
    /// # Errors
    /// Why nothing was changed.
    fn redirect(&mut self, now: Time, active: CoreSet, weights: &[u8]) -> Result<u64, String>;

    /// Does what [`Self::redirect`] has put off, if it can now; says how many entries moved.
    ///
    /// # Errors
    /// Why not.
    fn go_on(&mut self) -> Result<u64, String> {
        Ok(0)
    }

    /// Whether packets are counted by the entry that they came by ([`Self::entries`]).
    fn counts_entries(&self) -> bool {
        false
    }

    /// Packets that arrived by each entry up to `now`, port after port; empty where nobody counts.
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
