//! Reads TOML files written by people: reports all problems at once, and every figure's origin.

#[cfg(feature = "laboratory")]
pub(crate) mod columns;
mod document;
mod figure;
mod nearest;
mod number;
mod problem;
mod section;

pub(crate) use document::Document;
pub use figure::{Figure, FigureValue, Origin};
pub(crate) use nearest::nearest;
pub use problem::{Incomplete, InvalidFile, LoadError, Problem, ProblemKind};
pub(crate) use section::Section;
