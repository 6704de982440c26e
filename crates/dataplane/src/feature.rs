//! Applications as parts of the graph: nodes that packets pass on their way through the router.
//!
//! An application has nodes of its own and names the [`Place`] at which IPv4 and IPv6 packets pass
//! them. Several applications at one place form a chain, in the order in which they are given. A
//! node passes a packet to the next application of the chain, or back to the router, through an
//! edge to [`NEXT`]. Its other edges name nodes as usual.

use crate::node::Node;

/// Name of an edge to the next application of the chain, or back to the router.
pub const NEXT: &str = "@next";
/// Name of the node that leaves packets to the kernel.
const PUNT: &str = "punt";
/// Matches every node that has the named edge.
const ANY: &str = "@any";

/// Point on the path of packets at which they pass an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Directly after `ip4-input` or `ip6-input`, before all applications at [`Self::Received`]: for
    /// nodes that restore a packet which another router has replaced. Every check of received
    /// packets then sees the packet that will be forwarded.
    Arrived,
    /// Between `ip4-input` or `ip6-input` and the lookup. The packets are valid, and their next hop
    /// is not known yet. Packets for the router itself pass here as well.
    Received,
    /// Between the lookup and `ip4-rewrite` or `ip6-rewrite`. The next hop is known and reachable,
    /// the TTL is still the received one, and the length has not been compared with the MTU.
    Routed,
    /// Before `punt`, from any node: all packets that are left to the kernel. Packets of both IP
    /// versions and of other protocols go to the node that [`Feature::ipv4`] names.
    Punted,
}

impl Place {
    /// Returns the router's edges at this place as pairs of nodes, for IPv4 and for IPv6.
    fn ends(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Arrived | Self::Received => {
                &[("ip4-input", "ip4-lookup"), ("ip6-input", "ip6-lookup")]
            }
            Self::Routed => &[("ip4-lookup", "ip4-rewrite"), ("ip6-lookup", "ip6-rewrite")],
            Self::Punted => &[(ANY, PUNT)],
        }
    }

    /// Returns the router's node after which the nodes of an application run.
    fn behind(self) -> &'static str {
        match self {
            Self::Arrived | Self::Received => "ip6-input",
            Self::Routed => "ip6-lookup",
            Self::Punted => "icmp6-error",
        }
    }
}

/// An application in one worker.
pub struct Feature {
    /// Place at which packets pass the application.
    pub place: Place,
    /// Name of the node, one of `nodes`, that receives IPv4 packets; `None` if they bypass it.
    pub ipv4: Option<&'static str>,
    /// Name of the node that receives IPv6 packets; `None` if they bypass the application.
    pub ipv6: Option<&'static str>,
    /// Nodes of the application, in the order in which they run when several have packets waiting.
    pub nodes: Vec<Box<dyn Node>>,
}

/// Nodes of a graph, with redirected edges.
pub struct Plan {
    /// The nodes, upstream first.
    pub nodes: Vec<Box<dyn Node>>,
    detours: Vec<Detour>,
}

/// Redirection of the edge between two nodes.
struct Detour {
    from: &'static str,
    edge: &'static str,
    to: &'static str,
}

impl Plan {
    /// Makes a plan of these nodes, without applications.
    pub fn new(nodes: Vec<Box<dyn Node>>) -> Self {
        Self { nodes, detours: Vec::new() }
    }

    /// Inserts applications.
    #[must_use]
    pub fn with(mut self, mut features: Vec<Feature>) -> Self {
        // Stable sort: the order within a place is kept. `Arrived` and `Received` form one chain.
        features.sort_by_key(|feature| feature.place);
        for place in [Place::Received, Place::Routed, Place::Punted] {
            let is_here = move |feature: &&Feature| feature.place.ends() == place.ends();
            let here = || features.iter().filter(is_here);
            let mut ends = place.ends().iter();
            if let Some(four) = ends.next() {
                self.detour(*four, here().filter_map(|feature| feature.ipv4));
            }
            if let Some(six) = ends.next() {
                self.detour(*six, here().filter_map(|feature| feature.ipv6));
            }
        }
        for feature in features.into_iter().rev() {
            // Placed right after the router's node that leads there, so that they run before its
            // successor.
            let behind = feature.place.behind();
            let position = self.nodes.iter().position(|node| node.name() == behind);
            let at = position.map_or(self.nodes.len(), |position| position + 1);
            self.nodes.splice(at..at, feature.nodes);
        }
        self
    }

    /// Redirects the edge between two nodes through `chain`.
    fn detour(
        &mut self,
        (from, to): (&'static str, &'static str),
        chain: impl Iterator<Item = &'static str>,
    ) {
        let (mut last, mut edge) = (from, to);
        for node in chain {
            self.detours.push(Detour { from: last, edge, to: node });
            (last, edge) = (node, NEXT);
        }
        if last != from {
            self.detours.push(Detour { from: last, edge, to });
        }
    }

    /// Returns the name of the node that an edge leads to.
    pub fn target(&self, from: &'static str, edge: &'static str) -> &'static str {
        let find = |from| self.detours.iter().find(|it| it.from == from && it.edge == edge);
        find(from).or_else(|| find(ANY)).map_or(edge, |detour| detour.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Context, Edge, Graph};
    use crate::packet::Packet;

    struct Named(&'static str, &'static [&'static str]);

    impl Node for Named {
        fn name(&self) -> &'static str {
            self.0
        }
        fn next(&self) -> &'static [&'static str] {
            self.1
        }
        fn process(&mut self, _: &mut Context, _: &mut [Packet], _: &mut [Edge]) {}
    }

    fn node(name: &'static str, next: &'static [&'static str]) -> Box<dyn Node> {
        Box::new(Named(name, next))
    }

    fn router() -> Plan {
        Plan::new(vec![
            node("ip4-input", &["ip4-lookup"]),
            node("ip6-input", &["ip6-lookup"]),
            node("ip4-lookup", &["ip4-rewrite"]),
            node("ip6-lookup", &["ip6-rewrite"]),
            node("ip4-rewrite", &["ip4-lookup"]),
            node("ip6-rewrite", &[]),
        ])
    }

    fn feature(place: Place, name: &'static str) -> Feature {
        Feature { place, ipv4: Some(name), ipv6: None, nodes: vec![node(name, &[NEXT])] }
    }

    #[test]
    fn applications_at_one_place_form_a_chain() {
        let plan = router().with(vec![
            feature(Place::Received, "first"),
            feature(Place::Routed, "routed"),
            feature(Place::Received, "second"),
        ]);
        let graph = Graph::new(plan, 1).unwrap();
        let expected = [
            ("ip4-input", "first"),
            ("ip6-input", "ip6-lookup"),
            ("first", "second"),
            ("second", "ip4-lookup"),
            ("ip4-lookup", "routed"),
            ("ip6-lookup", "ip6-rewrite"),
            ("routed", "ip4-rewrite"),
            ("ip4-rewrite", "ip4-lookup"),
        ];
        assert_eq!(graph.edges(), expected);
    }

    /// The order in which applications are given does not matter for this.
    #[test]
    fn restored_packets_pass_all_checks_of_received_packets() {
        let plan = router().with(vec![
            feature(Place::Received, "filter"),
            feature(Place::Received, "decrypt"),
            feature(Place::Arrived, "restore"),
        ]);
        let graph = Graph::new(plan, 1).unwrap();
        let expected = [
            ("ip4-input", "restore"),
            ("restore", "filter"),
            ("filter", "decrypt"),
            ("decrypt", "ip4-lookup"),
        ];
        for edge in expected {
            assert!(graph.edges().contains(&edge), "{edge:?}: {:?}", graph.edges());
        }
        assert_eq!(graph.names()[1..5], ["ip6-input", "restore", "filter", "decrypt"]);
    }

    /// Two applications at `Punted`; packets that another application punts pass them as well.
    #[test]
    fn punted_packets_pass_features_at_punted() {
        let mut plan = router();
        plan.nodes.push(node("icmp6-error", &["punt"]));
        plan.nodes.push(node("punt", &[]));
        let other = Feature {
            nodes: vec![node("routed", &[NEXT, "punt"])],
            ..feature(Place::Routed, "routed")
        };
        let doors = ["first", "second"].map(|name| feature(Place::Punted, name));
        let features = doors.into_iter().chain([other]).collect();
        let graph = Graph::new(plan.with(features), 1).unwrap();
        for edge in
            [("icmp6-error", "first"), ("routed", "first"), ("first", "second"), ("second", "punt")]
        {
            assert!(graph.edges().contains(&edge), "{edge:?}: {:?}", graph.edges());
        }
    }

    #[test]
    fn without_applications_nothing_changes() {
        let edges = |plan| Graph::new(plan, 1).unwrap().edges();
        assert_eq!(edges(router().with(Vec::new())), edges(router()));
    }
}
