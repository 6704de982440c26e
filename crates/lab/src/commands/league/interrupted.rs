//! Message when a signal ends a league.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::{flag, low_level};
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const ENDING: [i32; 2] = [SIGINT, SIGTERM];

/// Ends the wait for signals, also when the work panics, and restores their default actions.
struct SignalGuard {
    handle: Handle,
    default: Arc<AtomicBool>,
}

impl Drop for SignalGuard {
    fn drop(&mut self) {
        self.default.store(true, Ordering::SeqCst);
        self.handle.close();
    }
}

/// Runs `work`. The first signal prints a line on standard error and then takes its default action;
/// a second one does not wait for the line.
pub fn with_notice<T>(
    line: impl FnOnce() -> String + Send,
    work: impl FnOnce() -> T,
) -> io::Result<T> {
    let default = Arc::new(AtomicBool::new(false));
    for signal in ENDING {
        // In this order: the first signal finds the flag unset.
        flag::register_conditional_default(signal, Arc::clone(&default))?;
        flag::register(signal, Arc::clone(&default))?;
    }
    let mut signals = Signals::new(ENDING)?;
    let over = SignalGuard { handle: signals.handle(), default };
    Ok(std::thread::scope(|scope| {
        scope.spawn(move || {
            if let Some(signal) = signals.forever().next() {
                // Standard error may be closed.
                let _ = writeln!(io::stderr(), "wattline: {}", line());
                let _ = low_level::emulate_default_handler(signal);
            }
        });
        let _over = over;
        work()
    }))
}
