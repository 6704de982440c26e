//! Progress display while the traffic flows: a bar if standard error is a terminal, and figures for
//! a dashboard.

use crate::watch::Watch;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;
use wattline_status::{DemonstrationStats, LinkStats};

/// Progress bar of one pass.
pub struct Live<'a> {
    bar: ProgressBar,
    total: u64,
    watch: &'a Watch,
}

impl<'a> Live<'a> {
    /// Creates a bar of `total` packets; indicatif draws nothing without a terminal.
    pub fn new(forwarder: &str, traffic: &str, total: u64, watch: &'a Watch) -> Self {
        let bar = ProgressBar::new(total).with_prefix(format!("{forwarder}: {traffic}"));
        if let Ok(style) = ProgressStyle::with_template(
            "{prefix:32} {bar:30} {human_pos:>11} / {human_len} offered  {msg}",
        ) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, total, watch }
    }

    /// Updates the bar from the counts of source and sink. Asking the forwarder would take measured
    /// processor time.
    pub fn show(&self, sent: u64, received: u64) {
        self.bar.set_position(sent);
        self.bar.set_message(format!(
            "{received} forwarded, {} in flight or lost",
            sent.saturating_sub(received)
        ));
        self.watch.publish(sent as f64 / self.total.max(1) as f64, || {
            let link = |name: &str, received_packets, transmitted_packets| LinkStats {
                name: name.to_owned(),
                received_packets,
                transmitted_packets,
                ..LinkStats::default()
            };
            let links = vec![link("from the source", sent, 0), link("to the sink", 0, received)];
            DemonstrationStats { ports: Some(links), ..DemonstrationStats::default() }
        });
    }
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
