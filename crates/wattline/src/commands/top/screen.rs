//! The view on a terminal, which is always restored.

use super::frame::{History, draw};
use crate::exit::ExitError;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGHUP, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use wattline_status::{Rates, Sample};

/// Longest delay until a signal is noticed.
const NAP: Duration = Duration::from_millis(100);

/// Restores the terminal when it goes out of scope; a panic's message comes after that, by the hook
/// that ratatui sets.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Ends the process when its terminal goes away. Nothing else would: a read from the closed
/// terminal returns no byte at once, and crossterm reads until there is one.
fn leave_at_hangup() -> std::io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP])?;
    std::thread::spawn(move || {
        if let Some(number) = signals.forever().next() {
            // For a signal that was sent by hand.
            let _ = ratatui::try_restore();
            std::process::exit(128 + number);
        }
    });
    Ok(())
}

/// Shows samples until `q`, Ctrl-C or a signal; its exit code then is 128 plus the signal's number.
pub fn run(
    first: Sample,
    interval: Duration,
    look: impl Fn() -> Result<Sample, ExitError>,
) -> Result<(), ExitError> {
    let signal = Arc::new(AtomicUsize::new(0));
    signal_hook::flag::register_usize(SIGTERM, Arc::clone(&signal), SIGTERM as usize)?;
    leave_at_hangup()?;
    let mut terminal = ratatui::try_init()?;
    let restored = Restored;
    let mut history = History::default();
    let mut before = first;
    let mut rates = Rates::between(&before, &before);
    let mut problem: Option<String> = None;
    let mut next = Instant::now() + interval;
    loop {
        terminal.draw(|frame| draw(frame, &rates, &history, problem.as_deref()))?;
        while Instant::now() < next {
            let number = signal.load(Ordering::Acquire);
            if number != 0 {
                drop(restored);
                let code = u8::try_from(128 + number).unwrap_or(ExitError::IO);
                return Err(ExitError::new(code, format!("ended by signal {number}")));
            }
            let wait = next.saturating_duration_since(Instant::now()).min(NAP);
            match event::poll(wait)?.then(event::read).transpose()? {
                Some(Event::Key(key)) if key.kind == KeyEventKind::Press => match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                    // The terminal sends no signal for it in this mode.
                    KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                        return Ok(());
                    }
                    _ => {}
                },
                Some(Event::Resize(..)) => break,
                _ => {}
            }
        }
        if Instant::now() < next {
            continue;
        }
        next = Instant::now() + interval;
        match look() {
            Ok(now) => {
                rates = Rates::between(&before, &now);
                history.push(&rates);
                before = now;
                problem = None;
            }
            // The router may be restarted: stay, and show the problem.
            Err(error) => problem = Some(error.message),
        }
    }
}
