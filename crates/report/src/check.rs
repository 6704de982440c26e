//! Ours beside what is published, and what came of it.

use crate::table::number;
use serde::Serialize;

/// What came of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Ours is within the tolerance.
    Meets,
    /// Ours is within the tolerance, by a figure that was fitted or assumed: no confirmation.
    Fitted,
    /// Ours is not, and the check says why.
    Differs,
    /// The paper's own figures cannot all hold.
    PaperContradictsItself,
    /// The figure or number is not in the text that is left.
    FigureLost,
    /// A description, a motive or a setting: nothing that a model could meet or miss.
    NotTestable,
}

impl Verdict {
    /// All of them, the best first.
    pub const ALL: [Self; 6] = [
        Self::Meets,
        Self::Fitted,
        Self::Differs,
        Self::PaperContradictsItself,
        Self::FigureLost,
        Self::NotTestable,
    ];

    /// As the page shows it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Meets => "meets",
            Self::Fitted => "fitted",
            Self::Differs => "differs",
            Self::PaperContradictsItself => "paper contradicts itself",
            Self::FigureLost => "figure lost",
            Self::NotTestable => "not testable",
        }
    }
}

/// What our figure rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grounds {
    /// Packet by packet in the simulator.
    Simulated,
    /// Real packets through emulated cores.
    Emulated,
    /// Real packets, timed on the machine that the note names.
    Measured,
    /// An identity of the model's equations.
    Equation,
    /// A parameter in the server's file.
    Parameter,
    /// The program itself: a default, a list, a rule.
    Program,
    /// Computed from the cells of the paper's own tables.
    Tables,
    /// Access by access in the simulator of caches.
    Caches,
}

/// Ours beside the paper's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// Rows of `claims.csv` that it answers.
    pub claims: Vec<&'static str>,
    /// What is compared, with its unit.
    pub quantity: String,
    /// What we have.
    pub ours: String,
    /// What the paper prints.
    pub published: String,
    /// How far apart they may be.
    pub tolerance: String,
    /// What our figure rests on.
    pub grounds: Grounds,
    /// What came of it.
    pub verdict: Verdict,
    /// Why, where it does not meet; or what else should be known.
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

    /// Ours is to be within `tolerance` of what is published.
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

    /// Ours is to lie in the published range, give or take `tolerance`.
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

    /// Ours is to be above a published bound.
    pub fn above(claims: &[&'static str], quantity: &str, ours: f64, bound: f64) -> Self {
        let texts = [number(ours), format!("> {}", number(bound)), String::new()];
        Self::new(claims, quantity, texts, ours > bound)
    }

    /// Ours is to be below a published bound.
    pub fn below(claims: &[&'static str], quantity: &str, ours: f64, bound: f64) -> Self {
        let texts = [number(ours), format!("< {}", number(bound)), String::new()];
        Self::new(claims, quantity, texts, ours < bound)
    }

    /// A statement that is to hold.
    pub fn holds(
        claims: &[&'static str],
        quantity: &str,
        holds: bool,
        ours: impl Into<String>,
        published: &str,
    ) -> Self {
        Self::new(claims, quantity, [ours.into(), published.to_owned(), String::new()], holds)
    }

    /// Rests on something else than a simulation.
    #[must_use]
    pub fn on(mut self, grounds: Grounds) -> Self {
        self.grounds = grounds;
        self
    }

    /// Adds what should be known, and, where it differs, why.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// The tolerance as it is shown, where the comparison adds a hair to it.
    #[must_use]
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = format!("± {}", number(tolerance));
        self
    }

    /// Says when the tolerance was set, and why it is what it is.
    #[must_use]
    pub fn planned(mut self, date: &str, why: &str) -> Self {
        let bounds = if self.tolerance.is_empty() { "" } else { "; " };
        self.tolerance = format!("{}{bounds}{why} (set {date})", self.tolerance);
        self
    }

    /// Ours rests on something fitted or assumed: where it meets, it only agrees.
    #[must_use]
    pub fn fitted(mut self, what: impl Into<String>) -> Self {
        if self.verdict == Verdict::Meets {
            self.verdict = Verdict::Fitted;
        }
        let what = what.into();
        self.note = if self.note.is_empty() { what } else { format!("{}; {what}", self.note) };
        self
    }

    /// The paper's own figures cannot all hold: whatever ours is, this is the verdict.
    #[must_use]
    pub fn contradiction(mut self, why: impl Into<String>) -> Self {
        self.verdict = Verdict::PaperContradictsItself;
        self.note = why.into();
        self
    }
}
