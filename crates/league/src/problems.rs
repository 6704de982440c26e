//! All that is wrong with a league file, told at once.

use crate::error::LeagueError;
use std::fmt::Display;

/// The problems found so far, each once and with its field.
#[derive(Debug)]
pub(crate) struct Problems<'a> {
    /// Name of the file.
    name: &'a str,
    told: Vec<String>,
}

impl<'a> Problems<'a> {
    /// None yet in the file of this name.
    pub fn new(name: &'a str) -> Self {
        Self { name, told: Vec::new() }
    }

    /// Notes what is wrong with a field, unless that was said before.
    pub fn note(&mut self, field: &str, problem: impl Display) {
        let problem = format!("{}: {field}: {problem}", self.name);
        if !self.told.contains(&problem) {
            self.told.push(problem);
        }
    }

    /// The result, or the problem noted.
    pub fn keep<T>(&mut self, field: &str, result: Result<T, impl Display>) -> Option<T> {
        result.map_err(|problem| self.note(field, problem)).ok()
    }

    /// The results of a list, without those that are problems.
    pub fn keep_all<T, E: Display>(
        &mut self,
        field: &str,
        results: impl Iterator<Item = Result<T, E>>,
    ) -> Vec<T> {
        results.filter_map(|result| self.keep(field, result)).collect()
    }

    /// An error when anything was noted.
    pub fn check(&self) -> Result<(), LeagueError> {
        if self.told.is_empty() { Ok(()) } else { Err(LeagueError::Plan(self.told.clone())) }
    }
}
