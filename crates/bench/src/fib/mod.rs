//! `wattline bench fib`: longest-prefix match over a routing table given by the user.

mod addresses;
mod error;
mod page;
mod passes;
mod peer;
mod report;
mod tables;

pub use addresses::Kind;
pub use error::Error;
pub use page::page;
pub use peer::{Load, Loads, Variant};
pub use report::{Lookups, PeerLookups, Report, Table, Updates};

use crate::calibration::{Calibration, spin};
use passes::passes;
use peer::{Peer, write_file};
use quanta::Clock;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tables::Tables;
use wattline_fib::SimdLevel;
use wattline_fib::routes_file::RoutesFile;
use wattline_packet::Family;

/// Number of addresses per pass.
const ADDRESSES: usize = if cfg!(test) { 1 << 16 } else { 1 << 20 };
/// Seed of the addresses; fixed, so that every run looks up the same addresses.
const SEED: u64 = 1;

/// Options of the benchmark.
#[derive(Debug, Clone)]
pub struct Options {
    /// File of routes that fill the table.
    pub routes: PathBuf,
    /// Number of passes over each set of addresses.
    pub repeats: usize,
    /// Path of the peer's harness; if given, the peer is measured in the same run.
    pub peer: Option<PathBuf>,
    /// Lookup variant; `None` for the best variant of this processor.
    pub level: Option<SimdLevel>,
}

/// Runs the benchmark; `progress` is called with the name of each step before it starts.
///
/// # Errors
/// Fails when the routes cannot be read or stored, or when the peer does not answer.
pub fn run(options: &Options, mut progress: impl FnMut(&str)) -> Result<Report, Error> {
    let level = options.level;
    if let Some(level) = level.filter(|level| !level.is_available()) {
        return Err(Error::SimdLevel(level));
    }
    progress("reading the routes");
    let file = RoutesFile::load(&options.routes)?;
    if file.routes.is_empty() {
        return Err(Error::Empty(options.routes.clone()));
    }
    let clock = Clock::new();
    let (ticks, started) = (clock.raw(), Instant::now());
    let spin_before = spin(&clock);
    let tables = Tables::build(&file)?;

    let mut ipv4 = Vec::new();
    let mut ipv6 = Vec::new();
    for kind in Kind::ALL {
        if !tables.ipv4.prefixes.is_empty() {
            let prefixes: Vec<_> = tables.ipv4.prefixes.iter().map(|(p, _)| *p).collect();
            ipv4.push((kind, kind.ipv4(&prefixes, ADDRESSES, SEED)?));
        }
        if !tables.ipv6.prefixes.is_empty() {
            let prefixes: Vec<_> = tables.ipv6.prefixes.iter().map(|(p, _)| *p).collect();
            ipv6.push((kind, kind.ipv6(&prefixes, ADDRESSES, SEED)?));
        }
    }

    let mut loads = None;
    let mut running = None;
    let mut directory = None;
    if let Some(program) = &options.peer {
        progress("loading the peer");
        let directory = directory.insert(Directory::new()?);
        tables.write_routes(&directory.0)?;
        write_addresses(&directory.0, Family::V4, &ipv4, |a| a.to_ne_bytes().to_vec())?;
        write_addresses(&directory.0, Family::V6, &ipv6, |a| a.to_be_bytes().to_vec())?;
        let (peer, said) = Peer::start(program, &directory.0)?;
        loads = Some(said);
        running = Some(peer);
    }

    let mut measured = Vec::new();
    let reader4 = tables.ipv4.reader(level)?;
    for (kind, addresses) in &ipv4 {
        progress(&format!("ipv4, {} addresses", kind.name()));
        let key = (Family::V4, *kind);
        measured.push(passes(key, &reader4, addresses, &mut running, options.repeats)?);
    }
    let reader6 = tables.ipv6.reader(level)?;
    for (kind, addresses) in &ipv6 {
        progress(&format!("ipv6, {} addresses", kind.name()));
        let key = (Family::V6, *kind);
        measured.push(passes(key, &reader6, addresses, &mut running, options.repeats)?);
    }
    // Ends the peer and deletes its files before the updates are measured.
    drop((running, directory));

    progress("updates, 5 s at most for each table");
    let (routed4, routed6) = (routed(&ipv4), routed(&ipv6));
    let tables = tables.update(level, routed4, routed6)?;
    let calibration = Calibration::new(spin_before, spin(&clock));
    let ticks = clock.raw().wrapping_sub(ticks);
    let tsc_hertz = ticks as f64 / started.elapsed().as_secs_f64();
    let (mut updates, mut seconds) = (0, 0.0);
    for table in &tables {
        updates += table.updates.updates;
        seconds += table.updates.seconds;
    }
    Ok(Report {
        results: measured.into_iter().filter_map(|m| m.summary(tsc_hertz)).collect(),
        build_seconds: tables.iter().map(|table| table.build_seconds).sum(),
        memory_bytes: tables.iter().map(|table| table.memory_bytes).sum(),
        updates_per_second: updates as f64 / seconds,
        tables,
        peer: loads,
        tsc_hertz,
        disturbed: calibration.disturbed,
        calibration,
    })
}

fn routed<A>(sets: &[(Kind, Vec<A>)]) -> &[A] {
    sets.iter().find(|(kind, _)| *kind == Kind::Routed).map_or(&[], |(_, set)| set)
}

fn write_addresses<A: Copy>(
    directory: &Path,
    family: Family,
    sets: &[(Kind, Vec<A>)],
    bytes: impl Fn(A) -> Vec<u8>,
) -> Result<(), Error> {
    for (kind, addresses) in sets {
        let name = format!("{}-{}.addresses", family.name(), kind.name());
        write_file(directory, &name, |file| {
            addresses.iter().try_for_each(|&address| file.write_all(&bytes(address)))
        })?;
    }
    Ok(())
}

/// Directory of files for the peer, deleted when dropped.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Result<Self, Error> {
        let path = std::env::temp_dir().join(format!("wattline-bench-fib-{}", std::process::id()));
        match std::fs::create_dir(&path) {
            Ok(()) => Ok(Self(path)),
            Err(source) => Err(Error::Write { path, source }),
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Files that cannot be deleted stay in the temporary directory and do no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// File of routes, deleted when dropped.
    struct Routes(PathBuf);

    impl Routes {
        fn new(name: &str, text: &str) -> Self {
            let name = format!("wattline-bench-fib-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::write(&path, text).unwrap();
            Self(path)
        }

        fn options(&self) -> Options {
            Options { routes: self.0.clone(), repeats: 2, peer: None, level: None }
        }
    }

    impl Drop for Routes {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn families_of_the_table_are_measured() {
        let routes = Routes::new("both", "10.0.0.0/8\n192.0.2.1/32 a\n2001:db8::/32\n");
        let mut steps = 0;
        let report = run(&routes.options(), |_| steps += 1).unwrap();
        let measured: Vec<_> = report.results.iter().map(|r| (r.family, r.addresses)).collect();
        let expected: Vec<_> = Family::ALL
            .into_iter()
            .flat_map(|family| Kind::ALL.map(|kind| (family, kind)))
            .collect();
        assert_eq!(measured, expected);
        for result in &report.results {
            assert_eq!(result.lookups_per_second_spread.repeats, 2);
            let ticks = result.cycles_per_lookup * result.lookups_per_second;
            assert!((ticks / report.tsc_hertz - 1.0).abs() < 1e-9);
        }
        let prefixes: Vec<_> = report.tables.iter().map(|table| table.prefixes).collect();
        assert_eq!(prefixes, [2, 1]);
        assert!(report.memory_bytes > 32 << 20 && report.updates_per_second > 0.0);
        assert!(steps >= expected.len());

        let ipv6 = Routes::new("ipv6", "2001:db8::/32\n");
        let options = Options { level: Some(SimdLevel::Scalar), ..ipv6.options() };
        let report = run(&options, |_| {}).unwrap();
        assert!(report.results.iter().all(|result| result.kernel == "scalar"));
        assert!(report.results.iter().all(|result| result.family == Family::V6));
        assert_eq!(report.tables.len(), 1);
    }

    /// Removing or inserting a short prefix writes a large part of the table.
    #[test]
    fn updates_of_short_prefixes_end_at_the_time_limit() {
        let text: String = (0..16).map(|i| format!("{}.0.0.0/4\n", i * 16)).collect();
        let routes = Routes::new("short", &(text + "0.0.0.0/0\n"));
        let report = run(&Options { repeats: 1, ..routes.options() }, |_| {}).unwrap();
        let [table] = &report.tables[..] else { panic!("{:?}", report.tables) };
        assert_eq!(table.prefixes, 17, "removed prefixes are inserted again");
        let updates = table.updates;
        assert!((2..1000).contains(&updates.updates), "cut short: {updates:?}");
        let rate = updates.updates as f64 / updates.seconds;
        assert!((updates.updates_per_second / rate - 1.0).abs() < 1e-9, "{updates:?}");
    }

    #[test]
    fn missing_inputs_are_named() {
        let empty = Routes::new("empty", "# nothing\n");
        assert!(matches!(run(&empty.options(), |_| {}), Err(Error::Empty(_))));
        let routes = Routes::new("peer", "10.0.0.0/8\n");
        let options = Options { peer: Some("/nonexistent/peer".into()), ..routes.options() };
        let error = run(&options, |_| {}).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/peer") && error.contains("make -C bench/peers"));
    }
}
