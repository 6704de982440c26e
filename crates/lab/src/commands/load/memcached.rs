//! `wattline load memcached`.

use super::governor::ReportTo;
use super::options::{Options, connect_code, make};
use super::page::page;
use crate::commands::page_file::PageFile;
use serde::Serialize;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use wattline::exit::ExitError;
use wattline_requests::Report;
use wattline_requests::address;
use wattline_requests::memcached::{
    self, Dialect, LoadError, Memcached, Popularity, SizeDistribution, Workload, WorkloadOptions,
};

const DEFAULT_PORT: u16 = 11211;
/// Time without an answer at which the loading of keys fails.
const LOADING_TIMEOUT: Duration = Duration::from_secs(10);

/// Servers and workload.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Servers, as HOST[:PORT]. Connections are spread over them in turn; all servers get all keys.
    #[arg(required = true, value_name = "ADDRESS", value_parser = addressed)]
    servers: Vec<String>,
    /// Commands to use: text (get, set) or meta (mg, ms; memcached 1.6 and later).
    #[arg(long, default_value = "text")]
    protocol: Dialect,
    /// Different keys.
    #[arg(long, default_value_t = 100_000)]
    keys: u32,
    /// Lengths of keys: BYTES, MIN-MAX, gev:LOCATION,SCALE,SHAPE, gpareto:LOCATION,SCALE,SHAPE,
    /// etc-keys.
    #[arg(long, default_value = "etc-keys")]
    key_size: SizeDistribution,
    /// Lengths of values, in the same forms, or etc-values.
    #[arg(long, default_value = "etc-values")]
    value_size: SizeDistribution,
    /// Gets per set; inf for gets only, 0 for sets only.
    #[arg(long, default_value_t = 30.0)]
    gets_per_set: f64,
    /// Popularity of the keys: uniform or zipf:EXPONENT.
    #[arg(long, default_value = "uniform")]
    popularity: Popularity,
    /// Do not store the keys first; gets of missing keys are misses.
    #[arg(long)]
    no_load: bool,
    #[command(flatten)]
    options: Options,
}

#[derive(Serialize)]
struct Output {
    #[serde(flatten)]
    report: Report,
    workload: Described,
}

/// Description of the workload for the report.
#[derive(Serialize)]
struct Described {
    commands: Dialect,
    keys: u32,
    key_size: String,
    key_mean_bytes: f64,
    value_size: String,
    value_mean_bytes: f64,
    /// `None` for gets only.
    gets_per_set: f64,
    popularity: String,
    /// Keys stored before the load, in all servers together.
    loaded_keys: u64,
    /// Keys that servers refused.
    refused_keys: u64,
}

/// A workload whose keys are stored, unless that was not requested.
pub struct Prepared {
    /// Requests to send.
    pub workload: Arc<Workload>,
    /// Addresses of the servers.
    pub addresses: Vec<SocketAddr>,
    /// Keys stored in all servers together.
    pub loaded_keys: u64,
    /// Keys that servers refused.
    pub refused_keys: u64,
}

impl Args {
    /// Returns the options of the load.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the servers as given.
    pub fn servers(&self) -> &[String] {
        &self.servers
    }

    /// Describes the workload.
    pub fn described(&self) -> String {
        let dialect = match self.protocol {
            Dialect::Text => "text",
            Dialect::Meta => "meta",
        };
        format!(
            "memcached, {} commands, {} keys of {}{}, values of {}, {} gets per set, {}",
            dialect,
            self.keys,
            self.key_size,
            if self.no_load { " that were not stored before" } else { "" },
            self.value_size,
            self.gets_per_set,
            self.popularity
        )
    }

    /// Finds the servers and stores the keys.
    pub fn prepare(&self) -> Result<Prepared, ExitError> {
        let workload = Workload::new(WorkloadOptions {
            dialect: self.protocol,
            keys: self.keys,
            key_sizes: self.key_size,
            value_sizes: self.value_size,
            gets_per_set: self.gets_per_set,
            popularity: self.popularity,
            seed: self.options.seed(),
        });
        let workload = Arc::new(workload.map_err(|error| ExitError::new(ExitError::USAGE, error))?);
        let addresses = self
            .servers
            .iter()
            .map(|server| resolve(server))
            .collect::<Result<Vec<SocketAddr>, ExitError>>()?;
        let (mut loaded_keys, mut refused_keys) = (0, 0);
        if !self.no_load {
            for address in &addresses {
                let (stored, refused) =
                    memcached::load(&workload, *address, LOADING_TIMEOUT).map_err(loading_error)?;
                loaded_keys += stored;
                refused_keys += refused;
            }
        }
        Ok(Prepared { workload, addresses, loaded_keys, refused_keys })
    }
}

/// Runs the command.
pub fn run(args: &Args, governor: &ReportTo, file: &PageFile, json: bool) -> Result<(), ExitError> {
    let options = args.options.load()?;
    file.check()?;
    let reporter = governor.reporter()?;
    let Prepared { workload, addresses, loaded_keys, refused_keys } = args.prepare()?;
    let report = make(
        ("memcached", args.servers.clone()),
        &options,
        &addresses,
        |thread| Memcached::new(Arc::clone(&workload), thread),
        reporter,
    )?;
    let (key_mean_bytes, value_mean_bytes) = workload.mean_sizes();
    let workload = Described {
        commands: args.protocol,
        keys: args.keys,
        key_size: args.key_size.to_string(),
        key_mean_bytes,
        value_size: args.value_size.to_string(),
        value_mean_bytes,
        gets_per_set: args.gets_per_set,
        popularity: args.popularity.to_string(),
        loaded_keys,
        refused_keys,
    };
    let page = page(&report, &workload.line());
    file.show(page, &Output { report, workload }, json)
}

impl Described {
    fn line(&self) -> String {
        format!(
            "{} keys of {} ({:.1} B), values of {} ({:.1} B), {} gets per set, {}; \
             {} loaded, {} refused",
            self.keys,
            self.key_size,
            self.key_mean_bytes,
            self.value_size,
            self.value_mean_bytes,
            self.gets_per_set,
            self.popularity,
            self.loaded_keys,
            self.refused_keys
        )
    }
}

/// Returns an address with its port.
fn addressed(text: &str) -> Result<String, String> {
    const WRONG: &str = "expected HOST or HOST:PORT, an IPv6 address with a port in brackets";
    // A colon that is not part of an IPv6 address precedes a port.
    let bare_ipv6 = text.parse::<std::net::Ipv6Addr>().is_ok();
    let after_brackets = text.rfind(']').map_or(0, |at| at + 1);
    if bare_ipv6 {
        return Ok(format!("[{text}]:{DEFAULT_PORT}"));
    }
    match text[after_brackets..].split_once(':') {
        None if !text.is_empty() => Ok(format!("{text}:{DEFAULT_PORT}")),
        Some((name, port))
            if port.parse::<u16>().is_ok_and(|port| port > 0)
                && (after_brackets > 0 || !name.is_empty()) =>
        {
            Ok(text.to_owned())
        }
        _ => Err(WRONG.into()),
    }
}

fn resolve(server: &str) -> Result<SocketAddr, ExitError> {
    let unknown =
        |why: String| ExitError::new(ExitError::NO_INPUT, format_args!("{server}: {why}"));
    address::resolve(server).map_err(|error| unknown(error.to_string()))
}

fn loading_error(error: LoadError) -> ExitError {
    let code = match &error {
        LoadError::Io { error, .. } => connect_code(error),
        LoadError::NoAnswer { .. } => ExitError::NO_INPUT,
        LoadError::Protocol { .. } => ExitError::DATA,
    };
    ExitError::new(code, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_a_port() {
        for (text, expected) in [
            ("host", "host:11211"),
            ("host:1", "host:1"),
            ("::1", "[::1]:11211"),
            ("[::1]", "[::1]:11211"),
            ("[::1]:5", "[::1]:5"),
            ("127.0.0.1", "127.0.0.1:11211"),
        ] {
            assert_eq!(addressed(text).as_deref(), Ok(expected), "{text}");
        }
        for wrong in ["", ":1", "host:", "host:0", "host:99999", "a:b:c"] {
            assert!(addressed(wrong).is_err(), "{wrong}");
        }
    }
}
