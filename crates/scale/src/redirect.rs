//! Who rewrites redirect tables.

use super::card::Card;
use super::order::Order;
use std::sync::Arc;
use wattline_policy::CoreSet;
use wattline_units::Time;

/// Whoever can rewrite the redirect tables that spread packets over the workers.
pub trait Redirect: Send {
    /// Sends what arrives after `now` to these cores; says how many entries moved.
    ///
    /// # Errors
    /// Why nothing was changed.
    fn redirect(&mut self, now: Time, active: CoreSet) -> Result<u64, String>;

    /// Does what [`Self::redirect`] has put off, if it can now; says how many entries moved.
    ///
    /// # Errors
    /// Why not.
    fn go_on(&mut self) -> Result<u64, String> {
        Ok(0)
    }

    /// What keeps flows in order meanwhile.
    fn order(&self) -> Arc<Order>;
}

impl Redirect for Arc<Card> {
    fn redirect(&mut self, now: Time, active: CoreSet) -> Result<u64, String> {
        Ok(Card::redirect(self, now, active))
    }

    fn order(&self) -> Arc<Order> {
        Card::order(self)
    }
}
