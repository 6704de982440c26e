//! `wattline trace`: paths of single packets through a running router.

use super::watch::{WatchArgs, parsed, part, summary};
use crate::exit::ExitError;
use crate::output::{self, note};
use std::io::{self, Write};
use wattline_daemon::socket::Request;
use wattline_daemon::stream::Part;
use wattline_status::Way;

/// Bytes of a packet from which its headers are read.
const SNAP: u16 = 256;

/// Packets to trace.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    watch: WatchArgs,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let mut inlet = args.watch.begin(SNAP, Request::Trace)?;
    let mut out = output::stdout();
    let mut first = None;
    loop {
        match part(&mut inlet)? {
            Part::Bytes(_) => {}
            Part::Event(way) if json => writeln!(out, "{way}")?,
            Part::Event(way) => {
                let way: Way = parsed(way)?;
                let time = way.time_seconds;
                write(&way, time - *first.get_or_insert(time), &mut out)?;
            }
            Part::End(end) if json => return Ok(writeln!(out, "{end}")?),
            Part::End(end) => {
                note!("{}", summary(&parsed(end)?));
                return Ok(());
            }
        }
        out.flush()?;
    }
}

/// Prints a packet, with the time since the first in seconds.
fn write(way: &Way, seconds: f64, out: &mut impl Write) -> io::Result<()> {
    let origin = match &way.made_by {
        Some(node) => format!("made by {node}"),
        None => format!("in by {}", way.port),
    };
    writeln!(out, "{seconds:.6}  {origin}: {}, {} bytes", way.headers, way.length_bytes)?;
    writeln!(out, "    {}", way.nodes.join(" > "))?;
    let known = |text: &Option<String>| text.clone().unwrap_or_default();
    let end = match &*way.end {
        "sent" => {
            let to = way.next_hop.as_ref().map_or_else(String::new, |it| format!(" to {it}"));
            format!("sent by {}{to}", known(&way.port_out))
        }
        "dropped" => {
            let rule = way.rule.as_ref().map_or_else(String::new, |it| format!(" by rule {it}"));
            format!("dropped, {}{rule}: {}", known(&way.reason), known(&way.meaning))
        }
        other => other.to_owned(),
    };
    writeln!(out, "    {end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_takes_three_lines() {
        let mut out = Vec::new();
        let mut way = Way {
            port: "left".to_owned(),
            headers: "a > b udp".to_owned(),
            length_bytes: 60,
            nodes: vec!["x".to_owned(), "y".to_owned()],
            end: "sent".to_owned(),
            port_out: Some("right".to_owned()),
            ..Way::default()
        };
        write(&way, 0.5, &mut out).unwrap();
        way.next_hop = Some("192.0.2.9".to_owned());
        write(&way, 0.75, &mut out).unwrap();
        way.end = "dropped".to_owned();
        (way.reason, way.meaning) = (Some("no-route".to_owned()), Some("No route.".to_owned()));
        way.made_by = Some("icmp4-error".to_owned());
        write(&way, 1.0, &mut out).unwrap();
        way.rule = Some("no-telnet".to_owned());
        write(&way, 2.0, &mut out).unwrap();
        let expected = "0.500000  in by left: a > b udp, 60 bytes\n    x > y\n    sent by right\n\
                        0.750000  in by left: a > b udp, 60 bytes\n    x > y\n    sent by right to \
                        192.0.2.9\n\
                        1.000000  made by icmp4-error: a > b udp, 60 bytes\n    x > y\n    \
                        dropped, no-route: No route.\n\
                        2.000000  made by icmp4-error: a > b udp, 60 bytes\n    x > y\n    \
                        dropped, no-route by rule no-telnet: No route.\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
