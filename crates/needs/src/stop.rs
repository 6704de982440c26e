//! Threads that end with the test that started them.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets a flag for threads when it goes out of scope, also by a panic: a scope waits for its
/// threads, so a failed test would hang otherwise.
#[derive(Debug)]
pub struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::StopOnDrop;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn panic_sets_the_flag() {
        let stop = AtomicBool::new(false);
        let caught = std::panic::catch_unwind(|| {
            let _stop = StopOnDrop(&stop);
            panic!("the test fails");
        });
        assert!(caught.is_err() && stop.load(Ordering::Acquire));
    }
}
