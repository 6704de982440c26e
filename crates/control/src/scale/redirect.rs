//! Who rewrites redirect tables.

use super::card::Card;
use super::handover::Handover;
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

    /// Where it says which entries moved, before a packet can follow them.
    fn handover(&self) -> Arc<Handover>;
}

impl Redirect for Arc<Card> {
    fn redirect(&mut self, now: Time, active: CoreSet) -> Result<u64, String> {
        Ok(Card::redirect(self, now, active))
    }

    fn handover(&self) -> Arc<Handover> {
        Card::handover(self)
    }
}
