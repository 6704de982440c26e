//! Points of a characterisation on the emulated server: real packets, workers that behave like its
//! cores.

use wattline_demo::scale::{Plan, run};
use wattline_reproduce::characterise::{Grid, Interval, Point, Router};
use wattline_scale::Setting;
use wattline_study::fit::Row;
use wattline_units::Span;

/// Ratio of real time to model time.
const DILATION: u32 = 500;
/// Recorded model time of a point.
const DURATION: Span = Span::from_millis(4);
const WARMUP: Span = Span::from_micros(400);
const INTERVALS: u64 = 10;
/// Largest number of runs of a point until one is undisturbed.
const ATTEMPTS: usize = 3;

/// Measures all points one after the other, and calls `done` after each.
///
/// # Errors
/// Fails when this machine is too busy to emulate the server, or a run fails.
pub fn measure(router: &Router<'_>, done: impl Fn()) -> Result<Vec<Row>, String> {
    let points = router.points(Grid::Coarse).map_err(|error| error.to_string())?;
    let row = |(index, at): (usize, &Point)| {
        let intervals = emulate(router, at)?;
        done();
        Ok(at.row(index + 1, &intervals))
    };
    points.iter().enumerate().map(row).collect()
}

fn emulate(router: &Router<'_>, at: &Point) -> Result<Vec<Interval>, String> {
    let plan = Plan {
        setting: Setting {
            server: router.server.clone(),
            application: router.application,
            policy: router.policy(at).map_err(|error| error.to_string())?,
            mean_bytes: router.bytes.into(),
            dilation: DILATION,
            seed: router.seed,
        },
        duration: DURATION,
        warmup: WARMUP,
        interval: DURATION / INTERVALS,
    };
    let mut because = String::new();
    for _ in 0..ATTEMPTS {
        let outcome =
            run(&plan, router.source(at), |_, _| {}).map_err(|error| error.to_string())?;
        let Some(disturbed) = outcome.disturbed_because() else {
            let intervals = outcome.record.intervals.iter();
            let of = |it: &wattline_governor::account::Interval| {
                it.power_watts.map(|watts| (it.forwarded_rate_pps, watts))
            };
            return intervals.map(of).collect::<Option<_>>().ok_or_else(|| {
                format!("{} cores at {:.3} GHz: no power", at.cores, at.frequency.gigahertz())
            });
        };
        because = disturbed;
    }
    Err(format!(
        "scale: this machine is too busy to emulate {} cores at {:.3} GHz ({because}); stop other \
         programs, or leave out --on scale",
        at.cores,
        at.frequency.gigahertz()
    ))
}
