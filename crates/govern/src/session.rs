//! A session of the governor, from taking the machine over to restoring it. The inventory of CPUs
//! and interfaces is fixed during a session; if it changes, a new session begins.

use crate::choice::{self, Observed};
use crate::config::Config;
use crate::error::GovernError;
use crate::guard::{Drops, Rule, RuleSeen};
use crate::hardware;
use crate::inventory::Inventory;
use crate::latency::{Feed, SharedFeed, SourceState};
use crate::pressure;
use std::time::{Duration, Instant};
use wattline_governor::Governor;
use wattline_governor::account::Totals;
use wattline_governor::figures::Seen as State;
use wattline_governor::lease::Asked;
use wattline_governor::machine::{Machine, View};
use wattline_governor::runner::Runner;
use wattline_host::{
    Ending, HostOptions, KernelStack, Status, Supervision, TakeOverError, ThisMachine, Workers,
    give_back, take_over_by,
};
use wattline_knobs::{Bounded, Machine as Settings};
use wattline_linux::privileges::Rights;
use wattline_linux::sysfs::Tree;
use wattline_policy::{Policy, SpecError};
use wattline_status::HeldPoint;
use wattline_units::Span;

/// The governor's thread answers within this time unless a knob hangs.
const PATIENCE: Duration = Duration::from_secs(1);
/// Sampling period of the queues for policies that want to be asked at batches: without a router
/// there are no batches.
const SAMPLE: Span = Span::from_millis(100);

/// A governed machine.
pub(crate) struct Session {
    runner: Runner<ThisMachine>,
    supervision: Supervision,
    /// The governed CPUs and interfaces.
    pub inventory: Inventory,
    rule: RuleSeen,
    feed: SharedFeed,
    last: Option<Seen>,
    begun: Instant,
}

/// State and counters of the machine at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// Its operating point, the policy's last decisions and the results of the steps.
    pub state: State,
    /// The last observation of cores and queues.
    pub view: View,
    /// Totals since the session began.
    pub totals: Totals,
    /// State of each latency source.
    pub sources: Vec<SourceState>,
    /// A remark for the user about its decisions.
    pub remark: Option<String>,
}

/// Returns the settings that the governor may change under its configuration.
pub(crate) fn options(config: &Config, inventory: &Inventory, tree: &Tree) -> HostOptions {
    // A recorded machine restricts no rights: all files are the recording's.
    let rights = if tree.is_live() { Rights::present() } else { Rights::ALL };
    let mut scope = config.scope;
    scope.moderation = config.moderates();
    HostOptions {
        tree: tree.clone(),
        layout: inventory.layout.clone(),
        ring_size: None,
        busy_poll: false,
        sample: SAMPLE,
        uncore: config.uncore,
        meters: true,
        rights,
        override_limits: config.override_limits,
        may_raise: config.may_raise,
        preferences: hardware::is_named(&config.policy),
        scope,
    }
}

/// Returns the kernel's counters of a machine, and notes on missing ones. Polls are observed on the
/// live machine only.
pub(crate) fn kernel(inventory: &Inventory, tree: &Tree) -> (KernelStack, Vec<String>) {
    let (kernel, notes) = KernelStack::new(tree, &inventory.layout);
    (if tree.is_live() { kernel.observing() } else { kernel }, notes)
}

impl Session {
    /// Takes the machine over and begins.
    ///
    /// # Errors
    /// When it cannot be governed; it is unchanged then.
    pub fn begin(config: &Config, tree: &Tree) -> Result<Self, GovernError> {
        let gauge = pressure::gauge(tree);
        if gauge.is_none() {
            tracing::info!(
                "no guard by pressure: neither /proc/pressure/cpu (boot with psi=1) nor \
                 /proc/schedstat can be read"
            );
        }
        Self::begin_with(config, tree, |machine, cpus, rule| {
            let drops = machine.0.can.set_cores.then(|| Drops::new(tree, cpus));
            let guarded = choice::policy(config, machine, rule)?;
            Ok(Box::new(guarded.watching(gauge).counting(drops)))
        })
    }

    /// Begins under another policy than the configuration's.
    fn begin_with(
        config: &Config,
        tree: &Tree,
        policy: impl FnOnce(Observed<'_>, &[u32], RuleSeen) -> Result<Box<dyn Policy>, SpecError>,
    ) -> Result<Self, GovernError> {
        let inventory = Inventory::find(tree, config);
        if let Some(why) = inventory.refusal() {
            return Err(GovernError::Nothing(why));
        }
        let feed = Feed::open(&config.latency, config.latency_silence)
            .map_err(|(name, source)| GovernError::Source { name, source })?;
        let feed = SharedFeed::new(feed);
        let (mut kernel, notes) = kernel(&inventory, tree);
        for note in notes {
            tracing::info!("{note}");
        }
        let unobserved = kernel.missing();
        let options = options(config, &inventory, tree);
        let rule = RuleSeen::default();
        let made = |machine: &mut ThisMachine| {
            if !config.latency.is_empty() {
                machine.attach_latency(Box::new(feed.clone()));
            }
            policy((machine.platform(), unobserved), &inventory.layout.cpus, rule.clone())
        };
        let access = Bounded::new(Settings::new(tree));
        let begun = take_over_by(access, options, config.on_exit, Box::new(kernel), made);
        let (machine, policy, supervision) = begun.map_err(|error| match error {
            TakeOverError::Policy(error) => GovernError::Policy(error),
            error => error.into(),
        })?;
        let runner = Runner::start(Governor::new(machine, policy), SAMPLE.into())
            .map_err(|error| GovernError::system("starting the governor", error))?;
        let begun = Instant::now();
        Ok(Self { runner, supervision, inventory, rule, feed, last: None, begun })
    }

    /// Checks that the machine is governed.
    ///
    /// # Errors
    /// When its governor has panicked: the machine would keep its last settings.
    pub fn check_governor(&self) -> Result<(), GovernError> {
        if self.runner.has_failed() { Err(GovernError::Panicked) } else { Ok(()) }
    }

    /// Returns the totals since the session began; `None` if its governor does not answer.
    pub fn totals(&self) -> Option<Totals> {
        self.runner.totals(PATIENCE)
    }

    /// Lets a client hold an operating point in place of the policy, or ends that.
    ///
    /// # Errors
    /// Fails when it cannot be held, or when the governor does not answer.
    pub fn lease(&self, asked: &Asked) -> Result<Option<HeldPoint>, String> {
        self.runner.lease(asked, PATIENCE)
    }

    /// Returns the machine's present state, or the last one known if its governor does not answer.
    pub fn look(&mut self) -> Option<Seen> {
        let feed = &self.feed;
        let seen = self.runner.look(PATIENCE, |governor| {
            let now = governor.machine().now();
            Seen {
                state: State::read(governor),
                view: governor.look(now).clone(),
                totals: governor.totals(now),
                sources: feed.states(now),
                remark: governor.policy_remark(),
            }
        });
        if seen.is_some() {
            self.last = seen;
        }
        self.last.clone()
    }

    /// Returns the status of the machine's knobs.
    pub fn status(&self) -> Status {
        self.supervision.status()
    }

    /// Returns the time since the session began.
    pub fn age(&self) -> Span {
        self.begun.elapsed().into()
    }

    /// Returns the rule in force.
    pub fn rule(&self) -> Rule {
        self.rule.get()
    }

    /// Checks that a configuration works on this machine.
    ///
    /// # Errors
    /// When its policy cannot work here.
    pub fn check(&self, config: &Config) -> Result<(), GovernError> {
        if let Some(last) = &self.last {
            choice::policy(config, (&last.state.platform, None), RuleSeen::default())?;
        }
        Ok(())
    }

    /// Gives the machine back.
    ///
    /// # Errors
    /// When some of it could not be restored.
    pub fn end(self, ending: Ending) -> Result<(), TakeOverError> {
        give_back(self.runner, self.supervision, ending)
    }
}

#[cfg(test)]
mod tests;
