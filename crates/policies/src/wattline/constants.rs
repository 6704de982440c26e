//! Holds every number of the policy, each with its unit and reason. The rest of the policy uses no number
//! but 0, 1 and 2; a test counts them.

use wattline_policy::OperatingPoint;
use wattline_units::Span;

/// Share of packets that may be late: the policy's promise is a 99th percentile.
pub const LATE: f64 = 0.01;
/// Time between two looks. It bounds the reaction to what fills no queue, and is ten times what a
/// decision takes on a slow machine.
pub const LOOK: Span = Span::from_micros(200);
/// Time between two looks while a rise is answered, and the time that one change of the table or of
/// frequencies costs a core: a request to a driver.
pub const ALERT: Span = Span::from_micros(50);
/// Time between two looks where the kernel or XDP programs take the packets: cards are not asked more
/// often for what arrived. Full polls report what comes in between.
pub const LOOK_AT_KERNEL: Span = Span::from_millis(100);
/// Packets above which a poll of the kernel counts as full.
pub const FULL_POLL: u32 = OperatingPoint::NAPI_BUDGET - 1;
/// Time that the answer to a rise stays: parked cores wake (up to 0.3 ms), queues drain, and the new
/// rate is measured.
pub const HOLD: Span = Span::from_micros(300);
/// Time without a rise after which the load counts as calm.
pub const CALM: Span = Span::from_millis(400);
/// Seconds over which a new rate is averaged, and in which nothing is known after the start: long beside
/// a look, short beside a change of load for which cores are worth changing.
pub const RECENT: f64 = 1e-3;
/// Seconds over which a rate that stays is averaged, and over which a recent peak counts. The noise of a
/// millisecond (1 % of 8 Mpps) would change the cheapest point.
pub const STEADY: f64 = 8e-3;
/// Seconds in which the remembered peak falls to half: long beside the distance of rises that return.
pub const MEMORY: f64 = 10.0;
/// Looks of which the rates are remembered: as many as a recent peak may be evened out over.
pub const REMEMBERED: usize = 16;
/// Standard deviations that chance does not explain, as there are thousands of looks in a second. For an
/// average of many looks half of them are enough.
pub const DEVIATIONS: f64 = 5.0;
/// Factor by which the rate may rise at once though it never did: flash crowds do.
pub const SURPRISE: f64 = 10.0;
/// Factor by which a rise may exceed the highest rate that was seen.
pub const MARGIN: f64 = 1.25;
/// Factor on that rate up to which no packet may wait for a core in its deepest state, and share by which
/// a measured service time may differ from the model's before it replaces it.
pub const TRUSTED: f64 = 0.05;
/// Highest load of a core at which its queue stays short. The table gives cores slightly different
/// shares: of 128 entries over 9 cores, the fullest has 5 % more.
pub const MOST_LOAD: f64 = 0.97;
/// Share of the rings that may fill, and of the slack that naps may use at first: rings are not filled
/// evenly, and the formula of a queue is not exact.
pub const USABLE: f64 = 0.7;
/// Packets of a batch: few, so that the ports of a core take short turns.
pub const BATCH: u32 = 8;
/// Shares of the allowed late packets that steady naps may use, and least share of the slack for naps.
pub const GOAL: f64 = 0.4;
/// The same where rises come, at which a late packet is worth more.
pub const GOAL_BESIDE_RISES: f64 = 0.1;
/// Share by which requirements may fall before a point is sought again: no rate is known better.
pub const SAME: f64 = 0.02;
/// Cycles for a packet before any is measured: three times those of a router (PowerSave, section 4), so
/// that the first choice has too many cores rather than too few.
pub const PRIOR_CYCLES: f64 = 1_800.0;
/// Cycles of waking up without a model: those of PowerSave's machine.
pub const PRIOR_WAKE_CYCLES: f64 = 8_000.0;
/// Seconds that a packet spends in a card without a model.
pub const PRIOR_OUTSIDE: f64 = 12e-6;
/// Packets over which service times are compared with the model: some milliseconds of them.
pub const COMPARED: f64 = 20_000.0;
/// Bytes of the shortest frame, of which a link carries most.
pub const SHORTEST_FRAME: u32 = 64;
/// Microseconds of the longest latency that may be asked for: a second.
pub const MOST_MICROS: u64 = 1_000_000;
