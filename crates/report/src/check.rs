//! Comparison of a computed figure with a published one, and the verdict.

use crate::table::number;
use serde::Serialize;

/// Verdict on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The computed figure is within the tolerance.
    Meets,
    /// The figure is within the tolerance, but rests on a fitted or assumed value: no confirmation.
    Fitted,
    /// The figure is outside the tolerance, and the check says why.
    Differs,
    /// The paper's own figures contradict each other.
    PaperContradictsItself,
    /// The figure or number is missing from the surviving text.
    FigureLost,
    /// A printed figure that is kept as data and used as input. Only a new measurement on the
    /// paper's machine could confirm or refute it.
    Data,
    /// A description, a motive or a setting, which no model can confirm or refute.
    NotTestable,
}

impl Verdict {
    /// All verdicts, best first.
    pub const ALL: [Self; 7] = [
        Self::Meets,
        Self::Fitted,
        Self::Differs,
        Self::PaperContradictsItself,
        Self::FigureLost,
        Self::Data,
        Self::NotTestable,
    ];

    /// Text of the verdict on the page.
    pub fn text(self) -> &'static str {
        match self {
            Self::Meets => "meets",
            Self::Fitted => "fitted",
            Self::Differs => "differs",
            Self::PaperContradictsItself => "paper contradicts itself",
            Self::FigureLost => "figure lost",
            Self::Data => "data",
            Self::NotTestable => "not testable",
        }
    }
}

/// Origin of a computed figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grounds {
    /// The packet simulator.
    Simulated,
    /// Real packets through emulated cores.
    Emulated,
    /// Real packets, timed on the machine named in the note.
    Measured,
    /// The equations of the model.
    Equation,
    /// A parameter of the server file.
    Parameter,
    /// The program itself: a default, a list, a rule.
    Program,
    /// The cells of the paper's own tables.
    Tables,
    /// The cache simulator.
    Caches,
}

/// A computed figure compared with the paper's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// Rows of `claims.csv` that the check answers.
    pub claims: Vec<&'static str>,
    /// Compared quantity with its unit.
    pub quantity: String,
    /// Computed value.
    pub ours: String,
    /// Value printed in the paper.
    pub published: String,
    /// Allowed difference.
    pub tolerance: String,
    /// Origin of the computed value.
    pub grounds: Grounds,
    /// Verdict of the comparison.
    pub verdict: Verdict,
    /// Reason for a difference, or other remarks.
    pub note: String,
}

impl Check {
    fn new(
        claims: &[&'static str],
        quantity: &str,
        [ours, published, tolerance]: [String; 3],
        met: bool,
    ) -> Self {
        Self {
            claims: claims.to_vec(),
            quantity: quantity.to_owned(),
            ours,
            published,
            tolerance,
            grounds: Grounds::Simulated,
            verdict: if met { Verdict::Meets } else { Verdict::Differs },
            note: String::new(),
        }
    }

    /// Checks that `ours` is within `tolerance` of the published value.
    pub fn near(
        claims: &[&'static str],
        quantity: &str,
        ours: f64,
        published: f64,
        tolerance: f64,
    ) -> Self {
        let texts = [number(ours), number(published), format!("± {}", number(tolerance))];
        Self::new(claims, quantity, texts, (ours - published).abs() <= tolerance)
    }

    /// Checks that `ours` lies within the published range, extended by `tolerance`.
    pub fn within(
        claims: &[&'static str],
        quantity: &str,
        ours: f64,
        (low, high): (f64, f64),
        tolerance: f64,
    ) -> Self {
        let published = format!("{} to {}", number(low), number(high));
        let texts = [number(ours), published, format!("± {}", number(tolerance))];
        Self::new(claims, quantity, texts, (low - tolerance..=high + tolerance).contains(&ours))
    }

    /// Checks that `ours` is above a published bound.
    pub fn above(claims: &[&'static str], quantity: &str, ours: f64, bound: f64) -> Self {
        let texts = [number(ours), format!("> {}", number(bound)), String::new()];
        Self::new(claims, quantity, texts, ours > bound)
    }

    /// Checks that `ours` is below a published bound.
    pub fn below(claims: &[&'static str], quantity: &str, ours: f64, bound: f64) -> Self {
        let texts = [number(ours), format!("< {}", number(bound)), String::new()];
        Self::new(claims, quantity, texts, ours < bound)
    }

    /// Checks that a statement holds.
    pub fn holds(
        claims: &[&'static str],
        quantity: &str,
        holds: bool,
        ours: impl Into<String>,
        published: &str,
    ) -> Self {
        Self::new(claims, quantity, [ours.into(), published.to_owned(), String::new()], holds)
    }

    /// Sets another origin than the simulator.
    #[must_use]
    pub fn on(mut self, grounds: Grounds) -> Self {
        self.grounds = grounds;
        self
    }

    /// Adds a remark, and the reason if the check differs.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Sets the tolerance to be shown, if the comparison uses a slightly larger one.
    #[must_use]
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = format!("± {}", number(tolerance));
        self
    }

    /// Adds the date on which the tolerance was set, and its reason.
    #[must_use]
    pub fn planned(mut self, date: &str, why: &str) -> Self {
        let bounds = if self.tolerance.is_empty() { "" } else { "; " };
        self.tolerance = format!("{}{bounds}{why} (set {date})", self.tolerance);
        self
    }

    /// Marks the value as fitted or assumed, so that the best verdict is "fitted".
    #[must_use]
    pub fn fitted(mut self, what: impl Into<String>) -> Self {
        if self.verdict == Verdict::Meets {
            self.verdict = Verdict::Fitted;
        }
        let what = what.into();
        self.note = if self.note.is_empty() { what } else { format!("{}; {what}", self.note) };
        self
    }

    /// Sets the verdict to a contradiction within the paper, whatever the computed value.
    #[must_use]
    pub fn contradiction(mut self, why: impl Into<String>) -> Self {
        self.verdict = Verdict::PaperContradictsItself;
        self.note = why.into();
        self
    }
}
