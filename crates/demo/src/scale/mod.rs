//! A router on the platform `scale`, between a generator and a listener in this process.
//!
//! Real frames of a [`Source`] pass cards in memory, workers that behave like the cores of a server
//! model, and the routes of the real data plane. A listener at the far end counts them by flow and
//! sequence number. Neither root nor network interfaces are needed. All times and rates of a source
//! are model time.

mod feed;
mod frames;
mod listener;
mod outcome;
mod router;

pub use listener::ListenerCounts;
pub use outcome::{Delivery, Outcome, Plan};

use crate::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use wattline_governor::account::Interval;
use wattline_scale::Scale;
use wattline_traffic::Source;
use wattline_units::Time;

/// Runs a plan with the packets of a source; `each` is called at the end of every interval, with
/// the running emulation.
///
/// # Errors
/// Fails when the setting contradicts itself, or when packets or threads are not available.
pub fn run(
    plan: &Plan,
    source: Box<dyn Source>,
    mut each: impl FnMut(&Interval, &Scale),
) -> Result<Outcome, Error> {
    let mut router = router::Router::new(&plan.setting)?;
    let end = Time::ZERO + plan.warmup + plan.duration;
    let mut feed = feed::Feed::new(router.card(), source, end);
    // The first frames are sent before the clock starts.
    feed.send_ahead()?;
    router.start()?;
    let stop = AtomicBool::new(false);
    let (record, fed) = std::thread::scope(|scope| {
        let router = &router;
        let sender = std::thread::Builder::new()
            .name("feed".to_owned())
            .spawn_scoped(scope, || feed.run(router.scale().clock(), &stop))
            .map_err(|source| wattline_testbed::Error::io("starting the generator", source))?;
        let from = Time::ZERO + plan.warmup;
        let record = router.scale().record(from, plan.duration, plan.interval, |interval| {
            each(interval, router.scale());
        });
        stop.store(true, Ordering::Release);
        let fed = sender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok::<_, Error>((record?, fed?))
    })?;
    router.finish(record, fed)
}
