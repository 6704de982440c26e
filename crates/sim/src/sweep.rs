//! Many simulations in parallel.

use rayon::prelude::*;
use rayon::{ThreadPoolBuildError, ThreadPoolBuilder};

/// Calls `work` for every item on this many threads (0: the threads that the whole process shares,
/// one per core of this machine, so that concurrent sweeps do not compete). The results are in the
/// order of the items and do not depend on the number of threads. `done` is called after each item.
/// `work` must not wait for another sweep.
///
/// # Errors
/// Fails if the threads cannot be started.
pub fn sweep<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
    done: impl Fn() + Sync,
) -> Result<Vec<R>, ThreadPoolBuildError> {
    // Simulations are long and of different length, so items are handed out one by one.
    let each = |item| {
        let result = work(item);
        done();
        result
    };
    let all = || items.par_iter().with_max_len(1).map(each).collect();
    if threads == 0 {
        return Ok(all());
    }
    Ok(ThreadPoolBuilder::new().num_threads(threads).build()?.install(all))
}
