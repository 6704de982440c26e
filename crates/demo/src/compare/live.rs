//! Progress display while the traffic flows: a bar on a terminal, otherwise nothing.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// Progress bar of one pass.
pub struct Live(ProgressBar);

impl Live {
    /// Makes a bar of `total` packets; indicatif draws nothing without a terminal.
    pub fn new(forwarder: &str, traffic: &str, total: u64) -> Self {
        let bar = ProgressBar::new(total).with_prefix(format!("{forwarder}: {traffic}"));
        if let Ok(style) = ProgressStyle::with_template(
            "{prefix:32} {bar:30} {human_pos:>11} / {human_len} offered  {msg}",
        ) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// Updates the bar.
    pub fn show(&self, sent: u64, received: u64) {
        self.0.set_position(sent);
        self.0.set_message(format!(
            "{received} forwarded, {} under way or lost",
            sent.saturating_sub(received)
        ));
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
