//! Replacement of remote meters in a program built without them.

use crate::registration::{Finding, Registration};
use std::convert::Infallible;
use wattline_linux::missing::Missing;

const WHY: &str = "this program was built without the feature remote-meters";

/// A counter that cannot exist.
pub struct Counter(Infallible);

impl Counter {
    /// # Errors
    /// Always.
    pub fn open(_name: &str) -> Result<Self, String> {
        Err(WHY.to_owned())
    }

    /// # Errors
    /// Never: there is none.
    pub fn value(&self) -> Result<f64, String> {
        match self.0 {}
    }
}

/// Names the file of meters that are not read.
pub const KIND: Registration = Registration {
    rows: &[],
    find: |tree, _| {
        let file = "/etc/wattline/meters.toml";
        let missing = tree.exists(file).then(|| Missing::because(file, WHY, "use another build"));
        Finding { missing: missing.into_iter().collect(), ..Finding::default() }
    },
    recorded: &[],
};
