//! What an axis shows.

/// One axis. The label has the unit, as in `power (W)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What it shows.
    pub label: String,
    /// From and to; by the data where not given.
    pub range: Option<(f64, f64)>,
    /// Whether it is logarithmic; only positive values are drawn then.
    pub logarithmic: bool,
    /// Whether an axis by the data begins at zero.
    pub with_zero: bool,
    /// Distance between ticks; a round one where not given.
    pub step: Option<f64>,
}

impl Axis {
    /// A linear axis that fits the data.
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), range: None, logarithmic: false, with_zero: false, step: None }
    }
    /// From and to given.
    #[must_use]
    pub fn range(mut self, from: f64, to: f64) -> Self {
        self.range = Some((from, to));
        self
    }
    /// From zero on, as far as the data goes.
    #[must_use]
    pub fn from_zero(mut self) -> Self {
        self.with_zero = true;
        self
    }
    /// Ticks every so much, such as every six hours.
    #[must_use]
    pub fn ticks_every(mut self, step: f64) -> Self {
        self.step = Some(step);
        self
    }
    /// Logarithmic.
    #[must_use]
    pub fn logarithmic(mut self) -> Self {
        self.logarithmic = true;
        self
    }
}
