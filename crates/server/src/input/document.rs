//! A parsed file, its problems and its figures.

use super::{Figure, InvalidFile, Origin, Problem, ProblemKind, Section};
use std::cell::{Cell, RefCell};
use toml::de::DeTable;

/// A parsed file with the problems and figures found so far.
pub(crate) struct Document<'d> {
    file: &'d str,
    pub(super) text: &'d str,
    root: DeTable<'d>,
    pub(super) problems: RefCell<Vec<Problem>>,
    pub(super) figures: RefCell<Vec<Figure>>,
    pub(super) default_origin: Cell<Origin>,
}

impl<'d> Document<'d> {
    /// Parses the text of a file; syntax errors are kept as problems.
    pub(crate) fn parse(file: &'d str, text: &'d str) -> Self {
        let (root, errors) = DeTable::parse_recoverable(text);
        let document = Self {
            file,
            text,
            root: root.into_inner(),
            problems: RefCell::default(),
            figures: RefCell::default(),
            default_origin: Cell::new(Origin::User),
        };
        for error in errors {
            document.problems.borrow_mut().push(Problem {
                line: error.span().map(|span| document.line_of(span.start)),
                field: String::new(),
                value: None,
                kind: ProblemKind::Syntax(error.message().to_string()),
            });
        }
        document
    }

    /// Reads the top level with `read`; unknown keys become problems.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Section<'_, 'd>) -> Option<T>) -> Option<T> {
        let section = Section::root(self, &self.root);
        let value = read(&section);
        section.report_unknown_keys();
        value
    }

    /// Sets the origin of figures that do not name one.
    pub(crate) fn set_default_origin(&self, origin: Origin) {
        self.default_origin.set(origin);
    }

    /// Returns the figures, or all problems in the order of their lines.
    pub(crate) fn finish(self) -> Result<Vec<Figure>, InvalidFile> {
        let mut problems = self.problems.into_inner();
        if problems.is_empty() {
            return Ok(self.figures.into_inner());
        }
        problems.sort_by_key(|problem| problem.line);
        let is_syntax = |problem: &Problem| matches!(problem.kind, ProblemKind::Syntax(_));
        if problems.iter().any(is_syntax) {
            // After a syntax error, the rest of the file is not parsed reliably.
            problems.retain(is_syntax);
            problems.dedup_by_key(|problem| problem.line);
        }
        Err(InvalidFile { file: self.file.to_string(), problems })
    }

    /// Returns the line number of a byte of the text, from 1.
    pub(super) fn line_of(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
    }
}
