//! Common part of the benchmarks that take minutes; most of them write a page.

use indicatif::ProgressBar;
use std::time::Duration;

/// Runs a measurement and shows its progress on the terminal.
pub(super) fn with_progress<T>(measure: impl FnOnce(&mut dyn FnMut(&str)) -> T) -> T {
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(200));
    let result = measure(&mut |line| bar.set_message(line.to_owned()));
    bar.finish_and_clear();
    result
}
