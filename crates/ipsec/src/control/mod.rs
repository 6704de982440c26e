//! IPsec in the control thread: tunnels from the configuration or the kernel, their sequence
//! numbers on disk, the lifetime of their keys, and their counters.

mod blocks;
mod ends;
mod iv_ranges;
mod kernel;
mod kernel_terms;
mod key_state;
pub mod keys;
mod origin;
mod reservation;
mod store;
mod tunnel;

use crate::esp;
use crate::esp::database::{Contents, Publisher};
use crate::esp::policy::{Decision, Policy, Prefixes};
use crate::section::{IpsecSettings, KeySource, PolicyAction};
use blocks::Blocks;
use ends::{MissingEnds, SetBy};
use ipnet::IpNet;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use store::Store;
use tunnel::{Receiving, Sending};
use wattline_daemon::metrics::{Exposition, Kind};
use wattline_dataplane::feature::Feature;
use wattline_dataplane::routes::Routes;
use wattline_linux::namespace::interface_index;
use wattline_linux::netlink::xfrm::XfrmFollower;
use wattline_rib::Rib;
use wattline_router::RouterError;
use wattline_router::application::Application;
use wattline_router::config::Config;
use wattline_status::applications::{
    ApplicationStats, IpsecStats, KernelTunnels, SaTable, TunnelStats,
};

/// Interval at which sequence numbers are written and lifetimes checked. At any rate that a worker
/// reaches, a stretch of reserved numbers lasts longer.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// The interval when SAs of the kernel are used; new keys must be picked up quickly.
const KERNEL_INTERVAL: Duration = Duration::from_millis(100);
/// ICMP errors of tunnels per second and worker, as in the router itself.
const ICMP_RATE: u32 = 1000;
const ICMP_BURST: u32 = 50;

/// Starts the application that the configuration asks for.
pub fn start(config: &Config) -> Result<Vec<Box<dyn Application>>, RouterError> {
    let Some(settings) = config.of::<IpsecSettings>() else { return Ok(Vec::new()) };
    // Keys are in memory from here on. Limiting the size of core files is not enough: the kernel
    // ignores the limit if it pipes them to a program.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| RouterError::system("forbidding core dumps", error))?;
    let mut ipsec = Ipsec::new(settings)?;
    if let Some(ipsec) = &mut ipsec {
        // Without the kernel's routes, the addresses of this machine are unknown.
        ipsec.follows_addresses = config.router.kernel_routes;
        ipsec.file.clone_from(&config.file);
    }
    Ok(ipsec.into_iter().map(|ipsec| Box::new(ipsec) as _).collect())
}

/// The application `ipsec`.
pub struct Ipsec {
    publisher: Publisher,
    tunnels: Vec<(Sending, Receiving)>,
    policies: Vec<Policy>,
    kernel: Option<Kernel>,
    settings: IpsecSettings,
    /// The configuration file.
    file: PathBuf,
    /// Blocking policies in the kernel.
    blocks: Option<Blocks>,
    missing_ends: MissingEnds,
    /// True if the addresses of this machine are known.
    follows_addresses: bool,
    /// Own addresses at the last check of the tunnel ends, and whether SAs have changed since.
    own: Vec<IpNet>,
    sas_changed: bool,
    store: Store,
    due: Instant,
}

/// State of following the kernel.
struct Kernel {
    follower: XfrmFollower,
    tunnels: kernel::Tunnels,
}

impl Kernel {
    fn new() -> Result<Self, RouterError> {
        let follower = XfrmFollower::new().map_err(|source| {
            RouterError::system(
                "[ipsec] kernel = true: following the kernel's associations",
                source,
            )
        })?;
        Ok(Self { follower, tunnels: kernel::Tunnels::default() })
    }
}

impl Ipsec {
    /// Makes tunnels and policies of a configuration; `None` if it has none.
    ///
    /// # Errors
    /// Returns all faults of keys and of their files on disk.
    pub fn new(settings: &IpsecSettings) -> Result<Option<Self>, RouterError> {
        if settings.tunnels.is_empty() && settings.policies.is_empty() && !settings.kernel {
            return Ok(None);
        }
        let store = Store::open(&settings.state).map_err(RouterError::Unfit)?;
        tracing::info!("ipsec: cryptography by {}", crate::esp::crypt::library());
        let unfit = |errors: Vec<String>| RouterError::Unfit(errors.join("\n"));
        let keys = keys::load_all(&settings.tunnels).map_err(unfit)?;
        let states = keys::open_all(settings, &keys, &store).map_err(unfit)?;
        let (mut tunnels, mut errors) = (Vec::new(), Vec::new());
        for (place, ((tunnel, keys), states)) in
            settings.tunnels.iter().zip(keys).zip(states).enumerate()
        {
            let policies: Vec<_> = (settings.policies.iter())
                .filter(|policy| policy.action == PolicyAction::Protect(place))
                .map(|policy| (policy.source, policy.destination))
                .collect();
            match tunnel::from_settings(tunnel, keys, states, &store, &policies) {
                Ok(both) => tunnels.push(both),
                Err(error) => errors.push(error),
            }
            for (key, source) in [("key_in", &tunnel.key_in), ("key_out", &tunnel.key_out)] {
                if matches!(source, KeySource::Inline(_)) {
                    tracing::warn!(
                        "[[ipsec_tunnel]] {}: {key} is in the configuration itself: everyone who can \
                         read the file can decrypt all packets; use {key}_file",
                        tunnel.name
                    );
                }
            }
        }
        if !errors.is_empty() {
            return Err(unfit(errors));
        }
        let policies = (settings.policies.iter())
            .map(|policy| Policy {
                prefixes: Prefixes { source: policy.source, destination: policy.destination },
                decision: match policy.action {
                    PolicyAction::Protect(tunnel) => Decision::Protect(tunnel as u16),
                    PolicyAction::Bypass => Decision::Bypass,
                    PolicyAction::Discard => Decision::Discard,
                },
            })
            .collect();
        let kernel = if settings.kernel { Some(Kernel::new()?) } else { None };
        let (publisher, due) = (Publisher::new(), Instant::now());
        let (settings, blocks) = (settings.clone(), None);
        let missing_ends = MissingEnds::default();
        let mut ipsec = Self {
            publisher,
            tunnels,
            policies,
            kernel,
            settings,
            file: PathBuf::new(),
            blocks,
            missing_ends,
            follows_addresses: true,
            own: Vec::new(),
            sas_changed: true,
            store,
            due,
        };
        ipsec.follow_kernel();
        ipsec.publish();
        Ok(Some(ipsec))
    }

    /// Adopts changes in the kernel; true if there were any.
    fn follow_kernel(&mut self) -> bool {
        let Some(Kernel { follower, tunnels }) = &mut self.kernel else { return false };
        match follower.poll() {
            Ok(Some(snapshot)) => {
                tunnels.follow(&snapshot, &self.store, self.tunnels.len());
                self.sas_changed = true;
                true
            }
            Ok(None) => false,
            Err(error) => {
                tracing::error!("ipsec: cannot follow the SAs of the kernel: {error}");
                false
            }
        }
    }

    /// Returns the SAs that receive: those of the configuration, then those of the kernel.
    fn receiving(&self) -> impl Iterator<Item = &Receiving> {
        let kernel = self.kernel.iter().flat_map(|kernel| kernel.tunnels.inbound());
        self.tunnels.iter().map(|it| &it.1).chain(kernel)
    }

    /// Publishes the present state to the workers.
    fn publish(&self) {
        let own = self.tunnels.iter();
        let mut contents = Contents {
            outbound: own.clone().map(|it| Some(it.0.association.clone())).collect(),
            inbound: own.map(|it| it.1.association.clone()).collect(),
            policies: self.policies.clone(),
            kernel_has_more: self.kernel.is_some(),
            addresses: Vec::new(),
        };
        if let Some(Kernel { tunnels, .. }) = &self.kernel {
            let outbound = tunnels.outbound();
            contents.outbound.extend(outbound.map(|it| it.map(|it| it.association.clone())));
            contents.inbound.extend(tunnels.inbound().map(|it| it.association.clone()));
            contents.policies.extend(tunnels.policies());
        }
        self.publisher.publish(contents);
    }

    fn counted(&self) -> IpsecStats {
        let warning = |receiving: &Receiving, set_by| {
            let common = &receiving.association.common;
            self.missing_ends.warning(&common.name, common.local, set_by)
        };
        let tunnel = |(sending, receiving): &(Sending, Receiving)| TunnelStats {
            name: sending.association.common.name.clone(),
            outbound: sending.stats(),
            inbound: receiving.stats(None),
            warning: warning(receiving, SetBy::Configuration),
        };
        let kernel = |kernel: &Kernel| {
            let tunnels = &kernel.tunnels;
            let inbound = |it: &Receiving| it.stats(warning(it, SetBy::Kernel));
            KernelTunnels {
                outbound: tunnels.outbound().flatten().map(Sending::stats).collect(),
                inbound: tunnels.inbound().map(inbound).collect(),
                left_to_kernel: tunnels.left,
            }
        };
        IpsecStats {
            tunnels: self.tunnels.iter().map(tunnel).collect(),
            blocked_in_kernel: self.blocks.as_ref().map_or(0, |blocks| blocks.count),
            restored_in_kernel: self.blocks.as_ref().map_or(0, |blocks| blocks.restored),
            block: self.blocks.as_ref().map(Blocks::stats),
            kernel: self.kernel.as_ref().map(kernel),
        }
    }
}

impl Application for Ipsec {
    fn name(&self) -> &'static str {
        "ipsec"
    }

    fn features(&mut self, _worker: u16) -> Vec<Feature> {
        esp::features(&self.publisher, ICMP_RATE, ICMP_BURST)
    }

    fn follow_routes(&mut self, rib: &Rib, _: &Routes) {
        // The control loop turns often, and addresses and SAs change seldom.
        if !self.follows_addresses
            || !self.sas_changed && rib.own_networks().eq(self.own.iter().copied())
        {
            return;
        }
        self.sas_changed = false;
        self.own = rib.own_networks().collect();
        let own = self.own.iter().map(|network| network.addr()).collect();
        let end = |it: &Receiving, set_by| {
            let common = &it.association.common;
            (common.name.clone(), common.local, set_by)
        };
        let kernel = self.kernel.iter().flat_map(|kernel| kernel.tunnels.inbound());
        let of_file = self.tunnels.iter().map(|it| end(&it.1, SetBy::Configuration));
        let ends = of_file.chain(kernel.map(|it| end(it, SetBy::Kernel)));
        self.missing_ends.update(ends, &own);
    }

    fn complaints(&self) -> Vec<String> {
        self.missing_ends.complaints()
    }

    fn tick(&mut self, now: Instant) -> Instant {
        if let Some(blocks) = &mut self.blocks {
            blocks.judge();
            blocks.restore();
        }
        if now >= self.due {
            if self.follow_kernel() {
                self.publish();
            }
            if let Some(kernel) = &mut self.kernel {
                let (sending, receiving) = kernel.tunnels.all_mut();
                sending.for_each(|it| it.tick(now));
                receiving.for_each(|it| it.tick(now));
                kernel.tunnels.report_to_kernel(now, false);
            }
            for (sending, receiving) in &mut self.tunnels {
                sending.tick(now);
                receiving.tick(now);
            }
            self.due = now + if self.kernel.is_some() { KERNEL_INTERVAL } else { CHECK_INTERVAL };
        }
        self.due
    }

    fn stats(&self, to: &mut ApplicationStats) {
        to.ipsec = Some(self.counted());
    }

    fn metrics(&self, to: &mut Exposition) {
        let help = "Blocking policies put back in the kernel after another program removed them.";
        to.family("wattline_ipsec_policies_restored_total", Kind::Counter, help);
        to.sample(&[], self.blocks.as_ref().map_or(0, |blocks| blocks.restored) as f64);
    }

    fn says_of_address(&self, address: IpAddr) -> Vec<String> {
        let kernel = || self.kernel.iter().map(|kernel| &kernel.tunnels);
        let own = self.tunnels.iter().map(|(sending, _)| Some(sending));
        let outbound: Vec<_> = own.chain(kernel().flat_map(|it| it.outbound())).collect();
        let fate = |decision| match decision {
            Decision::Bypass => "are sent in clear".to_owned(),
            Decision::Discard => "are dropped".to_owned(),
            Decision::Protect(tunnel) => match outbound.get(usize::from(tunnel)) {
                Some(Some(sending)) => {
                    format!("are encrypted for tunnel {}", sending.association.common.name)
                }
                _ => "are dropped: their tunnel has no key".to_owned(),
            },
        };
        let policies = self.policies.iter().chain(kernel().flat_map(|it| it.policies()));
        let holding = policies.filter(|it| it.prefixes.destination.contains(&address));
        holding
            .map(|Policy { prefixes: Prefixes { source, destination }, decision }| {
                format!("packets from {source} to {destination} {}", fate(*decision))
            })
            .collect()
    }

    fn associations(&self) -> Option<SaTable> {
        Some(SaTable { ipsec: self.counted(), ..SaTable::default() })
    }

    fn tunnel_ends(&self) -> Vec<IpAddr> {
        self.receiving().map(|it| it.association.common.local).collect()
    }

    fn guards(&self) -> bool {
        true
    }

    fn take_over(&mut self, rib: &Rib, tun: Option<&str>) {
        let own: Vec<_> = rib.own_networks().collect();
        let tun = tun.and_then(|tun| interface_index(tun).ok());
        self.blocks = Some(Blocks::install(&self.file, &self.settings, &own, tun));
    }

    fn reload(&mut self, config: &Config) -> Option<&'static str> {
        if let Some(blocks) = &mut self.blocks {
            blocks.follow(config.of());
        }
        // Tunnels and policies of the router itself need a restart.
        None
    }

    fn open_at_end(&mut self) {
        if let Some(blocks) = &mut self.blocks {
            blocks.open();
        }
    }

    fn refuses_ports(&self, _: &Config) -> Option<String> {
        None
    }

    fn release(&mut self) {
        self.blocks.iter_mut().for_each(Blocks::end);
    }

    fn finish(&mut self, all_ended: bool) {
        if !all_ended {
            // As after a crash, the next router continues above all reserved numbers.
            return;
        }
        for (sending, receiving) in &mut self.tunnels {
            receiving.tick(Instant::now());
            sending.finish();
        }
        if let Some(kernel) = &mut self.kernel {
            let (sending, receiving) = kernel.tunnels.all_mut();
            sending.for_each(Sending::finish);
            receiving.for_each(|it| it.tick(Instant::now()));
            // The kernel continues with these tunnels from here.
            kernel.tunnels.report_to_kernel(Instant::now(), true);
        }
    }
}

#[cfg(test)]
mod tests;
