//! `wattline graph`: the nodes of a router as a drawing.

use super::ask::{Daemon, print_json};
use crate::exit::ExitError;
use crate::output;
use std::io::{self, Write};
use wattline_daemon::socket::Request;
use wattline_status::Graph;

/// Router, and the form of the drawing.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print it for Graphviz: `wattline graph --dot | dot -Tsvg`.
    #[arg(long, conflicts_with = "json")]
    dot: bool,
    #[command(flatten)]
    daemon: Daemon,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let graph: Graph = args.daemon.ask(Request::Graph)?;
    let mut out = output::stdout();
    if json {
        print_json(&mut out, &graph)?;
    } else if args.dot {
        print_dot(&graph, &mut out)?;
    } else {
        print(&graph, &mut out)?;
    }
    Ok(())
}

/// Returns the edges as pairs of node names; an edge that two reasons take is drawn once.
fn edges(graph: &Graph) -> Vec<(&str, &str)> {
    let place = |name: &str| graph.nodes.iter().position(|node| node.name == name);
    let pair = |[from, to]: &[String; 2]| Some((place(from)?, place(to)?));
    let mut edges: Vec<_> = graph.edges.iter().filter_map(pair).collect();
    edges.sort_unstable();
    edges.dedup();
    let name = |place: usize| graph.nodes[place].name.as_str();
    edges.into_iter().map(|(from, to)| (name(from), name(to))).collect()
}

/// Prints nodes in the order in which packets meet them, each with its successors.
fn print(graph: &Graph, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{:<20} {:>14} {:>14}  leads to", "node", "packets", "cycles/packet")?;
    let edges = edges(graph);
    for node in &graph.nodes {
        let name = &*node.name;
        let next: Vec<&str> =
            edges.iter().filter(|(from, _)| *from == name).map(|(_, to)| *to).collect();
        let arrow =
            if next.is_empty() { String::new() } else { format!("─▶ {}", next.join(", ")) };
        writeln!(out, "{name:<20} {:>14} {:>14.1}  {arrow}", node.packets, node.cycles_per_packet,)?;
        if name == "drop" {
            for (reason, count) in &graph.dropped {
                writeln!(out, "  └ {reason:<16} {count:>14}")?;
            }
        }
    }
    if let count @ 1.. = graph.xdp_forwarded {
        writeln!(out, "{:<20} {count:>14}  by XDP programs, seen by no node", "forwarded")?;
    }
    Ok(())
}

fn print_dot(graph: &Graph, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "digraph wattline {{\n  rankdir=LR;\n  node [shape=box];")?;
    for node in &graph.nodes {
        let (name, packets, cycles) = (&node.name, node.packets, node.cycles_per_packet);
        writeln!(
            out,
            "  \"{name}\" [label=\"{name}\\n{packets} packets\\n{cycles:.1} cycles/packet\"];"
        )?;
    }
    for (from, to) in edges(graph) {
        writeln!(out, "  \"{from}\" -> \"{to}\";")?;
    }
    writeln!(out, "}}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_status::NodeStats;

    fn drawn(print: impl Fn(&Graph, &mut Vec<u8>) -> io::Result<()>) -> String {
        let node = |name: &str, packets: u64| NodeStats {
            name: name.to_owned(),
            packets,
            cycles_per_packet: 12.25,
            ..NodeStats::default()
        };
        let edge = |from: &str, to: &str| [from.to_owned(), to.to_owned()];
        let graph = Graph {
            nodes: vec![node("input", 7), node("drop", 2), node("output", 5)],
            edges: vec![edge("input", "output"), edge("input", "drop"), edge("input", "drop")],
            dropped: [("no-route".to_owned(), 2)].into(),
            ..Graph::default()
        };
        let mut out = Vec::new();
        print(&graph, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn nodes_have_counters_edges_and_drops() {
        let text = drawn(super::print);
        assert!(
            text.contains("input                             7           12.2  ─▶ drop, output"),
            "{text}"
        );
        assert!(text.contains("└ no-route                      2"), "{text}");
    }

    #[test]
    fn graphviz_gets_every_node_and_each_edge_once() {
        let text = drawn(print_dot);
        assert_eq!(text.matches("->").count(), 2, "{text}");
        assert_eq!(text.matches("label=").count(), 3, "{text}");
    }
}
