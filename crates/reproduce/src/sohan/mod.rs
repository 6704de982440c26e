//! Sohan et al.: ten network cards, idle and under load.
//!
//! The tables are kept as data (`crates/server/servers/components/sohan-2010-nics.toml`), and a test compares
//! every cell with `claims.csv`. Cells are not checks; values computed from cells are.

mod active;
mod idle;
mod known;
mod ports;

use crate::step::Step;

pub(super) const STEPS: &[Step] = &[
    Step::new("sohan: idle power", &["table2", "table3"], idle::figures),
    Step::new("sohan: at work", &["table4", "fig2", "fig3"], active::figures),
    Step::new("sohan: 1G against 10G", &["table5", "fig4"], ports::figures),
];
