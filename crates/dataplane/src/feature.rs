//! Applications as parts of the graph: nodes that packets pass on their way through the router.
//!
//! An application brings nodes of its own and says at which [`Place`] IPv4 and IPv6 packets
//! pass them. Several at one place form a chain, in the order in which they are given. A node
//! hands a packet to whatever follows, the next application or the router itself, by an edge to
//! [`NEXT`]; its other edges name nodes as everywhere.

use crate::node::Node;

/// The name of an edge to whatever follows at this place.
pub const NEXT: &str = "@next";
/// The way to the kernel.
const PUNT: &str = "punt";
/// Whichever node has an edge of the name.
const ANY: &str = "@any";

/// Where packets pass an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Between `ip4-input` or `ip6-input` and the lookup: packets that were found in order, and
    /// of which nobody knows yet where they go. Those for the router itself pass here too.
    Received,
    /// Between the lookup and `ip4-rewrite` or `ip6-rewrite`: packets whose next hop is known
    /// and can be reached, with their TTL as it was received and their length not yet held
    /// against the MTU.
    Routed,
    /// Before `punt`, from whichever node: all that is left to the kernel. Packets of both IP
    /// versions and of other protocols come to the node that [`Feature::ipv4`] names.
    Punted,
}

impl Place {
    /// The nodes of the router on both sides, for IPv4 and for IPv6.
    fn ends(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Received => &[("ip4-input", "ip4-lookup"), ("ip6-input", "ip6-lookup")],
            Self::Routed => &[("ip4-lookup", "ip4-rewrite"), ("ip6-lookup", "ip6-rewrite")],
            Self::Punted => &[(ANY, PUNT)],
        }
    }

    /// The router's node behind which those of an application run.
    fn behind(self) -> &'static str {
        match self {
            Self::Received => "ip6-input",
            Self::Routed => "ip6-lookup",
            Self::Punted => "icmp6-error",
        }
    }
}

/// An application as one worker runs it.
pub struct Feature {
    /// Where packets pass it.
    pub place: Place,
    /// Which of `nodes` IPv4 packets come to; `None` where they pass by.
    pub ipv4: Option<&'static str>,
    /// The same for IPv6.
    pub ipv6: Option<&'static str>,
    /// Its nodes, in the order in which they run when several have packets waiting.
    pub nodes: Vec<Box<dyn Node>>,
}

/// The nodes of a graph, and what its edges are called.
pub struct Plan {
    /// Upstream first.
    pub nodes: Vec<Box<dyn Node>>,
    detours: Vec<Detour>,
}

/// The edge from one node to another leads elsewhere.
struct Detour {
    from: &'static str,
    edge: &'static str,
    to: &'static str,
}

impl Plan {
    /// A graph of these nodes alone.
    pub fn new(nodes: Vec<Box<dyn Node>>) -> Self {
        Self { nodes, detours: Vec::new() }
    }

    /// Puts applications into it.
    #[must_use]
    pub fn with(mut self, features: Vec<Feature>) -> Self {
        for place in [Place::Received, Place::Routed, Place::Punted] {
            let here = || features.iter().filter(move |feature| feature.place == place);
            let mut ends = place.ends().iter();
            if let Some(four) = ends.next() {
                self.detour(*four, here().filter_map(|feature| feature.ipv4));
            }
            if let Some(six) = ends.next() {
                self.detour(*six, here().filter_map(|feature| feature.ipv6));
            }
        }
        for feature in features.into_iter().rev() {
            // Right behind the router's node that leads there, so that they run before what follows.
            let behind = feature.place.behind();
            let position = self.nodes.iter().position(|node| node.name() == behind);
            let at = position.map_or(self.nodes.len(), |position| position + 1);
            self.nodes.splice(at..at, feature.nodes);
        }
        self
    }

    /// Leads what goes from one end to the other through `chain`.
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

    /// The node that an edge leads to.
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

    /// Two at the door to the kernel; also what another application punts passes them.
    #[test]
    fn what_is_punted_passes_who_stands_there() {
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
