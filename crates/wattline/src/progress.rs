//! Progress of jobs that take minutes: a bar on a terminal; elsewhere, such as in a file or a
//! service's log, an occasional line.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal as _, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time between two lines.
const PACE: Duration = Duration::from_secs(10);

/// Progress of work whose pieces are counted.
pub struct Counted {
    bar: ProgressBar,
    /// Lines, printed where no bar is drawn.
    lines: Option<Mutex<Lines>>,
    what: &'static str,
}

/// Time of the last line, and of the start.
struct Lines {
    began: Instant,
    last: Instant,
}

impl Lines {
    /// Returns the line that is due at this time, if any.
    fn due(&mut self, now: Instant, done: u64, of: u64, what: &str) -> Option<String> {
        if now.duration_since(self.last) < PACE {
            return None;
        }
        self.last = now;
        let passed = now.duration_since(self.began).as_secs_f64();
        let left = passed / done.max(1) as f64 * of.saturating_sub(done) as f64;
        Some(format!("{done} of {of} {what} after {passed:.0} s, about {left:.0} s left"))
    }
}

impl Counted {
    /// Starts a bar for so many pieces; `what` names them.
    pub fn new(pieces: u64, what: &'static str) -> Self {
        let bar = ProgressBar::new(pieces);
        // The template is constant and valid; an error would only change the bar's looks.
        if let Ok(style) =
            ProgressStyle::with_template("{bar:30} {pos}/{len} {prefix}, {eta} left {msg}")
        {
            bar.set_style(style);
        }
        bar.set_prefix(what);
        let now = Instant::now();
        let lines =
            (!std::io::stderr().is_terminal()).then(|| Mutex::new(Lines { began: now, last: now }));
        if lines.is_none() {
            bar.enable_steady_tick(Duration::from_millis(500));
        }
        Self { bar, lines, what }
    }

    /// Counts one more finished piece.
    pub fn step(&self) {
        self.bar.inc(1);
        let Some(lines) = &self.lines else { return };
        let (done, of) = (self.bar.position(), self.bar.length().unwrap_or_default());
        let line = lines.lock().ok().and_then(|mut it| it.due(Instant::now(), done, of, self.what));
        if let Some(line) = line {
            // Progress that cannot be written is no reason to end.
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }

    /// Shows the current step; on a terminal only.
    pub fn show(&self, message: String) {
        self.bar.set_message(message);
    }

    /// Removes the bar.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Shows a message and the elapsed time on a terminal while `work` runs.
pub fn during<T>(what: &'static str, work: impl FnOnce() -> T) -> T {
    let bar = ProgressBar::new_spinner().with_message(what);
    // The template is constant and valid; an error would only change the line's looks.
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}, {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    let result = work();
    bar.finish_and_clear();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_every_ten_seconds() {
        let began = Instant::now();
        let mut lines = Lines { began, last: began };
        let at = |seconds| began + Duration::from_secs(seconds);
        assert_eq!(lines.due(at(9), 3, 12, "pieces"), None);
        let line = lines.due(at(10), 4, 12, "pieces");
        assert_eq!(line.as_deref(), Some("4 of 12 pieces after 10 s, about 20 s left"));
        assert_eq!(lines.due(at(19), 5, 12, "pieces"), None);
        assert!(lines.due(at(20), 0, 12, "pieces").is_some());
    }
}
