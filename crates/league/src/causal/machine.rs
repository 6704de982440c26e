//! A server's energy by slot: cores that are ready, and cores that wake.

use crate::case::Case;
use crate::error::LeagueError;
use crate::hull::lower_hull;

/// Packets by which sums of real numbers may be off.
pub(super) const ROUNDING: f64 = 1e-9;

/// Each number of ready cores is at most this factor above the one before.
const STEP: f64 = 1.25;

/// Energy of a slot above the base, by ready cores.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Machine {
    /// Numbers of ready cores among which a policy chooses; they rise from zero.
    pub ready: Vec<usize>,
    /// By the index of such a number: packets that are served in a slot, and joules; convex, from zero packets on.
    pub slots: Vec<Vec<(f64, f64)>>,
    /// Joules of a core that wakes from the deepest idle state.
    pub wake: f64,
}

impl Machine {
    /// Returns that of a server with slots of its longest wake-up, for packets of `bytes`. A ready core
    /// that does not serve draws the least power of the idle states that it can leave within the slack.
    pub fn of(case: &Case<'_>, bytes: u32, slack: f64) -> Result<Self, LeagueError> {
        let (server, cost) = (case.server, case.cost(bytes)?);
        let frequencies = &server.processor.frequencies;
        let seconds = slot_seconds(case);
        let lowest = server.processor.lowest_frequency();
        let awake = |frequency| server.awake_core_power(frequency).0;
        let idle = (0..server.idle_states.len())
            .filter(|state| wake_seconds(case, *state) <= slack)
            .map(|state| server.idle_core_power(state).0)
            .fold(awake(lowest), f64::min);
        let served = |cores: usize, frequency| {
            cores as f64 * seconds / server.service_seconds(cost, frequency, cores)
        };
        let slot = |ready: usize| {
            let mut points = vec![(0.0, idle * ready as f64 * seconds)];
            for serving in 1..=ready {
                for &frequency in frequencies {
                    let watts = awake(frequency) * serving as f64
                        + server.power.uncore(frequency).0
                        + idle * (ready - serving) as f64;
                    points.push((served(serving, frequency), watts * seconds));
                }
            }
            points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
            lower_hull(points)
        };
        let more = |last: &usize| Some((last + 1).max((*last as f64 * STEP) as usize));
        let ready = std::iter::successors(Some(0), more).take_while(|ready| *ready < case.cores());
        let ready: Vec<usize> = ready.chain([case.cores()]).collect();
        let slots = ready.iter().map(|ready| slot(*ready)).collect();
        Ok(Self { ready, slots, wake: awake(lowest) * seconds })
    }

    /// Returns the joules of waking up from one of the numbers of ready cores to another.
    pub fn wake_joules(&self, from: usize, to: usize) -> f64 {
        self.wake * self.ready[to].saturating_sub(self.ready[from]) as f64
    }

    /// Returns the joules of a slot in which so many packets are served; infinite if it is too short.
    pub fn joules(&self, ready: usize, packets: f64) -> f64 {
        let corners = &self.slots[ready];
        match corners.iter().position(|corner| packets <= corner.0 + ROUNDING) {
            None => f64::INFINITY,
            Some(0) => corners[0].1,
            Some(next) => {
                let (from, to) = (corners[next - 1], corners[next]);
                from.1 + (to.1 - from.1) * (packets - from.0) / (to.0 - from.0)
            }
        }
    }
}

/// Returns the length of a slot: the time in which a core leaves the deepest idle state.
pub(super) fn slot_seconds(case: &Case<'_>) -> f64 {
    wake_seconds(case, case.server.deepest_idle_state())
}

fn wake_seconds(case: &Case<'_>, state: usize) -> f64 {
    let server = case.server;
    server.extra_exit_latency(state).as_seconds()
        + server.wake_up_seconds(server.processor.highest_frequency())
}
