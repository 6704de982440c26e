//! Characterisation of a modelled router by the method of Bolla et al.: power and throughput over
//! frequencies, numbers of cores and loads, each in its steady state. The rows are the input of
//! [`wattline_study::fit`]. Points are simulated here; an emulation of the server measures them
//! with the packets and the policy of this file.

use crate::error::ReproduceError;
use std::fmt::Write;
use wattline_policies::POLICIES;
use wattline_policy::PolicySpec;
use wattline_server::{Application, ServerModel};
use wattline_sim::{Report, Setting, run, sweep};
use wattline_study::fit::Row;
use wattline_traffic::source::{Content, Poisson, Rate, Silent};
use wattline_traffic::{Popularity, Sizes, Source, Spread};
use wattline_units::{Hertz, Span};

/// Offered loads as shares of the capacity; the last one saturates the cores.
const LOADS: [f64; 9] = [0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 1.2];
/// Offered loads if each point takes seconds.
const COARSE_LOADS: [f64; 5] = [0.0, 0.2, 0.5, 0.8, 1.2];
/// Approximate number of packets per run, which determines the scatter of its power.
const PACKETS: f64 = 40_000.0;
/// Bounds of a run's duration, in seconds.
const DURATIONS: [f64; 2] = [0.005, 0.2];
/// Intervals per run; intervals before the steady state are dropped.
const INTERVALS: u64 = 10;
/// Relative deviation from the mean power allowed in the steady state.
const STEADY: f64 = 0.01;
/// Usable share of the links' capacity: beyond it the links are the limit, not the cores.
const LINKS: f64 = 0.95;
const FLOWS: u32 = 8192;

/// A router to characterise.
#[derive(Debug, Clone, Copy)]
pub struct Router<'a> {
    /// The server.
    pub server: &'a ServerModel,
    /// Application that handles each packet.
    pub application: Application,
    /// Length of the packets in bytes.
    pub bytes: u16,
    /// Seed of the packets.
    pub seed: u64,
}

/// Density of the points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grid {
    /// All frequencies, and most numbers of cores.
    Fine,
    /// The outer and the middle frequencies and numbers of cores.
    Coarse,
}

/// Operating point and offered rate of one run.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    /// Number of serving cores.
    pub cores: usize,
    /// Their frequency.
    pub frequency: Hertz,
    /// Offered packets per second.
    pub rate: f64,
}

/// Throughput in packets per second, and power in watts, of an interval.
pub type Interval = (f64, f64);

impl Router<'_> {
    /// Measures all points on `threads` threads (0 for one per core), and calls `done` after each.
    /// Points whose packets the links could not carry are left out.
    ///
    /// # Errors
    /// Fails when a simulation fails, or when no thread can be started.
    pub fn measure(
        &self,
        threads: usize,
        done: impl Fn() + Sync,
    ) -> Result<Vec<Row>, ReproduceError> {
        let runs = self.points(Grid::Fine)?;
        let results = sweep(&runs, threads, |at| self.simulate(at), done).map_err(|error| {
            ReproduceError::Model(format!("threads cannot be started: {error}"))
        })?;
        let rows = results.into_iter().zip(&runs).enumerate().map(|(index, (report, at))| {
            let of = |it: &Report| (it.forwarded_rate_pps, it.power_watts);
            let intervals: Vec<Interval> = report?.intervals.iter().map(of).collect();
            Ok(at.row(index + 1, &intervals))
        });
        rows.collect()
    }

    /// Returns the points to measure.
    ///
    /// # Errors
    /// Fails when the server has no cost of the application.
    pub fn points(&self, grid: Grid) -> Result<Vec<Point>, ReproduceError> {
        let Self { server, application, bytes, .. } = *self;
        let cost = server.packet_cost(application, bytes.into());
        let cost = cost.ok_or_else(|| {
            ReproduceError::Model(format!("server {} has no cost of {application}", server.name))
        })?;
        let most = LINKS * server.link_capacity(bytes.into()).0;
        let mut runs = Vec::new();
        let mut cores = numbers(server.processor.cores().min(server.nic.queues_per_port));
        let (mut frequencies, mut loads) = (server.processor.frequencies.clone(), &LOADS[..]);
        if grid == Grid::Coarse {
            (cores, frequencies) = (outer_and_middle(&cores), outer_and_middle(&frequencies));
            loads = &COARSE_LOADS;
        }
        for cores in cores {
            for &frequency in &frequencies {
                let capacity = server.core_capacity(cost, cores, frequency);
                let rates = loads.iter().map(|load| load * capacity.0);
                // Without the last load the cores' capacity could not be distinguished from the
                // links'.
                if rates.clone().all(|rate| rate <= most) {
                    runs.extend(rates.map(|rate| Point { cores, frequency, rate }));
                }
            }
        }
        Ok(runs)
    }

    /// Returns the policy that holds a point.
    ///
    /// # Errors
    /// Fails when the server cannot run at the point.
    pub fn policy(&self, at: &Point) -> Result<PolicySpec, ReproduceError> {
        let lightest = &self.server.idle_states[0].name;
        let (cores, gigahertz) = (at.cores, at.frequency.gigahertz());
        let policy = format!("napi:cores={cores},frequency_ghz={gigahertz:.6},idle={lightest}");
        Ok(POLICIES.parse(&policy)?)
    }

    /// Returns the source of a point's packets.
    pub fn source(&self, at: &Point) -> Box<dyn Source> {
        if at.rate <= 0.0 {
            return Box::new(Silent);
        }
        let ports = self.server.nic.ports as u8;
        let (sizes, popularity) = (Sizes::fixed(self.bytes), Popularity::Uniform);
        let content = Content::new(sizes, FLOWS, ports, popularity, Spread::Even, self.seed);
        Box::new(Poisson::new(Rate::Packets(at.rate), content, self.seed))
    }

    fn simulate(&self, at: &Point) -> Result<Report, ReproduceError> {
        let seconds = if at.rate > 0.0 { PACKETS / at.rate } else { 0.0 };
        // The duration is a multiple of the interval: a last interval of some picoseconds would
        // count like the others.
        let interval = Span::from_seconds(seconds.clamp(DURATIONS[0], DURATIONS[1])) / INTERVALS;
        let setting = Setting {
            application: self.application,
            mean_bytes: self.bytes.into(),
            warmup: interval,
            interval: Some(interval),
            seed: self.seed,
            ..Setting::new(self.server, self.policy(at)?, interval * INTERVALS)
        };
        Ok(run(&setting, self.source(at).as_mut())?)
    }
}

impl Point {
    /// Returns the measured row of a point: the mean of its steady state.
    pub fn row(&self, line: usize, intervals: &[Interval]) -> Row {
        let (throughput_pps, power_watts) = steady(intervals);
        Row {
            line,
            frequency_hertz: self.frequency.0,
            cores: self.cores,
            throughput_pps,
            power_watts,
            offered_pps: Some(self.rate.max(throughput_pps)),
        }
    }
}

/// Returns the first, middle and last element of a list, without duplicates.
pub fn outer_and_middle<T: Copy>(all: &[T]) -> Vec<T> {
    let mut places = vec![0, all.len() / 2, all.len().saturating_sub(1)];
    places.dedup();
    places.into_iter().filter_map(|place| all.get(place).copied()).collect()
}

/// Formats rows for [`wattline_study::fit::rows`].
pub fn to_csv(rows: &[Row]) -> String {
    let mut text = "frequency_hertz,cores,throughput_pps,power_watts,offered_pps\n".to_owned();
    for row in rows {
        let Row { frequency_hertz, cores, throughput_pps, power_watts, .. } = row;
        let offered = row.offered_pps.unwrap_or(*throughput_pps);
        // Writing to a String does not fail.
        let _ =
            writeln!(text, "{frequency_hertz},{cores},{throughput_pps},{power_watts},{offered}");
    }
    text
}

/// Returns the numbers of cores to measure: each up to four, then growing by a half per step.
pub fn numbers(most: usize) -> Vec<usize> {
    let next = |cores: &usize| Some((cores + (cores / 2).max(1)).min(most)).filter(|it| it > cores);
    std::iter::successors(Some(1), next).collect()
}

/// Returns the mean throughput and power of the steady state. It begins with the first interval
/// whose power agrees with all later intervals, at the latest in the middle of the run.
fn steady(intervals: &[Interval]) -> Interval {
    let mean = |rest: &[Interval], of: fn(&Interval) -> f64| {
        rest.iter().map(of).sum::<f64>() / rest.len() as f64
    };
    let begins = (0..intervals.len() / 2).find(|&first| {
        let all = mean(&intervals[first..], |it| it.1);
        (intervals[first].1 - all).abs() <= STEADY * all
    });
    let rest = &intervals[begins.unwrap_or(intervals.len() / 2)..];
    (mean(rest, |it| it.0), mean(rest, |it| it.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng, rngs::StdRng};
    use wattline_server::ServerFile;
    use wattline_study::fit::{Estimate, FitOptions, Lender, fit};

    /// Makes a server with parameters drawn from a seed; nothing was chosen on these servers.
    /// Without `work`, only packets keep a core awake, and only cores draw power.
    fn drawn(seed: u64, work: bool) -> (String, [f64; 5]) {
        let mut random = StdRng::seed_from_u64(seed);
        let mut draw = |low: f64, high: f64| random.random_range(low..high);
        let (halted, awake, per_ghz) = (draw(0.5, 2.0), draw(3.0, 8.0), draw(1.0, 4.0));
        let (board, cycles) = (draw(20.0, 80.0), draw(800.0, 3000.0).round());
        let mut more = |most: f64| if work { draw(0.0, most) } else { 0.0 };
        let (stall, contention, uncore, traffic) = (more(150.0), more(20.0), more(2.0), more(0.3));
        let (delivery, fixed, wake_cycles) = (more(3.0), more(3.0), more(6000.0));
        let text = format!(
            "name = \"drawn\"\ndescription = \"d\"\nsource = \"s\"\norigin = \"assumed\"\n\
             [processor]\nsockets = 1\ncores_per_socket = 4\nfrequencies_ghz = [1.2, 1.8, 2.4]\n\
             dvfs_domain = \"per-core\"\n[[idle_state]]\nname = \"C1\"\npower_watts = {halted}\n\
             exit_latency_us = 1\n[[idle_state]]\nname = \"C6\"\npower_watts = 0\n\
             exit_latency_us = 40\n[capacity]\nstall_ns_per_packet = {stall}\n\
             contention_ns_per_core = {contention}\nservice_time = \"fixed\"\n[application.ipv4]\n\
             cycles_per_packet = {cycles}\n[wake_up]\ndelivery_us = {delivery}\n\
             fixed_us = {fixed}\ncycles = {wake_cycles}\n[power]\n\
             core_awake_watts = {awake}\ncore_awake_watts_per_ghz = {per_ghz}\n\
             uncore_watts_per_ghz = {uncore}\ntraffic_watts_per_gbps = {traffic}\n[power.base]\n\
             cpu_packages_watts = 0\nmemory_watts = 0\nnic_port_watts = 0\n\
             board_watts = {board}\nfans_watts = 0\n[nic]\nports = 1\nlink_gbps = 100\n\
             queues_per_port = 4\nredirect_table_entries = 128\nrx_ring_descriptors = 512\n\
             tx_ring_descriptors = \"unbounded\"\n"
        );
        (text, [halted, awake, per_ghz, board, cycles])
    }

    /// Sweep, fit, file, simulator: tested at loads and numbers of cores that are in no row.
    #[test]
    fn completed_file_draws_the_power_of_the_server_it_was_measured_on() {
        let lender = Lender::load("westmere-2010").unwrap();
        let mut largest = 0.0_f64;
        for seed in 911..917 {
            let truth = ServerFile::parse("drawn", &drawn(seed, true).0).unwrap();
            let truth = truth.model().unwrap();
            let router = Router { server: truth, application: Application::Ipv4, bytes: 64, seed };
            let rows = router.measure(0, || ()).unwrap();
            let rows: Vec<_> = rows.into_iter().filter(|row| row.cores != 3).collect();
            let fit = fit(&rows, &FitOptions::default()).unwrap();
            let packets = (Application::Ipv4, 64);
            let completed = fit.complete("fitted", "rows", &lender, packets).unwrap();
            let file = ServerFile::parse("fitted", &completed.toml).unwrap();
            let again = Router { server: file.model().unwrap(), seed: seed + 1000, ..router };
            for &frequency in &truth.processor.frequencies {
                for (cores, load) in
                    [(1, 0.03), (1, 0.27), (2, 0.57), (3, 0.15), (3, 0.74), (4, 0.9)]
                {
                    let cost = truth.packet_cost(Application::Ipv4, 64).unwrap();
                    let rate = load * truth.core_capacity(cost, cores, frequency).0;
                    let at = Point { cores, frequency, rate };
                    let watts = |router: &Router<'_>| router.simulate(&at).unwrap().power_watts;
                    let (refitted, original) = (watts(&again), watts(&router));
                    let error = refitted / original - 1.0;
                    println!(
                        "{seed} {cores} {frequency:?} {load}: {refitted:.3} {original:.3} {error:+.4}"
                    );
                    largest = largest.max(error.abs());
                }
            }
            let (of_rows, of_file) = (completed.error_mean, completed.error_largest);
            println!("{seed}: rows {of_rows:.4}, {of_file:.4}; {:?}", completed.borrowed);
        }
        println!("largest error {largest:.4}");
        assert!(largest < 0.01, "{largest}");
    }

    #[test]
    fn parameters_of_a_simulated_server_lie_within_the_intervals() {
        let (mut within, mut all) = (0, 0);
        for seed in [901, 902, 903] {
            let (text, [halted, awake, per_ghz, board, cycles]) = drawn(seed, false);
            let file = ServerFile::parse("drawn", &text).unwrap();
            let server = file.model().unwrap();
            let router = Router { server, application: Application::Ipv4, bytes: 64, seed };
            let rows = router.measure(0, || ()).unwrap();
            assert_eq!(rows.len(), router.points(Grid::Fine).unwrap().len());
            let fit = fit(&rows, &FitOptions::default()).unwrap();
            let mut hold = |name: &str, estimate: Estimate, truth: f64| {
                println!("{seed} {name}: {estimate:.4}, in truth {truth:.4}");
                assert!(
                    (estimate.value / truth - 1.0).abs() < 0.05,
                    "{seed} {name}: {estimate:.4}, {truth}"
                );
                // A parameter measured without scatter has an interval of zero width.
                let near = (estimate.value / truth - 1.0).abs() < 1e-3;
                within += usize::from(estimate.contains(truth) || near);
                all += 1;
            };
            hold("platform", fit.base_watts, board);
            for point in &fit.frequencies {
                let gigahertz = point.frequency_hertz / 1e9;
                hold("halted core", point.idle_watts, halted);
                hold("busy core", point.active_watts, awake + per_ghz * gigahertz);
                hold("r_max", point.max_rate_pps, 1e9 * gigahertz / cycles);
            }
            for gamma in &fit.gamma {
                hold("gamma", gamma.gamma, gamma.cores as f64);
            }
        }
        println!("{within} of {all} within their intervals");
        assert!(10 * within >= 9 * all, "{within} of {all}");
    }

    #[test]
    fn transient_at_the_start_is_left_out_of_a_row() {
        let mut intervals = vec![(1e6, 100.0); 10];
        assert_eq!(steady(&intervals), (1e6, 100.0));
        intervals[0] = (2e6, 150.0);
        assert_eq!(steady(&intervals), (1e6, 100.0));
        // Without a steady state, the later half counts.
        let rising: Vec<_> = (0..10).map(|at| (0.0, 2.0_f64.powi(at))).collect();
        assert_eq!(steady(&rising).1, rising[5..].iter().map(|it| it.1).sum::<f64>() / 5.0);
    }

    #[test]
    fn coarse_grid_has_the_outer_and_the_middle() {
        assert_eq!(outer_and_middle(&[1, 2, 3, 4, 6, 9, 12]), [1, 4, 12]);
        assert_eq!(outer_and_middle(&[1, 2]), [1, 2]);
        assert_eq!(outer_and_middle(&[1]), [1]);
    }

    #[test]
    fn numbers_of_cores_reach_the_last_one() {
        assert_eq!(numbers(1), [1]);
        assert_eq!(numbers(12), [1, 2, 3, 4, 6, 9, 12]);
        assert_eq!(numbers(13), [1, 2, 3, 4, 6, 9, 13]);
    }
}
