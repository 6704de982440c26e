//! Database of SAs and policies for the workers: published as a whole, read without locks.

use super::association::{Inbound, Outbound};
use super::policy::{Policies, Policy};
use arc_swap::{ArcSwap, Cache};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Contents of the database at one time.
#[derive(Default)]
pub struct Contents {
    /// Sending SAs by number of the tunnel; `None` if there is none now, so that nothing may be
    /// sent.
    pub outbound: Vec<Option<Arc<Outbound>>>,
    /// Receiving SAs, in any order.
    pub inbound: Vec<Arc<Inbound>>,
    /// Policies in the order in which they apply.
    pub policies: Vec<Policy>,
    /// Whether ESP packets to this machine with an unknown SPI are left to the kernel, which may
    /// have the SA.
    pub kernel_has_more: bool,
    /// Addresses of this machine at which ESP packets end, in addition to those of the SAs.
    pub addresses: Vec<IpAddr>,
}

/// The contents in the form that workers use.
#[derive(Default)]
pub(super) struct Database {
    pub outbound: Vec<Option<Arc<Outbound>>>,
    inbound: HashMap<u32, Vec<Arc<Inbound>>, BuildHasherDefault<SpiHasher>>,
    addresses: HashSet<IpAddr>,
    pub ipv4: Policies,
    pub ipv6: Policies,
    pub kernel_has_more: bool,
}

impl Database {
    /// Receiving SA of a packet.
    #[inline]
    pub fn inbound(&self, spi: u32, local: IpAddr) -> Option<&Arc<Inbound>> {
        self.inbound.get(&spi)?.iter().find(|association| association.common.local == local)
    }

    /// Whether ESP packets to this address end here.
    pub fn ends_here(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }
}

/// The control plane's handle for publishing the database.
#[derive(Clone, Default)]
pub struct Publisher {
    database: Arc<ArcSwap<Database>>,
    generation: Arc<AtomicU64>,
}

/// A worker's view of the database.
pub(super) type Reader = Cache<Arc<ArcSwap<Database>>, Arc<Database>>;

impl Publisher {
    /// A publisher with an empty database.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the whole database. Workers see the new one with their next batch.
    pub fn publish(&self, contents: Contents) {
        let generation = self.generation.fetch_add(1, Ordering::Relaxed) + 1;
        let mut inbound: HashMap<u32, Vec<Arc<Inbound>>, _> = HashMap::default();
        let mut addresses: HashSet<IpAddr> = contents.addresses.into_iter().collect();
        for association in contents.inbound {
            addresses.insert(association.common.local);
            inbound.entry(association.common.spi).or_default().push(association);
        }
        self.database.store(Arc::new(Database {
            outbound: contents.outbound,
            inbound,
            addresses,
            ipv4: Policies::new(&contents.policies, true, generation),
            ipv6: Policies::new(&contents.policies, false, generation),
            kernel_has_more: contents.kernel_has_more,
        }));
    }

    pub(super) fn reader(&self) -> Reader {
        Cache::new(self.database.clone())
    }
}

/// This machine chooses the SPIs, so nobody can make them collide on purpose.
#[derive(Default)]
struct SpiHasher(u64);

impl Hasher for SpiHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32((*byte).into());
        }
    }
    fn write_u32(&mut self, spi: u32) {
        self.0 = (self.0 ^ u64::from(spi)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}
