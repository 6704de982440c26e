//! Bolla et al.: the form function, the ten equations, gamma, and what remains of the figures.
//!
//! The measurements were shown in figures that are lost; the text preserves a few points. The
//! equations are therefore checked as identities. Fit and validation are checked on synthetic
//! measurements with known parameters. Only the form function is predicted, from NAPI's costs.

mod equations;
mod form;
mod known;
mod measured;
mod napi;
mod simulated;
mod validation;

use crate::step::Step;

pub(super) const STEPS: &[Step] = &[
    Step::new(
        "bolla: platforms and measurements",
        &["fig1-2", "fig3", "fig5", "fig6"],
        measured::figures,
    ),
    Step::new("bolla: form function", &["fig7"], form::figures),
    Step::new("bolla: form function from NAPI", &["napi"], napi::figures),
    Step::new("bolla: equations", &["equations"], equations::figures),
    Step::new("bolla: fit and validation", &["fig8"], validation::figures),
    Step::new("bolla: another router", &["simulated"], simulated::figures),
];
