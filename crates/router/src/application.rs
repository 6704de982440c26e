//! Applications of the router in addition to plain forwarding, as the control thread sees them.
//!
//! Their treatment of packets consists of nodes of the data plane
//! ([`wattline_dataplane::feature::Feature`]), made here once per worker. Everything else
//! (collectors, keys, timers) lives in the control thread.
//!
//! If several are configured, received packets pass them in this order: redundancy elimination
//! decoded, access lists and source addresses judged, ESP decrypted, flows recorded, redundancy
//! elimination encoded, ESP encrypted. Packets that come out of a tunnel start again at the first.

use crate::config::{ApplicationSection, Config};
use crate::error::RouterError;
use ipnet::IpNet;
use std::net::IpAddr;
use std::time::Instant;
use wattline_daemon::metrics::Exposition;
use wattline_dataplane::feature::{Feature, Place};
use wattline_dataplane::port::PortId;
use wattline_dataplane::routes::Routes;
use wattline_rib::Rib;
use wattline_status::FlowTable;
use wattline_status::applications::{AclTable, ApplicationStats, SaTable};

pub use wattline_status::applications::SourceCheck;

/// Starts the applications of one kind that a configuration asks for.
pub type StartApplications = fn(&Config) -> Result<Vec<Box<dyn Application>>, RouterError>;

/// An application that a program has: its sections of the configuration, and its start.
#[derive(Clone, Copy)]
pub struct ApplicationKind {
    /// Its sections.
    pub section: &'static ApplicationSection,
    /// Starts the configured applications of this kind, if any, in the order in which received
    /// packets pass them.
    pub start: StartApplications,
}

/// The applications of a program, in the order in which leaving packets pass them.
pub type Applications = &'static [ApplicationKind];

/// The sections of the configuration that belong to applications.
pub fn sections(applications: Applications) -> Vec<&'static ApplicationSection> {
    applications.iter().map(|application| application.section).collect()
}

/// Starts all configured applications, in the order in which received packets pass them.
pub(crate) fn start(
    applications: Applications,
    config: &Config,
) -> Result<Vec<Box<dyn Application>>, RouterError> {
    let mut started = Vec::new();
    for application in applications.iter().rev() {
        started.extend((application.start)(config)?);
    }
    Ok(started)
}

/// Names of rules by number.
pub type RuleNames = Box<dyn Fn(u16) -> Option<String> + Send>;

/// One application of one router.
pub trait Application: Send {
    /// Returns its name in statistics, which is that of its section in the configuration.
    fn name(&self) -> &'static str;

    /// Returns its part of a worker's graph. Called once per worker, before the worker starts.
    fn features(&mut self, worker: u16) -> Vec<Feature>;

    /// Called before each [`Self::tick`] and before [`Self::finish`], with the present routes: for
    /// applications that report where packets go.
    fn follow_routes(&mut self, rib: &Rib, routes: &Routes) {
        let _ = (rib, routes);
    }

    /// Does the work that is due, without blocking for more than a few milliseconds. Returns the
    /// time by which it has to be called again.
    fn tick(&mut self, now: Instant) -> Instant;

    /// Returns addresses of this machine at which it takes packets out of tunnels, so that these
    /// packets are not left to the kernel.
    fn tunnel_ends(&self) -> Vec<IpAddr> {
        Vec::new()
    }

    /// Returns true if packets may leave only with its consent. No packet that the kernel would
    /// forward may then be left to the kernel unseen.
    fn guards(&self) -> bool {
        false
    }

    /// Returns true if packets received at a port may be forwarded only with its consent. No packet
    /// that the kernel would forward may then be left to the kernel unseen, and the port may not be
    /// left to the kernel at the start.
    fn judges(&self, port: PortId) -> bool {
        let _ = port;
        false
    }

    /// Returns its check of a port's source addresses against the routes, which replaces the
    /// kernel's own check.
    fn checks_sources(&self, port: PortId) -> Option<SourceCheck> {
        let _ = port;
        None
    }

    /// Returns the same for a port that another configuration adds, once that is in force.
    fn will_check(&self, port: PortId, new: &Config) -> Option<SourceCheck> {
        let _ = (port, new);
        None
    }

    /// Describes, in a few words, its treatment of a port's packets, if any.
    fn says_of(&self, port: PortId) -> Option<String> {
        let _ = port;
        None
    }

    /// Describes its treatment of packets to an address, one sentence per step, in the order in
    /// which the steps apply.
    fn says_of_address(&self, address: IpAddr) -> Vec<String> {
        let _ = address;
        Vec::new()
    }

    /// Applies another configuration, whose ports it has not refused, while packets flow. Returns
    /// the heading of the section that is in force then, or nothing if it needs a restart.
    fn reload(&mut self, config: &Config) -> Option<&'static str> {
        let _ = config;
        None
    }

    /// Called once before traffic is taken over, if the router has interfaces: for settings that
    /// have to hold in the kernel from then on. `tun` is the device by which the router's packets
    /// enter the kernel.
    fn take_over(&mut self, rib: &Rib, tun: Option<&str>) {
        let _ = (rib, tun);
    }

    /// Has the kernel forward everything once the router has ended, regardless of the
    /// configuration.
    fn open_at_end(&mut self) {}

    /// Lists settings that do not hold on this machine now, one sentence each.
    fn complaints(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns a function, callable from any thread, that names the rules by whose numbers it drops
    /// packets ([`Packet::deny`](wattline_dataplane::packet::Packet::deny)).
    fn rule_names(&self) -> Option<RuleNames> {
        None
    }

    /// Enters its counters.
    fn stats(&self, to: &mut ApplicationStats);

    /// Returns losses by overload other than frames, by kind.
    fn losses(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Writes its metrics.
    fn metrics(&self, to: &mut Exposition) {
        let _ = to;
    }

    /// Returns at most `most` flow records, within a prefix or all, if it makes any.
    fn flows(&self, within: Option<IpNet>, most: usize) -> Option<FlowTable> {
        let _ = (within, most);
        None
    }

    /// Returns at most `most` rules of access lists, if it has any.
    fn rules(&self, most: usize) -> Option<AclTable> {
        let _ = most;
        None
    }

    /// Returns its security associations, if it has any.
    fn associations(&self) -> Option<SaTable> {
        None
    }

    /// Called before the kernel gets all traffic back: for settings that have to hold there from
    /// then on.
    fn release(&mut self) {}

    /// Finishes its work, once the workers have ended. If `all_ended` is false, workers that wait
    /// for a capture are left behind, and nothing that they may still use may be handed on.
    fn finish(&mut self, all_ended: bool);

    /// Returns why it cannot apply the ports of another configuration while it runs, if so. The
    /// words follow the name of the port that would be added or removed.
    fn refuses_ports(&self, new: &Config) -> Option<String> {
        let _ = new;
        Some(format!("{} keeps the ports of the start", self.name()))
    }

    /// Applies the ports of another configuration, none of which it has refused. Removed ports are
    /// still served for a moment.
    fn follow_ports(&mut self, new: &Config) {
        let _ = new;
    }
}

/// Returns the applications' parts of a worker's graph, each place in the order of the packets.
/// Packets that are about to leave pass the applications in reverse order. Packets that are left to
/// the kernel pass the receiving parts only.
pub fn features(applications: &mut [Box<dyn Application>], worker: u16) -> Vec<Feature> {
    let all = applications.iter_mut().flat_map(|it| it.features(worker));
    let (mut features, mut leaving): (Vec<_>, Vec<_>) =
        all.partition(|feature| feature.place != Place::Routed);
    leaving.reverse();
    features.extend(leaving);
    features
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(&'static str);

    impl Application for Named {
        fn name(&self) -> &'static str {
            self.0
        }
        fn features(&mut self, _: u16) -> Vec<Feature> {
            let at = |place| Feature { place, ipv4: Some(self.0), ipv6: None, nodes: Vec::new() };
            [Place::Received, Place::Routed, Place::Punted].map(at).into()
        }
        fn tick(&mut self, now: Instant) -> Instant {
            now
        }
        fn stats(&self, _: &mut ApplicationStats) {}
        fn finish(&mut self, _: bool) {}
    }

    /// Received packets are filtered before they are decrypted, also if left to the kernel: a
    /// packet that has to be encrypted unchanged would otherwise pass no filter.
    #[test]
    fn packets_pass_applications_in_the_order_of_their_path() {
        let mut applications: Vec<Box<dyn Application>> =
            vec![Box::new(Named("filter")), Box::new(Named("esp"))];
        let features = features(&mut applications, 0);
        let at = |place| -> Vec<&str> {
            features.iter().filter(|it| it.place == place).filter_map(|it| it.ipv4).collect()
        };
        assert_eq!(at(Place::Received), ["filter", "esp"]);
        assert_eq!(at(Place::Punted), ["filter", "esp"]);
        assert_eq!(at(Place::Routed), ["esp", "filter"]);
    }
}
