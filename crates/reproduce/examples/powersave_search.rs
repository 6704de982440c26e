//! Judges every reading of PowerSave's text by all claims about its controller, as planned in
//! `crates/reproduce/published/checks/powersave-readings.toml`: `cargo run --release -p
//! wattline-reproduce --example powersave_search`. The result is the same on any number of threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use wattline_report::{Check, Verdict};
use wattline_reproduce::ReproduceError;
use wattline_reproduce::powersave::readings::{
    Figures, Judged, Reading, References, RunLength, judge, maximal, readings,
};

const SHORT_SEED: u64 = 101;
const LONG_SEEDS: [u64; 2] = [201, 202];

fn main() -> Result<(), ReproduceError> {
    let shipped = Reading::shipped()?;
    let all = judge_all(&readings()?, RunLength::Short, SHORT_SEED)?;
    println!(
        "{} readings, short look, seed {SHORT_SEED}; checks met, by how many readings:",
        all.len()
    );
    for check in all.first().map_or(&[][..], |first| &first.checks) {
        let same = |own: &Check| own.quantity == check.quantity && own.verdict == Verdict::Meets;
        let met = |judged: &&Judged| judged.checks.iter().any(same);
        println!("{:5}  {}", all.iter().filter(met).count(), check.quantity);
    }
    let mut chosen: Vec<&Judged> = maximal(&all);
    let nearest = |of: &Judged| {
        of.figures.above_watts.into_iter().chain(of.figures.below_watts).fold(f64::MIN, f64::max)
    };
    chosen.extend(all.iter().min_by(|a, b| nearest(a).total_cmp(&nearest(b))));
    chosen.extend(all.iter().filter(|judged| judged.reading == shipped));
    println!("\nno other meets more, nearest to the optimum, shipped:");
    chosen.iter().for_each(|judged| print(judged));

    let mut long: Vec<Reading> = chosen.iter().map(|judged| judged.reading.clone()).collect();
    long.sort();
    long.dedup();
    let [first, second] = LONG_SEEDS;
    let second = judge_all(&long, RunLength::Long, second)?;
    let first = judge_all(&long, RunLength::Long, first)?;
    let mut both: Vec<Judged> =
        first.into_iter().zip(&second).map(|(first, second)| first.with(second)).collect();
    both.sort_by(Judged::order);
    println!("\nlong look, the worse of seeds {LONG_SEEDS:?}:");
    both.iter().for_each(print);
    let Some(now) = both.iter().find(|judged| judged.reading == shipped) else { return Ok(()) };
    match both.iter().find(|judged| judged.better_than(now)) {
        Some(better) => println!("\nbetter than the shipped one: {}", better.reading.policy()),
        None => println!("\nnone is better than the shipped one"),
    }
    for judged in &both {
        println!("\n{}", judged.reading.policy());
        for check in &judged.checks {
            println!(
                "  {:8} {}: {} ({})",
                check.verdict.text(),
                check.quantity,
                check.ours,
                check.published
            );
        }
    }
    Ok(())
}

fn judge_all(of: &[Reading], length: RunLength, seed: u64) -> Result<Vec<Judged>, ReproduceError> {
    let references = References::new(length, seed)?;
    let done = AtomicUsize::new(0);
    let each = |reading: &Reading| judge(reading, &Figures::of(reading, &references)?);
    let report_progress = || {
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(20) {
            eprintln!("{done} of {}", of.len());
        }
    };
    let results = wattline_sim::sweep(of, 0, each, report_progress)
        .map_err(|error| ReproduceError::Model(format!("threads cannot be started: {error}")))?;
    results.into_iter().collect()
}

fn print(judged: &Judged) {
    let it = &judged.figures;
    let watts = |of: &[f64; 4]| of.map(|watts| format!("{watts:.1}")).join(" ");
    println!(
        "{:2} met  {:66} above {:>21}  below {:>19}  day {:.1} {:.1} %  mean {:.1} us  p99 {:.0} us {:.1}x  overtaken {}  \
         lost {}  bursts {:.1} %  {:.0} changes/s  reaction {:.0} us",
        judged.met.len(),
        judged.reading.policy(),
        watts(&it.above_watts),
        watts(&it.below_watts),
        it.saving_click,
        it.saving_napi,
        it.mean_micros,
        it.peak_micros,
        it.peak_over_mean,
        it.reordered,
        it.lost,
        it.burst_range,
        it.changes_per_second,
        it.reaction_micros,
    );
}
