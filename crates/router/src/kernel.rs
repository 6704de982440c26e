//! The router's communication with the kernel while it runs.

use super::error::RouterError;
use super::inbox::InboxSender;
use super::neighbour_requests::{Batch, NeighbourRequests};
use super::programs::Programs;
use super::xdp_forward::{Egress, obstacles};
use crate::config::Config;
use crate::stats::KernelStats;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};
use wattline_dataplane::flow_hash::{HashPolicy, KernelHash};
use wattline_linux::multipath;
use wattline_linux::netlink::{ChangeFeed, Event};
use wattline_rib::{Rib, Source};
use wattline_xdp::ForwardedByCpu;

/// Interval of confirming neighbours that are about to be forgotten. The kernel keeps a stale
/// neighbour for a minute at least (gc_stale_time).
const CONFIRM_EVERY: Duration = Duration::from_secs(5);

/// Interval of reading settings (sysctl) whose changes the kernel does not announce.
const READ_SETTINGS_EVERY: Duration = Duration::from_secs(5);

/// Longest time for notifications of the kernel before other work gets its turn.
const FOLLOWING: Duration = Duration::from_millis(20);

/// Follows the kernel and asks it for neighbours.
pub(super) struct KernelSide {
    feed: ChangeFeed,
    requests: NeighbourRequests,
    pub programs: Programs,
    next_confirmation: Instant,
    next_settings: Instant,
    is_current: bool,
    /// True if routes, neighbours and addresses are taken over; false for links only.
    routes: bool,
    /// Attributes of routes that are not understood and have been reported.
    not_understood: BTreeSet<String>,
}

/// Returns the counters of frames that XDP programs forward in addition to workers, for a governor.
/// If the interface of any port works without copies, workers forward everything.
pub(super) fn forwarded(
    config: &Config,
    kernel: Option<&KernelSide>,
    zero_copy: bool,
) -> Vec<Option<ForwardedByCpu>> {
    let by_xdp = obstacles(config, zero_copy).is_empty();
    let programs = kernel.filter(|_| by_xdp);
    programs.map(|kernel| kernel.programs.forwarded(config.ports.len())).unwrap_or_default()
}

impl KernelSide {
    /// Begins to follow the kernel, its routes only if `routes` is true. With `clamps_mss`, workers
    /// see the packets that begin TCP connections.
    ///
    /// # Errors
    /// When the process has no more descriptors.
    pub fn new(
        routes: bool,
        egress: Egress,
        flows: bool,
        clamps_mss: bool,
    ) -> Result<Self, RouterError> {
        let failed = |source| RouterError::system("opening a netlink socket", source);
        Ok(Self {
            feed: ChangeFeed::new().map_err(failed)?,
            requests: NeighbourRequests::new().map_err(failed)?,
            programs: Programs::new(egress, flows, clamps_mss),
            next_confirmation: Instant::now() + CONFIRM_EVERY,
            next_settings: Instant::now(),
            is_current: false,
            routes,
            not_understood: BTreeSet::new(),
        })
    }

    /// Returns the descriptor that reports changes.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.feed.descriptor()
    }

    /// Returns the time by which [`Self::catch_up`] has to be called.
    pub fn deadline(&self) -> Instant {
        let due = self.next_confirmation.min(self.next_settings);
        self.feed.deadline().map_or(due, |of_feed| of_feed.min(due))
    }

    /// Takes over changes, as long as other work can wait, and asks for missing neighbours.
    pub fn catch_up(&mut self, rib: &mut Rib, inbox_sender: &InboxSender) {
        let now = Instant::now();
        loop {
            match self.follow(rib, now) {
                // The changes so far go to the workers before more are read.
                Ok(more) => {
                    if !more || rib.has_changes() {
                        break;
                    }
                    // For instance, a table is read again and contains no change.
                    if now.elapsed() > FOLLOWING {
                        inbox_sender.wake();
                        break;
                    }
                }
                Err(error) => {
                    tracing::error!("{error}; the router continues with the routes that it knows");
                    break;
                }
            }
        }
        self.refresh_neighbours(rib, now);
    }

    /// Takes over changes; returns true if there are more.
    pub fn follow(&mut self, rib: &mut Rib, now: Instant) -> Result<bool, RouterError> {
        let Self { feed, requests, routes, not_understood, next_settings, .. } = self;
        let routes = *routes;
        if now >= *next_settings {
            *next_settings = now + READ_SETTINGS_EVERY;
            rib.set_kernel_hash(kernel_hash().filter(|_| routes));
        }
        let mut apply = |event: Event| {
            requests.follow(&event);
            if routes
                && let Event::Route { route, .. } = &event
                && let Some(attribute) = &route.not_understood
                && not_understood.insert(attribute.clone())
            {
                tracing::warn!(
                    "route {}: Wattline does not understand its attribute \"{attribute}\": \
                     packets of routes with it are left to the kernel",
                    route.prefix
                );
            }
            if let Event::Link(link) = &event
                && let Some(setting) = link.left_because
                && not_understood.insert(format!("{} {setting}", link.name))
            {
                tracing::warn!(
                    "interface {}: it has {setting}, which only the kernel follows: packets through it \
                     are left to the kernel",
                    link.name
                );
            }
            let of_links = matches!(
                event,
                Event::Link(_) | Event::LinkGone(_) | Event::DumpBegin | Event::DumpEnd
            );
            if routes || of_links {
                rib.apply(Source::Kernel, event);
            }
        };
        let more = feed
            .poll(now, &mut apply)
            .map_err(|source| RouterError::system("following the kernel's routes", source))?;
        if rib.take_missed_change() {
            tracing::debug!("a change of routes was missed: the kernel's tables are read again");
            feed.request_dump(now);
        }
        self.is_current = !more && self.feed.is_complete();
        Ok(more)
    }

    /// Returns true if no notification of the kernel was left at the last reading.
    pub fn is_current(&self) -> bool {
        self.is_current
    }

    /// Returns true if the kernel's tables are being read as a whole, so that the known state may
    /// be incomplete.
    pub fn is_reading(&self) -> bool {
        self.feed.is_dumping()
    }

    /// Requests all tables of the kernel again: some state of links that were no ports was not
    /// kept.
    pub fn request_dump(&mut self, now: Instant) {
        self.feed.request_dump(now);
    }

    /// Asks for neighbours that workers have packets for.
    pub fn resolve(&mut self, rib: &Rib, batch: &Batch) {
        let neighbours = batch.requests.iter().filter_map(|request| {
            let link = rib.link_towards(request.port, request.vlan, request.address)?;
            Some((link, request.address))
        });
        self.requests.resolve(&neighbours.collect::<Vec<_>>(), batch.left_out);
    }

    /// Asks for gateways that routes need, and confirms neighbours in use.
    pub fn refresh_neighbours(&mut self, rib: &Rib, now: Instant) {
        if !self.routes || now < self.next_confirmation {
            return;
        }
        self.next_confirmation = now + CONFIRM_EVERY;
        let mut neighbours = rib.stale_neighbours();
        neighbours.extend(rib.unresolved_gateways());
        neighbours.retain(|(link, _)| *link < wattline_rib::FIRST_STATIC_LINK);
        self.requests.confirm(&neighbours);
    }

    /// Returns the neighbours that workers have packets for and that have not answered, as link and
    /// address.
    pub fn unanswered(&self) -> impl Iterator<Item = (u32, IpAddr)> {
        self.requests.unanswered()
    }

    /// Returns statistics.
    pub fn stats(&self) -> KernelStats {
        let (dumps, unreadable) = (self.feed.dumps(), self.feed.unreadable());
        self.requests.add_to(KernelStats { dumps, unreadable, ..KernelStats::default() })
    }
}

/// Returns the kernel's hash of flows; `None` while its key is random.
fn kernel_hash() -> Option<KernelHash> {
    let found = multipath::read();
    let seed = found.seed.try_into().ok()?;
    let policy = |number: Option<u32>| number.and_then(HashPolicy::from_number);
    Some(KernelHash { seed, ipv4: policy(found.ipv4_policy), ipv6: policy(found.ipv6_policy) })
}
