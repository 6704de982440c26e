//! A running harness of `bench/peers`. It reads a line and answers with a line of JSON, so that its
//! measurements can alternate with Wattline's.

use serde::Deserialize;
use std::io::{BufRead, BufReader, Error, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running harness; stopped when dropped.
#[derive(Debug)]
pub struct Harness {
    /// Path of the program.
    pub program: PathBuf,
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Harness {
    /// Starts the program. If it prints a line at the start, read it with [`Self::answer`].
    ///
    /// # Errors
    /// Fails when the program cannot be started.
    pub fn start(program: &Path, arguments: &[&Path]) -> Result<Self, Error> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(questions), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        };
        let answers = BufReader::new(answers);
        Ok(Self { program: program.to_owned(), child, questions, answers })
    }

    /// Sends one line and reads the answer.
    ///
    /// # Errors
    /// Fails when the harness gives no answer or an unexpected one.
    pub fn ask<T: for<'a> Deserialize<'a>>(&mut self, question: &str) -> Result<T, Error> {
        self.questions.write_all(format!("{question}\n").as_bytes())?;
        self.answer()
    }

    /// Waits for the next line of the harness.
    ///
    /// # Errors
    /// Fails when the line is missing or unexpected.
    pub fn answer<T: for<'a> Deserialize<'a>>(&mut self) -> Result<T, Error> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        // The program may have ended already, so an error here means nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_exchanged_and_a_silent_program_is_an_error() {
        let mut echo = Harness::start(Path::new("cat"), &[]).unwrap();
        assert_eq!(echo.ask::<Vec<u32>>("[1, 2]").unwrap(), [1, 2]);
        assert!(echo.ask::<u32>("{").is_err());
        let mut silent = Harness::start(Path::new("true"), &[]).unwrap();
        assert!(silent.answer::<u32>().is_err());
        assert!(Harness::start(Path::new("/nonexistent/program"), &[]).is_err());
    }
}
