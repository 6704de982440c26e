//! What can go wrong in a demonstration.

/// A demonstration that could not be set up or carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its test bed could not be built, or failed.
    #[error(transparent)]
    Testbed(#[from] wattline_testbed::Error),
    /// A server could not be emulated.
    #[error(transparent)]
    Scale(#[from] wattline_scale::ScaleError),
    /// A server could not be simulated.
    #[error(transparent)]
    Simulation(#[from] wattline_sim::SimError),
    /// The packets of a traffic source cannot be had.
    #[error("traffic: {0}")]
    Traffic(#[from] wattline_traffic::capture::CaptureError),
}
