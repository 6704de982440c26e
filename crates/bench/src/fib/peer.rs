//! DPDK's rte_fib and rte_fib6 in the same run, by the harness in `bench/peers`.

use super::error::Error;
use super::family::Family;
use crate::harness::Harness;
use serde::{Deserialize, Serialize};
use std::io::{BufWriter, Write};
use std::path::Path;

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
pub struct Peer(Harness);

impl Peer {
    /// Starts the harness on a directory of files, and waits until it has loaded them.
    ///
    /// # Errors
    /// When it cannot be started or does not answer as it should.
    pub fn start(program: &Path, directory: &Path) -> Result<(Self, Loads), Error> {
        let error = |source| Error::Peer { program: program.to_owned(), source };
        let mut harness = Harness::start(program, &[directory]).map_err(error)?;
        let loads = harness.answer().map_err(error)?;
        Ok((Self(harness), loads))
    }

    /// Has it look all addresses of a file up once.
    ///
    /// # Errors
    /// When it does not answer as it should.
    pub fn pass(&mut self, family: Family, kind: &str, variant: Variant) -> Result<Pass, Error> {
        let question = format!("{} {kind} {}", family.name(), variant.name());
        let answer = self.0.ask(&question);
        answer.map_err(|source| Error::Peer { program: self.0.program.clone(), source })
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
