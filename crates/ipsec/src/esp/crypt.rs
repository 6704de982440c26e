//! The cryptography of a batch of packets.
//!
//! If this machine has Intel's multi-buffer library, which takes many packets at once
//! ([`super::side_by_side`]), it is left to that. Every packet is then as AWS-LC would have made it.

use super::job::Job;
use super::side_by_side::SideBySide;
use wattline_dataplane::frame::ChunkMemory;

/// Name and version of the library that does it on this machine.
pub fn library() -> String {
    crate::multibuffer::name().unwrap_or_else(|| "AWS-LC".to_owned())
}

/// The cryptography of one node.
pub(super) struct Crypt {
    /// `None` where this machine does not have the library.
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
