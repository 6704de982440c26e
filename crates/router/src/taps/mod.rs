//! Taps of workers and XDP programs: copies of forwarded packets while captures and traces run.

pub(super) mod copying;
pub(super) mod watchers;
