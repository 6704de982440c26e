//! Database of SAs and policies for the workers: published as a whole, read without locks.

use super::association::{Inbound, Outbound};
use super::policy::{Policies, Policy, Selectors, number};
use arc_swap::{ArcSwap, Cache};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Contents of the database at one time.
#[derive(Default)]
pub struct Contents {
    /// Sending SAs by tunnel number; packets to a tunnel with `None` are dropped.
    pub outbound: Vec<Option<Arc<Outbound>>>,
    /// Receiving SAs, in any order.
    pub inbound: Vec<Arc<Inbound>>,
    /// Policies in the order in which they apply.
    pub policies: Vec<Policy>,
    /// True if ESP packets to this machine with an unknown SPI are left to the kernel, which may
    /// have the SA.
    pub kernel_has_more: bool,
    /// Addresses of this machine at which ESP packets end, in addition to those of the SAs.
    pub addresses: Vec<IpAddr>,
}

/// The contents in the form that workers use.
#[derive(Default)]
pub(super) struct Database {
    pub outbound: Vec<Option<Arc<Outbound>>>,
    /// Tunnels over IPv4 that end here.
    pub ends4: Ends,
    /// Tunnels over IPv6.
    pub ends6: Ends,
    pub ipv4: Policies,
    pub ipv6: Policies,
    pub kernel_has_more: bool,
}

/// The receiving SAs and the addresses of tunnels over one IP version.
#[derive(Default)]
pub(super) struct Ends {
    /// By SPI.
    receivers: HashMap<u32, Vec<Receiver>, BuildHasherDefault<NumberHasher>>,
    addresses: HashSet<u128, BuildHasherDefault<NumberHasher>>,
}

/// A receiving SA.
pub(super) struct Receiver {
    pub association: Arc<Inbound>,
    /// Addresses of the inner packets that may come through it.
    pub selectors: Selectors,
    /// Address of the tunnel's end here.
    local: u128,
}

impl Ends {
    /// Returns the receiving SA of a packet to the address `local`.
    #[inline]
    pub fn receiver(&self, spi: u32, local: u128) -> Option<&Receiver> {
        self.receivers.get(&spi)?.iter().find(|receiver| receiver.local == local)
    }

    /// Returns true if ESP packets to this address end here.
    #[inline]
    pub fn are_at(&self, address: u128) -> bool {
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
    /// Makes a publisher with an empty database.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the whole database. Workers see the new one with their next batch.
    pub fn publish(&self, contents: Contents) {
        let generation = self.generation.fetch_add(1, Ordering::Relaxed) + 1;
        let mut ends = [Ends::default(), Ends::default()];
        for address in contents.addresses {
            ends[usize::from(address.is_ipv6())].addresses.insert(number(address));
        }
        for association in contents.inbound {
            let (spi, local) = (association.common.spi, association.common.local);
            let selectors = Selectors::new(&association.selectors);
            let receiver = Receiver { association, selectors, local: number(local) };
            let ends = &mut ends[usize::from(local.is_ipv6())];
            ends.addresses.insert(number(local));
            ends.receivers.entry(spi).or_default().push(receiver);
        }
        let [ends4, ends6] = ends;
        self.database.store(Arc::new(Database {
            outbound: contents.outbound,
            ends4,
            ends6,
            ipv4: Policies::new(&contents.policies, true, generation),
            ipv6: Policies::new(&contents.policies, false, generation),
            kernel_has_more: contents.kernel_has_more,
        }));
    }

    pub(super) fn reader(&self) -> Reader {
        Cache::new(self.database.clone())
    }
}

/// Hasher for SPIs and addresses. The keys are only this machine's own, so a sender cannot make
/// them collide on purpose.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32((*byte).into());
        }
    }
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }
    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
    fn write_u128(&mut self, number: u128) {
        self.write_u64((number >> 64) as u64);
        self.write_u64(number as u64);
    }
}
