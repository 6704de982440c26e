//! The daemon: governs until asked to stop, whatever hardware comes and goes.

use crate::config::{Config, keys};
use crate::error::GovernError;
use crate::fingerprint::Fingerprint;
use crate::guard::Rule;
use crate::left_alone;
use crate::messages;
use crate::metrics;
use crate::session::Session;
use crate::slept::Slept;
use crate::stats::{Context, stats, waiting};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use wattline_daemon::notify::Notifier;
use wattline_daemon::reload::Report;
use wattline_daemon::running::Identity;
use wattline_daemon::settings::running::Running;
use wattline_daemon::settings::{Key, LogLevel, read_text};
use wattline_daemon::socket::{Answer, Pending, Request, Server, Topic, default_path, serve_all};
use wattline_governor::figures::Figures;
use wattline_governor::lease::{Asked, NOTHING_GOVERNED};
use wattline_host::Ending;
use wattline_knobs::rivals::{self, Rival};
use wattline_linux::sysfs::Tree;
use wattline_policy::Registry;
use wattline_status::{Empty, GovernorStats, ReloadReport, Stats};

/// Period of noting counts and reporting rules.
const TICK: Duration = Duration::from_secs(1);
/// Period of checking the machine's parts; two changes within a period count as one.
const PARTS: Duration = Duration::from_secs(2);
/// Period of searching for other programs that set the same knobs: it reads all processes.
const RIVALS: Duration = Duration::from_secs(60);
/// Time limit of a request over the socket.
const PATIENCE: Duration = Duration::from_secs(10);

/// An event for the daemon's thread.
enum Message {
    Signal(i32),
    Request(Request, Sender<Answer>),
}

/// Options of the daemon.
pub struct Options {
    /// The configuration; none for the built-in profile.
    pub config: Option<PathBuf>,
    /// Policies that the configuration may name.
    pub policies: Registry,
    /// Accepts tables of another machine, too (policy copi).
    pub force: bool,
    /// Address of the metrics; overrides the configuration's.
    pub metrics: Option<std::net::SocketAddr>,
    /// The machine's files.
    pub tree: Tree,
    /// Callback that sets the verbosity of the log.
    pub set_log_level: Box<dyn Fn(LogLevel)>,
}

/// A governed machine.
pub struct Daemon {
    options: Options,
    config: Config,
    /// None if the policy cannot work on the present machine, for example with tables of a card
    /// that has gone. The daemon retries whenever the machine changes, and at a reload.
    session: Option<Session>,
    /// Figures of all sessions.
    figures: Figures,
    /// Reason for waiting.
    waits_because: Option<String>,
    fingerprint: Fingerprint,
    slept: Slept,
    rivals: Vec<Rival>,
    rule: Rule,
    /// True if the rule was reported before any source could count as silent.
    early: bool,
    restarts: u64,
    started: Instant,
    socket: Server,
    inbox: Receiver<Message>,
    /// Answers not sent yet.
    pending: Pending,
    sender: Sender<Message>,
    signals: signal_hook::iterator::Handle,
    stopping: bool,
    /// Changed parts of the configuration that need a restart.
    needs_restart: Vec<&'static str>,
    notifier: Notifier,
    /// Its configuration as users see it.
    identity: Identity,
}

/// Reads the configuration and its text, the built-in one without a file.
fn load(options: &Options) -> Result<(Config, String), GovernError> {
    let (mut config, text) = match options.config.as_deref() {
        Some(path) => (Config::load(path, options.policies)?, read_text(path)?),
        None => (Config::built_in(options.policies), String::new()),
    };
    // Two configurations that differ only in remarks are equal.
    std::mem::take(&mut config.notes).iter().for_each(|note| tracing::warn!("{note}"));
    config.metrics = options.metrics.or(config.metrics);
    Ok((if options.force { config.forced() } else { config }, text))
}

impl Daemon {
    /// Takes the machine over.
    ///
    /// # Errors
    /// When it cannot be governed; it is unchanged then.
    pub fn start(options: Options) -> Result<Self, GovernError> {
        let (config, text) = load(&options)?;
        (options.set_log_level)(config.log_level);
        let (sender, inbox) = channel();
        let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM])
            .map_err(|error| GovernError::system("waiting for signals", error))?;
        let handle = signals.handle();
        let signalled = sender.clone();
        std::thread::spawn(move || {
            for signal in signals.forever() {
                if signalled.send(Message::Signal(signal)).is_err() {
                    break;
                }
            }
        });
        let name = options.config.clone().unwrap_or_else(|| PathBuf::from("govern"));
        let path = config.socket.clone().unwrap_or_else(|| default_path(&name));
        let socket = Server::bind(&path)?;
        let listener = socket
            .listener()
            .map_err(|error| GovernError::system("listening on the control socket", error))?;
        let fingerprint = Fingerprint::read(&options.tree, &config);
        let session = Session::begin(&config, &options.tree)?;
        let pending = serve_all(listener, asking(sender.clone()))
            .map_err(|error| GovernError::system("serving the control socket", error))?;
        if let Some(address) = config.metrics {
            let ask = asking(sender.clone());
            let text = move || match ask(Request::Metrics)? {
                Answer::Ok(text) => text.as_str().map(str::to_owned),
                Answer::Error(_) => None,
            };
            let bound = wattline_daemon::metrics::http::serve(address, text).map_err(|error| {
                GovernError::system(format!("[metrics] listen = \"{address}\""), error)
            })?;
            tracing::info!("metrics at http://{bound}/metrics");
        }
        let file = options.config.as_ref().map(|path| path.display().to_string());
        let mut daemon = Self {
            rivals: Vec::new(),
            // Any other rule is reported at the first tick.
            rule: Rule::Policy,
            early: false,
            restarts: 0,
            started: Instant::now(),
            signals: handle,
            stopping: false,
            needs_restart: Vec::new(),
            notifier: Notifier::default(),
            identity: Identity { file: file.unwrap_or_default(), running: Running::new(&text) },
            options,
            config,
            session: Some(session),
            figures: Figures::default(),
            waits_because: None,
            fingerprint,
            slept: Slept::until_now(),
            socket,
            inbox,
            pending,
            sender,
        };
        daemon.introduce();
        daemon.look_for_rivals();
        Ok(daemon)
    }

    /// Returns the socket's path.
    pub fn socket_path(&self) -> &Path {
        self.socket.path()
    }

    /// Governs until a signal or request to stop. Returns the last statistics, and errors of the
    /// shutdown.
    pub fn run(mut self) -> (GovernorStats, Result<(), GovernError>) {
        self.notifier = Notifier::from_environment();
        self.notifier.ready();
        let longest = self.notifier.patience().map_or(TICK, |most| most.min(TICK));
        let begin = Instant::now();
        let mut due = [TICK, PARTS, RIVALS].map(|period| begin + period);
        let mut failed = None;
        while !self.stopping && failed.is_none() {
            let now = Instant::now();
            self.notifier.alive(now);
            for (index, period) in [TICK, PARTS, RIVALS].into_iter().enumerate() {
                if due[index] > now {
                    continue;
                }
                due[index] = now + period;
                match index {
                    0 => failed = failed.or(self.tick().err()),
                    1 => failed = failed.or(self.check_parts().err()),
                    _ => self.look_for_rivals(),
                }
            }
            let next = due.into_iter().min().unwrap_or(now).saturating_duration_since(now);
            match self.inbox.recv_timeout(next.min(longest)) {
                Ok(message) => failed = failed.or(self.handle(message).err()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.stopping = true,
            }
        }
        self.notifier.stopping();
        self.signals.close();
        let last = self.stats();
        // Such as the number of times that no point of its tables met the target.
        if let Some(remark) = &last.govern.policy_remark {
            tracing::info!("{remark}");
        }
        let ended = self.session.map_or(Ok(()), |session| session.end(Ending::Final));
        drop(self.inbox);
        self.pending.wait();
        let ended = ended.map_err(GovernError::from);
        // A machine left changed matters more than the reason for stopping.
        (last, ended.and(failed.map_or(Ok(()), Err)))
    }

    fn handle(&mut self, message: Message) -> Result<(), GovernError> {
        match message {
            Message::Signal(SIGHUP) => match self.read_again() {
                // Logged already.
                Ok(_) | Err(Reload::Refused(_)) => Ok(()),
                Err(Reload::Lost(error)) => Err(error),
            },
            Message::Signal(_) => {
                self.stopping = true;
                Ok(())
            }
            Message::Request(request, answer) => {
                let (text, outcome) = self.answer(request);
                // The requester may have gone.
                let _ = answer.send(text);
                outcome
            }
        }
    }

    fn answer(&mut self, request: Request) -> (Answer, Result<(), GovernError>) {
        let answer = match request {
            Request::Stats => Answer::document(&Stats::Governor(Box::new(self.stats()))),
            Request::Metrics => Answer::Ok(metrics::text(&self.stats(), &self.options.tree).into()),
            Request::Reload => match self.read_again() {
                Ok(report) => Answer::document(&ReloadReport::from(&report)),
                Err(Reload::Refused(error)) => Answer::Error(error.to_string()),
                Err(Reload::Lost(error)) => return (Answer::Error(error.to_string()), Err(error)),
            },
            // A governor forwards no packets, so there is nothing to block.
            Request::Stop | Request::StopAndOpen => {
                self.stopping = true;
                Answer::document(&Empty::default())
            }
            Request::Graph => Answer::Error("a governor has no graph: a router has".to_owned()),
            Request::Capture(_) | Request::Trace(_) => {
                Answer::Error("a governor sees no packets: a router does".to_owned())
            }
            Request::ClearCounters => {
                Answer::Error("a governor's counters cannot be cleared: a router's can".to_owned())
            }
            Request::Audit { .. } => {
                Answer::Error("a governor decides about no packets: a router does".to_owned())
            }
            Request::Show { topic: Topic::Version, .. } => {
                let uptime_seconds = self.started.elapsed().as_secs_f64();
                Answer::document(&self.identity.version(uptime_seconds, &self.needs_restart))
            }
            Request::Show { topic: Topic::Config, .. } => {
                let keys: Vec<&Key> = keys::all().collect();
                let always = |section| section != keys::LATENCY;
                Answer::document(&self.identity.config(&keys, always, &self.needs_restart))
            }
            Request::Show { .. } => {
                Answer::Error("a governor has no ports and no routes: a router has".to_owned())
            }
            Request::Hold { owner, cores, kilohertz, seconds } => {
                self.lease(&Asked::hold(owner, cores, kilohertz, seconds))
            }
            Request::Release { owner } => self.lease(&Asked::Release(owner)),
            Request::Active { .. } => {
                Answer::Error("a governor has no workers: a router has".to_owned())
            }
        };
        (answer, Ok(()))
    }

    fn lease(&self, asked: &Asked) -> Answer {
        let session = self.session.as_ref().ok_or_else(|| NOTHING_GOVERNED.to_owned());
        Answer::from_result(session.and_then(|session| session.lease(asked)))
    }

    /// Returns a query for statistics, for any thread; it returns none while the daemon is not
    /// running.
    pub fn statistics(&self) -> impl Fn() -> Option<Stats> + Send + Sync + 'static {
        let ask = asking(self.sender.clone());
        move || match ask(Request::Stats)? {
            Answer::Ok(stats) => wattline_status::read(stats).ok(),
            Answer::Error(_) => None,
        }
    }

    fn stats(&mut self) -> GovernorStats {
        let context = Context {
            config: &self.config,
            tree: &self.options.tree,
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            rivals: &self.rivals,
            restarts: self.restarts,
            needs_restart: &self.needs_restart,
        };
        match &mut self.session {
            Some(session) => stats(session, &mut self.figures, &context),
            None => waiting(self.waits_because.as_deref(), &context),
        }
    }

    fn tick(&mut self) -> Result<(), GovernError> {
        let Some(session) = &mut self.session else { return Ok(()) };
        session.check_governor()?;
        self.figures.tick(Instant::now(), session.totals().map(|totals| (totals, None)));
        if tracing::enabled!(tracing::Level::DEBUG)
            && let Some(seen) = session.look()
        {
            self.figures.log(&seen.state.decisions);
        }
        let rule = session.rule();
        // A source not yet heard from is not silent before its time is over.
        let early = rule == Rule::Silent
            && !self.config.latency.is_empty()
            && session.age() < self.config.latency_silence;
        if rule != self.rule || self.early && !early {
            messages::rule(rule, self.rule, &self.config, session.look().as_ref(), early);
            (self.rule, self.early) = (rule, early);
        }
        Ok(())
    }

    fn look_for_rivals(&mut self) {
        let Some(session) = &self.session else { return };
        // Cards are searched for their own adaptive modes only if they are moderated.
        let moderates = self.config.moderates();
        let interfaces = if moderates { session.inventory.interfaces() } else { Vec::new() };
        let found = rivals::find(&self.options.tree, &interfaces);
        let found = messages::relevant(found, &self.config);
        for rival in found.iter().filter(|rival| !self.rivals.contains(rival)) {
            messages::rival(rival);
        }
        self.rivals = found;
    }

    /// Restarts the governor if CPUs or interfaces came, or interfaces went, as soon as no governed
    /// CPU is off line. Also restarts after a suspend: it resets the processors' registers, and the
    /// kernel then restores its own settings, so the actual state is unknown.
    fn check_parts(&mut self) -> Result<(), GovernError> {
        let now = Fingerprint::read(&self.options.tree, &self.config);
        let governed = self.session.as_ref().map(|session| &session.inventory.layout.cpus);
        let all_there = governed.is_none_or(|cpus| now.has(cpus));
        let slept = Slept::until_now();
        let woke = slept.since(self.slept);
        if now == self.fingerprint && woke.is_none() || !all_there {
            return Ok(());
        }
        for change in now.changes_since(&self.fingerprint) {
            tracing::warn!("{change}: the governor starts again");
        }
        if let Some(time) = woke {
            let seconds = time.as_secs();
            tracing::warn!("the machine was suspended for {seconds} s: the governor starts again");
        }
        self.slept = slept;
        self.fingerprint = now;
        let config = self.config.clone();
        self.restart(config).map(drop)
    }

    /// Gives the machine back and takes it over again. The old configuration stays in force if the
    /// new one does not work, and the new one's error is returned. If the policy cannot work on
    /// this machine, nothing is governed, and the daemon waits.
    fn restart(&mut self, config: Config) -> Result<Option<GovernError>, GovernError> {
        // Notes the last counts of the session.
        self.stats();
        if let Some(session) = self.session.take() {
            self.figures.end_of_governor();
            if let Err(error) = session.end(Ending::Pause) {
                // The next session restores the rest of the journal before it begins.
                tracing::error!("{error}");
            }
        }
        let tree = &self.options.tree;
        let (begun, refused) = match Session::begin(&config, tree) {
            Ok(session) => {
                self.config = config;
                (Ok(session), None)
            }
            Err(error) if config == self.config => (Err(error), None),
            Err(error) => {
                tracing::error!("{error}; the previous configuration is used again");
                (Session::begin(&self.config, tree), Some(error))
            }
        };
        match begun {
            Ok(session) => {
                (self.session, self.waits_because) = (Some(session), None);
                self.restarts += 1;
                self.introduce();
                Ok(refused)
            }
            Err(GovernError::Policy(error)) => {
                tracing::error!(
                    "nothing is governed: {error}; tried again when CPUs or interfaces change, and \
                     at a reload"
                );
                self.waits_because = Some(error.to_string());
                Ok(refused.or(Some(GovernError::Policy(error))))
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the configuration again, and reports the outcome to the log and the service manager.
    fn read_again(&mut self) -> Result<Report, Reload> {
        self.notifier.reloading();
        let outcome = self.reload();
        match &outcome {
            Ok(report) => {
                self.needs_restart.clone_from(&report.needs_restart);
                report.log();
                self.notifier.reloaded(&format!("configuration read again: {report}"));
            }
            Err(Reload::Refused(error)) => {
                tracing::error!("the configuration stays as it was:\n{error}");
                self.notifier.reloaded(&format!("the configuration stays as it was: {error}"));
            }
            Err(Reload::Lost(_)) => {}
        }
        outcome
    }

    fn reload(&mut self) -> Result<Report, Reload> {
        let (new, text) = load(&self.options).map_err(Reload::Refused)?;
        if let Some(session) = &self.session {
            session.check(&new).map_err(Reload::Refused)?;
        }
        let mut needs_restart = Vec::new();
        for (name, same) in [
            ("[metrics] listen", new.metrics == self.config.metrics),
            ("[govern] socket", new.socket == self.config.socket),
        ] {
            if !same {
                needs_restart.push(name);
            }
        }
        let new =
            Config { metrics: self.config.metrics, socket: self.config.socket.clone(), ..new };
        let log_level = new.log_level;
        // A waiting daemon retries even with an unchanged configuration.
        let applied = new != self.config || self.session.is_none();
        if applied {
            self.fingerprint = Fingerprint::read(&self.options.tree, &new);
            let refused = self.restart(new).map_err(Reload::Lost)?;
            self.look_for_rivals();
            if let Some(error) = refused {
                self.fingerprint = Fingerprint::read(&self.options.tree, &self.config);
                return Err(Reload::Refused(error));
            }
        }
        // Only for a configuration in force: a rejected one changes nothing.
        (self.options.set_log_level)(log_level);
        self.identity.running.reload(&text, &needs_restart);
        let applied = if applied { vec!["[govern]"] } else { Vec::new() };
        Ok(Report { applied, needs_restart, ..Report::default() })
    }

    fn introduce(&mut self) {
        let Some(session) = &mut self.session else { return };
        self.figures.tick(Instant::now(), session.totals().map(|totals| (totals, None)));
        if let Some(seen) = session.look() {
            let alone = left_alone::find(&self.config, &session.inventory, &self.options.tree);
            messages::introduction(&self.config, &session.inventory, &seen, &alone);
        }
    }
}

/// Failures of a reload.
enum Reload {
    /// Everything is unchanged.
    Refused(GovernError),
    /// The machine is no longer governed.
    Lost(GovernError),
}

/// Sends a request to the daemon's thread and waits for its answer; none once it has ended.
fn asking(
    sender: Sender<Message>,
) -> impl Fn(Request) -> Option<Answer> + Clone + Send + Sync + 'static {
    move |request| {
        let (answer, receiver) = channel();
        sender.send(Message::Request(request, answer)).ok()?;
        receiver.recv_timeout(PATIENCE).ok()
    }
}
