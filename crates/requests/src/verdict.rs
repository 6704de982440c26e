//! Verdict on a load: was the rate held, and if not, for which cause.

use crate::clock::seconds;
use crate::engine::{LoadOptions, Recording};
use serde::Serialize;

/// Largest relative difference between sent and due requests at which the rate counts as held.
const TOLERANCE: f64 = 0.01;
/// Requests that may cross the ends of the measured time; a lower bound of the tolerance.
const STRAGGLERS: f64 = 2.0;
/// Share of the time that a thread must sleep; below, it is at its limit.
const LEAST_IDLE: f64 = 0.05;
/// Share of the time without a processor above which a runnable thread lacks processors.
const MOST_RUN_DELAY: f64 = 0.05;
/// Share of the latency above which the generator's own lateness is noted.
pub const NOTED_LATENESS: f64 = 0.1;

/// Cause of a rate that was not held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The generator's threads had no time: the limit is the generator's, not the server's.
    Generator,
    /// All connections waited for answers while the generator had time.
    Server,
    /// Neither applies.
    Unknown,
}

/// Comparison of the sent rate with the requested one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// Requested rate.
    pub asked_rate_rps: f64,
    /// Rate due by the schedule in the measured time; Poisson arrivals never match the requested
    /// rate exactly.
    pub due_rate_rps: f64,
    /// Rate sent in the measured time.
    pub sent_rate_rps: f64,
    /// Rate of served requests that were due in the measured time.
    pub served_rate_rps: f64,
    /// Rate of answers in the measured time, whenever due; the server's capacity if it is
    /// saturated.
    pub answered_rate_rps: f64,
    /// True if sent and due requests differ by 1 % at most.
    pub rate_held: bool,
    /// True if fewer were sent than that.
    pub saturated: bool,
    /// Cause of the saturation, if any.
    pub saturation_cause: Option<Cause>,
    /// The verdict in words, with advice, if the rate was not held or latencies are affected.
    pub notes: Vec<String>,
}

impl Verdict {
    /// Judges a recording.
    pub fn judge(options: &LoadOptions, recording: &Recording) -> Self {
        let length = seconds(recording.measured).max(f64::MIN_POSITIVE);
        let due = recording.window.due as f64;
        let sent = recording.sent_in_window as f64;
        let answered = recording.answered_in_window as f64 / length;
        let excess = sent - due;
        let allowed = (TOLERANCE * due).max(STRAGGLERS);
        let saturated = excess < -allowed;
        let mut notes = Vec::new();
        let mut cause = None;
        if saturated {
            let (found, note) = find_cause(options, recording);
            notes.push(format!(
                "saturated: {:.1} % of the requests that were due were sent, and {answered:.0} a second \
                 were answered; {note}",
                100.0 * sent / due
            ));
            cause = Some(found);
        } else if excess > allowed {
            notes.push(
                "more was sent than was due: a backlog from before the measured time; the warm-up \
                 is too short for this server or the rate too high"
                    .into(),
            );
        }
        notes.extend(lateness_note(recording));
        Self {
            asked_rate_rps: options.rate,
            due_rate_rps: due / length,
            sent_rate_rps: sent / length,
            served_rate_rps: recording.window.served as f64 / length,
            answered_rate_rps: answered,
            rate_held: excess.abs() <= allowed,
            saturated,
            saturation_cause: cause,
            notes,
        }
    }
}

fn find_cause(options: &LoadOptions, recording: &Recording) -> (Cause, String) {
    let most = |part: fn(&crate::engine::ThreadUse) -> f64| {
        recording.threads.iter().map(part).fold(0.0, f64::max)
    };
    let busy = most(|thread| thread.busy_ratio);
    let run_delay = most(|thread| thread.run_delay_ratio.unwrap_or(0.0));
    let awake = most(|thread| thread.busy_ratio + thread.run_delay_ratio.unwrap_or(0.0));
    let delayed = || {
        let note = format!(
            "the generator itself: a thread of it waited for a processor for {:.0} % of the \
             time; it needs processors of its own",
            100.0 * run_delay
        );
        (Cause::Generator, note)
    };
    if busy > 1.0 - LEAST_IDLE {
        let note = format!(
            "the generator itself: a thread of it was busy for {:.0} % of the time; it needs \
             more threads, and processors for them",
            100.0 * busy
        );
        return (Cause::Generator, note);
    }
    // A thread that never slept leaves answers unread, so their slots stay taken.
    if awake > 1.0 - LEAST_IDLE && run_delay > MOST_RUN_DELAY {
        return delayed();
    }
    // A thread that slept had read all answers. It may also have waited for a processor shared with
    // a busy server, so the larger of the requests' waits decides.
    if recording.slot_wait > recording.own_wait {
        let note = format!(
            "the server: all {} connections with {} request(s) each waited for answers while the \
             generator had time; the server is too slow for this rate, or the connections are too \
             few",
            options.connections, options.depth
        );
        return (Cause::Server, note);
    }
    if run_delay > MOST_RUN_DELAY {
        return delayed();
    }
    (Cause::Unknown, "neither the generator's threads nor the connections were all busy".into())
}

/// Returns a note if the generator itself may cause a good part of the latency.
fn lateness_note(recording: &Recording) -> Option<String> {
    let late = recording.lateness.quantile(0.99, 0)?;
    let latency = recording.latency.quantile(0.99, 0)?;
    let share = late as f64 / latency.max(1) as f64;
    (share > NOTED_LATENESS).then(|| {
        format!(
            "1 % of the requests were sent more than {:.0} us late by the generator itself; the \
             latencies include that ({:.0} us at 99 %)",
            late as f64 / 1e3,
            latency as f64 / 1e3
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND;
    use crate::engine::ThreadUse;
    use crate::schedule::Arrivals;
    use std::time::Duration;

    fn options() -> LoadOptions {
        LoadOptions {
            rate: 1_000.0,
            arrivals: Arrivals::Constant,
            connections: 4,
            threads: 1,
            depth: 1,
            duration: Duration::from_secs(10),
            warmup: Duration::ZERO,
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
            seed: 1,
            spin: false,
        }
    }

    fn recording(sent: u64, busy: f64, run_delay: f64) -> Recording {
        let mut recording = Recording { measured: 10 * SECOND, ..Recording::default() };
        recording.window.due = 10_000;
        recording.sent_in_window = sent;
        recording.slot_wait = 1_000;
        let thread =
            ThreadUse { cpu_seconds: 0.0, busy_ratio: busy, run_delay_ratio: Some(run_delay) };
        recording.threads.push(thread);
        recording
    }

    #[test]
    fn rate_is_held_to_one_percent() {
        for (sent, held, saturated) in [
            (10_000, true, false),
            (9_900, true, false),
            (9_899, false, true),
            (10_101, false, false),
        ] {
            let verdict = Verdict::judge(&options(), &recording(sent, 0.5, 0.0));
            assert_eq!((verdict.rate_held, verdict.saturated), (held, saturated), "{sent}");
        }
        let verdict = Verdict::judge(&options(), &recording(9_950, 0.5, 0.0));
        assert!((verdict.sent_rate_rps - 995.0).abs() < 1e-9);
        // Answers came only to requests that were due before.
        let saturated = Recording { answered_in_window: 4_000, ..recording(5_000, 0.5, 0.0) };
        let verdict = Verdict::judge(&options(), &saturated);
        assert_eq!((verdict.served_rate_rps, verdict.answered_rate_rps), (0.0, 400.0));
        assert!(verdict.notes[0].contains("400 a second were answered"), "{:?}", verdict.notes);
    }

    #[test]
    fn saturation_is_attributed_to_its_cause() {
        let cause = |busy, run_delay, slot_wait, own_wait| {
            let mut recording = recording(5_000, busy, run_delay);
            (recording.slot_wait, recording.own_wait) = (slot_wait, own_wait);
            Verdict::judge(&options(), &recording).saturation_cause
        };
        assert_eq!(cause(0.2, 0.0, 1_000, 0), Some(Cause::Server));
        assert_eq!(cause(0.99, 0.0, 1_000, 0), Some(Cause::Generator));
        assert_eq!(cause(0.2, 0.0, 0, 0), Some(Cause::Unknown));
        // On the processors of a busy server: the thread slept half of the time, with no slot free.
        assert_eq!(cause(0.2, 0.3, 1_000, 999), Some(Cause::Server));
        // The requests had slots and were late only because of the generator.
        assert_eq!(cause(0.2, 0.3, 1_000, 1_001), Some(Cause::Generator));
        // The thread hardly ever slept: answers were unread, so the slots were taken.
        assert_eq!(cause(0.3, 0.66, 1_000, 0), Some(Cause::Generator));
    }

    /// Threads are judged one by one: a busy thread and one that waited do not make a starved one.
    #[test]
    fn threads_are_judged_one_by_one() {
        let mut recording = recording(5_000, 0.6, 0.1);
        recording.threads.push(ThreadUse { busy_ratio: 0.1, ..recording.threads[0] });
        recording.threads[1].run_delay_ratio = Some(0.5);
        let cause = |recording: &Recording| Verdict::judge(&options(), recording).saturation_cause;
        assert_eq!(cause(&recording), Some(Cause::Server));
        recording.threads[1].busy_ratio = 0.5;
        assert_eq!(cause(&recording), Some(Cause::Generator));
    }

    #[test]
    fn lateness_of_the_generator_is_noted() {
        let mut recording = recording(10_000, 0.5, 0.0);
        recording.latency.record_n(100_000, 1_000);
        recording.lateness.record_n(1_000, 1_000);
        assert!(Verdict::judge(&options(), &recording).notes.is_empty());
        recording.lateness.record_n(50_000, 1_000);
        let notes = Verdict::judge(&options(), &recording).notes;
        assert!(notes.len() == 1 && notes[0].contains("50 us late"), "{notes:?}");
    }
}
