//! DPDK's rte_fib and rte_fib6 in the same run, by the harness in `bench/peers`.

use super::{Error, Family};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Which of the peer's lookups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Variant {
    /// Without vector instructions.
    Scalar,
    /// Needs a processor that has AVX-512.
    Avx512,
}

impl Variant {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Scalar, Self::Avx512];

    fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx512 => "avx512",
        }
    }
}

/// What the peer says of a table that it has loaded.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Load {
    /// Prefixes that it took.
    pub prefixes: usize,
    /// Prefixes that it refused.
    pub refused: usize,
    /// CPU time of adding them.
    pub build_seconds: f64,
}

/// Both of its tables.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Loads {
    /// The IPv4 table.
    pub ipv4: Load,
    /// The IPv6 table.
    pub ipv6: Load,
}

/// One pass over one file of addresses.
#[derive(Debug, Clone, Deserialize)]
pub struct Pass {
    /// False where the processor lacks what the variant needs.
    pub available: bool,
    /// How many addresses.
    #[serde(default)]
    pub lookups: usize,
    /// CPU time of it.
    #[serde(default)]
    pub seconds: f64,
    /// Sum of all next hops.
    #[serde(default)]
    pub checksum: u64,
}

/// The running harness; ended when dropped.
#[derive(Debug)]
pub struct Peer {
    program: PathBuf,
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts the harness on a directory of files, and waits until it has loaded them.
    ///
    /// # Errors
    /// When it cannot be started or does not answer as it should.
    pub fn start(program: &Path, directory: &Path) -> Result<(Self, Loads), Error> {
        let start_error = |source| Error::Peer { program: program.to_owned(), source };
        let mut child = Command::new(program)
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(start_error)?;
        let (Some(questions), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(start_error(std::io::ErrorKind::BrokenPipe.into()));
        };
        let answers = BufReader::new(answers);
        let mut peer = Self { program: program.to_owned(), child, questions, answers };
        let loads = peer.answer()?;
        Ok((peer, loads))
    }

    /// Has it look all addresses of a file up once.
    ///
    /// # Errors
    /// When it does not answer as it should.
    pub fn pass(&mut self, family: Family, kind: &str, variant: Variant) -> Result<Pass, Error> {
        let question = format!("{} {kind} {}\n", family.name(), variant.name());
        self.questions
            .write_all(question.as_bytes())
            .map_err(|source| Error::Peer { program: self.program.clone(), source })?;
        self.answer()
    }

    fn answer<T: for<'a> Deserialize<'a>>(&mut self) -> Result<T, Error> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        read.and_then(|_| Ok(serde_json::from_str(&line)?))
            .map_err(|source| Error::Peer { program: self.program.clone(), source })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may be gone already; there is nothing to do about an error here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a file of the directory that the harness reads.
pub fn write_file(
    directory: &Path,
    name: &str,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), Error> {
    let path = directory.join(name);
    std::fs::File::create(&path)
        .and_then(|file| {
            let mut file = BufWriter::new(file);
            write(&mut file)?;
            file.flush()
        })
        .map_err(|source| Error::Write { path, source })
}
