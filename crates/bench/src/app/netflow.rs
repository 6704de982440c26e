//! `netflow`: flow records of every packet; the table holds all flows of the traffic.

use super::application::Application;
use super::args::Args;
use super::report::Cost;
use crate::memory_router::Error;
use serde_json::json;
use wattline_dataplane::feature::Feature;
use wattline_flow_records::nodes::{Records, Settings, worker};

/// The flow table and the channel of its records.
struct Netflow {
    feature: Option<Feature>,
    records: Records,
}

/// Creates a table with twice as many entries as flows, so that evictions are rare.
pub(super) fn make(args: &Args) -> Result<Vec<Box<dyn Application>>, Error> {
    let settings = Settings { flows: args.flows.saturating_mul(2), ..Settings::default() };
    let (feature, records) = worker(&settings);
    Ok(vec![Box::new(Netflow { feature: Some(feature), records })])
}

impl Application for Netflow {
    fn name(&self) -> &'static str {
        "netflow"
    }

    fn features(&mut self) -> Vec<Feature> {
        self.feature.take().into_iter().collect()
    }

    fn settle(&mut self) -> Result<(), Error> {
        self.records.take(usize::MAX, |_| {});
        Ok(())
    }

    fn counted(&self, _: &Cost) -> serde_json::Value {
        let [mut counts, ipv6] = self.records.totals();
        counts.merge(&ipv6);
        json!(counts)
    }
}
