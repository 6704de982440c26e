//! Applications of the router beside plain forwarding, as the control thread sees them.
//!
//! What they do to packets are nodes of the data plane
//! ([`wattline_dataplane::feature::Feature`]), made here once per worker; what they need beside
//! that (collectors, keys, timers) lives in the control thread.
//!
//! Where several are configured, packets that were received pass them in this order, so that
//! each finds what it works on: redundancy elimination decoded, access lists and source addresses
//! judged, ESP decrypted, flows recorded, redundancy elimination encoded, ESP encrypted. Packets that
//! come out of a tunnel begin anew.

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

/// An application that a program has: what it is called in the configuration, and how it starts.
#[derive(Clone, Copy)]
pub struct ApplicationKind {
    /// Its sections.
    pub section: &'static ApplicationSection,
    /// Starts what the configuration asks for, in the order in which packets that were received
    /// pass it; nothing where it does not ask for it.
    pub start: StartApplications,
}

/// The applications that a program has, in the order in which packets that are about to leave pass
/// them.
pub type Applications = &'static [ApplicationKind];

/// The sections of the configuration that belong to applications.
pub fn sections(applications: Applications) -> Vec<&'static ApplicationSection> {
    applications.iter().map(|application| application.section).collect()
}

/// Starts what the configuration asks for beside plain forwarding, in the order in which packets
/// that were received pass it.
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
    /// Its name in statistics, as its section is called in the configuration.
    fn name(&self) -> &'static str;

    /// Its part of a worker's graph; called once per worker, before that starts.
    fn features(&mut self, worker: u16) -> Vec<Feature>;

    /// Called before each [`Self::tick`] and before [`Self::finish`], with routing as it is then:
    /// for applications that tell where packets go.
    fn look_at_routes(&mut self, rib: &Rib, routes: &Routes) {
        let _ = (rib, routes);
    }

    /// Does what is due, without blocking for more than a few milliseconds; says when it wants
    /// to be called again at the latest.
    fn tick(&mut self, now: Instant) -> Instant;

    /// Addresses of this machine at which it takes packets out of tunnels, so that these are
    /// not left to the kernel.
    fn tunnel_ends(&self) -> Vec<IpAddr> {
        Vec::new()
    }

    /// Returns true if packets may only leave as it says, so that nothing that the kernel would
    /// forward may be left to it unseen.
    fn guards(&self) -> bool {
        false
    }

    /// Whether what comes in at a port may be forwarded only as it says: nothing that the kernel would
    /// forward may be left to it unseen, and the port may not be left to the kernel at the start.
    fn judges(&self, port: PortId) -> bool {
        let _ = port;
        false
    }

    /// Returns how it compares source addresses of packets of a port with the routes, so that the
    /// kernel's own check is not bypassed.
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

    /// Describes its treatment of packets to an address, in the order in which it applies, a sentence for
    /// each.
    fn says_of_address(&self, address: IpAddr) -> Vec<String> {
        let _ = address;
        Vec::new()
    }

    /// Takes over what another configuration says, whose ports it has not refused, while packets flow. Returns
    /// the heading of the section that is in force then; nothing where it needs a restart.
    fn reload(&mut self, config: &Config) -> Option<&'static str> {
        let _ = config;
        None
    }

    /// Called once before traffic is taken over, if the router has interfaces: for what has to
    /// hold in the kernel from then on. `tun` is the device by which the router's packets enter the
    /// kernel.
    fn take_over(&mut self, rib: &Rib, tun: Option<&str>) {
        let _ = (rib, tun);
    }

    /// The kernel is to forward everything once the router has ended, whatever the configuration
    /// says.
    fn open_at_end(&mut self) {}

    /// Lists settings that do not hold on this machine now, in a sentence each.
    fn complaints(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns what names the rules by whose numbers it drops packets
    /// ([`Packet::deny`](wattline_dataplane::packet::Packet::deny)), from any thread.
    fn rule_names(&self) -> Option<RuleNames> {
        None
    }

    /// Enters its counters.
    fn stats(&self, to: &mut ApplicationStats);

    /// Losses by overload that are no frames, by kind.
    fn losses(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Writes its metrics.
    fn metrics(&self, to: &mut Exposition) {
        let _ = to;
    }

    /// Returns at most so many flow records, within a prefix or all, if it makes any.
    fn flows(&self, within: Option<IpNet>, most: usize) -> Option<FlowTable> {
        let _ = (within, most);
        None
    }

    /// Returns at most so many rules of access lists, if it has any.
    fn rules(&self, most: usize) -> Option<AclTable> {
        let _ = most;
        None
    }

    /// Returns its security associations, if it has any.
    fn associations(&self) -> Option<SaTable> {
        None
    }

    /// The kernel is about to get all traffic back: for what has to hold there from then on.
    fn release(&mut self) {}

    /// The workers have ended, or such as wait for a capture are left behind (`all_ended` is
    /// false), and what those may still use must be given to nobody: what is left is finished now.
    fn finish(&mut self, all_ended: bool);

    /// Returns why ports of another configuration cannot be in force while it runs, if so: in words
    /// that follow the name of a port which would be added or removed.
    fn refuses_ports(&self, new: &Config) -> Option<String> {
        let _ = new;
        Some(format!("{} keeps the ports of the start", self.name()))
    }

    /// Other ports are about to be in force, none of which it has refused. Those that are removed are
    /// still served for a moment.
    fn follow_ports(&mut self, new: &Config) {
        let _ = new;
    }
}

/// The parts of a worker's graph of several applications: each place in the order of the packets.
/// Those that are about to leave pass the applications the other way round; those that are left to the
/// kernel have only come in.
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
    /// packet that has to be encrypted as it is would pass no filter any more.
    #[test]
    fn packets_pass_applications_in_the_order_of_their_way() {
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
