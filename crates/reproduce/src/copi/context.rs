//! Verdicts on claims of Co-PI that no figure checks.

use crate::step::Context;
use wattline_report::Verdict::{Data, FigureLost, NotTestable};

const MACHINE: &str = "the paper's set-up, kept in crates/server/servers/xeon-silver-4108.toml";
const SETUP: &str = "the paper's set-up; a simulation has none of it";

pub(crate) const CONTEXT: &[Context] = &[
    ("CP-002", NotTestable, "a motive, cited from elsewhere"),
    ("CP-013", NotTestable, "a property of the card; the model has one queue per core"),
    ("CP-020", FigureLost, "Table 1's contents are not in the text"),
    ("CP-023", NotTestable, "a definition; reports have P95"),
    ("CP-024", Data, MACHINE),
    ("CP-025", NotTestable, SETUP),
    ("CP-026", Data, MACHINE),
    ("CP-028", Data, MACHINE),
    ("CP-029", NotTestable, "the simulated energy has the package's scope, and is modelled"),
    ("CP-033", NotTestable, "a setting: the sweep of Figure 3 uses it, 41 values of ITR"),
    ("CP-050", NotTestable, "a remark on processors in general"),
    ("CP-086", NotTestable, "related work"),
    ("CP-087", NotTestable, "related work; of the policies named none is compared here"),
];
