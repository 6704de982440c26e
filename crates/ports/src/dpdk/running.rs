//! A device of DPDK from its start to its end, shared by its handle and its queues.

use super::ffi;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Numbers of those that there is a [`Running`] for.
static TAKEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A device of DPDK that was started, or is being set up.
#[derive(Debug)]
pub struct Running {
    /// DPDK's number of it.
    pub port: u16,
    /// One for each queue.
    pub pools: Vec<Pool>,
}

/// The buffers of one queue.
#[derive(Debug, Clone, Copy)]
pub struct Pool(pub *mut ffi::Mempool);

// SAFETY: DPDK's pools are made so that several threads may use them (`wl_configure`), and the pointer
// stays valid until the device is closed.
#[allow(unsafe_code)]
unsafe impl Send for Pool {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Pool {}

impl Running {
    /// Takes a device, as long as nobody else has it.
    pub fn take(port: u16) -> Option<Self> {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        // Not a value that would be dropped, and close the device, where there is one already.
        taken.insert(port).then(|| Self { port, pools: Vec::new() })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: nobody else has the device: queues and handle hold this value. Once it is closed, no
        // driver uses the pools.
        #[allow(unsafe_code)]
        unsafe {
            ffi::wl_close(self.port);
            self.pools.iter().for_each(|pool| ffi::wl_free_memory(pool.0));
        }
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.port);
    }
}
