//! Results that several figures share, or that a changed input leaves as they are.

use crate::error::ReproduceError;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Results by what they depend on, each computed once per process, whoever asks first.
pub(crate) struct Made<K, T>(Mutex<Vec<Entry<K, T>>>);

type Entry<K, T> = (K, Arc<OnceLock<Result<T, String>>>);

impl<K: PartialEq, T: Clone> Made<K, T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Returns the result for a key, made by `make` if nobody asked for it before.
    ///
    /// # Errors
    /// Those of `make`, each time.
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
        let made: Made<(u32, &str), u32> = Made::new();
        let fails = || Err(ReproduceError::Model("again".into()));
        assert_eq!(made.get_or_make((1, "a"), || Ok(3)).unwrap(), 3);
        assert_eq!(made.get_or_make((1, "a"), fails).unwrap(), 3);
        assert_eq!(made.get_or_make((1, "b"), || Ok(4)).unwrap(), 4);
        assert!(made.get_or_make((2, "a"), fails).is_err());
    }
}
