//! Paths of packets through the nodes, one value each.

use super::capture::reason_name;
use super::form::Form;
use super::rounds::Seen;
use crate::application::RuleNames;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use wattline_daemon::stream::Outlet;
use wattline_dataplane::drop_reason::DropReason;
use wattline_dataplane::tap::filter::Headers;
use wattline_dataplane::tap::record::{Kind, Record};
use wattline_status::TracedPacket;

/// Most unfinished packets; beyond, all are sent as they are.
const OPEN_MOST: usize = 4096;

/// An unfinished packet.
#[derive(Debug, Clone)]
struct Open {
    first: Record,
    made_by: Option<u8>,
    nodes: Vec<u8>,
    next_hop: Option<IpAddr>,
    end: Option<End>,
}

#[derive(Debug, Clone, Copy)]
enum End {
    Sent(u16),
    /// Dropped, with the reason and the number of a rule.
    Dropped(u8, u16),
    LeftToKernel,
    Consumed,
}

/// See the module.
pub(super) struct Trace {
    ports: Vec<String>,
    nodes: Vec<&'static str>,
    rules: Option<RuleNames>,
    open: HashMap<(usize, u32), Open>,
}

impl Trace {
    /// Creates a trace in a router with these ports and nodes, and names of rules.
    pub fn new(ports: Vec<String>, nodes: Vec<&'static str>, rules: Option<RuleNames>) -> Self {
        Self { ports, nodes, rules, open: HashMap::new() }
    }

    fn node(&self, number: u8) -> &'static str {
        self.nodes.get(usize::from(number)).copied().unwrap_or("unknown")
    }

    fn port(&self, number: u16) -> &str {
        self.ports.get(usize::from(number)).map_or("unknown", String::as_str)
    }

    fn note(&mut self, worker: usize, record: &Record) {
        let key = (worker, record.packet);
        let made_by = match record.kind {
            Kind::Made(by) => Some(by),
            Kind::Received => None,
            _ => {
                let Some(way) = self.open.get_mut(&key) else { return };
                match record.kind {
                    Kind::Visits(node) => way.nodes.push(node),
                    Kind::Sent => way.end = Some(End::Sent(record.port)),
                    Kind::Dropped(reason) => way.end = Some(End::Dropped(reason, record.port)),
                    Kind::LeftToKernel => way.end = Some(End::LeftToKernel),
                    Kind::Consumed(_) => way.end = Some(End::Consumed),
                    Kind::NextHop => way.next_hop = address(&record.bytes),
                    Kind::Held(_) | Kind::Received | Kind::Made(_) | Kind::Round => {}
                }
                return;
            }
        };
        let (first, nodes) = (record.clone(), Vec::new());
        self.open.insert(key, Open { first, made_by, nodes, next_hop: None, end: None });
    }

    /// Takes the packets that are `ready`, the oldest first.
    fn take(&mut self, ready: impl Fn(&Open) -> bool) -> Vec<(usize, Open)> {
        let taken = self.open.extract_if(|_, way| ready(way));
        let mut taken: Vec<_> = taken.map(|((worker, _), way)| (worker, way)).collect();
        taken.sort_by_key(|(worker, way)| (way.first.time_nanos, *worker, way.first.packet));
        taken
    }

    fn describe(&self, worker: usize, open: &Open) -> TracedPacket {
        let Record { packet, port, time_nanos, length, bytes, .. } = &open.first;
        let (end, reason, to) = match open.end {
            Some(End::Sent(port)) => ("sent", None, Some(self.port(port))),
            Some(End::Dropped(reason, _)) => ("dropped", Some(reason), None),
            Some(End::LeftToKernel) => ("left to the kernel", None, None),
            Some(End::Consumed) => ("went on in other packets", None, None),
            None => ("held for its neighbour", None, None),
        };
        let means = reason.and_then(|reason| DropReason::ALL.get(usize::from(reason)));
        let by_rule =
            means.is_some_and(|it| matches!(it, DropReason::AclDenied | DropReason::AclUnreadable));
        let rule = match open.end {
            Some(End::Dropped(_, rule)) if by_rule => self.rules.as_ref().and_then(|it| it(rule)),
            _ => None,
        };
        TracedPacket {
            packet: *packet,
            worker,
            time_seconds: *time_nanos as f64 / 1e9,
            port: self.port(*port).to_owned(),
            made_by: open.made_by.map(|node| self.node(node).to_owned()),
            headers: Headers::parse(bytes).to_string(),
            length_bytes: (*length).into(),
            nodes: open.nodes.iter().map(|node| self.node(*node).to_owned()).collect(),
            end: end.to_owned(),
            port_out: to.map(str::to_owned),
            next_hop: open.next_hop.map(|address| address.to_string()),
            reason: reason.map(reason_name).map(Into::into),
            rule,
            meaning: means.map(|reason| reason.description().trim().to_owned()),
        }
    }

    fn send(&self, ready: &[(usize, Open)], out: &mut Outlet<'_>) -> io::Result<u64> {
        for (worker, way) in ready {
            out.event(&self.describe(*worker, way))?;
        }
        Ok(ready.len() as u64)
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(IpAddr::from(*bytes.first_chunk::<4>()?)),
        16 => Some(IpAddr::from(*bytes.first_chunk::<16>()?)),
        _ => None,
    }
}

impl Form for Trace {
    fn begin(&mut self, _: &mut Outlet<'_>) -> io::Result<()> {
        Ok(())
    }

    fn round(&mut self, seen: &Seen, out: &mut Outlet<'_>) -> io::Result<u64> {
        for record in &seen.records {
            self.note(seen.worker, record);
        }
        let mut ready = self.take(|way| way.end.is_some());
        if self.open.len() > OPEN_MOST {
            ready.extend(self.take(|_| true));
        }
        self.send(&ready, out)
    }

    fn end(&mut self, _: u64, _: u64, out: &mut Outlet<'_>) -> io::Result<u64> {
        let ready = self.take(|_| true);
        self.send(&ready, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_sent_once_with_its_end() {
        let mut trace = Trace::new(vec!["a".to_owned(), "b".to_owned()], vec!["in", "drop"], None);
        let record = |kind, port| Record {
            kind,
            packet: 1,
            port,
            time_nanos: 5_000_000_000,
            length: 60,
            bytes: Vec::new(),
        };
        for (kind, port) in [(Kind::Received, 1), (Kind::Visits(0), 1), (Kind::Held(0), 0)] {
            trace.note(0, &record(kind, port));
        }
        assert!(trace.take(|way| way.end.is_some()).is_empty());
        trace.note(0, &record(Kind::Visits(1), 1));
        trace.note(0, &record(Kind::Dropped(DropReason::NeighbourTimeout as u8), 0));
        // An event of a packet whose beginning was missed.
        trace.note(1, &record(Kind::Sent, 0));
        let ready = trace.take(|way| way.end.is_some());
        assert_eq!(ready.len(), 1);
        let shown = trace.describe(ready[0].0, &ready[0].1);
        assert_eq!((&*shown.port, shown.nodes), ("b", vec!["in".to_owned(), "drop".to_owned()]));
        assert_eq!((&*shown.end, shown.reason.as_deref()), ("dropped", Some("neighbour-timeout")));
        assert_eq!(shown.time_seconds, 5.0);
        assert!(shown.meaning.unwrap().contains("did not answer"));
        assert!(trace.open.is_empty());
    }

    #[test]
    fn rule_that_denied_a_packet_is_named() {
        let names: RuleNames = Box::new(|number| (number == 2).then(|| "no-telnet".to_owned()));
        let mut trace = Trace::new(vec!["a".to_owned()], vec!["acl4", "drop"], Some(names));
        let (denied, no_route) = (DropReason::AclDenied as u8, DropReason::NoRoute as u8);
        let mut rule_of = |packet, reason, port| {
            for (kind, port) in [(Kind::Received, 0), (Kind::Dropped(reason), port)] {
                let bytes = Vec::new();
                trace.note(0, &Record { kind, packet, port, time_nanos: 1, length: 60, bytes });
            }
            let ready = trace.take(|way| way.end.is_some());
            trace.describe(ready[0].0, &ready[0].1).rule
        };
        assert_eq!(rule_of(1, denied, 2).as_deref(), Some("no-telnet"));
        assert_eq!(rule_of(2, DropReason::AclUnreadable as u8, 2).as_deref(), Some("no-telnet"));
        assert_eq!(rule_of(3, denied, 0), None, "none matched");
        assert_eq!(rule_of(4, no_route, 2), None, "the number is that of a port");
    }
}
