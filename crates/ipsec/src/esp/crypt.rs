//! The cryptography of a batch of packets.
//!
//! A program with the feature `ipsec-mb` leaves it to Intel's multi-buffer library, which takes many
//! packets at once ([`super::side_by_side`]). Every packet is then as AWS-LC would have made it.

use super::job::Job;
#[cfg(feature = "ipsec-mb")]
use super::side_by_side::SideBySide;
use wattline_dataplane::frame::ChunkMemory;

/// Name and version of the library that does it on this machine.
pub fn library() -> String {
    #[cfg(feature = "ipsec-mb")]
    if SideBySide::new().is_some() {
        return format!("ipsec-mb {}", crate::multibuffer::version());
    }
    "AWS-LC".to_owned()
}

/// The cryptography of one node.
pub(super) struct Crypt {
    /// `None` where this machine cannot use the library.
    #[cfg(feature = "ipsec-mb")]
    library: Option<SideBySide>,
}

impl Crypt {
    /// Sets the library up.
    pub fn new() -> Self {
        Self {
            #[cfg(feature = "ipsec-mb")]
            library: SideBySide::new(),
        }
    }

    /// Seals all packets.
    pub fn seal(&mut self, memory: &mut ChunkMemory, jobs: &mut [Option<Job<'_>>]) {
        #[cfg(feature = "ipsec-mb")]
        if let Some(library) = &mut self.library {
            return library.seal(memory, jobs);
        }
        jobs.iter_mut().flatten().for_each(|job| job.seal(memory));
    }

    /// Opens all packets.
    pub fn open(&mut self, memory: &mut ChunkMemory, jobs: &mut [Option<Job<'_>>]) {
        #[cfg(feature = "ipsec-mb")]
        if let Some(library) = &mut self.library {
            return library.open(memory, jobs);
        }
        jobs.iter_mut().flatten().for_each(|job| job.open(memory));
    }
}
