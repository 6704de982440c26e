//! Flow records as Prometheus metrics.

use super::exporter::Exporter;
use super::loss_log::Losses;
use wattline_daemon::metrics::{Exposition, Kind};

/// Writes the records that were sent to collectors, and the lost ones.
pub(super) fn write(to: &mut Exposition, losses: Losses, exporters: &[Exporter]) {
    let help = "Flow records that a collector was sent.";
    to.family("wattline_flow_records_total", Kind::Counter, help);
    for exporter in exporters {
        to.sample(&[("collector", &exporter.name())], exporter.sent() as f64);
    }
    let help = "Flow records that were lost: by overload, before they came to any collector, or \
                because their collector did not take them.";
    to.family("wattline_flow_records_lost_total", Kind::Counter, help);
    to.sample(&[("collector", ""), ("reason", "overload")], losses.overload as f64);
    for exporter in exporters {
        let name = exporter.name();
        let labels = [("collector", name.as_str()), ("reason", "collector")];
        to.sample(&labels, exporter.lost() as f64);
    }
}
