//! `wattline graph`: the nodes of a router as a drawing.

use super::ask::Which;
use crate::exit::ExitError;
use crate::output;
use serde_json::Value;
use std::io::{self, Write};
use wattline_daemon::socket::Request;

/// Which router, and how to draw it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print it for Graphviz: `wattline graph --dot | dot -Tsvg`.
    #[arg(long, conflicts_with = "json")]
    dot: bool,
    #[command(flatten)]
    which: Which,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let graph = args.which.ask(Request::Graph)?;
    let mut out = output::stdout();
    if json {
        writeln!(out, "{graph:#}")?;
    } else if args.dot {
        print_dot(&graph, &mut out)?;
    } else {
        print(&graph, &mut out)?;
    }
    Ok(())
}

fn nodes(graph: &Value) -> impl Iterator<Item = &Value> {
    graph["nodes"].as_array().into_iter().flatten()
}

/// The edges as names of nodes; an edge that two reasons take is drawn once.
fn edges(graph: &Value) -> Vec<(&str, &str)> {
    let pair = |edge: &'_ Value| -> Option<(usize, usize)> {
        let place = |name: &Value| nodes(graph).position(|node| node["name"] == *name);
        Some((place(&edge[0])?, place(&edge[1])?))
    };
    let mut edges: Vec<_> =
        graph["edges"].as_array().into_iter().flatten().filter_map(pair).collect();
    edges.sort_unstable();
    edges.dedup();
    let names: Vec<&str> = nodes(graph).filter_map(|node| node["name"].as_str()).collect();
    edges.into_iter().map(|(from, to)| (names[from], names[to])).collect()
}

/// Nodes in the order in which packets meet them, each with those that it leads to.
fn print(graph: &Value, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{:<20} {:>14} {:>14}  leads to", "node", "packets", "cycles/packet")?;
    let edges = edges(graph);
    for node in nodes(graph) {
        let name = node["name"].as_str().unwrap_or_default();
        let next: Vec<&str> =
            edges.iter().filter(|(from, _)| *from == name).map(|(_, to)| *to).collect();
        let arrow =
            if next.is_empty() { String::new() } else { format!("─▶ {}", next.join(", ")) };
        writeln!(
            out,
            "{name:<20} {:>14} {:>14.1}  {arrow}",
            node["packets"].as_u64().unwrap_or(0),
            node["cycles_per_packet"].as_f64().unwrap_or(0.0),
        )?;
        if name == "drop" {
            for (reason, count) in graph["dropped"].as_object().into_iter().flatten() {
                writeln!(out, "  └ {reason:<16} {:>14}", count.as_u64().unwrap_or(0))?;
            }
        }
    }
    if let Some(count @ 1..) = graph["xdp_forwarded"].as_u64() {
        writeln!(out, "{:<20} {count:>14}  by XDP programs, seen by no node", "forwarded")?;
    }
    Ok(())
}

fn print_dot(graph: &Value, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "digraph wattline {{\n  rankdir=LR;\n  node [shape=box];")?;
    for node in nodes(graph) {
        let name = node["name"].as_str().unwrap_or_default();
        let packets = node["packets"].as_u64().unwrap_or(0);
        let cycles = node["cycles_per_packet"].as_f64().unwrap_or(0.0);
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
    use serde_json::json;

    fn drawn(print: impl Fn(&Value, &mut Vec<u8>) -> io::Result<()>) -> String {
        let node = |name: &str, packets: u64| json!({ "name": name, "packets": packets, "cycles_per_packet": 12.25 });
        let graph = json!({
            "nodes": [node("input", 7), node("drop", 2), node("output", 5)],
            "edges": [["input", "output"], ["input", "drop"], ["input", "drop"]],
            "dropped": { "no-route": 2 },
        });
        let mut out = Vec::new();
        print(&graph, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn nodes_stand_with_their_counters_ways_and_drops() {
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
