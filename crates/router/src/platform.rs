//! Platforms that the governor of a router drives.
//!
//! The router itself knows no platform: the program passes a list of them ([`crate::Extensions`]),
//! and `[power] platform` chooses one. It is opened, equips the workers, is started and given back
//! in the order of [`PlatformDriver`]'s functions.

use crate::config::{Config, PowerPlatform, PowerSettings};
use crate::error::RouterError;
pub use crate::queue_watch::{QueueWatch, Streak, WorkerEstimator};
use std::sync::Arc;
use std::time::Duration;
use wattline_dataplane::counters::WorkerCounters;
use wattline_dataplane::worker::{Control, Worker};
use wattline_governor::account::Totals;
pub use wattline_governor::figures::Seen;
use wattline_governor::lease::Asked;
use wattline_policy::{Latency, PolicySpec};
use wattline_ports::waiter::{PollWaiter, Waker};
use wattline_server::ServerModel;
use wattline_status::{Details, HeldPoint};
use wattline_xdp::ForwardedByCpu;

/// Mean length in bytes of a packet that policies assume: the mean of a backbone, since the traffic
/// of a live router is not known beforehand.
pub const MEAN_BYTES: u32 = 600;

/// Policy and model that `[power]` names, read before anything is opened.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The section.
    pub settings: PowerSettings,
    /// The policy.
    pub spec: PolicySpec,
    /// The server model.
    pub server: ServerModel,
}

/// Runs a worker in place of its own loop, until the command to end.
pub type WorkerLoop = Box<dyn FnOnce(&mut Worker, &mut PollWaiter) + Send>;

/// Means to watch and command a worker.
#[derive(Debug)]
pub struct WorkerHandle {
    /// Its commands.
    pub control: Arc<Control>,
    /// Its counters.
    pub counters: Arc<WorkerCounters>,
    /// Its queue estimator.
    pub queue_watch: Arc<QueueWatch>,
    /// Ends its sleep.
    pub waker: Waker,
}

/// A router whose workers run.
pub struct Running<'a> {
    /// Its configuration.
    pub config: &'a Config,
    /// The receive queues of each port; 1 for a capture, and 0 for the place of a port that was
    /// removed.
    pub queues: Vec<u32>,
    /// Its workers.
    pub workers: Vec<WorkerHandle>,
    /// Counters of the frames that XDP programs forward by themselves, by port; empty if workers
    /// forward everything.
    pub forwarded: Vec<Option<ForwardedByCpu>>,
}

/// A platform with its governor.
pub trait PlatformDriver {
    /// Returns the loops that workers run in place of their own, in the order of the workers;
    /// `wakers` wake their threads. Other workers run as they do without a governor.
    ///
    /// # Errors
    /// When policy, model and workers do not fit each other.
    fn equip(&mut self, wakers: &[Waker]) -> Result<Vec<WorkerLoop>, RouterError> {
        let _ = wakers;
        Ok(Vec::new())
    }

    /// Returns true if it supports changes of ports: it restores the machine before, and is started
    /// again afterwards.
    fn follows_ports(&self) -> bool {
        false
    }

    /// Puts the governor in charge, once the workers run. Returns the counts at the start; without
    /// them, the first interval begins with the first call of [`Self::totals`].
    ///
    /// # Errors
    /// When the platform cannot be governed; it is unchanged then.
    fn start(&mut self, router: Running<'_>) -> Result<Option<Totals>, RouterError>;

    /// Returns all counts so far, and the latencies since the last call if they are measured, which
    /// the caller has to keep. `None` without an answer within `patience`.
    fn totals(&self, patience: Duration) -> Option<(Totals, Option<Latency>)>;

    /// Returns the present state; `None` without an answer within `patience`.
    fn look(&self, patience: Duration) -> Option<Seen>;

    /// Lets a client hold an operating point in place of the policy, or ends that.
    ///
    /// # Errors
    /// When it cannot be held, or when the governor does not answer within `patience`.
    fn lease(&self, asked: &Asked, patience: Duration) -> Result<Option<HeldPoint>, String> {
        let _ = (asked, patience);
        Err("this platform's operating points cannot be held".to_owned())
    }

    /// Returns true if its governor has panicked.
    fn has_failed(&self) -> bool;

    /// Returns figures that only this platform has.
    fn details(&self) -> Details;

    /// Returns true if it holds settings that have to be restored before the kernel forwards again.
    fn holds_machine(&self) -> bool {
        false
    }

    /// Returns true if a failed start can succeed only with other ports, so that it is not retried
    /// with the same.
    fn waits_for_ports(&self) -> bool {
        false
    }

    /// Restores the settings that it holds, because ports change: [`Self::start`] follows. Must not
    /// take longer than a few seconds.
    ///
    /// # Errors
    /// When some of it could not be given back.
    fn pause(&mut self) -> Result<(), RouterError> {
        self.give_back()
    }

    /// Restores the settings that it holds, as the router ends.
    ///
    /// # Errors
    /// When some of it could not be given back.
    fn give_back(&mut self) -> Result<(), RouterError> {
        Ok(())
    }

    /// Returns true if everything has been restored since [`Self::give_back`] failed: by a later
    /// start, even if that failed afterwards, or by another process. False if unknown.
    fn is_given_back(&self) -> bool {
        false
    }
}

/// Opens a platform while the process still has all its capabilities; nothing is governed yet.
pub type OpenPlatform = fn(&Config, Plan) -> Result<Box<dyn PlatformDriver>, RouterError>;

/// The platforms of a program, by their names in `[power] platform`.
pub type Platforms = &'static [(PowerPlatform, OpenPlatform)];
