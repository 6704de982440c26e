//! Measures accesses per second of the cache simulator: of the cache alone, and of the whole
//! receive path. Run with `cargo run --release -p wattline-server --example cache_speed`.

use std::hint::black_box;
use wattline_study::receive::{Cache, Data, Phase, ReceivePath};

/// Processor time of this thread in seconds; other programs do not count.
fn processor_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split(' ').next().unwrap_or_default().parse::<f64>()? / 1e9)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for megabytes in [1_u64, 4, 16, 32] {
        let mut best = f64::MAX;
        for _ in 0..5 {
            let mut cache = Cache::new(megabytes << 20, 16)?;
            let (count, mut at, mut misses) = (20_000_000_u32, 1_u32, 0_u64);
            let begin = processor_seconds()?;
            for _ in 0..count {
                // Half of the accesses are anywhere in 8 MB, half are near the previous one.
                at = at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let line = if at & 1 == 0 { at >> 15 } else { at >> 27 };
                misses += u64::from(
                    cache.access(line, at & 2 == 0) != wattline_study::receive::Found::Hit,
                );
            }
            black_box(misses);
            best = best.min((processor_seconds()? - begin) / f64::from(count));
        }
        println!("cache of {megabytes:>2} MB: {:.1} M accesses/s (best of 5)", 1e-6 / best);
    }
    // Aging takes no accesses, so that its time is measured alone and subtracted.
    let path = ReceivePath::default();
    let mut best = f64::MAX;
    let mut outcome = path.run(1)?;
    for _ in 0..5 {
        let begin = processor_seconds()?;
        path.run(1)?;
        let start_up = processor_seconds()? - begin;
        let begin = processor_seconds()?;
        outcome = path.run(400_000)?;
        best = best.min(processor_seconds()? - begin - start_up);
    }
    let touches: u64 = Phase::ALL
        .iter()
        .flat_map(|phase| Data::ALL.map(|data| outcome.counts(*phase, data).touches))
        .sum();
    println!(
        "receive path: {:.1} M accesses/s, {:.2} M packets/s (best of 5)",
        touches as f64 / best / 1e6,
        outcome.packets as f64 / best / 1e6
    );
    for phase in Phase::ALL {
        for data in Data::ALL {
            let counts = outcome.counts(phase, data);
            if counts.touches > 0 {
                println!(
                    "{phase:?} {data:?}: touches {:.3} l1 {:.3} llc {:.3} hidden {:.3}",
                    outcome.per_packet(counts.touches),
                    outcome.per_packet(counts.l1_misses),
                    outcome.per_packet(counts.llc_misses),
                    outcome.per_packet(counts.hidden_misses)
                );
            }
        }
    }
    println!(
        "reuse: SKB {:?}, page {:?}",
        outcome.skb_distance.mean(),
        outcome.page_distance.mean()
    );
    Ok(())
}
