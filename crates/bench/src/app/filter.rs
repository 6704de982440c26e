//! `acl`, `acl-long`, `urpf`: access lists in which every packet is compared with every rule, and
//! the loose reverse-path check.

use super::application::Application;
use super::args::Args;
use super::report::Cost;
use crate::memory_router::Error;
use serde_json::json;
use wattline_dataplane::feature::Feature;
use wattline_filter::acl::rule::{Action, Rule};
use wattline_filter::acl::{self, Tally};
use wattline_filter::urpf::{self, SourceCheck};

/// Ports of the router between memory rings.
const PORTS: usize = 2;

struct Filter {
    name: &'static str,
    features: Vec<Feature>,
    tally: Option<Tally>,
}

/// Creates an access list of 64 rules.
pub(super) fn make(_: &Args) -> Result<Vec<Box<dyn Application>>, Error> {
    Ok(list("acl", 64))
}

/// Creates an access list of 1024 rules.
pub(super) fn make_long(_: &Args) -> Result<Vec<Box<dyn Application>>, Error> {
    Ok(list("acl-long", 1024))
}

/// Creates the reverse-path check.
pub(super) fn make_urpf(_: &Args) -> Result<Vec<Box<dyn Application>>, Error> {
    let features = urpf::worker(&[Some(SourceCheck::Loose); PORTS]);
    Ok(vec![Box::new(Filter { name: "urpf", features, tally: None })])
}

/// Creates an access list whose rules deny destinations that no packet has, followed by a rule that
/// permits all.
fn list(name: &'static str, rules: u32) -> Vec<Box<dyn Application>> {
    let all = Rule {
        name: "rest".to_owned(),
        on: Vec::new(),
        action: Action::Permit,
        sources: Vec::new(),
        destinations: Vec::new(),
        protocols: Vec::new(),
        source_ports: Vec::new(),
        destination_ports: Vec::new(),
    };
    // Loopback addresses are on no wire.
    let denied = |number: u32| Rule {
        name: number.to_string(),
        action: Action::Deny,
        destinations: [std::net::Ipv4Addr::from(0x7f00_0000 + (number << 8))]
            .into_iter()
            .filter_map(|first| Some(ipnet::Ipv4Net::new(first, 24).ok()?.into()))
            .collect(),
        protocols: vec![6, 17],
        destination_ports: vec![number as u16..=number as u16],
        ..all.clone()
    };
    let rules: Vec<Rule> = (0..rules - 1).map(denied).chain([all.clone()]).collect();
    let (features, tally) = acl::worker(&rules, PORTS);
    vec![Box::new(Filter { name, features, tally: Some(tally) })]
}

impl Application for Filter {
    fn name(&self) -> &'static str {
        self.name
    }

    fn features(&mut self) -> Vec<Feature> {
        std::mem::take(&mut self.features)
    }

    fn counted(&self, _: &Cost) -> serde_json::Value {
        let matched = self.tally.iter().flat_map(Tally::packets);
        json!({ "permitted_packets": matched.last(), "rules": self.tally.as_ref().map(Tally::rules) })
    }
}
