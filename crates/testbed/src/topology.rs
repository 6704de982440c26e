//! Source, router and sink: three machines in a row.
//!
//! ```text
//!   source            router             sink
//!   uplink ────── left    right ────── uplink
//!   198.18.0.2    .1          198.19.0.1    .2
//!   2001:2:0:1::2 ::1         2001:2:0:2::1 ::2
//! ```
//!
//! The addresses are reserved for benchmarks (RFC 2544 appendix C.2.2, RFC 5180 section 8) and do
//! not occur in captures of real traffic. Source and sink have a default route to the router; the
//! router has one to the sink, so that packets to any address end there.

use crate::Error;
use crate::command::LIMIT;
use crate::namespace::Namespace;
use std::net::{Ipv4Addr, Ipv6Addr};

/// An interface with its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Station {
    /// Name in its namespace.
    pub interface: &'static str,
    /// Ethernet address.
    pub mac: [u8; 6],
    /// IPv4 address in a /24.
    pub v4: Ipv4Addr,
    /// IPv6 address in a /64.
    pub v6: Ipv6Addr,
}

/// The source's only interface.
pub const SOURCE: Station = Station {
    interface: "uplink",
    mac: [0x02, 0x57, 0, 0, 0, 0x12],
    v4: Ipv4Addr::new(198, 18, 0, 2),
    v6: Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 2),
};
/// The router's interface towards the source.
pub const LEFT: Station = Station {
    interface: "left",
    mac: [0x02, 0x57, 0, 0, 0, 0x11],
    v4: Ipv4Addr::new(198, 18, 0, 1),
    v6: Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 1),
};
/// The router's interface towards the sink.
pub const RIGHT: Station = Station {
    interface: "right",
    mac: [0x02, 0x57, 0, 0, 0, 0x21],
    v4: Ipv4Addr::new(198, 19, 0, 1),
    v6: Ipv6Addr::new(0x2001, 2, 0, 2, 0, 0, 0, 1),
};
/// The sink's only interface.
pub const SINK: Station = Station {
    interface: "uplink",
    mac: [0x02, 0x57, 0, 0, 0, 0x22],
    v4: Ipv4Addr::new(198, 19, 0, 2),
    v6: Ipv6Addr::new(0x2001, 2, 0, 2, 0, 0, 0, 2),
};

/// Options of a topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Queues of every interface in each direction.
    pub queues: u16,
    /// Largest IP packet between router and sink, in bytes; 1500 towards the source.
    pub sink_mtu: u16,
    /// True for permanent neighbour entries instead of resolution by ARP and ND.
    pub static_neighbours: bool,
    /// True to serve the router's interfaces by kernel threads (`/sys/class/net/*/threaded`)
    /// instead of in the sender's context, which is closer to a card with its own interrupts.
    pub threaded_napi: bool,
    /// True to send ICMP errors without the kernel's rate limits, so that each one can be compared.
    pub unlimited_errors: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queues: 1,
            sink_mtu: 1500,
            static_neighbours: false,
            threaded_napi: false,
            unlimited_errors: false,
        }
    }
}

/// Three namespaces in a row; removed when dropped.
#[derive(Debug)]
pub struct Topology {
    /// Namespace that sends.
    pub source: Namespace,
    /// Namespace that forwards.
    pub router: Namespace,
    /// Namespace that receives.
    pub sink: Namespace,
    /// Options with which it was built.
    pub options: Options,
}

impl Topology {
    /// Builds the topology with links up, addresses and routes; the router's kernel forwards.
    ///
    /// # Errors
    /// Fails without root or iproute2, or if the kernel has no veth.
    pub fn build(options: Options) -> Result<Self, Error> {
        let source = Namespace::create("source")?;
        let router = Namespace::create("router")?;
        let sink = Namespace::create("sink")?;
        for namespace in [&source, &router, &sink] {
            namespace.sysctl(PINGS)?;
            if options.unlimited_errors {
                namespace.sysctl(UNLIMITED_ERRORS)?;
            }
        }
        connect(&router, LEFT, &source, SOURCE, 1500, options.queues)?;
        connect(&router, RIGHT, &sink, SINK, options.sink_mtu, options.queues)?;
        for (namespace, gateway) in [(&source, LEFT), (&sink, RIGHT), (&router, SINK)] {
            namespace.ip(&format!(
                "route add default via {}\nroute add default via {}",
                gateway.v4, gateway.v6
            ))?;
        }
        router.sysctl(ROUTER)?;
        let topology = Self { source, router, sink, options };
        if options.static_neighbours {
            topology.fix_neighbours()?;
        }
        if options.threaded_napi {
            for station in [LEFT, RIGHT] {
                let file = format!("/sys/class/net/{}/threaded", station.interface);
                let set = ["-c", &format!("echo 1 > {file}")];
                topology.router.run("sh", &set, LIMIT)?;
            }
        }
        Ok(topology)
    }

    fn fix_neighbours(&self) -> Result<(), Error> {
        for (namespace, interface, peer) in [
            (&self.source, SOURCE.interface, LEFT),
            (&self.router, LEFT.interface, SOURCE),
            (&self.router, RIGHT.interface, SINK),
            (&self.sink, SINK.interface, RIGHT),
        ] {
            let mac = mac_text(peer.mac);
            namespace.ip(&format!(
                "neighbour replace {} lladdr {mac} nud permanent dev {interface}\n\
                 neighbour replace {} lladdr {mac} nud permanent dev {interface}",
                peer.v4, peer.v6
            ))?;
        }
        Ok(())
    }
}

/// Formats an Ethernet address.
pub fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Joins two namespaces by a pair of virtual Ethernet interfaces.
///
/// # Errors
/// Fails without root, iproute2 or ethtool, or if an interface of one of these names already
/// exists.
pub fn connect(
    near: &Namespace,
    near_end: Station,
    far: &Namespace,
    far_end: Station,
    mtu: u16,
    queues: u16,
) -> Result<(), Error> {
    let queues = format!("numtxqueues {queues} numrxqueues {queues}");
    near.ip(&format!(
        "link add {} address {} mtu {mtu} {queues} type veth \
         peer name {} address {} mtu {mtu} {queues} netns {}",
        near_end.interface,
        mac_text(near_end.mac),
        far_end.interface,
        mac_text(far_end.mac),
        far.name(),
    ))?;
    for (namespace, end) in [(near, near_end), (far, far_end)] {
        // A veth leaves checksums and segmentation to missing hardware, so the kernel would forward
        // packets with unfinished checksums. GRO would merge packets before they are forwarded, so
        // that forwarders could not be compared.
        let off = ["-K", end.interface, "tx", "off", "rx", "off", "sg", "off", "gro", "off"];
        namespace.run("ethtool", &off, LIMIT)?;
        namespace.ip(&format!(
            "address add {}/24 dev {device}\naddress add {}/64 dev {device} nodad\n\
             link set {device} up",
            end.v4,
            end.v6,
            device = end.interface
        ))?;
    }
    Ok(())
}

/// Permits ping for all users. All other settings are the kernel's defaults, unless a test concerns
/// them.
const PINGS: &[(&str, &str)] = &[("ipv4/ping_group_range", "0 2147483647")];

/// Settings for [`Options::unlimited_errors`].
const UNLIMITED_ERRORS: &[(&str, &str)] = &[
    ("ipv4/icmp_ratelimit", "0"),
    ("ipv4/icmp_msgs_per_sec", "1000000"),
    ("ipv4/icmp_msgs_burst", "1000000"),
    ("ipv6/icmp/ratelimit", "0"),
];

const ROUTER: &[(&str, &str)] = &[("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leftovers::can_build_namespaces;

    #[test]
    fn sink_answers_through_the_router() {
        if !can_build_namespaces("sink_answers_through_the_router") {
            return;
        }
        let topology =
            Topology::build(Options { queues: 2, static_neighbours: true, ..Options::default() })
                .unwrap();
        for address in [SINK.v4.to_string(), SINK.v6.to_string()] {
            topology.source.run("ping", &["-n", "-c", "2", "-W", "5", &address], LIMIT).unwrap();
        }
    }

    #[test]
    fn ethernet_addresses_are_formatted() {
        assert_eq!(mac_text(SOURCE.mac), "02:57:00:00:00:12");
    }
}
