//! What an application has to offer to be measured.

use super::args::Args;
use super::report::Cost;
use crate::memory_router::{Error, Traffic};
use wattline_dataplane::feature::Feature;

/// An application as it is measured: in one worker, without a control thread.
pub trait Application {
    /// Its name in the report; of IPsec, which direction.
    fn name(&self) -> &'static str;

    /// Its part of the graph; called once.
    fn features(&mut self) -> Vec<Feature>;

    /// Makes of the packets that plain forwarding gets those that it is to get.
    fn traffic(&mut self, packets: Box<dyn Traffic>) -> Box<dyn Traffic> {
        packets
    }

    /// Called after each repeat, outside of what is timed: what a control thread would do.
    ///
    /// # Errors
    /// When what is measured beside it fails.
    fn settle(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// What it counted, for the report: it shows that it did its work. `cost` is what came of
    /// the measurement, to be set in relation to what was measured beside it.
    fn counted(&self, cost: &Cost) -> serde_json::Value;
}

/// Makes what is measured beside plain forwarding.
pub(super) type Make = fn(&Args) -> Result<Vec<Box<dyn Application>>, Error>;
