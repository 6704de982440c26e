//! `wattline trace`: paths of single packets through a running router.

use super::watch::{WatchArgs, parsed, part, summary};
use crate::exit::ExitError;
use crate::output::{self, note};
use std::io::{self, Write};
use wattline_daemon::socket::Request;
use wattline_daemon::stream::Part;
use wattline_status::TracedPacket;

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
            Part::Event(packet) if json => writeln!(out, "{packet}")?,
            Part::Event(packet) => {
                let packet: TracedPacket = parsed(packet)?;
                let time = packet.time_seconds;
                write(&packet, time - *first.get_or_insert(time), &mut out)?;
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
fn write(packet: &TracedPacket, seconds: f64, out: &mut impl Write) -> io::Result<()> {
    let origin = match &packet.made_by {
        Some(node) => format!("made by {node}"),
        None => format!("in by {}", packet.port),
    };
    writeln!(out, "{seconds:.6}  {origin}: {}, {} bytes", packet.headers, packet.length_bytes)?;
    writeln!(out, "    {}", packet.nodes.join(" > "))?;
    let known = |text: &Option<String>| text.clone().unwrap_or_default();
    let end = match &*packet.end {
        "sent" => {
            let to = packet.next_hop.as_ref().map_or_else(String::new, |it| format!(" to {it}"));
            format!("sent by {}{to}", known(&packet.port_out))
        }
        "dropped" => {
            let rule = packet.rule.as_ref().map_or_else(String::new, |it| format!(" by rule {it}"));
            format!("dropped, {}{rule}: {}", known(&packet.reason), known(&packet.meaning))
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
        let mut packet = TracedPacket {
            port: "left".to_owned(),
            headers: "a > b udp".to_owned(),
            length_bytes: 60,
            nodes: vec!["x".to_owned(), "y".to_owned()],
            end: "sent".to_owned(),
            port_out: Some("right".to_owned()),
            ..TracedPacket::default()
        };
        write(&packet, 0.5, &mut out).unwrap();
        packet.next_hop = Some("192.0.2.9".to_owned());
        write(&packet, 0.75, &mut out).unwrap();
        packet.end = "dropped".to_owned();
        (packet.reason, packet.meaning) =
            (Some("no-route".to_owned()), Some("No route.".to_owned()));
        packet.made_by = Some("icmp4-error".to_owned());
        write(&packet, 1.0, &mut out).unwrap();
        packet.rule = Some("no-telnet".to_owned());
        write(&packet, 2.0, &mut out).unwrap();
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
