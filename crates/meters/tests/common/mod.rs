//! A copy of a fixture that a test may change.
#![allow(dead_code, reason = "each test file uses a part of it")]

#[path = "../../../knobs/tests/common/fixture.rs"]
mod fixture;

pub use fixture::Fixture;
use std::path::Path;

impl Fixture {
    pub fn copy(name: &str) -> Self {
        Self::from_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name))
    }
}
