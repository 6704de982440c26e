//! A harness of `bench/peers` as a running program: a line in, a line of JSON out, so that what
//! it measures can be interleaved with what is measured here.

use serde::Deserialize;
use std::io::{BufRead, BufReader, Error, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The running harness; ended when dropped.
#[derive(Debug)]
pub struct Harness {
    /// Its program.
    pub program: PathBuf,
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Harness {
    /// Starts the program. It may have a first line to say: [`Self::answer`].
    ///
    /// # Errors
    /// When it cannot be started.
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

    /// Asks it something.
    ///
    /// # Errors
    /// When it does not answer as it should.
    pub fn ask<T: for<'a> Deserialize<'a>>(&mut self, question: &str) -> Result<T, Error> {
        self.questions.write_all(format!("{question}\n").as_bytes())?;
        self.answer()
    }

    /// Waits for its next line.
    ///
    /// # Errors
    /// When that is not what it should be.
    pub fn answer<T: for<'a> Deserialize<'a>>(&mut self) -> Result<T, Error> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        // It may be gone already; there is nothing to do about an error here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_to_and_fro_and_a_silent_program_is_an_error() {
        let mut echo = Harness::start(Path::new("cat"), &[]).unwrap();
        assert_eq!(echo.ask::<Vec<u32>>("[1, 2]").unwrap(), [1, 2]);
        assert!(echo.ask::<u32>("{").is_err());
        let mut silent = Harness::start(Path::new("true"), &[]).unwrap();
        assert!(silent.answer::<u32>().is_err());
        assert!(Harness::start(Path::new("/nonexistent/program"), &[]).is_err());
    }
}
