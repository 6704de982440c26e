//! Reads TOML files written by people: reports all problems at once, and every figure's origin.

mod document;
mod figure;
mod nearest;
mod number;
mod problem;
mod section;

pub(crate) use document::Document;
pub use figure::{Figure, FigureValue, Origin};
pub use nearest::nearest;
pub use problem::{Incomplete, InvalidFile, LoadError, Problem, ProblemKind};
pub(crate) use section::Section;
