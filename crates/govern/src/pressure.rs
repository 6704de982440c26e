//! A guard without configuration: tasks that wait for a CPU.
//!
//! Too much saving shows in the kernel's pressure (`/proc/pressure/cpu`,
//! Documentation/accounting/psi.rst) and in the delay of run queues (`/proc/schedstat`,
//! Documentation/scheduler/sched-stats.rst) before clients complain. A machine that is full at
//! every frequency has pressure all day, so the guard reacts to a rise, not to a level.

use wattline_linux::sysfs::Tree;
use wattline_units::{Span, Time};

/// Time between two looks: a rise must be answered within a second.
pub(crate) const PERIOD: Span = Span::from_millis(500);
/// Time at the safe point after a rise.
const HOLD: Span = Span::from_millis(30_000);
/// Rise of the share of time in which tasks wait that counts.
const RISE: f64 = 0.1;
/// Time over which the usual share is averaged.
const USUAL_OVER: f64 = 60.0;

/// Time that tasks have waited, since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Waited {
    /// Time in which some task waited for a CPU; `None` if the kernel does not count it.
    pub pressure: Option<Span>,
    /// Time that tasks waited in the run queues, mean of all CPUs.
    pub delay: Option<Span>,
}

/// Reads the kernel's counters.
pub(crate) type Gauge = Box<dyn FnMut() -> Waited + Send>;

/// Returns the counters of a machine; `None` if it has neither.
pub(crate) fn gauge(tree: &Tree) -> Option<Gauge> {
    let read = |tree: &Tree| Waited {
        pressure: tree.text("/proc/pressure/cpu").ok().and_then(|text| pressure(&text)),
        delay: tree.text("/proc/schedstat").ok().and_then(|text| delay(&text)),
    };
    if read(tree) == Waited::default() {
        return None;
    }
    let tree = tree.clone();
    Some(Box::new(move || read(&tree)))
}

/// Parses `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234`, in microseconds.
fn pressure(text: &str) -> Option<Span> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let total = line.split_whitespace().find_map(|word| word.strip_prefix("total="))?;
    Some(Span::from_micros(total.parse().ok()?))
}

/// Returns the mean of the eighth figure of each CPU's line, in nanoseconds there.
fn delay(text: &str) -> Option<Span> {
    let (mut sum, mut cpus) = (0_u64, 0_u64);
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let number = words.next().and_then(|name| name.strip_prefix("cpu"));
        if number.is_some_and(|number| number.parse::<u32>().is_ok()) {
            sum = sum.checked_add(words.nth(7)?.parse().ok()?)?;
            cpus += 1;
        }
    }
    (cpus > 0).then(|| Span::from_nanos(sum / cpus))
}

/// Detector of rises of a share of time.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    last: Option<Span>,
    usual: Option<f64>,
}

impl Share {
    /// Adds a counter some seconds after the last. Returns true if the share has risen.
    fn has_risen(&mut self, counter: Option<Span>, seconds: f64) -> bool {
        let last = std::mem::replace(&mut self.last, counter);
        let Some((now, last)) = counter.zip(last).filter(|_| seconds > 0.0) else { return false };
        // A counter that went back has been reset.
        let share = ((now.as_seconds() - last.as_seconds()) / seconds).max(0.0);
        let usual = self.usual.get_or_insert(share);
        let risen = share > *usual + RISE;
        *usual += (share - *usual) * (seconds / USUAL_OVER).min(1.0);
        risen
    }
}

/// Watches the counters for a rise.
pub(crate) struct Watch {
    gauge: Gauge,
    looked: Option<Time>,
    pressure: Share,
    delay: Share,
    until: Time,
    words: &'static str,
}

impl Watch {
    pub fn new(gauge: Gauge) -> Self {
        let (pressure, delay) = (Share::default(), Share::default());
        Self { gauge, looked: None, pressure, delay, until: Time::ZERO, words: "" }
    }

    /// Returns the reason for keeping the safe point now, if any.
    pub fn look(&mut self, now: Time) -> Option<&'static str> {
        let due = self.looked.is_none_or(|looked| now.since(looked) >= PERIOD);
        if due {
            let seconds = self.looked.map_or(0.0, |looked| now.since(looked).as_seconds());
            self.looked = Some(now);
            let waited = (self.gauge)();
            let pressure = self.pressure.has_risen(waited.pressure, seconds);
            let delay = self.delay.has_risen(waited.delay, seconds);
            if pressure || delay {
                self.until = now + HOLD;
                self.words = if pressure { PRESSURE } else { DELAY };
            }
        }
        (now < self.until).then_some(self.words)
    }
}

const PRESSURE: &str = "CPU pressure rose (/proc/pressure/cpu)";
const DELAY: &str = "the delay of run queues rose (/proc/schedstat)";

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Looks twice a second, while tasks wait for these shares of each half second. Returns the
    /// second of the first alarm.
    fn alarm(shares: impl Iterator<Item = f64>, pressure: bool) -> Option<(f64, &'static str)> {
        let waited = Arc::new(Mutex::new(Waited::default()));
        let shown = Arc::clone(&waited);
        let mut watch = Watch::new(Box::new(move || *shown.lock().unwrap()));
        let (mut now, mut total) = (Time::ZERO, 0.0);
        watch.look(now);
        for share in std::iter::once(0.0).chain(shares) {
            total += share * PERIOD.as_seconds();
            let counter = Some(Span::from_seconds(total));
            *waited.lock().unwrap() = if pressure {
                Waited { pressure: counter, delay: None }
            } else {
                Waited { pressure: None, delay: counter }
            };
            if let Some(words) = watch.look(now) {
                return Some((now.since(Time::ZERO).as_seconds(), words));
            }
            now += PERIOD;
        }
        None
    }

    #[test]
    fn a_rise_is_answered_within_a_second_and_a_level_never() {
        for (pressure, words) in [(true, PRESSURE), (false, DELAY)] {
            let step = |at: usize| (0..200).map(move |look| if look < at { 0.02 } else { 0.4 });
            let (second, said) = alarm(step(40), pressure).unwrap();
            assert!((20.0..=21.0).contains(&second) && said == words, "{second} {said}");
            // The load of a day rises more slowly than that.
            let day = (0..7200).map(|look| f64::from(look) / 7200.0 * 0.9);
            assert_eq!(alarm(day, pressure), None);
        }
    }

    #[test]
    fn safe_point_ends_when_the_pressure_has_become_usual() {
        let total = Arc::new(Mutex::new(0.0));
        let shown = Arc::clone(&total);
        let read = move || {
            let pressure = Some(Span::from_seconds(*shown.lock().unwrap()));
            Waited { pressure, delay: None }
        };
        let mut watch = Watch::new(Box::new(read));
        let mut now = Time::ZERO;
        let mut safe = Vec::new();
        for look in 0..1200 {
            *total.lock().unwrap() += if look < 20 { 0.0 } else { 0.3 };
            safe.push(watch.look(now).is_some());
            now += PERIOD;
        }
        assert!(!safe[10] && safe[21] && safe[100] && !safe[1100]);
    }

    #[test]
    fn counters_are_read_and_never_guessed() {
        let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500\nfull avg10=0 total=7\n";
        assert_eq!(pressure(text), Some(Span::from_micros(1500)));
        assert_eq!((pressure("full total=7\n"), pressure("some total=x")), (None, None));
        let text = "version 17\ntimestamp 1\ncpu0 0 0 0 0 0 0 9 3000 1\ndomain0 3 0\n\
                    cpu1 0 0 0 0 0 0 9 5000 1\n";
        assert_eq!(delay(text), Some(Span::from_nanos(4000)));
        assert_eq!((delay("cpu0 0 0 0\n"), delay("version 17\n")), (None, None));
        let root = tempfile::tempdir().unwrap();
        assert!(gauge(&Tree::at(root.path())).is_none());
        assert!(gauge(&Tree::live()).is_none_or(|mut gauge| gauge() != Waited::default()));
    }
}
