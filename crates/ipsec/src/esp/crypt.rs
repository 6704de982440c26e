//! The cryptography of a batch of packets.
//!
//! Intel's multi-buffer library, which processes many packets at once, is used if this machine has
//! it ([`super::side_by_side`]). The packets are the same as those of AWS-LC.

use super::job::Job;
use super::side_by_side::SideBySide;
use wattline_dataplane::frame::ChunkMemory;

/// Returns the name and version of the cryptographic library in use.
pub fn library() -> String {
    crate::multibuffer::name().unwrap_or_else(|| "AWS-LC".to_owned())
}

/// The cryptography of one node.
pub(super) struct Crypt {
    /// The library; `None` if this machine does not have it.
    library: Option<SideBySide>,
}

impl Crypt {
    /// Sets the library up.
    pub fn new() -> Self {
        Self { library: SideBySide::new() }
    }

    /// Seals all packets.
    pub fn seal(&mut self, memory: &mut ChunkMemory, jobs: &mut [Option<Job<'_>>]) {
        match &mut self.library {
            Some(library) => library.seal(memory, jobs),
            None => jobs.iter_mut().flatten().for_each(|job| job.seal(memory)),
        }
    }

    /// Opens all packets.
    pub fn open(&mut self, memory: &mut ChunkMemory, jobs: &mut [Option<Job<'_>>]) {
        match &mut self.library {
            Some(library) => library.open(memory, jobs),
            None => jobs.iter_mut().flatten().for_each(|job| job.open(memory)),
        }
    }
}
