//! Waiting for a condition or a value, within a limit that even a busy machine meets.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// Limit of each wait.
pub const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);

/// A condition, or a value that may be missing.
pub trait Awaited {
    /// Type of the value; `()` for a condition.
    type Found;

    /// Returns the value, if the condition holds.
    fn found(self) -> Option<Self::Found>;
}

impl Awaited for bool {
    type Found = ();

    fn found(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Awaited for Option<T> {
    type Found = T;

    fn found(self) -> Option<T> {
        self
    }
}

/// Waits until a condition holds or a value is present.
///
/// # Panics
/// With `what`, after [`PATIENCE`].
#[track_caller]
pub fn until<A: Awaited>(what: &str, look: impl FnMut() -> A) -> A::Found {
    until_or(look, || format!("not in time: {what}"))
}

/// Waits until a condition holds or a value is present.
///
/// # Panics
/// With the reason, which is then queried, after [`PATIENCE`].
#[track_caller]
pub fn until_or<A: Awaited, D: Display>(
    mut look: impl FnMut() -> A,
    reason: impl FnOnce() -> D,
) -> A::Found {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().found() {
            return found;
        }
        assert!(Instant::now() < end, "{}", reason());
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::until;

    #[test]
    fn conditions_and_values_are_waited_for() {
        let mut left = 3;
        until("zero", || {
            left -= 1;
            left == 0
        });
        let mut texts = [None, Some("there")].into_iter();
        assert_eq!(until("a text", || texts.next().flatten()), "there");
    }
}
