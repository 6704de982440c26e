//! Forwarding of transit packets by XDP programs, and their egress ports.
//!
//! The programs forward by the kernel's own tables. They may do so only if nothing else affects the
//! decision ([`Config::obstacles_to_xdp_forwarding`]). [`trust`] handles interfaces that refuse
//! frames.

pub(super) mod flows;
mod trust;

use super::by_workers::ByWorkers;
use super::error::RouterError;
use crate::config::{Config, XdpForwarding};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trust::{Cause, Trust};
use wattline_dataplane::port::PortId;
use wattline_linux::netlink::Link;
use wattline_linux::xdp_features::{Transmits, XdpFeatures};
use wattline_rib::Rib;
use wattline_xdp::bpf::BpfError;
use wattline_xdp::{Copies, XdpForward};

/// Count of frames that programs sent out of a port.
pub(super) type Sent<'a> = &'a dyn Fn(PortId) -> u64;

/// Interval of asking interfaces whether they take frames. Between two checks, the first batch that
/// an interface refuses closes it.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Message about an interface whose driver takes no frames, with the likely cause.
const NO_FRAMES: &str = "its driver takes no XDP frames now; a veth takes them while its far end has \
                         GRO or an XDP program";

/// Reason for forwarding by workers to and from a bond.
pub(super) const BEHIND_BOND: &str = "it is a bond";

/// The egress ports of the XDP programs.
pub(super) struct Forwarding {
    forward: XdpForward,
    /// Absent before Linux 6.3, which does not report features of interfaces.
    features: Option<XdpFeatures>,
    ports: Vec<EgressPort>,
    /// True if only flows of a flowtable are forwarded, at ports that are left to the kernel.
    of_flows: bool,
    /// Reasons to forward nothing now.
    obstacles: Vec<&'static str>,
    /// True if some route had an MTU of its own at the last check.
    route_mtus: bool,
    /// [`Rib::port_changes`] at the last check.
    port_changes: u64,
    next_check: Instant,
}

/// Last log line about an egress port.
#[derive(PartialEq, Eq)]
enum Logged {
    Open,
    /// It refused frames. This is logged once, not again after each trial.
    Refused,
    /// It is closed, for this reason.
    Closed(String),
}

struct EgressPort {
    port: PortId,
    ifindex: u32,
    name: String,
    is_open: bool,
    /// True if it takes frames in fragments, too.
    in_fragments: bool,
    /// Last log line about it.
    logged: Option<Logged>,
    /// Reason if closed, or open for a trial only.
    closed_because: Option<String>,
    trust: Trust,
}

/// The forwarders of transit packets.
pub(super) enum Egress {
    /// XDP programs, out of the ports that are open; workers take the rest.
    ByPrograms(Forwarding),
    /// Workers only, for a reason.
    ByWorkers(ByWorkers),
}

impl Egress {
    /// Returns the maps and ports of the programs, if they forward.
    pub fn forwarding(&self) -> Option<&Forwarding> {
        match self {
            Self::ByPrograms(forwarding) => Some(forwarding),
            Self::ByWorkers(_) => None,
        }
    }

    /// Returns true if XDP programs can forward by themselves at all.
    pub fn by_programs(&self) -> bool {
        self.forwarding().is_some()
    }

    /// Returns true if packets out of a port are forwarded by XDP programs now.
    pub fn forwards_to(&self, port: PortId) -> bool {
        self.forwarding().is_some_and(|forwarding| forwarding.is_open(port))
    }

    /// Sets the obstacles to forwarding in XDP programs that are in the configuration.
    pub fn set_obstacles(&mut self, obstacles: Vec<&'static str>) {
        match self {
            Self::ByPrograms(forwarding) => forwarding.set_obstacles(obstacles),
            Self::ByWorkers(why) => why.set_obstacles(obstacles),
        }
    }

    /// Returns the forwarding by programs, for changes to its egress ports.
    pub fn forwarding_mut(&mut self) -> Option<&mut Forwarding> {
        match self {
            Self::ByPrograms(forwarding) => Some(forwarding),
            Self::ByWorkers(_) => None,
        }
    }
}

/// Lists obstacles to forwarding: reasons in the configuration, and zero-copy sockets, with which
/// workers are cheaper.
pub(super) fn obstacles(config: &Config, zero_copy: bool) -> Vec<&'static str> {
    let mut obstacles = config.obstacles_to_xdp_forwarding();
    if zero_copy && config.router.xdp_forward == XdpForwarding::Auto {
        obstacles.push("frames reach workers without a copy");
    }
    obstacles
}

/// Prepares the forwarding that the configuration asks for.
///
/// # Errors
/// When the configuration demands it and the machine cannot do it.
pub(super) fn prepare(config: &Config) -> Result<Egress, RouterError> {
    let choice = config.router.xdp_forward;
    let has_interfaces = config.ports.iter().any(|port| port.kind.taken_over().is_some());
    if !has_interfaces {
        return Ok(Egress::ByWorkers(ByWorkers::for_good("no port is an interface".to_owned())));
    }
    let obstacles = config.obstacles_to_xdp_forwarding();
    let why = match choice {
        XdpForwarding::Off => ByWorkers::for_good("[router] xdp_forward = \"off\"".to_owned()),
        _ if !obstacles.is_empty() => ByWorkers::for_obstacles(obstacles),
        _ => match Forwarding::open(false, None) {
            Ok(forwarding) => return Ok(Egress::ByPrograms(forwarding)),
            Err(error) if choice == XdpForwarding::On => return Err(error),
            Err(error) => ByWorkers::for_good(error.to_string()),
        },
    };
    tracing::info!("workers forward all packets: {}", why.because());
    Ok(Egress::ByWorkers(why))
}

impl Forwarding {
    /// Prepares forwarding of all packets or, if `of_flows`, of the flows of flowtables. Programs
    /// use these maps for copies, or new ones.
    ///
    /// # Errors
    /// When the kernel does not support it, or capabilities are missing.
    pub fn open(of_flows: bool, copies: Option<&Arc<Copies>>) -> Result<Self, RouterError> {
        let copies = copies.cloned().map_or_else(|| Copies::new().map(Arc::new), Ok)?;
        let failed =
            |source| RouterError::system("querying the XDP features of interfaces", source);
        Ok(Self {
            features: known(XdpFeatures::open()).map_err(failed)?,
            forward: XdpForward::new(&copies)?,
            ports: Vec::new(),
            of_flows,
            obstacles: Vec::new(),
            route_mtus: false,
            port_changes: 0,
            next_check: Instant::now(),
        })
    }

    /// The maps that programs are loaded with.
    pub fn forward(&self) -> &XdpForward {
        &self.forward
    }

    /// Returns the slot of a port's counters, which is its number.
    pub fn slot(port: PortId) -> u32 {
        port.0.into()
    }

    /// Adds a port, to which nothing is forwarded yet.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn add(&mut self, port: PortId, ifindex: u32, name: &str) -> Result<(), BpfError> {
        self.forward.add(ifindex, Self::slot(port))?;
        self.next_check = Instant::now();
        self.ports.push(EgressPort {
            port,
            ifindex,
            name: name.to_owned(),
            is_open: false,
            in_fragments: false,
            logged: None,
            closed_because: None,
            trust: Trust::default(),
        });
        Ok(())
    }

    /// Removes a port whose interface is gone.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn remove(&mut self, port: PortId) -> Result<(), BpfError> {
        let Some(place) = self.ports.iter().position(|egress| egress.port == port) else {
            return Ok(());
        };
        let egress = self.ports.swap_remove(place);
        // This may have been the reason why another port was closed.
        self.next_check = Instant::now();
        self.forward.remove(egress.ifindex)
    }

    /// Replaces the reasons why nothing may be forwarded.
    pub fn set_obstacles(&mut self, obstacles: Vec<&'static str>) {
        if self.obstacles != obstacles {
            self.obstacles = obstacles;
            self.next_check = Instant::now();
        }
    }

    /// Opens the egress ports that can be opened, and closes the others. Changes of links must have
    /// been committed in `rib`: otherwise a link that is down, but still in groups of next hops,
    /// would close all.
    pub fn poll(&mut self, rib: &Rib, now: Instant, sent: Sent<'_>) {
        let route_mtus = rib.has_route_mtus();
        let same = route_mtus == self.route_mtus && rib.port_changes() == self.port_changes;
        if now < self.next_check && same {
            return;
        }
        self.port_changes = rib.port_changes();
        self.next_check = now + CHECK_EVERY;
        self.route_mtus = route_mtus;
        let Self { ports, features, forward, of_flows, .. } = self;
        let link_of = |port| match of_flows {
            true => rib.link_named_as(port),
            false => rib.link_of(port),
        };
        let closed: Vec<Option<String>> = (ports.iter_mut())
            .map(|egress| {
                let why = closing_reason(features.as_mut(), link_of(egress.port), egress);
                if let Err(error) = egress.judge(forward, why.is_some(), now, sent) {
                    tracing::error!("[[port]] {}: {error}", egress.name);
                }
                why.or_else(|| egress.trust.obstacle(now))
            })
            .collect();
        let common = self.common_obstacle(rib, &closed);
        let (ours, others) = match self.of_flows {
            true => ("XDP programs send flows", "the kernel sends flows"),
            false => ("XDP programs send", "workers send"),
        };
        for (egress, own) in self.ports.iter_mut().zip(closed) {
            let obstacle = common.clone().or(own);
            if let Err(error) = egress.set(&self.forward, obstacle, now, (ours, others)) {
                tracing::error!("[[port]] {}: {error}", egress.name);
            }
        }
    }

    /// Finds a reason to close all ports. `closed` holds each port's own reason.
    fn common_obstacle(&self, rib: &Rib, closed: &[Option<String>]) -> Option<String> {
        if !self.obstacles.is_empty() {
            return Some(self.obstacles.join(", "));
        }
        // The kernel's look-up for XDP obeys such an MTU only if it is locked.
        if self.route_mtus {
            return Some("a route has an MTU of its own".to_owned());
        }
        // Flows keep the next hop of their route.
        if self.of_flows {
            return None;
        }
        // The kernel picks one of several next hops. A worker that gets packets which cannot be
        // sent there picks again, so the shares would differ from the route's.
        let ports = self.ports.iter().zip(closed);
        let ports: Vec<_> = ports
            .map(|(egress, closed)| (egress.ifindex, &*egress.name, closed.is_none()))
            .collect();
        let shut = rib.links_of_groups().find_map(|link| shut_member(link, &ports))?;
        Some(match shut {
            Ok(port) => {
                format!("one of several next hops is behind port {port}, which is closed to them")
            }
            Err(link) => format!(
                "one of several next hops is behind {}, which is no port",
                rib.link_name(link).unwrap_or("no interface")
            ),
        })
    }

    /// Returns true if packets out of a port are forwarded by XDP programs.
    pub fn is_open(&self, port: PortId) -> bool {
        let egress = self.ports.iter().find(|egress| egress.port == port && egress.is_open);
        // The programs may have closed it meanwhile.
        egress.is_some_and(|egress| self.forward.is_open(egress.ifindex).unwrap_or_default())
    }

    /// Returns why a port is closed to XDP programs, or open for a trial only, if known.
    pub fn closed_because(&self, port: PortId) -> Option<&str> {
        self.ports.iter().find(|egress| egress.port == port)?.closed_because.as_deref()
    }
}

/// Returns the name of the link's port if that is closed, or the link if it is no port. `ports` has
/// the link, the name and the state (true if open) of each port.
fn shut_member<'a>(link: u32, ports: &[(u32, &'a str, bool)]) -> Option<Result<&'a str, u32>> {
    match ports.iter().find(|(index, ..)| *index == link) {
        Some((.., true)) => None,
        Some((_, name, false)) => Some(Ok(name)),
        None => Some(Err(link)),
    }
}

impl EgressPort {
    /// Finds out whether the interface has taken the frames sent to it.
    fn judge(
        &mut self,
        forward: &XdpForward,
        is_another: bool,
        now: Instant,
        sent: Sent<'_>,
    ) -> Result<(), BpfError> {
        if is_another {
            // An interface that comes back up may take frames again.
            self.trust = Trust::default();
            return Ok(());
        }
        if !self.is_open {
            return Ok(());
        }
        let slot = Forwarding::slot(self.port);
        if !forward.is_open(self.ifindex)? {
            match forward.cause(slot)? {
                Some(error) => {
                    self.trust.refuse(now, Cause::Error(error));
                    self.is_open = false;
                }
                // A last batch from before the opening closed it.
                None => forward.open(self.ifindex, self.in_fragments)?,
            }
            return Ok(());
        }
        // Refused frames are read before sent ones, so that the counts never show more refused than
        // sent frames.
        self.trust.watch(now, forward.refused(slot)?, || sent(self.port));
        Ok(())
    }

    /// Opens it, unless there is an obstacle. A trial is logged only once it has succeeded.
    fn set(
        &mut self,
        forward: &XdpForward,
        obstacle: Option<String>,
        now: Instant,
        (ours, others): (&str, &str),
    ) -> Result<(), BpfError> {
        let name = &self.name;
        let trial = self.trust.trial(now);
        match &obstacle {
            None if trial.is_some() => {
                tracing::debug!("port {name}: {ours} to it for a trial");
            }
            None if self.logged != Some(Logged::Open) => {
                tracing::info!("port {name}: {ours} to it");
                self.logged = Some(Logged::Open);
            }
            // Unexpected: the operator may want to investigate it.
            Some(why) if self.trust.obstacle(now).is_some() => {
                if self.logged != Some(Logged::Refused) {
                    tracing::warn!("port {name}: {others} to it: {why}");
                }
                self.logged = Some(Logged::Refused);
            }
            Some(why) if self.logged != Some(Logged::Closed(why.clone())) => {
                tracing::info!("port {name}: {others} to it: {why}");
                self.logged = Some(Logged::Closed(why.clone()));
            }
            _ => {}
        }
        let opens = obstacle.is_none();
        self.closed_because = obstacle.or(trial);
        if !opens {
            self.is_open = false;
            forward.close(self.ifindex)?;
        } else if !self.is_open {
            forward.open(self.ifindex, self.in_fragments)?;
            self.is_open = true;
        }
        Ok(())
    }
}

/// Returns `None` if the kernel does not know the request: interfaces are tried then.
fn known<T>(opened: io::Result<T>) -> io::Result<Option<T>> {
    match opened {
        Ok(features) => Ok(Some(features)),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            tracing::info!(
                "this kernel does not report what interfaces can do with XDP (Linux 6.3 does): they are \
                 tried, and closed when they refuse frames"
            );
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns the kinds of redirected frames that an interface takes. If the kernel does not report
/// it, frames in one piece are tried: the first batch that an interface refuses closes it.
fn transmits(features: Option<&mut XdpFeatures>, ifindex: u32) -> io::Result<Transmits> {
    features.map_or(Ok(Transmits::Whole), |features| features.transmits(ifindex))
}

/// Finds a reason to close one egress port. Workers do not use a port without carrier either.
fn closing_reason(
    features: Option<&mut XdpFeatures>,
    link: Option<&Link>,
    egress: &mut EgressPort,
) -> Option<String> {
    let link = link.filter(|link| link.index == egress.ifindex);
    let link = match link {
        Some(link) if link.enabled && link.running => link,
        Some(link) if link.enabled => return Some("it has no carrier".to_owned()),
        Some(_) => return Some("it is down".to_owned()),
        None => return Some("its state is not known yet".to_owned()),
    };
    if link.is_bond() {
        return Some(BEHIND_BOND.to_owned());
    }
    match transmits(features, egress.ifindex) {
        Ok(Transmits::Nothing) => Some(NO_FRAMES.to_owned()),
        Ok(transmits) => {
            let in_fragments = transmits == Transmits::InFragments;
            // Opened again, so that the programs see the change.
            egress.is_open &= in_fragments == egress.in_fragments;
            egress.in_fragments = in_fragments;
            None
        }
        Err(error) => Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_member_of_a_group_is_named() {
        let ports = [(3, "a", true), (4, "b", false)];
        let shut: Vec<_> = [3, 4, 5, 0].iter().map(|link| shut_member(*link, &ports)).collect();
        assert_eq!(shut, [None, Some(Ok("b")), Some(Err(5)), Some(Err(0))]);
    }

    /// Before Linux 6.3 generic netlink has no family `netdev`.
    #[test]
    fn interfaces_are_tried_if_the_kernel_does_not_report_them() {
        let absent = || io::Error::from(rustix::io::Errno::OPNOTSUPP);
        assert!(matches!(known::<()>(Err(absent())), Ok(None)));
        assert_eq!(transmits(None, 1).unwrap(), Transmits::Whole);
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        assert!(known::<()>(Err(denied)).is_err());
        assert!(matches!(known(Ok(7)), Ok(Some(7))));
    }
}
