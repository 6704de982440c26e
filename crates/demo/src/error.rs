//! Errors of a demonstration.

/// A demonstration that could not be set up or carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The test bed could not be built, or it failed.
    #[error(transparent)]
    Testbed(#[from] wattline_testbed::Error),
    /// A server could not be emulated.
    #[error(transparent)]
    Scale(#[from] wattline_scale::ScaleError),
    /// A server could not be simulated.
    #[error(transparent)]
    Simulation(#[from] wattline_sim::SimError),
    /// The packets of a traffic source cannot be read.
    #[error("traffic: {0}")]
    Traffic(#[from] wattline_traffic::capture::CaptureError),
}
