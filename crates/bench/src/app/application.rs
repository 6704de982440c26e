//! The interface between the benchmark and an application that it measures.

use super::args::Args;
use super::report::Cost;
use crate::memory_router::{Error, Traffic};
use wattline_dataplane::feature::Feature;
use wattline_dataplane::tap::slots::TapSlots;

/// An application under measurement; it runs in one worker, without a control thread.
pub trait Application {
    /// Name of the application in the report; for IPsec it includes the direction.
    fn name(&self) -> &'static str;

    /// Graph nodes of the application; called once.
    fn features(&mut self) -> Vec<Feature>;

    /// Starts a capture or trace on the worker, whose memory has this many chunks; called once.
    ///
    /// # Errors
    /// Fails when the filter of the capture is invalid.
    fn watch(&mut self, slots: &TapSlots, chunks: u32) -> Result<(), Error> {
        let _ = (slots, chunks);
        Ok(())
    }

    /// Converts the packets of plain forwarding into the packets that this application receives.
    fn traffic(&mut self, packets: Box<dyn Traffic>) -> Box<dyn Traffic> {
        packets
    }

    /// Called after each repeat, outside the timed part, for the work of a control thread.
    ///
    /// # Errors
    /// Fails when a measurement that accompanies the application fails.
    fn settle(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Counters of the application for the report; they show that it did its work. `cost` is the
    /// measured cost, so that the application can compare it with a measurement of its own.
    fn counted(&self, cost: &Cost) -> serde_json::Value;
}

/// Creates the applications that are compared with plain forwarding.
pub(super) type Make = fn(&Args) -> Result<Vec<Box<dyn Application>>, Error>;
