//! Platforms that the governor of a router drives.
//!
//! The router knows no platform by itself: the program hands a list of them over
//! ([`crate::Extensions`]), and `[power] platform` chooses one. Opening it, equipping the workers,
//! starting and giving back come in the order of [`PlatformDriver`]'s functions.

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

/// Mean length in bytes of a packet that policies reckon with: a backbone's mean, the traffic of a
/// live router is not known beforehand.
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

/// Runs a worker in place of its own loop, until the worker is told to end.
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
    /// The receive queues of each port; 1 for a capture, and 0 for the place of a port that was removed.
    pub queues: Vec<u32>,
    /// Its workers.
    pub workers: Vec<WorkerHandle>,
    /// Counters of the frames that XDP programs forward by themselves, by port; empty where workers
    /// forward everything.
    pub forwarded: Vec<Option<ForwardedByCpu>>,
}

/// A platform with its governor.
pub trait PlatformDriver {
    /// Returns the loops that workers run in place of their own, in their order; `wakers` wake their
    /// threads. Workers that are left out run as they do without a governor.
    ///
    /// # Errors
    /// When policy, model and workers are not fit for each other.
    fn equip(&mut self, wakers: &[Waker]) -> Result<Vec<WorkerLoop>, RouterError> {
        let _ = wakers;
        Ok(Vec::new())
    }

    /// Whether it can go on with other ports: it gives the machine back before they change, and is
    /// started anew after that.
    fn follows_ports(&self) -> bool {
        false
    }

    /// Puts the governor in charge, when the workers run. Gives what is counted at the start; without
    /// it, the first interval begins with the first question.
    ///
    /// # Errors
    /// When the platform cannot be governed; it is as before then.
    fn start(&mut self, router: Running<'_>) -> Result<Option<Totals>, RouterError>;

    /// Everything counted so far, and the latencies since the last call where they are measured:
    /// whoever calls this has to keep them. `None` where no answer comes within so long.
    fn totals(&self, patience: Duration) -> Option<(Totals, Option<Latency>)>;

    /// Returns the present state; `None` if no answer comes within so long.
    fn look(&self, patience: Duration) -> Option<Seen>;

    /// Lets a client hold an operating point in place of the policy, or ends that.
    ///
    /// # Errors
    /// Fails when it cannot be held, or when the governor does not answer within so long.
    fn lease(&self, asked: &Asked, patience: Duration) -> Result<Option<HeldPoint>, String> {
        let _ = (asked, patience);
        Err("this platform's operating points cannot be held".to_owned())
    }

    /// Whether its governor has panicked: nobody decides any more.
    fn has_failed(&self) -> bool;

    /// Returns the figures that this platform alone has.
    fn details(&self) -> Details;

    /// Returns true if it holds something that has to be given back before packets take the
    /// kernel's way again.
    fn holds_machine(&self) -> bool {
        false
    }

    /// Whether only other ports can help a start that failed: trying again over the same ones is of
    /// no use.
    fn waits_for_ports(&self) -> bool {
        false
    }

    /// Gives back what it holds, as it was found, because ports change: [`Self::start`] follows. Must
    /// not take longer than a few seconds.
    ///
    /// # Errors
    /// When some of it could not be given back.
    fn pause(&mut self) -> Result<(), RouterError> {
        self.give_back()
    }

    /// Gives back what it holds, as the router ends.
    ///
    /// # Errors
    /// When some of it could not be given back.
    fn give_back(&mut self) -> Result<(), RouterError> {
        Ok(())
    }

    /// Whether everything is given back by now, after [`Self::give_back`] has failed: who was started
    /// later may have done so before it failed, or somebody else. False where nobody knows.
    fn is_given_back(&self) -> bool {
        false
    }
}

/// Opens a platform while the process still has all its rights; nothing is governed yet.
pub type OpenPlatform = fn(&Config, Plan) -> Result<Box<dyn PlatformDriver>, RouterError>;

/// The platforms that a program has, by what `[power] platform` calls them.
pub type Platforms = &'static [(PowerPlatform, OpenPlatform)];
