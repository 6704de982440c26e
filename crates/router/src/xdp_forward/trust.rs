//! Decides from refused frames whether XDP programs may send to an interface.
//!
//! The kernel's flag that a driver takes such frames can be out of date: a veth whose far end
//! stopped running NAPI while it was down keeps the flag and refuses every frame. So refusals
//! override the flag. If an interface refuses frames, workers send there. After a while XDP
//! programs try again with the present traffic; each failure doubles that time. A full ring does
//! not count as a refusal as long as it takes some frames.

use rustix::io::Errno;
use std::fmt;
use std::time::{Duration, Instant};

/// Time for which a port is left to workers after a first refusal.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Longest such time. Each trial may lose a batch of 16 frames on each processor.
const LONGEST_WAIT: Duration = Duration::from_secs(64);
/// Shortest time over which an interface is judged: a ring that is full for a moment is no reason
/// to close a port.
const JUDGED_OVER: Duration = Duration::from_secs(1);
/// Taking fewer than one frame in this many counts as taking none: frames that were counted as
/// sent, but not yet as refused, look like accepted frames.
const ONE_IN: u64 = 64;

/// Record of one interface's refusals.
#[derive(Debug, Default)]
pub(super) struct Trust {
    /// The last refusal, until the interface has taken frames again.
    refusal: Option<Refusal>,
    /// Duration of the present wait, or of the one before.
    last_wait: Option<Duration>,
    /// Time since which frames have been taken.
    good_since: Option<Instant>,
    /// Earlier counts, while it is being judged.
    before: Option<Sample>,
    /// Number of refused frames at the last check.
    refused: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Refusal {
    cause: Cause,
    until: Instant,
    wait: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    sent: u64,
    refused: u64,
}

/// Reason why no frames are sent to an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Its driver returned this error.
    Error(Errno),
    /// Its driver reported no error and took nothing.
    NothingTaken,
}

impl Trust {
    /// Returns why no frames are sent to the interface now, if so.
    pub fn obstacle(&self, now: Instant) -> Option<String> {
        let refusal = self.refusal.filter(|refusal| now < refusal.until)?;
        Some(format!("{}, tried again {:.0?} later", refusal.cause, refusal.wait))
    }

    /// Returns why the present frames are only a trial, if so.
    pub fn trial(&self, now: Instant) -> Option<String> {
        let refusal = self.refusal.filter(|refusal| now >= refusal.until)?;
        Some(format!("{}, tried again now", refusal.cause))
    }

    /// Notes that it has refused frames, although no obstacle is known.
    pub fn refuse(&mut self, now: Instant, cause: Cause) {
        let calm = |since: Instant| now.saturating_duration_since(since) >= LONGEST_WAIT;
        let last = self.last_wait.filter(|_| !self.good_since.is_some_and(calm));
        let first = if cause.is_over() { Duration::ZERO } else { FIRST_WAIT };
        let wait = last.map_or(first, |last| (2 * last).clamp(FIRST_WAIT, LONGEST_WAIT));
        *self = Self {
            refusal: Some(Refusal { cause, until: now + wait, wait }),
            last_wait: Some(wait),
            ..Self::default()
        };
    }

    /// Judges by the counts while frames are sent: all frames `refused` so far, and all `sent` so
    /// far, which are read only if needed.
    pub fn watch(&mut self, now: Instant, refused: u64, sent: impl FnOnce() -> u64) {
        let is_good = self.good_since.is_some() && self.refused == Some(refused);
        self.refused = Some(refused);
        let Some(before) = self.before else {
            if !is_good {
                self.before = Some(Sample { at: now, sent: sent(), refused });
            }
            return;
        };
        if now.saturating_duration_since(before.at) < JUDGED_OVER {
            return;
        }
        let lost = refused.saturating_sub(before.refused);
        let taken = sent().saturating_sub(before.sent).saturating_sub(lost);
        if lost > 0 && taken <= lost / ONE_IN {
            self.refuse(now, Cause::NothingTaken);
        } else if taken > 0 {
            self.before = None;
            self.refusal = None;
            self.good_since.get_or_insert(now);
        }
        // If nothing was sent, nothing is known yet.
    }
}

impl Cause {
    /// Returns true if the error stands for a state that the kernel also reports. Its report is
    /// read before an interface is judged, so the state was only momentary.
    fn is_over(self) -> bool {
        matches!(self, Self::Error(Errno::NETDOWN | Errno::OPNOTSUPP))
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => {
                write!(f, "it refused frames of XDP programs ({}: {error})", name(*error))
            }
            Self::NothingTaken => f.write_str("it refused all frames of XDP programs for a second"),
        }
    }
}

/// Returns the name of an error that drivers report, as in the kernel's documentation.
fn name(error: Errno) -> &'static str {
    match error {
        Errno::NXIO => "ENXIO",
        Errno::NETDOWN => "ENETDOWN",
        Errno::OPNOTSUPP => "EOPNOTSUPP",
        Errno::INVAL => "EINVAL",
        Errno::MSGSIZE => "EMSGSIZE",
        Errno::OVERFLOW => "EOVERFLOW",
        Errno::NODEV => "ENODEV",
        _ => "error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NXIO: Cause = Cause::Error(Errno::NXIO);

    fn seconds(count: f64) -> Duration {
        Duration::from_secs_f64(count)
    }

    /// Checks as the control thread does, once a second from `from` on, with the counts of each
    /// check.
    fn watch(trust: &mut Trust, from: Instant, counts: &[(u64, u64)]) -> Instant {
        let mut now = from;
        for (sent, refused) in counts {
            trust.watch(now, *refused, || *sent);
            now += seconds(1.0);
        }
        now
    }

    #[test]
    fn each_refusal_doubles_the_wait_up_to_a_limit() {
        let (mut trust, mut now) = (Trust::default(), Instant::now());
        for wait in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 64.0] {
            trust.refuse(now, NXIO);
            let why = trust.obstacle(now + seconds(wait - 0.01)).unwrap();
            assert!(why.contains("ENXIO") && why.contains(&format!("{wait:.0}s")), "{why}");
            assert_eq!(trust.trial(now + seconds(wait - 0.01)), None);
            now += seconds(wait);
            assert_eq!(trust.obstacle(now), None);
            assert!(trust.trial(now).unwrap().contains("ENXIO"));
        }
    }

    /// A link that was down for a moment causes no wait; a link that reports it repeatedly does.
    #[test]
    fn momentary_refusal_causes_no_wait() {
        let (mut trust, mut now) = (Trust::default(), Instant::now());
        for wait in [0.0, 1.0, 2.0] {
            trust.refuse(now, Cause::Error(Errno::NETDOWN));
            now += seconds(wait);
            assert_eq!(trust.obstacle(now), None);
            assert!(wait == 0.0 || trust.obstacle(now - seconds(0.01)).is_some());
            assert!(trust.trial(now).unwrap().contains("ENETDOWN"));
        }
    }

    #[test]
    fn trust_returns_with_the_first_accepted_frames_and_short_waits_after_a_calm_minute() {
        let (mut trust, now) = (Trust::default(), Instant::now());
        trust.refuse(now, NXIO);
        trust.refuse(now, NXIO);
        let now = now + seconds(2.0);
        // Nothing is sent, so nothing is known.
        let now = watch(&mut trust, now, &[(100, 20), (100, 20), (100, 20)]);
        assert!(trust.trial(now).unwrap().contains("ENXIO"));
        let now = watch(&mut trust, now, &[(103, 20)]);
        assert_eq!(trust.trial(now), None);
        assert_eq!(trust.obstacle(now), None);
        // Soon after, it refuses again.
        trust.refuse(now, NXIO);
        assert!(trust.obstacle(now + seconds(3.9)).is_some());
        let now = now + seconds(4.0);
        let now = watch(&mut trust, now, &[(200, 30), (300, 30)]);
        trust.refuse(now + LONGEST_WAIT, NXIO);
        assert!(trust.obstacle(now + LONGEST_WAIT + seconds(0.9)).is_some());
        assert!(trust.obstacle(now + LONGEST_WAIT + seconds(1.0)).is_none());
    }

    /// A ring that overflows under load still takes some frames.
    #[test]
    fn full_ring_closes_no_port() {
        let (mut trust, now) = (Trust::default(), Instant::now());
        let overload: Vec<(u64, u64)> = (0..600).map(|s| (1000 * s, 900 * s)).collect();
        let now = watch(&mut trust, now, &overload);
        assert_eq!(trust.obstacle(now), None);
        assert_eq!(trust.trial(now), None);
        // A burst that overflows an otherwise unused ring.
        let (sent, refused) = *overload.last().unwrap();
        let burst =
            [(sent + 40, refused + 40), (sent + 40, refused + 40), (sent + 43, refused + 40)];
        let now = watch(&mut trust, now, &burst);
        assert_eq!(trust.obstacle(now), None);
    }

    #[test]
    fn interface_that_takes_nothing_is_closed_even_without_an_error() {
        let (mut trust, now) = (Trust::default(), Instant::now());
        let now = watch(&mut trust, now, &[(0, 0), (1000, 0), (2000, 0)]);
        assert_eq!(trust.obstacle(now), None);
        // From here on all frames are refused; a few of the sent ones are not counted as refused
        // yet.
        let now = watch(&mut trust, now, &[(3000, 600), (4010, 1605)]);
        let why = trust.obstacle(now - seconds(0.5)).unwrap();
        assert!(why.contains("refused all"), "{why}");
        // Likewise with slow traffic: a frame in three seconds.
        let (mut trust, now) = (Trust::default(), Instant::now());
        let now = watch(&mut trust, now, &[(0, 0), (1, 0), (1, 0), (2, 1), (2, 1), (2, 1)]);
        assert_eq!(trust.obstacle(now), None);
        let now = watch(&mut trust, now, &[(3, 2)]);
        assert!(trust.obstacle(now - seconds(0.5)).is_some());
    }

    /// The result does not depend on the frequency of samples.
    #[test]
    fn short_intervals_are_not_judged() {
        let (mut trust, start) = (Trust::default(), Instant::now());
        for step in 0..100 {
            trust.watch(start + seconds(0.009) * step, u64::from(step), || u64::from(step));
        }
        assert_eq!(trust.obstacle(start + seconds(0.9)), None);
    }

    /// Counters are read only if they matter.
    #[test]
    fn counters_of_a_good_interface_are_not_read() {
        let (mut trust, now) = (Trust::default(), Instant::now());
        let now = watch(&mut trust, now, &[(0, 0), (9, 0)]);
        for step in 0..10 {
            trust.watch(now + seconds(1.0) * step, 0, || panic!("asked for what was sent"));
        }
    }
}
