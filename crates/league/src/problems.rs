//! Problems of a league file, collected so that all are reported at once.

use crate::error::LeagueError;
use std::fmt::Display;

/// The distinct problems found so far, each with its field.
#[derive(Debug)]
pub(crate) struct Problems<'a> {
    /// Name of the file.
    name: &'a str,
    noted: Vec<String>,
}

impl<'a> Problems<'a> {
    /// Creates an empty list for the file of this name.
    pub fn new(name: &'a str) -> Self {
        Self { name, noted: Vec::new() }
    }

    /// Notes a problem of a field unless it is already noted.
    pub fn note(&mut self, field: &str, problem: impl Display) {
        let problem = format!("{}: {field}: {problem}", self.name);
        if !self.noted.contains(&problem) {
            self.noted.push(problem);
        }
    }

    /// Returns the value, or notes the problem.
    pub fn keep<T>(&mut self, field: &str, result: Result<T, impl Display>) -> Option<T> {
        result.map_err(|problem| self.note(field, problem)).ok()
    }

    /// Returns the values of a list and notes its problems.
    pub fn keep_all<T, E: Display>(
        &mut self,
        field: &str,
        results: impl Iterator<Item = Result<T, E>>,
    ) -> Vec<T> {
        results.filter_map(|result| self.keep(field, result)).collect()
    }

    /// Returns an error if a problem was noted.
    pub fn check(&self) -> Result<(), LeagueError> {
        if self.noted.is_empty() { Ok(()) } else { Err(LeagueError::Plan(self.noted.clone())) }
    }
}
