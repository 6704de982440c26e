//! An audit on demand: the addresses that are still to be compared, and its report.

use super::comparison::{Difference, Question, ends};
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;
use wattline_daemon::stream::Outlet;
use wattline_linux::netlink::Decision;
use wattline_rib::{Rib, Treatment, route_errors};
use wattline_status::{AuditDecision, AuditDifference, AuditHop, AuditReport};

/// Differences that a report lists; others are counted.
const MOST_LISTED: usize = 1000;
/// Time between two checks that the report is still wanted.
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// An audit on demand.
pub(super) struct OnDemand {
    /// Addresses outside are not compared.
    within: Option<IpNet>,
    /// Prefixes whose addresses are still to be compared, and addresses of the last one.
    prefixes: Vec<IpNet>,
    addresses: Vec<IpAddr>,
    /// Prefixes that differ.
    found: BTreeSet<IpNet>,
    not_compared: BTreeMap<String, u64>,
    report: AuditReport,
    to: Sender<Finding>,
    reader: Weak<()>,
}

/// Part of an audit on demand: each difference when it is found, and the report at the end.
enum Finding {
    Difference(AuditDifference),
    Report(AuditReport),
}

/// Receiver of the differences and the report.
pub(crate) struct Awaited {
    findings: Receiver<Finding>,
    _reader: Arc<()>,
}

impl OnDemand {
    /// Begins an audit of all prefixes, or of those within one.
    pub fn new(rib: &Rib, within: Option<IpNet>) -> (Self, Awaited) {
        let mut prefixes = rib.some_prefixes(1);
        match within {
            Some(within) => {
                prefixes.retain(|prefix| within.contains(prefix));
                prefixes.push(within);
            }
            None => prefixes.extend([IpNet::default(), IpNet::V6(ipnet::Ipv6Net::default())]),
        }
        prefixes.sort_unstable();
        prefixes.dedup();
        let (to, findings) = channel();
        let reader = Arc::new(());
        let audit = Self {
            within,
            prefixes,
            addresses: Vec::new(),
            found: BTreeSet::new(),
            not_compared: BTreeMap::new(),
            report: AuditReport::default(),
            to,
            reader: Arc::downgrade(&reader),
        };
        (audit, Awaited { findings, _reader: reader })
    }

    /// Returns true while the report is awaited.
    pub fn is_wanted(&self) -> bool {
        self.reader.strong_count() > 0
    }

    /// Takes the next address; `draw` returns a random address within a prefix.
    pub fn next(&mut self, draw: impl FnOnce(IpNet) -> IpAddr) -> Option<IpAddr> {
        if self.addresses.is_empty() {
            let prefix = self.prefixes.pop()?;
            self.addresses.extend(ends(prefix));
            self.addresses.push(draw(prefix));
            self.addresses.retain(|address| self.within.is_none_or(|it| it.contains(address)));
            self.addresses.sort_unstable();
            self.addresses.dedup();
        }
        self.addresses.pop()
    }

    /// Returns true if all addresses were taken.
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty() && self.addresses.is_empty()
    }

    pub fn count_compared(&mut self) {
        self.report.compared += 1;
    }

    pub fn count_left(&mut self) {
        self.report.left_to_kernel += 1;
    }

    pub fn count_not_compared(&mut self, why: String) {
        *self.not_compared.entry(why).or_default() += 1;
    }

    /// Adds a lasting difference, also one that the periodic audit found.
    pub fn add(&mut self, rib: &Rib, question: &Question, difference: &Difference) {
        let is_outside = self.within.is_some_and(|it| !it.contains(&question.destination));
        if is_outside || !self.found.insert(difference.prefix) {
            return;
        }
        self.report.total += 1;
        if self.report.differences.len() < MOST_LISTED {
            let difference = shown(rib, question, difference);
            self.report.differences.push(difference.clone());
            // The reader may have gone.
            let _ = self.to.send(Finding::Difference(difference));
        }
    }

    /// Sends the report.
    pub fn finish(mut self) {
        self.report.not_compared = self.not_compared;
        // The reader may have gone.
        let _ = self.to.send(Finding::Report(self.report));
    }
}

impl Awaited {
    /// Returns the report if it is there.
    #[cfg(test)]
    pub fn report(&self) -> Option<AuditReport> {
        self.findings.try_iter().find_map(|finding| match finding {
            Finding::Report(report) => Some(report),
            Finding::Difference(_) => None,
        })
    }

    /// Sends differences as they are found and the report at the end, unless the other side
    /// disconnects before.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn send(&self, out: &mut Outlet<'_>) -> io::Result<()> {
        loop {
            match self.findings.recv_timeout(CHECK_EVERY) {
                Ok(Finding::Difference(difference)) => out.event(&difference)?,
                Ok(Finding::Report(report)) => return out.end(&report),
                Err(RecvTimeoutError::Timeout) if out.is_wanted() => {}
                Err(_) => return Ok(()),
            }
        }
    }
}

fn shown(rib: &Rib, question: &Question, difference: &Difference) -> AuditDifference {
    let Question { source, destination, ingress, .. } = *question;
    let interface = |link: u32| rib.link_name(link).map(str::to_owned);
    let hop = |link: u32, to: IpAddr| AuditHop { interface: interface(link), address: to };
    let kernel = match difference.kernel {
        Decision::Forward { link, gateway } => {
            forwarded(vec![hop(link, gateway.unwrap_or(destination))])
        }
        Decision::Local => decided("deliver to this machine"),
        Decision::Refused(error) => refused(error),
    };
    let wattline = match &difference.ours {
        Treatment::Kernel => decided("leave to the kernel"),
        Treatment::Refused(error) => refused(*error),
        Treatment::Forward(ways) => {
            forwarded(ways.iter().map(|(link, to)| hop(*link, *to)).collect())
        }
    };
    AuditDifference {
        prefix: difference.prefix.to_string(),
        source,
        destination,
        ingress: interface(ingress),
        kernel,
        wattline,
    }
}

fn decided(action: &str) -> AuditDecision {
    AuditDecision { action: action.to_owned(), next_hops: Vec::new() }
}

fn forwarded(next_hops: Vec<AuditHop>) -> AuditDecision {
    AuditDecision { next_hops, ..decided("forward") }
}

fn refused(error: i32) -> AuditDecision {
    decided(match error {
        route_errors::PROHIBITED => "prohibited",
        route_errors::BLACKHOLE => "discard",
        route_errors::NO_ROUTE => "no route",
        _ => "unreachable",
    })
}
