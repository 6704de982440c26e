//! `wattline bench forward`: forwarding over veth, beside the kernel and DPDK's l3fwd.

use crate::commands::errors::testbed_error;
use crate::commands::page_file::PageFile;
use crate::commands::results;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use wattline::exit::ExitError;
use wattline::progress::Counted;
use wattline_bench::forward::{self, Options, Report};
use wattline_testbed::leftovers::clean_up_on_signals;

/// Beside whom, and how long.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// DPDK's l3fwd as built by bench/peers/build-l3fwd.sh; omitted by default.
    #[arg(long, value_name = "PROGRAM")]
    l3fwd: Option<PathBuf>,
    /// xdp-tools' xdp-forward, packaged or built by bench/peers/build-xdp-forward.sh; omitted by default.
    #[arg(long, value_name = "PROGRAM")]
    xdp_forward: Option<PathBuf>,
    /// Number of runs of each candidate, in turns.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds of measurement of each candidate per round.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    #[command(flatten)]
    page: PageFile,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    args.page.check()?;
    let options = Options {
        rounds: args.rounds,
        duration: Duration::from_secs(args.seconds),
        l3fwd: args.l3fwd.clone(),
        xdp_forward: args.xdp_forward.clone(),
    };
    let bar = Counted::new(forward::runs(&options) as u64, "runs");
    let report = clean_up_on_signals(|| forward::run(&options, || bar.step()));
    bar.end();
    let report = report.and_then(|report| report).map_err(testbed_error)?;
    let written = args.page.write(|| forward::html(&report));
    results::print_with_page(written, &report, json, table)
}

/// Explanation of the columns.
const LEGEND: &str = "\
receiver    `shared`: what receives for a candidate shares its processor; `split`: the generator's
            processor receives; `rationed`: split, and the candidate has its own half of the time
sink        processor that frees sent frames: `local`, the candidate's; `remote`, the generator's
load        `full`: all that the generator can make; `ample`: 1.5 Mpps; `paced`: 0.15 Mpps
offered, forwarded   million frames a second that the generator sent, and that arrived
receiver, own, both  processor time per forwarded frame: of the thread that receives, of the
            candidate's own threads, and of all that work for it
Mpps/CPU s  million frames per second of that time: of all threads, of its own ones alone
sink, with sink, generator   time per frame of the thread that frees, of both sides, of the generator";

fn table(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    let row = |out: &mut dyn Write, cells: [&str; 14]| {
        let [name, receiver, sink, load, numbers @ ..] = cells;
        write!(out, "{name:21}{receiver:9}{sink:7}{load:6}")?;
        numbers.iter().try_for_each(|cell| write!(out, "{cell:>11}"))?;
        writeln!(out)
    };
    let mpps = |rate: f64| format!("{:.3}", rate / 1e6);
    let nanos = |seconds: f64| format!("{:.0}", seconds * 1e9);
    row(
        out,
        [
            "",
            "",
            "",
            "",
            "offered",
            "forwarded",
            "receiver",
            "own",
            "both",
            "Mpps/CPU s",
            "Mpps/CPU s",
            "sink",
            "with sink",
            "generator",
        ],
    )?;
    row(
        out,
        [
            "", "receiver", "sink", "load", "Mpps", "Mpps", "ns", "ns", "ns", "all", "own", "ns",
            "ns", "ns",
        ],
    )?;
    for standing in &report.results {
        let own = standing.rate_per_own_cpu_second_pps.map_or_else(|| "-".to_owned(), mpps);
        row(
            out,
            [
                standing.name,
                standing.arrangement.placement.name(),
                standing.arrangement.sink.name(),
                standing.arrangement.load.name(),
                &mpps(standing.offered_rate_pps),
                &mpps(standing.rate_pps),
                &nanos(standing.receive_thread_seconds_per_packet),
                &nanos(standing.own_threads_seconds_per_packet),
                &nanos(standing.cpu_seconds_per_packet),
                &mpps(standing.rate_per_cpu_second_pps),
                &own,
                &nanos(standing.sink_thread_seconds_per_packet),
                &nanos(standing.cpu_and_sink_seconds_per_packet),
                &nanos(standing.generator_seconds_per_packet),
            ],
        )?;
    }
    writeln!(out, "{LEGEND}")?;
    writeln!(out, "{}", report.note)
}
