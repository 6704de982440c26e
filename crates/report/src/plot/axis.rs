//! Axes of a chart.

/// One axis. The label has the unit, as in `power (W)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Text of the axis.
    pub label: String,
    /// Range from low to high; taken from the data if not given.
    pub range: Option<(f64, f64)>,
    /// True if the axis is logarithmic; it then shows only positive values.
    pub logarithmic: bool,
    /// True if an axis that follows the data begins at zero.
    pub with_zero: bool,
    /// Distance between ticks; a round value if not given.
    pub step: Option<f64>,
}

impl Axis {
    /// Creates a linear axis whose range follows the data.
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), range: None, logarithmic: false, with_zero: false, step: None }
    }
    /// Sets the range.
    #[must_use]
    pub fn range(mut self, from: f64, to: f64) -> Self {
        self.range = Some((from, to));
        self
    }
    /// Makes the axis begin at zero and end by the data.
    #[must_use]
    pub fn from_zero(mut self) -> Self {
        self.with_zero = true;
        self
    }
    /// Sets the distance between ticks, such as six hours.
    #[must_use]
    pub fn ticks_every(mut self, step: f64) -> Self {
        self.step = Some(step);
        self
    }
    /// Makes the axis logarithmic.
    #[must_use]
    pub fn logarithmic(mut self) -> Self {
        self.logarithmic = true;
        self
    }
}
