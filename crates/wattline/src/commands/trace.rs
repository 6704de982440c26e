//! `wattline trace`: the ways of single packets through a running router.

use super::looking::{Looking, part, summary};
use crate::exit::ExitError;
use crate::output::{self, note};
use serde_json::Value;
use std::io::{self, Write};
use wattline_daemon::socket::Request;
use wattline_daemon::stream::Part;

/// Bytes of a packet that its headers are read from.
const SNAP: u16 = 256;

/// Which packets.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    looking: Looking,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let (_, mut inlet) = args.looking.begin(SNAP, Request::Trace)?;
    let mut out = output::stdout();
    let mut first = None;
    loop {
        match part(&mut inlet)? {
            Part::Bytes(_) => {}
            Part::Event(way) if json => writeln!(out, "{way}")?,
            Part::Event(way) => {
                let time = way["time_seconds"].as_f64().unwrap_or(0.0);
                write(&way, time - *first.get_or_insert(time), &mut out)?;
            }
            Part::End(end) if json => return Ok(writeln!(out, "{end}")?),
            Part::End(end) => {
                note!("{}", summary(&end));
                return Ok(());
            }
        }
        out.flush()?;
    }
}

/// One packet, so many seconds after the first.
fn write(way: &Value, seconds: f64, out: &mut impl Write) -> io::Result<()> {
    let text = |key: &str| way[key].as_str().unwrap_or_default();
    let origin = match way["made_by"].as_str() {
        Some(node) => format!("made by {node}"),
        None => format!("in by {}", text("port")),
    };
    writeln!(out, "{seconds:.6}  {origin}: {}, {} bytes", text("headers"), way["length_bytes"])?;
    let nodes = way["nodes"].as_array().into_iter().flatten().filter_map(Value::as_str);
    writeln!(out, "    {}", nodes.collect::<Vec<_>>().join(" > "))?;
    let end = match text("end") {
        "sent" => format!("sent by {}", text("port_out")),
        "dropped" => format!("dropped, {}: {}", text("reason"), text("meaning")),
        other => other.to_owned(),
    };
    writeln!(out, "    {end}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_way_is_three_lines() {
        let mut out = Vec::new();
        let mut way = json!({
            "port": "left", "headers": "a > b udp", "length_bytes": 60, "nodes": ["x", "y"],
            "end": "sent", "port_out": "right",
        });
        write(&way, 0.5, &mut out).unwrap();
        way["end"] = "dropped".into();
        (way["reason"], way["meaning"]) = ("no-route".into(), "No route.".into());
        way["made_by"] = "icmp4-error".into();
        write(&way, 1.0, &mut out).unwrap();
        let expected = "0.500000  in by left: a > b udp, 60 bytes\n    x > y\n    sent by right\n\
                        1.000000  made by icmp4-error: a > b udp, 60 bytes\n    x > y\n    \
                        dropped, no-route: No route.\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
