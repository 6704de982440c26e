//! Runs the steps and simulations of a reproduction in parallel.
//!
//! Each step has a thread of its own. The simulations of all steps run in the process's one pool of
//! threads ([`wattline_sim::sweep`]): while one step computes alone, simulations of others keep the
//! cores busy. Steps may wait for each other, such as for a shared simulation, because they never
//! run inside that pool.

use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::own::OwnTraffic;
use crate::step::Step;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;

/// Progress of a step, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<'a> {
    /// The step begins.
    Begins(&'a str),
    /// The figures of the step are complete.
    Ends(&'a str),
}

type Made = Result<Vec<Figure>, ReproduceError>;

/// Makes the figures of all steps, in the order of the steps. No step begins after one has failed.
///
/// # Errors
/// The error of the first step, in the order of the steps, that failed.
pub(crate) fn run(
    steps: &[&'static Step],
    inputs: &Inputs,
    own: Option<&OwnTraffic>,
    progress: impl FnMut(Progress<'_>) + Send,
) -> Result<Vec<Vec<Figure>>, ReproduceError> {
    // One thread more than cores, so that a step that waits for another leaves no core idle.
    let leaders = available_parallelism().map_or(1, NonZeroUsize::get) + 1;
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let progress = Mutex::new(progress);
    let report = |event: Progress<'_>| {
        (*progress.lock().unwrap_or_else(PoisonError::into_inner))(event);
    };
    let lead = || {
        let mut made: Vec<(usize, Made)> = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(step) = steps.get(index) else { break };
            report(Progress::Begins(step.name));
            let figures = match (own, step.own) {
                (None, _) => (step.run)(inputs),
                (Some(own), Some(run)) => run(inputs, own),
                (Some(_), None) => {
                    Err(ReproduceError::Model(format!("{}: takes no traffic", step.name)))
                }
            };
            match figures {
                Ok(_) => report(Progress::Ends(step.name)),
                Err(_) => failed.store(true, Ordering::Relaxed),
            }
            made.push((index, figures));
        }
        made
    };
    let mut all: Vec<(usize, Made)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..leaders.min(steps.len())).map(|_| scope.spawn(lead)).collect();
        let made = threads.into_iter().map(|thread| thread.join());
        made.flat_map(|made| made.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, made)| made).collect()
}

/// Runs all jobs in parallel on all cores of this machine; results are in the order of the jobs.
pub(crate) fn side_by_side<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, ReproduceError> + Sync,
) -> Result<Vec<R>, ReproduceError> {
    let results = wattline_sim::sweep(items, 0, work, || ())
        .map_err(|error| ReproduceError::Model(format!("threads cannot be started: {error}")))?;
    results.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_report::Table;

    fn figure(id: &'static str) -> Figure {
        Figure {
            id,
            title: String::new(),
            about: String::new(),
            table: Table::new(["none"]),
            plots: Vec::new(),
            checks: Vec::new(),
        }
    }

    static FIRST: Step = Step::new("first", &["a"], |_| {
        // Ends after the second step, whose figure must still come second.
        std::thread::sleep(std::time::Duration::from_millis(50));
        Ok(vec![figure("a")])
    });
    static SECOND: Step = Step::new("second", &["b"], |_| Ok(vec![figure("b")]));
    static BROKEN: Step =
        Step::new("broken", &["c"], |_| Err(ReproduceError::Model("broken".into())));

    #[test]
    fn figures_come_in_the_order_of_the_steps() {
        let mut events = Vec::new();
        let made = run(&[&FIRST, &SECOND], &Inputs::default(), None, |progress| {
            events.push(format!("{progress:?}"))
        })
        .unwrap();
        let ids: Vec<_> = made.iter().flatten().map(|figure| figure.id).collect();
        assert_eq!(ids, ["a", "b"]);
        events.sort();
        let expected =
            ["Begins(\"first\")", "Begins(\"second\")", "Ends(\"first\")", "Ends(\"second\")"];
        assert_eq!(events, expected);
    }

    #[test]
    fn failing_step_ends_the_run_with_its_error() {
        let mut ended = Vec::new();
        let result = run(&[&BROKEN, &FIRST], &Inputs::default(), None, |progress| {
            if let Progress::Ends(name) = progress {
                ended.push(name.to_owned());
            }
        });
        assert_eq!(result.unwrap_err().to_string(), "broken");
        assert!(!ended.contains(&"broken".to_owned()));
    }
}
