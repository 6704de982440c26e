//! `wattline profile`: tail latency and power of a real server by load, V/F state and moderation.

use super::load::{http, memcached};
use super::server_errors;
use super::simulation;
use crate::commands::results;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use serde::Serialize;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use wattline::commands::root::Root;
use wattline::exit::ExitError;
use wattline::output::note;
use wattline_govern::config::Config;
use wattline_govern::profiling::{
    Grid, Head, Live, Loader, Machine, Outcome, Points, PointsError, Precision, Progress, Stopped,
    loader, page, profile, profile_sparse, remark, within,
};
use wattline_policies::POLICIES;
use wattline_requests::engine::LoadOptions;
use wattline_requests::http::Http;
use wattline_requests::memcached::Memcached;
use wattline_server::tables::NOT_MEASURED;
use wattline_server::{BusyTimePower, ServerFile};
use wattline_units::Span;

/// V/F states and periods of a full profile; more would take hours of load.
const STATES: usize = 4;
const PERIODS: u16 = 6;
/// Periods of a search, as in the simulator.
const SPARSE_PERIODS: u16 = 24;

/// Server to profile.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    server: Server,
}

#[derive(Debug, clap::Subcommand)]
enum Server {
    /// Gets and sets of memcached, as of `wattline load memcached`.
    Memcached(ProfiledLoad<memcached::Args>),
    /// Pages of HTTP/1.1 servers, as of `wattline load http`.
    Http(ProfiledLoad<http::Args>),
}

/// A load and its measured points.
#[derive(Debug, clap::Args)]
struct ProfiledLoad<A: clap::Args> {
    #[command(flatten)]
    load: A,
    #[command(flatten)]
    plan: ProfileOptions,
}

/// Points, precision and files of a profile.
#[derive(Debug, clap::Args)]
struct ProfileOptions {
    /// File for the tables (CSV). FILE.points.json lets an interrupted profile continue, and
    /// FILE.html is a page with the curves.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Loads, as shares of --rate.
    #[arg(long, value_delimiter = ',', default_value = "0.25,0.5,0.75,1")]
    loads: Vec<f64>,
    /// Number of V/F states, spread evenly over those of the machine. Default: 4; with --sparse
    /// all.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    states: Option<u16>,
    /// Number of moderation periods; each is longer than the one before by the same factor.
    /// Default: 6; with --sparse 24.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    periods: Option<u16>,
    /// Measure only the points of a search for the lowest V/F state that some period brings within
    /// the target at each load, and the longest such period: of 11 states and 24 periods at most 23
    /// points. Without this option, the same states and periods measure the others, too.
    #[arg(long)]
    sparse: bool,
    /// The 95th percentile that --sparse searches for, such as 800us: that of policy copi
    /// (`copi:target=800us`). Default: the one of the driver's own moderation at the load.
    #[arg(long, requires = "sparse", value_parser = simulation::span)]
    target: Option<Span>,
    /// Repeat a point until half the 95 % confidence interval of its 95th percentile is at most
    /// this share of it.
    #[arg(long, default_value_t = 0.05)]
    within: f64,
    /// Most repetitions of a point.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(3..=1000))]
    repetitions: u16,
    /// Profile without a meter: latencies only. Policy copi then takes the lowest V/F state within
    /// the target for the cheapest, and of its periods the longest.
    #[arg(long, conflicts_with = "server")]
    without_power: bool,
    /// Without a meter of this machine, compute watts from the busy time of its cores by this
    /// server model: the name of a shipped one (`wattline servers`) or the path of a file.
    #[arg(long, value_name = "SERVER")]
    server: Option<String>,
    /// Configuration of `wattline govern`, for its CPUs and interfaces. Default: all CPUs, and all
    /// interfaces with hardware behind them.
    #[arg(long, value_name = "CONFIG")]
    config: Option<PathBuf>,
    /// Send the requests from this network namespace, as `ip netns` names it: over a second card
    /// that is cabled to the server's. The knobs are those of the namespace of this command.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    #[command(flatten)]
    root: Root,
}

#[derive(Serialize)]
struct Output {
    server: String,
    workload: String,
    points: usize,
    /// Points of the full grid, including the driver's own moderation at each load.
    points_of_full_grid: usize,
    not_tight_points: usize,
    never_steady_points: usize,
    /// Points whose latencies are to a large part the generator's own.
    sent_late_points: usize,
    /// Points that the machine changed, with the reason.
    left_out: Vec<String>,
    saturated_points: usize,
    power_source: Option<String>,
    tables: String,
    page: String,
}

/// Load of a server.
struct ServerLoad {
    server: String,
    workload: String,
    loader: Loader,
    rate: f64,
    /// Requests that may be outstanding on one connection.
    depth: usize,
    /// Address that requests reach over the loopback, if any.
    looped: Option<IpAddr>,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    match &args.server {
        Server::Memcached(ProfiledLoad { load, plan }) => {
            let options = load.options().load()?;
            plan.check()?;
            let prepared = plan.within(|| load.prepare())?;
            let (rate, depth) = (options.rate, options.depth);
            let workload = plan.described(load.described(), &options);
            let looped = plan.within(|| looped(&prepared.addresses))?;
            let made = {
                let requests = prepared.workload;
                move |thread| Memcached::new(Arc::clone(&requests), thread)
            };
            let loader =
                loader("memcached", options, prepared.addresses, made, (stop, plan.netns.clone()));
            let server = load.servers().join(" ");
            make(plan, ServerLoad { server, workload, loader, rate, depth, looped }, json)
        }
        Server::Http(ProfiledLoad { load, plan }) => {
            let options = load.options().load()?;
            plan.check()?;
            let (requests, pages) = plan.within(|| load.prepare())?;
            let (rate, depth) = (options.rate, options.depth);
            let workload = plan.described(load.described(), &options);
            let addresses = requests.addresses();
            let looped = plan.within(|| looped(&addresses))?;
            let made = move |thread| Http::new(Arc::clone(&requests), thread);
            let loader = loader("http", options, addresses, made, (stop, plan.netns.clone()));
            let server = pages.join(" ");
            make(plan, ServerLoad { server, workload, loader, rate, depth, looped }, json)
        }
    }
}

impl ProfileOptions {
    fn check(&self) -> Result<(), ExitError> {
        let usage = |message: &str| Err(ExitError::new(ExitError::USAGE, message));
        let sound = self.loads.iter().all(|share| (1e-6..=1e6).contains(share));
        if !sound || self.loads.windows(2).any(|pair| pair[0] >= pair[1]) {
            return usage("--loads: shares of --rate, from 0.000001 to 1000000, that ascend");
        }
        if !(1e-4..=1.0).contains(&self.within) {
            return usage("--within: a share from 0.0001 to 1, such as 0.05");
        }
        self.check_folder()
    }

    /// Describes the requests and their origin, so that points of other loads are not mixed with
    /// these.
    fn described(&self, workload: String, options: &LoadOptions) -> String {
        let from = self.netns.as_ref().map(|name| format!("; from the network namespace {name}"));
        format!("{workload}; {}{}", options.described(), from.unwrap_or_default())
    }

    /// Checks that the folder exists, since the first point takes minutes.
    fn check_folder(&self) -> Result<(), ExitError> {
        let folder = self.out.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            let why = format!("--out: there is no folder {}; make it first", folder.display());
            return Err(ExitError::new(ExitError::IO, why));
        }
        Ok(())
    }

    /// Runs a function in the namespace of the requests.
    fn within<T: Send>(
        &self,
        run: impl FnOnce() -> Result<T, ExitError> + Send,
    ) -> Result<T, ExitError> {
        let unknown = |error| ExitError::new(ExitError::NO_INPUT, error);
        within(self.netns.as_deref(), run).map_err(unknown)?
    }

    fn sibling(&self, ending: &str) -> PathBuf {
        let mut name = self.out.file_name().unwrap_or_default().to_owned();
        name.push(ending);
        self.out.with_file_name(name)
    }
}

/// Returns the first address that packets reach without leaving the machine, on any interface: the
/// kernel then chooses the address itself as source. Sends nothing.
fn looped(addresses: &[SocketAddr]) -> Result<Option<IpAddr>, ExitError> {
    for address in addresses {
        let any: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        // The load reports unreachable addresses.
        let source = socket.connect(address).and_then(|()| socket.local_addr());
        if address.ip().is_loopback() || source.is_ok_and(|source| source.ip() == address.ip()) {
            return Ok(Some(address.ip()));
        }
    }
    Ok(None)
}

fn make(plan: &ProfileOptions, wanted: ServerLoad, json: bool) -> Result<(), ExitError> {
    let tree = plan.root.tree()?;
    let config = match &plan.config {
        Some(path) => Config::load(path, POLICIES)?,
        None => Config::built_in(POLICIES),
    };
    let server = plan.server.as_deref().map(model).transpose()?;
    let mut machine = Machine::take(&tree, config).map_err(machine_error)?;
    if let Some(server) = server {
        machine.model(server);
    }
    let (grid, points) = match prepare(plan, &wanted, &mut machine) {
        Ok(prepared) => prepared,
        Err(error) => {
            machine.end().map_err(machine_error)?;
            return Err(error);
        }
    };
    let mut points = points;
    let precision = Precision { within: plan.within, repetitions: plan.repetitions.into() };
    let mut live = Live::new(machine, grid.clone(), wanted.loader, wanted.depth);
    let of = grid.order().count();
    let bar = progress(of, points.len());
    let mut left_out = Vec::new();
    let mut report = |now: &Progress| {
        show_progress(&bar, plan, &grid, now);
        if let Outcome::LeftOut(why) = &now.outcome {
            left_out.push(format!("{}: {why}", grid.name(now.at)));
        }
    };
    let target = plan.target.map(Span::as_seconds);
    let measured = match plan.sparse {
        true => profile_sparse(&mut live, &grid, precision, target, &mut points, &mut report),
        false => profile(&mut live, &grid, precision, &mut points, &mut report),
    };
    bar.finish_and_clear();
    let restored = live.end().map_err(machine_error);
    // Also written after an interruption: the page shows the progress. Before the first point of
    // the grid there is no table, and only the reason of the interruption is reported.
    let (tables, page_file) = (plan.out.clone(), plan.sibling(".html"));
    let measured_some = points.iter().any(|known| known.point.is_some());
    let written = if measured_some { write_all(plan, &points) } else { Ok(()) };
    // The reason of the stop is more important than an error in writing.
    restored?;
    measured.map_err(stopped_error)?;
    let not_tight = points.iter().filter(|point| !point.is_tight(plan.within)).count();
    let result = Output {
        server: wanted.server,
        workload: wanted.workload,
        points: points.len(),
        points_of_full_grid: of,
        not_tight_points: not_tight,
        never_steady_points: points.iter().filter(|point| !point.steady).count(),
        sent_late_points: points.iter().filter(|point| point.is_sent_late()).count(),
        left_out,
        saturated_points: points.iter().filter(|it| !it.sustained).count(),
        power_source: points.head.power_source.clone(),
        tables: tables.display().to_string(),
        page: page_file.display().to_string(),
    };
    results::print_then_fail(written, &result, json, print)
}

/// Returns a server model, by name or path.
fn model(name: &str) -> Result<BusyTimePower, ExitError> {
    let file = ServerFile::load(name).map_err(server_errors::config_error)?;
    BusyTimePower::from_file(&file).map_err(|error| ExitError::new(ExitError::CONFIG, error))
}

/// Returns the grid on this machine with its known points.
fn prepare(
    plan: &ProfileOptions,
    wanted: &ServerLoad,
    machine: &mut Machine,
) -> Result<(Grid, Points), ExitError> {
    let platform = machine.platform().clone();
    let can = platform.can;
    let mut periods = vec![platform.moderation.0];
    if can.set_moderation {
        let count = plan.periods.unwrap_or(if plan.sparse { SPARSE_PERIODS } else { PERIODS });
        periods = Grid::uneven_periods(platform.moderation, count.into());
    }
    let states = match can.set_frequency {
        true => {
            let all = platform.frequencies.len();
            let coarse = if plan.sparse { all } else { STATES };
            Grid::coarse_states(all, plan.states.map_or(coarse, usize::from))
        }
        false => vec![platform.fastest()],
    };
    if !can.set_frequency && !can.set_moderation {
        let why = "neither frequency nor interrupt moderation can be set here: there is nothing to \
                   profile (`wattline probe` shows the reasons; a veth or virtio interface has NAPI \
                   deferral if it has NAPI: with GRO on, and listed in [govern] interfaces in --config)";
        return Err(ExitError::new(ExitError::UNAVAILABLE, why));
    }
    if let Some(address) = wanted.looped.filter(|_| periods.len() > 1) {
        let why = format!(
            "requests to {address} go by the loopback, which has no interrupts: every moderation \
             would look free; --netns NAME sends them through the card, from a namespace with a \
             card that is cabled to it, and --periods 1 profiles frequencies alone"
        );
        return Err(ExitError::new(ExitError::UNAVAILABLE, why));
    }
    let source = machine.power_source();
    if source.is_none() && !plan.without_power {
        let why = "no meter sees the power of this machine (`wattline meter list`): --server NAME \
                   reckons watts by a model of it (`wattline servers`), --without-power profiles \
                   latencies alone, and points are then ordered by V/F state and period";
        return Err(ExitError::new(ExitError::UNAVAILABLE, why));
    }
    for (what, can) in [("frequency", can.set_frequency), ("moderation", can.set_moderation)] {
        if !can {
            note!("{what} cannot be set here: the profile has one value of it");
        }
    }
    let loads_rps = plan.loads.iter().map(|share| share * wanted.rate).collect();
    let grid = Grid { loads_rps, frequencies: platform.frequencies.clone(), states, periods };
    let fingerprint = machine.fingerprint();
    let (server, workload) = (wanted.server.clone(), wanted.workload.clone());
    let head = Head::of(server, workload, fingerprint, &grid, machine.queue_cores(), source);
    let points = Points::open(&plan.sibling(".points.json"), head).map_err(points_error)?;
    Ok((grid, points))
}

/// Writes the tables and the page.
fn write_all(plan: &ProfileOptions, points: &Points) -> Result<(), ExitError> {
    let tables = points.tables().map_err(|why| ExitError::new(ExitError::DATA, why))?;
    write(&plan.out, &tables.to_text())?;
    write(&plan.sibling(".html"), &page(points, plan.within))
}

fn write(path: &Path, text: &str) -> Result<(), ExitError> {
    wattline_files::replace(path, text.as_bytes())
        .map_err(|error| ExitError::new(ExitError::IO, format!("{}: {error}", path.display())))
}

fn progress(of: usize, known: usize) -> ProgressBar {
    let bar = ProgressBar::new(of as u64);
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} points {msg}");
    // The template is a valid constant; otherwise the bar would have the default style.
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_position(known as u64);
    bar
}

fn show_progress(bar: &ProgressBar, plan: &ProfileOptions, grid: &Grid, now: &Progress) {
    // Only an upper bound of a search's duration is known.
    let most = if plan.sparse { "at most " } else { "" };
    bar.set_length(now.of as u64);
    bar.set_position(now.known as u64);
    bar.set_message(format!("{most}{} to go", HumanDuration(now.remaining)));
    let (result, doubt) = match &now.outcome {
        Outcome::Measured(point) => {
            let p95 = point.p95_us.map(|p95| format!("p95 {p95:.0} us"));
            (p95.unwrap_or("saturated".to_owned()), remark(point, plan.within))
        }
        Outcome::LeftOut(why) => (format!("left out: {why}"), String::new()),
    };
    let name = grid.name(now.at);
    let text = if doubt.is_empty() { result } else { format!("{result}, {doubt}") };
    if bar.is_hidden() {
        let (known, of) = (now.known, now.of);
        note!("{known}/{most}{of} {name}: {text}; {most}{} to go", HumanDuration(now.remaining));
    } else if !doubt.is_empty() || matches!(now.outcome, Outcome::LeftOut(_)) {
        bar.println(format!("{name}: {text}"));
    }
}

fn print(out: &mut impl Write, result: &Output) -> std::io::Result<()> {
    writeln!(out, "{}: {}, {}", result.tables, result.server, result.workload)?;
    writeln!(
        out,
        "{} of {} points, {} of them saturated, {} less precise than requested, {} never steady, \
         {} sent late",
        result.points,
        result.points_of_full_grid,
        result.saturated_points,
        result.not_tight_points,
        result.never_steady_points,
        result.sent_late_points
    )?;
    for left_out in &result.left_out {
        writeln!(out, "left out: {left_out}")?;
    }
    match &result.power_source {
        Some(source) => writeln!(out, "power: {source}")?,
        None => writeln!(out, "power: {NOT_MEASURED}")?,
    }
    writeln!(out, "curves: {}", result.page)
}

fn machine_error(error: wattline_govern::profiling::MachineError) -> ExitError {
    wattline_govern::GovernError::Machine(error).into()
}

fn points_error(error: PointsError) -> ExitError {
    let code = match &error {
        PointsError::File { .. } => ExitError::IO,
        PointsError::Damaged { .. } | PointsError::Another { .. } => ExitError::DATA,
    };
    ExitError::new(code, error)
}

fn stopped_error(stopped: Stopped) -> ExitError {
    match stopped {
        Stopped::Points(error) => points_error(error),
        Stopped::Interrupted => ExitError::new(128 + 2, stopped),
        Stopped::Server { .. } => ExitError::new(ExitError::NO_INPUT, stopped),
        Stopped::Generator { .. } | Stopped::Elsewhere { .. } => {
            ExitError::new(ExitError::UNAVAILABLE, stopped)
        }
        Stopped::Machine { .. } => ExitError::new(ExitError::IO, stopped),
    }
}
