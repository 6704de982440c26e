//! Many simulations side by side.

use rayon::prelude::*;
use rayon::{ThreadPoolBuildError, ThreadPoolBuilder};

/// Does `work` for every item on so many threads (0: one for each core of this machine).
/// The results come in the order of the items and are the same whatever the number of
/// threads; `done` is called after each.
///
/// # Errors
/// When the threads cannot be started.
pub fn sweep<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
    done: impl Fn() + Sync,
) -> Result<Vec<R>, ThreadPoolBuildError> {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build()?;
    // One simulation is long and its length unlike the next one's: hand them out singly.
    let each = |item| {
        let result = work(item);
        done();
        result
    };
    Ok(pool.install(|| items.par_iter().with_max_len(1).map(each).collect()))
}
