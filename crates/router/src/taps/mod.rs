//! The taps of workers and XDP programs: copies of what they forward, for captures and traces, while these last.

pub(super) mod copying;
pub(super) mod watchers;
