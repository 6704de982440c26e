//! A router between a source and a sink, in three network namespaces.

use wattline_linux::namespace::{Namespace, NamespaceError, interface_index};

/// `source:out — in:router:out — in:sink`, connected by veth pairs.
pub struct Topology {
    pub source: Namespace,
    pub router: Namespace,
    pub sink: Namespace,
}

pub const SOURCE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xa0];
pub const ROUTER_IN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xb0];
pub const ROUTER_OUT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xb1];
pub const SINK_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xc0];

impl Topology {
    /// Builds it, with this many queues; prints a note and returns `None` without privileges.
    pub fn build(queues: u32) -> Option<Self> {
        Self::try_build(queues).map_err(wattline_needs::rights).ok()
    }

    fn try_build(queues: u32) -> Result<Self, NamespaceError> {
        let made = || Namespace::for_test(&[]);
        let (source, router, sink) = (made()?, made()?, made()?);
        for (end, end_name, end_mac, mac, interface) in [
            (&source, "a0", SOURCE_MAC, ROUTER_IN_MAC, "r0"),
            (&sink, "b0", SINK_MAC, ROUTER_OUT_MAC, "r1"),
        ] {
            let count = format!("numtxqueues {queues} numrxqueues {queues}");
            router.ip(&format!(
                "link add {interface} {count} address {} type veth peer name {end_name} {count} \
                 address {} netns {}",
                text(mac),
                text(end_mac),
                end.name()
            ))?;
            for (namespace, interface) in [(&router, interface), (end, end_name)] {
                // No router solicitations and the like among the counted frames.
                namespace.sysctl(&format!("net.ipv6.conf.{interface}.disable_ipv6"), "1")?;
                namespace.ip(&format!("link set {interface} up"))?;
            }
        }
        // A veth sender leaves checksums to a card that does not exist. The kernel's receiver knows
        // that from a flag, which a frame loses when it passes through AF_XDP.
        source.run("ethtool", &["-K", "a0", "tx", "off"])?;
        source.ip("addr add 10.1.0.2/24 dev a0")?;
        source.ip("route add default via 10.1.0.1")?;
        source.ip(&format!("neigh add 10.1.0.1 lladdr {} dev a0", text(ROUTER_IN_MAC)))?;
        sink.ip("addr add 10.2.0.2/24 dev b0")?;
        sink.ip("route add default via 10.2.0.1")?;
        sink.ip(&format!("neigh add 10.2.0.1 lladdr {} dev b0", text(ROUTER_OUT_MAC)))?;
        Ok(Self { source, router, sink })
    }
}

/// Returns the index of an interface of this thread's namespace.
pub fn index(interface: &str) -> u32 {
    interface_index(interface).unwrap()
}

fn text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
