//! Verdicts on claims of Co-PI that no figure checks.

use crate::step::Context;
use wattline_report::Basis::Data;
use wattline_report::Verdict::NotTestable;

const MACHINE: &str = "the paper's set-up, kept in crates/server/servers/xeon-silver-4108.toml";
const SETUP: &str = "the paper's set-up; a simulation has none of it";

pub(crate) const CONTEXT: &[Context] = &[
    ("CP-002", None, NotTestable, "a motive, cited from elsewhere"),
    ("CP-013", None, NotTestable, "a property of the card; the model has one queue per core"),
    ("CP-024", Some(Data), NotTestable, MACHINE),
    ("CP-025", None, NotTestable, SETUP),
    ("CP-026", Some(Data), NotTestable, MACHINE),
    ("CP-028", Some(Data), NotTestable, MACHINE),
    ("CP-086", None, NotTestable, "related work"),
    ("CP-087", None, NotTestable, "related work; of the policies named none is compared here"),
];
