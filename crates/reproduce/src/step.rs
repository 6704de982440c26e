//! Steps of a reproduction.

use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::own::OwnTraffic;

/// One step of a reproduction.
pub(crate) struct Step {
    /// Name shown while the step runs.
    pub(crate) name: &'static str,
    /// Ids of the step's figures, in their order.
    pub(crate) figures: &'static [&'static str],
    /// Function that makes the figures.
    pub(crate) run: Run,
    /// Function that makes them from the reader's own traffic, if they have traffic.
    pub(crate) own: Option<OwnRun>,
}

pub(crate) type Run = fn(&Inputs) -> Result<Vec<Figure>, ReproduceError>;
pub(crate) type OwnRun = fn(&Inputs, &OwnTraffic) -> Result<Vec<Figure>, ReproduceError>;

impl Step {
    /// Creates a step with this name that makes figures with these ids.
    pub(crate) const fn new(
        name: &'static str,
        figures: &'static [&'static str],
        run: Run,
    ) -> Self {
        Self { name, figures, run, own: None }
    }

    /// Adds a function that makes the figures from the reader's own traffic.
    pub(crate) const fn own(self, run: OwnRun) -> Self {
        Self { own: Some(run), ..self }
    }
}
