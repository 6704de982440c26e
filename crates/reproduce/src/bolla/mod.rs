//! Bolla et al.: the form function, the ten equations, gamma, and what remains of the figures.
//!
//! The measurements were shown in figures that are lost; the text preserves a few points. The
//! equations are therefore checked as identities. Fit and validation are checked on synthetic
//! measurements with known parameters.

mod equations;
mod form;
mod known;
mod measured;
mod simulated;
mod validation;

use crate::step::{Context, Step};
use wattline_report::Verdict::{FigureLost, NotTestable, PaperContradictsItself};

pub(super) const STEPS: &[Step] = &[
    Step::new(
        "bolla: platforms and measurements",
        &["fig1-2", "fig3", "fig5", "fig6"],
        measured::figures,
    ),
    Step::new("bolla: form function", &["fig7"], form::figures),
    Step::new("bolla: equations", &["equations"], equations::figures),
    Step::new("bolla: fit and validation", &["fig8"], validation::figures),
    Step::new("bolla: another router", &["simulated"], simulated::figures),
];

const MOTIVE: &str = "a motive of the paper, about other networks";
const SOFTWARE: &str = "about threads, memory and locks, of which a simulation in virtual time has none; the \
                        workers of crates/dataplane share neither sockets nor buffers, and its tests run them";

pub(super) const CONTEXT: &[Context] = &[
    ("BO-001", None, NotTestable, MOTIVE),
    ("BO-002", None, NotTestable, MOTIVE),
    ("BO-003", None, NotTestable, MOTIVE),
    ("BO-004", None, NotTestable, MOTIVE),
    ("BO-005", None, NotTestable, "a requirement on network cards; `wattline probe` looks for it"),
    ("BO-006", None, NotTestable, SOFTWARE),
    ("BO-007", None, NotTestable, SOFTWARE),
    ("BO-009", None, NotTestable, SOFTWARE),
    ("BO-010", None, NotTestable, "a description of ACPI"),
    (
        "BO-014",
        None,
        PaperContradictsItself,
        "prints the idle states as \"Ci, with i>1\"; C1 is one too (section III)",
    ),
    (
        "BO-015",
        None,
        PaperContradictsItself,
        "section IV says that a higher frequency has a larger P index, section III the reverse",
    ),
    ("BO-016", None, NotTestable, "the paper's measuring method; its results were in Figure 2"),
    ("BO-017", None, NotTestable, "the paper's measuring method; its results were in Figure 1"),
    ("BO-018", None, NotTestable, "the paper's measuring method; its results were in Figure 1"),
    (
        "BO-041",
        None,
        FigureLost,
        "more than 150 W (printed as Wh) is all that the text says; Figures 1 and 2 are lost",
    ),
    (
        "BO-042",
        None,
        FigureLost,
        "about 1.5 Mpkt/s is kept in crates/server/servers/bolla-a.toml; Figure 1 is lost",
    ),
    ("BO-043", None, FigureLost, "30 to 50 W (printed as Wh); Figures 1 and 2 are lost"),
    ("BO-044", None, FigureLost, "the order cannot be checked without Figures 1 and 2"),
    ("BO-046", None, NotTestable, "a choice of the model: `base` is counted once in ours"),
    (
        "BO-047",
        None,
        NotTestable,
        "the paper's measuring method; its results were in Figures 3 to 5",
    ),
    ("BO-051", None, NotTestable, "the paper's measuring method; its results were in Figure 6"),
    (
        "BO-056",
        None,
        PaperContradictsItself,
        "section V.A refers to Figure 6 for the normalised curve, which is Figure 7",
    ),
    (
        "BO-084",
        None,
        FigureLost,
        "the errors by platform were in Figure 8; ours are of synthetic measurements",
    ),
    ("BO-076", None, NotTestable, "a user's source of the parameters"),
];
