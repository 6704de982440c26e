//! Meters of other machines: a Prometheus server, an exporter's page, a management controller with
//! Redfish. `/etc/wattline/meters.toml` lists them. Each has a thread that queries its value, so
//! readers do not wait for a server.

mod client;
mod prometheus;
mod redfish;

use crate::reading::{Description, Meter, Plausible, Reading, Rejection, Scope, Timing};
use crate::registration::{Finding, Registration, Row};
use client::{Client, Credentials, Failure, TIME_LIMIT};
use prometheus::Query;
use redfish::{Access, Resource};
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wattline_linux::missing::Missing;
use wattline_linux::sysfs::{ReadError, Tree};
use wattline_units::{Accuracy, Provenance, Source, Span, Time, Watts};

/// The file that lists remote meters.
pub const FILE: &str = "/etc/wattline/meters.toml";
const PERIOD: Span = Span::from_millis(5_000);
/// Assumed delay of an unmeasured meter: controllers average, and servers scrape periodically.
const LAG: Span = Span::from_millis(15_000);
const SHORTEST: Span = Span::from_millis(100);
const LONGEST: Span = Span::from_millis(600_000);
/// Time limit for first values, so that a single reading has one.
const FIRST: Duration = Duration::from_secs(5);
/// Pause after refused credentials: controllers lock accounts.
const DENIED: Duration = Duration::from_secs(300);
const PLAUSIBLE: Plausible = Plausible { lowest: Watts(0.1), highest: Watts(100_000.0) };

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    #[serde(default)]
    meter: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    period: Option<String>,
    lag: Option<String>,
    accuracy: Option<Accuracy>,
    credentials: Option<PathBuf>,
    certificate: Option<PathBuf>,
    #[serde(default)]
    session: bool,
}

/// Server, query and credentials of a meter.
enum Service {
    Prometheus(Query, Option<(&'static str, String)>),
    Redfish(Resource, Access),
}

impl Service {
    fn ask(&mut self, client: &Client) -> Result<f64, Failure> {
        match self {
            Self::Prometheus(query, secret) => {
                query.ask(client, secret.as_ref().map(|(name, value)| (*name, value.as_str())))
            }
            Self::Redfish(resource, access) => resource.ask(client, access),
        }
    }
}

/// Result of the querying thread.
#[derive(Default)]
struct Latest {
    /// The last answer, until it is read.
    fresh: Option<f64>,
    /// The same value, kept.
    value: Option<f64>,
    problem: Option<String>,
    asked: u64,
}

/// A thread that queries a server periodically.
struct Poller {
    latest: Arc<Mutex<Latest>>,
    /// The thread ends when this is dropped.
    _running: Sender<()>,
}

impl Poller {
    fn start(mut service: Service, client: Client, period: Span) -> Result<Self, String> {
        let latest = Arc::<Mutex<Latest>>::default();
        let slot = Arc::clone(&latest);
        let (running, stop) = channel();
        std::thread::Builder::new()
            .name("remote meter".to_owned())
            .spawn(move || ask_on(&mut service, &client, period.into(), &slot, &stop))
            .map_err(|error| format!("cannot start its thread: {error}"))?;
        Ok(Self { latest, _running: running })
    }

    fn latest(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until each has an answer, up to a time limit.
fn wait_for(pollers: &[&Poller]) {
    let end = Instant::now() + FIRST;
    while pollers.iter().any(|poller| poller.latest().asked == 0) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A counter of work on a Prometheus server or an exporter's page, such as requests served.
pub struct Counter(Poller);

impl Counter {
    /// Starts reading `prometheus:URL#QUERY` once a second.
    ///
    /// # Errors
    /// When the name is invalid, or the counter has no value now.
    pub fn open(name: &str) -> Result<Self, String> {
        let text = name.strip_prefix("prometheus:").ok_or("expected prometheus:URL#QUERY")?;
        check(text, false)?;
        let client = Client::new(None, text.starts_with("https:"))?;
        let service = Service::Prometheus(Query::parse(text)?, None);
        let counter = Self(Poller::start(service, client, Span::from_millis(1_000))?);
        wait_for(&[&counter.0]);
        counter.value()?;
        Ok(counter)
    }

    /// Returns its last value.
    ///
    /// # Errors
    /// When the server has none.
    pub fn value(&self) -> Result<f64, String> {
        let latest = self.0.latest();
        match &latest.problem {
            Some(problem) => Err(problem.clone()),
            None => latest.value.ok_or_else(|| "no answer yet".to_owned()),
        }
    }
}

/// A remote meter.
struct Remote {
    description: Description,
    timing: Timing,
    poller: Poller,
    last: Option<Time>,
    /// Time of its first reading, or of its last value.
    heard: Option<Time>,
}

impl Remote {
    /// Checks the settings, and starts querying.
    fn open(tree: &Tree, entry: &Entry) -> Result<Self, String> {
        let span = |text: &Option<String>, key: &str, default: Span, range: (Span, Span)| {
            let Some(text) = text else { return Ok(default) };
            let span: Span = text.parse().map_err(|error| format!("{key}: {error}"))?;
            match (range.0..=range.1).contains(&span) {
                true => Ok(span),
                false => Err(format!(
                    "{key}: {text}, expected {} s to {} s",
                    range.0.as_seconds(),
                    range.1.as_seconds()
                )),
            }
        };
        let period = span(&entry.period, "period", PERIOD, (SHORTEST, LONGEST))?;
        let lag = span(&entry.lag, "lag", LAG, (Span::ZERO, LONGEST))?;
        let accuracy = entry.accuracy.unwrap_or(Accuracy::Bronze);
        if !matches!(accuracy, Accuracy::Gold | Accuracy::Silver | Accuracy::Bronze) {
            return Err(format!("accuracy: {accuracy}, expected gold, silver or bronze"));
        }
        let file = |path: &Option<PathBuf>| path.as_ref().map(|path| tree.path(path));
        let credentials =
            file(&entry.credentials).map(|path| Credentials::read(&path)).transpose()?;
        let (source, text) = match entry.name.split_once(':') {
            Some(("prometheus", text)) => ("prometheus", text),
            Some(("redfish", text)) => ("redfish", text),
            _ => return Err("expected prometheus:URL#QUERY or redfish:https://BMC".to_owned()),
        };
        check(text, credentials.is_some())?;
        let service = match source {
            "prometheus" => {
                Service::Prometheus(Query::parse(text)?, credentials.map(|them| them.header()))
            }
            _ => Service::Redfish(Resource::parse(text)?, Access::new(credentials, entry.session)),
        };
        let client = Client::new(file(&entry.certificate).as_deref(), text.starts_with("https:"))?;
        let poller = Poller::start(service, client, period)?;
        let assumed = if entry.lag.is_some() { "" } else { " (assumed)" };
        let class = if entry.accuracy.is_some() { "" } else { " (assumed)" };
        Ok(Self {
            timing: Timing { period, lag },
            poller,
            last: None,
            heard: None,
            description: Description {
                id: entry.name.clone(),
                source,
                scope: Scope::Platform,
                part_of: None,
                provenance: Provenance { source: Source::Measured, accuracy },
                note: format!(
                    "period {} s, lag {} s{assumed}, accuracy {accuracy}{class}",
                    period.as_seconds(),
                    lag.as_seconds()
                ),
            },
        })
    }
}

/// Rejects addresses through which credentials would leak.
fn check(text: &str, with_credentials: bool) -> Result<(), String> {
    let url = text.split('#').next().unwrap_or_default();
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    if !matches!(scheme, "http" | "https") || authority.is_empty() {
        return Err(format!("{url}: expected an address such as https://HOST:PORT"));
    }
    if authority.contains('@') {
        return Err("the address has credentials: put them into a file, key `credentials`".into());
    }
    let loopback = ["127.0.0.1", "localhost", "[::1]"];
    let host = authority.rsplit_once(':').map_or(authority, |(host, port)| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) { host } else { authority }
    });
    if with_credentials && scheme == "http" && !loopback.contains(&host) {
        return Err("credentials are sent over https alone".to_owned());
    }
    Ok(())
}

fn ask_on(
    service: &mut Service,
    client: &Client,
    period: Duration,
    slot: &Mutex<Latest>,
    stop: &Receiver<()>,
) {
    loop {
        let began = Instant::now();
        let answer = service.ask(client);
        let denied = answer.as_ref().is_err_and(|failure| failure.denied);
        {
            let mut latest = slot.lock().unwrap_or_else(PoisonError::into_inner);
            latest.asked += 1;
            latest.value = answer.as_ref().ok().copied();
            latest.fresh = latest.value;
            latest.problem = answer.err().map(|failure| failure.reason);
        }
        let pause = if denied { period.max(DENIED) } else { period };
        match stop.recv_timeout(pause.saturating_sub(began.elapsed())) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => break,
        }
    }
    if let Service::Redfish(resource, access) = service {
        access.close(client, resource);
    }
}

impl Meter for Remote {
    fn description(&self) -> &Description {
        &self.description
    }

    fn timing(&self) -> Timing {
        self.timing
    }

    fn read(&mut self, now: Time) -> Result<Reading, Rejection> {
        let (fresh, problem) = {
            let mut latest = self.poller.latest();
            (latest.fresh.take(), latest.problem.clone())
        };
        // After a failure, `elapsed` restarts at zero: a momentary value does not cover the gap.
        let last = self.last.take();
        if let Some(reason) = problem {
            let path = PathBuf::from(&self.description.id);
            return Err(Rejection::Unreadable(ReadError::Failed { path, reason }));
        }
        let Some(watts) = fresh else {
            self.last = last;
            let silent = now.since(*self.heard.get_or_insert(now));
            // Its thread waits for one answer at most.
            let Timing { period, lag } = self.timing;
            let patience = period + lag + Span::from(2 * TIME_LIMIT);
            let is_silent = silent > patience;
            return Err(if is_silent { Rejection::Silent(silent) } else { Rejection::NothingNew });
        };
        let power = PLAUSIBLE.check(Watts(watts))?;
        let elapsed = now.since(last.unwrap_or(now));
        (self.last, self.heard) = (Some(now), Some(now));
        let provenance = self.description.provenance;
        Ok(Reading { energy: None, elapsed, power, provenance })
    }
}

fn find(tree: &Tree) -> Finding {
    if !tree.exists(FILE) {
        return Finding::default();
    }
    let missing = |what: &str, why: &str| {
        Missing::because(what, why, &format!("correct {}", tree.path(FILE).display()))
    };
    let text = match tree.text(FILE) {
        Ok(text) => text,
        Err(error) => {
            return Finding { missing: vec![Missing::new(FILE, &error)], ..Finding::default() };
        }
    };
    let settings: Settings = match toml::from_str(&text) {
        Ok(settings) => settings,
        Err(error) => {
            let missing = vec![missing(FILE, &error.to_string())];
            return Finding { missing, ..Finding::default() };
        }
    };
    let (mut meters, mut refused) = (Vec::<Remote>::new(), Vec::new());
    for entry in &settings.meter {
        match Remote::open(tree, entry) {
            _ if meters.iter().any(|other| other.description.id == entry.name) => {
                refused.push(missing(&entry.name, "it is named twice"));
            }
            Ok(meter) => meters.push(meter),
            Err(why) => refused.push(missing(&entry.name, &why)),
        }
    }
    wait_for(&meters.iter().map(|meter| &meter.poller).collect::<Vec<_>>());
    Finding::new(meters, refused)
}

/// Meters of other machines.
pub const KIND: Registration = Registration {
    rows: &[
        Row {
            meter: "`prometheus:URL#QUERY`",
            files: "named in `/etc/wattline/meters.toml`",
            sees: "the platform",
            class: "as stated there, else bronze",
        },
        Row {
            meter: "`redfish:https://BMC`",
            files: "named in `/etc/wattline/meters.toml`",
            sees: "the platform",
            class: "as stated there, else bronze",
        },
    ],
    find: |tree, _| find(tree),
    recorded: &[],
};
