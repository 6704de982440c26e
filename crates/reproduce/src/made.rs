//! Cache of results that several figures share, or that a changed input does not affect.

use crate::error::ReproduceError;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Results by their inputs, each computed once per process.
pub(crate) struct Memo<K, T>(Mutex<Vec<Entry<K, T>>>);

type Entry<K, T> = (K, Arc<OnceLock<Result<T, String>>>);

impl<K: PartialEq, T: Clone> Memo<K, T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Returns the result for a key; the first call computes it with `make`.
    ///
    /// # Errors
    /// The error of `make`, on every call.
    pub(crate) fn get_or_make(
        &self,
        key: K,
        make: impl FnOnce() -> Result<T, ReproduceError>,
    ) -> Result<T, ReproduceError> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = entries.iter().find(|entry| entry.0 == key).map(|(_, made)| made.clone());
        let made = found.unwrap_or_else(|| {
            let made = Arc::default();
            entries.push((key, Arc::clone(&made)));
            made
        });
        drop(entries);
        made.get_or_init(|| make().map_err(|error| error.to_string()))
            .clone()
            .map_err(ReproduceError::Model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_is_made_once_for_each_key() {
        let made: Memo<(u32, &str), u32> = Memo::new();
        let fails = || Err(ReproduceError::Model("again".into()));
        assert_eq!(made.get_or_make((1, "a"), || Ok(3)).unwrap(), 3);
        assert_eq!(made.get_or_make((1, "a"), fails).unwrap(), 3);
        assert_eq!(made.get_or_make((1, "b"), || Ok(4)).unwrap(), 4);
        assert!(made.get_or_make((2, "a"), fails).is_err());
    }
}
