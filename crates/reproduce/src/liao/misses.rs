//! Figures 4 to 8 and section 3.4: cache misses by data, reuse distances, and the effect of a
//! larger cache.

use super::assumptions::{self, headers};
use super::known::{ASSUMED, LEVEL_1, PACKETS, failed};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned::{self, Plan};
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_report::table::number;
use wattline_report::{Check, Grounds, Table};
use wattline_study::receive::cost::{self, DRIVER_CYCLES, REGISTER_CYCLES};
use wattline_study::receive::{
    Data, FRAME_LINES, Outcome, Phase, ReceivePath, Step, Streams, transmitted_accesses,
};

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let plan = planned::made_for(Paper::Liao)?;
    let mut all = vec![by_data(plan, inputs)?];
    all.extend(assumptions::figures(inputs)?);
    all.push(by_cache(plan, inputs)?);
    Ok(all)
}

fn run(path: &ReceivePath) -> Result<Outcome, ReproduceError> {
    path.run(PACKETS).map_err(failed)
}

fn by_data(plan: &'static Plan, inputs: &Inputs) -> Result<Figure, ReproduceError> {
    let path = inputs.receive_path()?;
    let base = run(&path)?;
    let plain = run(&ReceivePath { streams: Streams::OFF, ..path })?;
    let unprefetched = run(&ReceivePath { header_prefetch: false, ..path })?;
    let mut table = Table::new([
        "phase",
        "data",
        "touches_per_packet",
        "l1_misses_per_packet",
        "llc_misses_per_packet",
        "hidden_misses_per_packet",
        "waits_per_packet",
        "llc_misses_without_prefetcher",
    ]);
    for phase in Phase::ALL {
        for data in Data::ALL {
            let counts = base.counts(phase, data);
            if counts.touches == 0 {
                continue;
            }
            let each = |count: u64| format!("{:.4}", base.per_packet(count));
            table.row([
                format!("{phase:?}").to_lowercase(),
                format!("{data:?}").to_lowercase(),
                each(counts.touches),
                each(counts.l1_misses),
                each(counts.llc_misses),
                each(counts.hidden_misses),
                each(counts.late),
                format!("{:.4}", plain.misses(phase, data)),
            ]);
        }
    }
    let mut checks = driver(plan, &base, &plain, &unprefetched)?;
    checks.extend(copy_and_release(plan, &path, &base)?);
    Ok(Figure {
        id: "fig4-8",
        title: "Figures 4 to 8: misses of a received packet by step and data".into(),
        about: format!(
            "Simulated line by line: {PACKETS} packets of {FRAME_LINES} lines, 16 kB I/O, 8 \
             connections, one core, 4 MB of last-level cache with 16 ways, 32 kB of level 1. \
             Chains of up to 32 packets; a window of 65 535 B waits in each socket. Instructions, \
             sockets' own data and page tables are not modelled."
        ),
        table,
        plots: Vec::new(),
        checks,
    })
}

fn driver(
    plan: &'static Plan,
    base: &Outcome,
    plain: &Outcome,
    unprefetched: &Outcome,
) -> Result<Vec<Check>, ReproduceError> {
    let of = |outcome: &Outcome, data: Data| outcome.misses(Phase::Conversion, data);
    let distance = |distance: wattline_study::receive::Distance| distance.mean().unwrap_or(0.0);
    let (skb, page) = (distance(base.skb_distance), distance(base.page_distance));
    let (skb_misses, descriptor) = (of(base, Data::Skb), of(base, Data::Descriptor));
    let conversion = base.phase_misses(Phase::Conversion);
    let stall_share = conversion * cost::miss_cycles() / DRIVER_CYCLES * 100.0;
    // Steps 6 and 9.
    let registers = 2.0 * REGISTER_CYCLES / 60.0;
    let headers = [headers(base), headers(unprefetched)];
    let lines = (4 << 20) as f64 / 64.0;
    let steps = base.steps == Step::ALL;
    let all = vec![
        plan.holds("steps", steps, format!("{:?}", base.steps))?,
        plan.check("skb-misses", &[skb_misses])?
            .note(
                "two lines of an SKB miss before the prefetcher follows; where neighbouring SKBs \
                 follow one another it has some of them already",
            )
            .fitted(ASSUMED),
        plan.check("descriptor-misses", &[descriptor])?.note(
            "the first two lines of each batch miss, then the prefetcher runs ahead; it hardly \
             depends on the length of the rings",
        ),
        plan.check("descriptor-misses-plain", &[of(plain, Data::Descriptor)])?,
        plan.holds(
            "header-misses",
            headers[0] < 0.01 && headers[1] > 0.9,
            format!("{:.3} with, {:.3} without", headers[0], headers[1]),
        )?
        .note("the driver prefetches the first line, level 1 the second")
        .fitted(LEVEL_1),
        plan.check("skb-distance", &[skb / 1e3])?
            .note("accesses for data only: fetching instructions would add to them")
            .fitted(ASSUMED),
        plan.check("page-distance", &[page / 1e3])?
            .note("accesses for data only: fetching instructions would add to them")
            .fitted(ASSUMED),
        plan.check("page-distance-lines", &[page / lines])?.fitted(ASSUMED),
        plan.check("page-after-skb", &[if skb > 0.0 { page / skb } else { 0.0 }])?.note(
            "a page structure is used again when its buffer is released, an SKB when it is filled",
        ),
        plan.check("driver-stall-share", &[stall_share])?
            .note(format!(
                "a miss costs {:.0} cycles by the breakdown of the copy; {} of the {} misses are on \
                 the shared information behind the packet",
                cost::miss_cycles(),
                number(of(base, Data::SharedInfo)),
                number(conversion)
            ))
            .fitted(ASSUMED),
        plan.check("skb-over-registers", &[cost::skb_stalls(base) / registers])?.fitted(ASSUMED),
    ];
    Ok(all.into_iter().map(|check| check.on(Grounds::Caches)).collect())
}

fn copy_and_release(
    plan: &'static Plan,
    path: &ReceivePath,
    base: &Outcome,
) -> Result<Vec<Check>, ReproduceError> {
    let payload = base.misses(Phase::Copy, Data::Payload);
    let l1: u64 = Data::ALL.iter().map(|data| base.counts(Phase::Copy, *data).l1_misses).sum();
    let released = base.phase_misses(Phase::Release);
    let pages = base.misses(Phase::Release, Data::Page);
    let lines = base.packets as f64 * f64::from(FRAME_LINES);
    let accesses = base.memory(Data::Payload).total() as f64 / lines;
    let other = base.memory(Data::Skb).reads + base.memory(Data::Page).reads;
    let copy_share = base.stall_cycles(Phase::Copy) / cost::copy_cycles() * 100.0;
    let sent = |drop| transmitted_accesses(path, PACKETS, drop).map_err(failed);
    let (kept, dropped) = (sent(false)?, sent(true)?);
    let all = vec![
        plan.check("payload-misses", &[payload])?
            .note(format!(
                "every line was invalidated, but prefetchers request nearly all before they are \
                 read; {} loads a packet wait for a line under way, which one of the processor's \
                 two events counts as a miss and the other does not",
                number(base.per_packet(base.counts(Phase::Copy, Data::Payload).late))
            ))
            .fitted(LEVEL_1),
        plan.check("copy-l1-misses", &[base.per_packet(l1)])?
            .note(
                "the text prints \"~50% misses/packet\", read as about 50 misses; lines that the \
                 level-1 prefetcher brought are not counted",
            )
            .fitted(LEVEL_1),
        plan.check("copy-miss-share", &[copy_share])?
            .note("with the cycles for which loads wait for lines under way")
            .fitted("the cost of a miss is made from this share and 3.5 misses"),
        plan.check("page-misses", &[pages])?
            .note("one line for each lookup; the other buffer of a page is often released near by")
            .fitted(ASSUMED),
        plan.check("release-on-pages", &[if released > 0.0 { pages / released } else { 0.0 }])?
            .fitted(ASSUMED),
        plan.check("payload-accesses", &[accesses])?
            .note("the prefetcher also reads lines behind the end of a frame"),
        plan.check("other-accesses", &[base.per_packet(other)])?.fitted(ASSUMED),
        plan.check("transmit-accesses", &[kept])?.note(format!(
            "kernel buffers are written again while they are in the cache. Were each line dropped \
             once the card has read it, it would be {}: the next write has to read the line",
            number(dropped)
        )),
    ];
    Ok(all.into_iter().map(|check| check.on(Grounds::Caches)).collect())
}

/// Reproduces the study of section 3.4: four cores share a cache of 1 to 32 MB at four times the
/// rate.
fn by_cache(plan: &'static Plan, inputs: &Inputs) -> Result<Figure, ReproduceError> {
    let mut table = Table::new([
        "llc_mbytes",
        "skb_misses_per_packet",
        "page_misses_per_packet",
        "management_misses_per_packet",
        "at_40gbe_management_misses_per_packet",
    ]);
    let base = inputs.receive_path()?;
    let at = |times: usize, megabytes: u64| {
        run(&ReceivePath {
            queues: times * base.queues,
            connections: times * base.connections,
            cores: 4,
            llc_bytes: megabytes << 20,
            ..base
        })
    };
    let (mut ten, mut forty) = (Vec::new(), Vec::new());
    for megabytes in [1, 2, 4, 8, 16, 32] {
        let (outcome, faster) = (at(1, megabytes)?, at(4, megabytes)?);
        table.numbers([
            megabytes as f64,
            outcome.misses(Phase::Conversion, Data::Skb),
            outcome.misses(Phase::Release, Data::Page),
            outcome.management_misses(),
            faster.management_misses(),
        ]);
        ten.push((megabytes as f64, outcome.management_misses()));
        forty.push((megabytes as f64, faster.management_misses()));
    }
    let of = |points: &[(f64, f64)], megabytes: f64| {
        points.iter().find(|point| point.0 == megabytes).map_or(f64::NAN, |point| point.1)
    };
    let (at_4, at_8, at_16) = (of(&ten, 4.0), of(&ten, 8.0), of(&ten, 16.0));
    let scaled = "rings are taken to grow with the rate, which is assumed";
    let checks = vec![
        plan.holds(
            "llc-8mb",
            at_8 < 0.9 * at_4 && at_8 > 0.1,
            format!("{} of {}", number(at_8), number(at_4)),
        )?
        .note(ASSUMED)
        .fitted("assumed"),
        plan.check("llc-16mb", &[at_16])?.fitted(ASSUMED),
        plan.check("llc-40g", &[of(&forty, 16.0) / at_4])?.fitted(scaled),
    ];
    let axes = (
        Axis::new("last-level cache (MB)").logarithmic(),
        Axis::new("SKB and page misses per packet").from_zero(),
    );
    let chart = Chart::new("Section 3.4: larger caches", axes.0, axes.1)
        .series("10 GbE, 5 x 1024 buffers", Mark::LineAndPoints, ten)
        .series("40 GbE, 20 x 1024 buffers", Mark::LineAndPoints, forty);
    Ok(Figure {
        id: "llc",
        title: "Section 3.4: misses over the size of the last-level cache".into(),
        about: "Four cores share the cache; the application has its read buffers only.".into(),
        table,
        plots: vec![chart.svg()],
        checks: checks.into_iter().map(|check| check.on(Grounds::Caches)).collect(),
    })
}
