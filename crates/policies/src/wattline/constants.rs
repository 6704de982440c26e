//! Holds every number of the policy, each with its unit and reason. The rest of the policy uses no
//! numbers except 0, 1 and 2; a test checks that.

use wattline_policy::OperatingPoint;
use wattline_units::Span;

/// Share of packets that may be late: the policy's promise is a 99th percentile.
pub const LATE: f64 = 0.01;
/// Time between two decisions. It bounds the reaction to a load that fills no queue, and is ten
/// times the duration of a decision on a slow machine.
pub const PERIOD: Span = Span::from_micros(200);
/// Time between two decisions while a rise is answered, and the time that a change of the table or
/// of frequencies costs a core: a request to a driver.
pub const ALERT: Span = Span::from_micros(50);
/// Time between two decisions if the kernel or XDP programs take the packets: cards are not read
/// more often. Full polls report rises in between.
pub const KERNEL_PERIOD: Span = Span::from_millis(100);
/// Packets above which a poll of the kernel counts as full.
pub const FULL_POLL: u32 = OperatingPoint::NAPI_BUDGET - 1;
/// Duration of the answer to a rise: parked cores wake (up to 0.3 ms), queues drain, and the new
/// rate is measured.
pub const HOLD: Span = Span::from_micros(300);
/// Time without a rise after which the load counts as calm.
pub const CALM: Span = Span::from_millis(400);
/// Seconds over which a new rate is averaged, and before which no rate is known after the start:
/// long compared with a decision interval, short compared with changes of load that justify a
/// change of cores.
pub const RECENT: f64 = 1e-3;
/// Seconds over which a steady rate is averaged, and for which a recent peak counts. The noise of a
/// millisecond (1 % of 8 Mpps) would change the cheapest point.
pub const STEADY: f64 = 8e-3;
/// Seconds in which the remembered peak falls to half: long compared with the interval of recurring
/// rises.
pub const MEMORY: f64 = 10.0;
/// Number of intervals whose rates are remembered: as many as a recent peak may be averaged over.
pub const REMEMBERED: usize = 16;
/// Standard deviations beyond chance, given thousands of decisions per second. For an average of
/// many intervals half of them are enough.
pub const DEVIATIONS: f64 = 5.0;
/// Factor by which the rate may rise at once without precedent, as in flash crowds.
pub const SURPRISE: f64 = 10.0;
/// Factor by which a rise may exceed the highest observed rate.
pub const MARGIN: f64 = 1.25;
/// Factor on that rate up to which no packet may wait for a core in its deepest state, and relative
/// difference from the model at which a measured service time replaces it.
pub const TRUSTED: f64 = 0.05;
/// Highest load of a core at which its queue stays short. The table gives cores slightly different
/// shares: of 128 entries over 9 cores, the fullest has 5 % more.
pub const MOST_LOAD: f64 = 0.97;
/// Share of the rings that may fill, and initial share of the slack for naps: rings are not filled
/// evenly, and the queueing formula is not exact.
pub const USABLE: f64 = 0.7;
/// Packets of a batch: few, so that the ports of a core take short turns.
pub const BATCH: u32 = 8;
/// Share of the allowed late packets that steady naps may use, and least share of the slack for
/// naps.
pub const GOAL: f64 = 0.4;
/// The same if there are rises, in which a late packet is worth more.
pub const GOAL_WITH_RISES: f64 = 0.1;
/// Share by which requirements may fall before a new search: rates are not known more exactly.
pub const SAME: f64 = 0.02;
/// Cycles for a packet before any is measured: three times those of a router (PowerSave, section
/// 4), so that the first choice has too many cores rather than too few.
pub const PRIOR_CYCLES: f64 = 1_800.0;
/// Cycles of waking up without a model: those of PowerSave's machine.
pub const PRIOR_WAKE_CYCLES: f64 = 8_000.0;
/// Seconds that a packet spends in a card without a model.
pub const PRIOR_OUTSIDE: f64 = 12e-6;
/// Number of packets over which service times are compared with the model: some milliseconds of
/// traffic.
pub const COMPARED: f64 = 20_000.0;
/// Bytes of the shortest frame, which gives a link's highest packet rate.
pub const SHORTEST_FRAME: u32 = 64;
/// Longest allowed latency in microseconds: a second.
pub const MOST_MICROS: u64 = 1_000_000;
