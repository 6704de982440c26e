//! Comparison of a computed figure with a published one, and the verdict.

use crate::table::number;
use serde::{Deserialize, Serialize};

/// Result of a comparison with a published figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The computed figure is within the tolerance.
    Meets,
    /// The figure is outside the tolerance.
    Differs,
    /// The paper's own figures contradict each other.
    PaperContradictsItself,
    /// The figure or number is missing from the surviving text.
    FigureLost,
    /// A description, a motive or a setting, which no model can confirm or refute.
    NotTestable,
}

impl Verdict {
    /// All verdicts, best first.
    pub const ALL: [Self; 5] = [
        Self::Meets,
        Self::Differs,
        Self::PaperContradictsItself,
        Self::FigureLost,
        Self::NotTestable,
    ];

    /// Text of the verdict on the page.
    pub fn text(self) -> &'static str {
        match self {
            Self::Meets => "meets",
            Self::Differs => "differs",
            Self::PaperContradictsItself => "paper contradicts itself",
            Self::FigureLost => "figure lost",
            Self::NotTestable => "not testable",
        }
    }

    /// Meaning of the verdict, in one sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Meets => "The computed figure is within the tolerance.",
            Self::Differs => "The computed figure is outside the tolerance.",
            Self::PaperContradictsItself => "The paper's own figures cannot all hold.",
            Self::FigureLost => "The surviving text lacks the number or curve.",
            Self::NotTestable => {
                "A motive, a description, or a figure that only the paper's machine could confirm."
            }
        }
    }
}

/// Basis of a comparison, which shows if it could have had another result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// A model or measurement whose inputs do not contain the published figure.
    Predicted,
    /// A model with a parameter that was fitted, chosen or assumed with the figure in view.
    Fitted,
    /// An algorithm or equation as printed, run on our own inputs.
    Rule,
    /// A figure computed from other printed figures.
    Arithmetic,
    /// A printed figure that is kept as an input and read back.
    Data,
}

impl Basis {
    /// All bases, from the strongest evidence to none.
    pub const ALL: [Self; 5] =
        [Self::Predicted, Self::Fitted, Self::Rule, Self::Arithmetic, Self::Data];

    /// Text of the basis on the page.
    pub fn text(self) -> &'static str {
        match self {
            Self::Predicted => "predicted",
            Self::Fitted => "fitted",
            Self::Rule => "rule",
            Self::Arithmetic => "arithmetic",
            Self::Data => "data",
        }
    }

    /// Meaning of the basis, in one sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Predicted => {
                "A model or measurement whose inputs do not contain the figure. If it agrees, a \
                 named change of an input makes it differ, and a test applies the change."
            }
            Self::Fitted => "A parameter was fitted, chosen or assumed with the figure in view.",
            Self::Rule => "An algorithm or equation of the paper, implemented as printed.",
            Self::Arithmetic => "Computed from other figures that the paper prints.",
            Self::Data => "A printed figure, kept as an input and read back.",
        }
    }
}

/// Origin of a computed figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grounds {
    /// The packet simulator.
    #[default]
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
    /// Basis of the comparison; `None` if it answers no claim.
    pub basis: Option<Basis>,
    /// Change of an input that gives a predicted check another verdict. Only a check that differs
    /// may lack one.
    pub flip: Option<&'static str>,
    /// Result of the comparison.
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
            basis: None,
            flip: None,
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

    /// Sets an origin other than the simulator.
    #[must_use]
    pub fn on(mut self, grounds: Grounds) -> Self {
        self.grounds = grounds;
        self
    }

    /// Adds the name of the quantity's subject.
    #[must_use]
    pub fn of(mut self, name: &str) -> Self {
        self.quantity = format!("{name}: {}", self.quantity);
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

    /// Sets the basis, unless a weaker one is set.
    #[must_use]
    pub fn basis(mut self, basis: Basis) -> Self {
        self.basis = self.basis.max(Some(basis));
        self
    }

    /// Marks the value as predicted. `flip` is the change of an input that gives the check another
    /// verdict; only a check that differs may be without one.
    #[must_use]
    pub fn predicted(mut self, flip: impl Into<Option<&'static str>>) -> Self {
        self.flip = flip.into();
        self.basis(Basis::Predicted)
    }

    /// Marks the value as fitted or assumed, and adds the reason.
    #[must_use]
    pub fn fitted(self, why: impl Into<String>) -> Self {
        self.also(&why.into()).basis(Basis::Fitted)
    }

    /// Adds a sentence to the remarks.
    fn also(mut self, text: &str) -> Self {
        if !self.note.is_empty() && !text.is_empty() {
            self.note.push_str("; ");
        }
        self.note.push_str(text);
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
