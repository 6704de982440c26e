//! Steps of a reproduction.

use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::own::OwnTraffic;

/// One step of a reproduction.
pub(crate) struct Step {
    /// Name that is shown while the step runs.
    pub(crate) name: &'static str,
    /// Ids of the figures that the step makes, in their order.
    pub(crate) figures: &'static [&'static str],
    /// Function that makes the figures.
    pub(crate) run: Run,
    /// Function that makes them of the reader's own traffic, where they have any.
    pub(crate) own: Option<OwnRun>,
}

pub(crate) type Run = fn(&Inputs) -> Result<Vec<Figure>, ReproduceError>;
pub(crate) type OwnRun = fn(&Inputs, &OwnTraffic) -> Result<Vec<Figure>, ReproduceError>;

impl Step {
    /// A step with this name that makes figures with these ids.
    pub(crate) const fn new(
        name: &'static str,
        figures: &'static [&'static str],
        run: Run,
    ) -> Self {
        Self { name, figures, run, own: None }
    }

    /// The step with a function that makes its figures of the reader's own traffic.
    pub(crate) const fn own(self, run: OwnRun) -> Self {
        Self { own: Some(run), ..self }
    }
}
