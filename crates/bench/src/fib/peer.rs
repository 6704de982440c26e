//! A peer in the same run, through a harness in `bench/peers`: DPDK's rte_fib and rte_fib6, or PlanB.

use super::error::Error;
use crate::harness::Harness;
use serde::{Deserialize, Serialize};
use std::io::{BufWriter, Write};
use std::path::Path;
use wattline_packet::Family;
use wattline_units::named;

named! {
    /// Lookup variant of the peer.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Variant {
        /// Without vector instructions.
        Scalar = "scalar",
        /// With AVX-512 instructions; needs a processor that has them.
        Avx512 = "avx512",
    }
}

impl Variant {
    /// Returns the variant in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx512 => "AVX-512",
        }
    }
}

/// The peer's report on loading one table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Load {
    /// Number of prefixes that the table accepted.
    pub prefixes: usize,
    /// Number of prefixes that the table refused.
    pub refused: usize,
    /// CPU time of adding the prefixes, in seconds.
    pub build_seconds: f64,
}

/// Reports on both tables of the peer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Loads {
    /// Name of the peer, as its harness gives it.
    #[serde(default = "dpdk")]
    pub name: String,
    /// Report on the IPv4 table.
    pub ipv4: Load,
    /// Report on the IPv6 table.
    pub ipv6: Load,
}

fn dpdk() -> String {
    "DPDK".to_owned()
}

/// Result of one pass over one file of addresses.
#[derive(Debug, Clone, Deserialize)]
pub struct Pass {
    /// False if the processor does not support the variant.
    pub available: bool,
    /// Number of addresses.
    #[serde(default)]
    pub lookups: usize,
    /// CPU time of the pass, in seconds.
    #[serde(default)]
    pub seconds: f64,
    /// Sum of all next hops.
    #[serde(default)]
    pub checksum: u64,
}

/// The running harness; it is stopped when dropped.
#[derive(Debug)]
pub struct Peer(Harness);

impl Peer {
    /// Starts the harness with a directory of files and waits until it has loaded them.
    ///
    /// # Errors
    /// Fails when the harness cannot be started or gives an unexpected answer.
    pub fn start(program: &Path, directory: &Path) -> Result<(Self, Loads), Error> {
        let error = |source| Error::Peer { program: program.to_owned(), source };
        let mut harness = Harness::start(program, &[directory]).map_err(error)?;
        let loads = harness.answer().map_err(error)?;
        Ok((Self(harness), loads))
    }

    /// Lets the harness look up all addresses of a file once.
    ///
    /// # Errors
    /// Fails when the harness gives an unexpected answer.
    pub fn pass(&mut self, family: Family, kind: &str, variant: Variant) -> Result<Pass, Error> {
        let question = format!("{} {kind} {}", family.name(), variant.name());
        let answer = self.0.ask(&question);
        answer.map_err(|source| Error::Peer { program: self.0.program.clone(), source })
    }
}

/// Writes a file into the directory that the harness reads.
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
