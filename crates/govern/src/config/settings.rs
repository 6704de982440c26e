//! Settings of a configuration.

use crate::profile::Profile;
use std::net::SocketAddr;
use std::path::PathBuf;
use wattline_daemon::settings::LogLevel;
use wattline_host::Scope;
use wattline_knobs::OnExit;
use wattline_policy::Registry;
use wattline_requests::http::Url;
use wattline_requests::sources::Selector;
use wattline_units::Span;

/// A configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Source of the defaults.
    pub profile: Profile,
    /// The policy, by its present name.
    pub policy: String,
    /// Policies of the program.
    pub policies: Registry,
    /// Knobs that may be set.
    pub scope: Scope,
    /// The CPUs; empty: all that are on line.
    pub cpus: Vec<u32>,
    /// The interfaces; empty: all with hardware behind them.
    pub interfaces: Vec<String>,
    /// Longest exit latency allowed; `None`: no limit.
    pub idle_latency: Option<Span>,
    /// Treatment of interrupt moderation.
    pub moderation: Moderation,
    /// True if the uncore follows the cores.
    pub uncore: bool,
    /// True if the limits set by the administrator may be exceeded.
    pub override_limits: bool,
    /// True if settings may let the machine draw more power than it was found with.
    pub may_raise: bool,
    /// Upper bound of the 99th percentile.
    pub latency_target: Option<Span>,
    /// Time that the target has to be kept before the policy decides again.
    pub latency_hold: Span,
    /// Longest silence of a source.
    pub latency_silence: Span,
    /// Sources of latency.
    pub latency: Vec<SourceSettings>,
    /// Name or path of the server model.
    pub server: String,
    /// Digest of the files named by policy and server, as read by [`Config::load`]: two
    /// configurations differ if a file has changed.
    pub files: u64,
    /// Seed of policies.
    pub seed: u32,
    /// State in which the machine is left.
    pub on_exit: OnExit,
    /// The control socket, if configured.
    pub socket: Option<PathBuf>,
    /// Verbosity of the log.
    pub log_level: LogLevel,
    /// Address where metrics are served.
    pub metrics: Option<SocketAddr>,
    /// Remarks on accepted values, for the author of the file.
    pub notes: Vec<String>,
}

/// Treatment of a card's interrupt moderation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moderation {
    /// Unchanged.
    Keep,
    /// Set by the policy.
    Policy,
    /// A fixed time.
    Fixed(Span),
}

/// A source of latency.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceSettings {
    /// Its name.
    pub name: String,
    /// Kind of source, with its settings.
    pub kind: SourceKind,
}

/// Kind of a source.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceKind {
    /// Clients that report to a socket.
    Clients {
        /// The socket.
        socket: PathBuf,
        /// Longest age of reports that count.
        window: Span,
    },
    /// The application's metrics.
    Prometheus {
        /// The page.
        url: Url,
        /// The histogram.
        histogram: Selector,
        /// The unit of its bounds.
        unit: Span,
        /// Time between two reads.
        period: Span,
    },
    /// TCP's own round trips.
    Tcp {
        /// The server's ports.
        ports: Vec<u16>,
        /// Time between two readings of the connections.
        period: Span,
        /// Longest age of round trips that count.
        window: Span,
    },
}

impl Config {
    /// Returns true if interrupt moderation is governed.
    pub fn moderates(&self) -> bool {
        self.scope.moderation && self.moderation != Moderation::Keep
    }
}
