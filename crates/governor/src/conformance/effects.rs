//! Effects of a promise on the figures of a machine.

use super::findings::{Circumstances, Findings, Judgement, Verdict};
use super::period::Period;
use wattline_policy::{Platform, Timing, Wait};
use wattline_units::{Hertz, Span};

/// Time for which packets gather in trials of the backlog.
pub(super) const GATHER: Span = Span::from_micros(400);
/// A timed sleep longer than the distance of packets.
pub(super) const NAP: Span = Span::from_micros(60);
/// Latency above which a packet is late.
pub const LATE_AFTER: Span = Span::from_micros(100);

const NO_TRAFFIC: &str = "no packets come here";

/// Evidence of a promise in one figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    /// The effect is present.
    Seen(String),
    /// The effect is absent.
    Absent(String),
    /// The effect cannot be observed here, for this reason.
    Hidden(&'static str),
}

/// A machine before and after a change.
pub(super) struct Case<'a> {
    pub platform: &'a Platform,
    pub known: Circumstances,
    pub before: &'a Period,
    pub after: &'a Period,
}

/// Function that finds evidence in the figures.
pub(super) type Judge = fn(&Case<'_>) -> Vec<Effect>;

fn effect(happened: bool, text: String) -> Effect {
    if happened { Effect::Seen(text) } else { Effect::Absent(text) }
}

fn micros(seconds: Option<f64>) -> String {
    seconds.map_or("nothing".to_owned(), |seconds| format!("{:.2} us", seconds * 1e6))
}

fn gigahertz(frequency: Option<Hertz>) -> String {
    frequency.map_or("nothing".to_owned(), |f| format!("{:.2} GHz", f.gigahertz()))
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Judges a promise or a denial by the figures and by the test's own observations.
pub(super) fn judge(
    findings: &Findings,
    (promise, promised): (&'static str, bool),
    evidence: &[Effect],
) {
    let seen = evidence.iter().find_map(|one| match one {
        Effect::Seen(text) => Some(text),
        _ => None,
    });
    let absent = evidence.iter().find_map(|one| match one {
        Effect::Absent(text) => Some(text),
        _ => None,
    });
    // A promise is broken by each figure that does not follow, a denial by each that does.
    let judgement = match (promised, seen, absent, findings.witnessed(promise)) {
        (true, _, Some(text), _) => {
            findings.complain(format!("{promise}: promised, and {text}"));
            Judgement::Broken
        }
        (false, Some(text), ..) => {
            findings.complain(format!("{promise}: denied, and it happened: {text}"));
            Judgement::Broken
        }
        (true, Some(text), ..) | (false, None, Some(text), _) => Judgement::ByEffect(text.clone()),
        (_, None, None, Some(happened)) if happened == promised => Judgement::ByWitness,
        (_, None, None, Some(_)) => {
            let how = if promised { "promised, and nothing" } else { "denied, and something" };
            findings.complain(format!("{promise}: {how} of it was seen from outside"));
            Judgement::Broken
        }
        (_, None, None, None) => {
            let why = evidence.iter().find_map(|one| match one {
                Effect::Hidden(why) => Some(*why),
                _ => None,
            });
            Judgement::NotByEffect(why.unwrap_or("the suite knows no effect of it").to_owned())
        }
    };
    findings.judge(Verdict { promise, promised, judgement });
}

pub(super) fn unknown(_: &Case<'_>) -> Vec<Effect> {
    vec![Effect::Hidden("the suite knows no effect of it")]
}

pub(super) fn uncore(_: &Case<'_>) -> Vec<Effect> {
    vec![Effect::Hidden("no platform shows it")]
}

/// All cores go from the fastest frequency to the slowest, and poll.
pub(super) fn frequency(case: &Case<'_>) -> Vec<Effect> {
    let Case { platform, known, before, after } = case;
    let [lowest, .., _] = &platform.frequencies[..] else {
        return vec![Effect::Hidden("there is one frequency")];
    };
    let mut evidence = vec![Effect::Hidden("no figure here follows the frequency")];
    if platform.can.sees.frequency && known.follows.frequency {
        let low = |period: &Period| period.cores.iter().all(|c| c.frequency == Some(*lowest));
        let shown = |period: &Period| {
            let mut shown: Vec<String> =
                period.cores.iter().map(|c| gigahertz(c.frequency)).collect();
            shown.dedup();
            shown.join(", ")
        };
        let text = format!("cores show {} before and {} after", shown(before), shown(after));
        evidence.push(effect(low(after) && !low(before), text));
    }
    if known.traffic && known.follows.work {
        let took = [before, after].map(|period| period.seconds_per_packet());
        let slower = took[0].zip(took[1]).is_some_and(|(before, after)| after > 1.05 * before);
        let [before, after] = took.map(micros);
        let text = format!("a packet took {before} before and {after} after");
        evidence.push(effect(slower, text));
    }
    evidence
}

/// All cores but the first are parked; afterwards the deepest state is allowed.
pub(super) fn idle_limit(case: &Case<'_>) -> Vec<Effect> {
    let Case { platform, known, before, after } = case;
    let deepest = platform.deepest();
    if deepest == 0 {
        return vec![Effect::Hidden("there is one idle state")];
    }
    if !known.follows.residency || !platform.can.sees.residency {
        return vec![Effect::Hidden("no figure here follows the idle states")];
    }
    if !platform.can.set_cores {
        return vec![Effect::Hidden("cores that serve packets may not reach the deepest state")];
    }
    let [before, after] = [before, after].map(|period| period.resident(deepest).unwrap_or(0.0));
    let text = format!(
        "cores were in {} for {} of the time before and {} after",
        platform.idle_states[deepest].name,
        percent(before),
        percent(after)
    );
    vec![effect(after > before + 0.1, text)]
}

/// From the shortest period between interrupts to the longest.
pub(super) fn moderation(case: &Case<'_>) -> Vec<Effect> {
    let Case { platform, known, before, after } = case;
    if platform.moderation.1 <= platform.moderation.0 {
        return vec![Effect::Hidden("there is no other period")];
    }
    if !known.traffic {
        return vec![Effect::Hidden(NO_TRAFFIC)];
    }
    let mut evidence = vec![Effect::Hidden("no figure here follows interrupts")];
    if known.follows.work && before.sleeps() + after.sleeps() > 0 {
        let text =
            format!("cores slept {} times before and {} after", before.sleeps(), after.sleeps());
        evidence.push(effect(2 * after.sleeps() < before.sleeps(), text));
    }
    if platform.can.sees.latency && known.follows.latency {
        evidence.push(later(case));
    }
    evidence
}

/// Packets gather; afterwards they are taken one at a time.
pub(super) fn batch(case: &Case<'_>) -> Vec<Effect> {
    let Case { platform, known, before, after } = case;
    match platform.can.asks.batch {
        _ if !known.traffic => return vec![Effect::Hidden(NO_TRAFFIC)],
        Timing::Exact => {}
        Timing::Never | Timing::Sampled(_) => {
            return vec![Effect::Hidden("no policy is asked at each batch")];
        }
    }
    let [before, after] = [before, after].map(|period| period.sums.most_taken);
    if before <= 1 {
        return vec![Effect::Hidden("never two packets waited")];
    }
    let text = format!("up to {before} packets were taken at once before and {after} after");
    vec![effect(after == 1, text)]
}

/// The first core gets three shares of the table, each other core one.
pub(super) fn weights(case: &Case<'_>) -> Vec<Effect> {
    let Case { platform, known, before, after } = case;
    if platform.cores == 1 {
        return vec![Effect::Hidden("there is one core")];
    }
    if !known.traffic {
        return vec![Effect::Hidden(NO_TRAFFIC)];
    }
    let cores = platform.cores as f64;
    let between = (1.0 / cores + 3.0 / (cores + 2.0)) / 2.0;
    let got = [before, after].map(|period| period.first_core().unwrap_or(0.0));
    let text = format!(
        "core 0 got {} of the packets before and {} after, with three times the weight",
        percent(got[0]),
        percent(got[1])
    );
    vec![effect(got[0] < between && got[1] > between, text)]
}

/// From interrupts to polling.
pub(super) fn polls(case: &Case<'_>) -> Vec<Effect> {
    let Case { known, before, after, .. } = case;
    if !known.follows.work {
        return vec![Effect::Hidden("no figure here follows how workers wait")];
    }
    let text = format!(
        "cores polled in vain for {} of the time before and {} after, and slept for {}",
        percent(before.empty()),
        percent(after.empty()),
        percent(after.asleep())
    );
    vec![effect(after.empty() > before.empty() + 0.1 && after.asleep() < 0.05, text)]
}

/// From polling to sleeps of [`NAP`].
pub(super) fn naps(case: &Case<'_>) -> Vec<Effect> {
    let Case { known, after, .. } = case;
    if !known.follows.work {
        return vec![Effect::Hidden("no figure here follows how workers wait")];
    }
    let slept = after.seconds_per_sleep();
    let text = format!(
        "a core that was to sleep for {} slept for {}",
        micros(Some(NAP.as_seconds())),
        micros(slept)
    );
    let least = NAP.as_seconds() * 2.0 / 3.0;
    vec![effect(slept.is_some_and(|slept| slept > least), text)]
}

/// From polling to interrupts, if cores can poll.
pub(super) fn interrupts(case: &Case<'_>) -> Vec<Effect> {
    let Case { platform, known, before, after } = case;
    if !known.follows.work {
        return vec![Effect::Hidden("no figure here follows how workers wait")];
    }
    let text = format!(
        "cores slept for {} of the time before and {} after",
        percent(before.asleep()),
        percent(after.asleep())
    );
    let polled = platform.can.waits.allows(Wait::Poll);
    let least = if polled { before.asleep() } else { 0.0 } + 0.1;
    vec![effect(after.asleep() > least, text)]
}

/// All cores but the first, which polled, become inactive.
pub(super) fn cores(case: &Case<'_>) -> Vec<Effect> {
    let Case { platform, known, before, after } = case;
    if platform.cores == 1 {
        return vec![Effect::Hidden("there is one core")];
    }
    if !known.traffic {
        return vec![Effect::Hidden(NO_TRAFFIC)];
    }
    let first = |period: &Period| period.cores.first().map_or(0, |core| core.arrivals);
    let others = after.arrivals - first(after);
    let text = format!(
        "{} packets came to the core that was left and {others} to those taken out",
        first(after)
    );
    let moved = before.arrivals > first(before) && others == 0 && first(after) > 0;
    let mut evidence = vec![effect(moved, text)];
    let out = after.cores.get(1..).unwrap_or_default();
    // If a core polled before, its sleep shows that it was parked.
    if known.follows.work && before.asleep() < 0.05 && platform.can.waits.allows(Wait::Poll) {
        let asleep: f64 = out.iter().map(|core| core.asleep).sum();
        let share = asleep / (after.seconds * out.len() as f64);
        let text = format!("the cores taken out slept for {} of the time", percent(share));
        evidence.push(effect(share > 0.9, text));
    }
    evidence
}

fn later(case: &Case<'_>) -> Effect {
    let took = [case.before, case.after].map(|period| period.sums.mean_latency());
    let later = took[0].zip(took[1]).is_some_and(|(before, after)| after > 1.5 * before);
    let [before, after] = took.map(micros);
    effect(later, format!("packets took {before} before and {after} after"))
}

/// Packets gather afterwards.
pub(super) fn latency(case: &Case<'_>) -> Vec<Effect> {
    let Case { known, before, after, .. } = case;
    if let Some(hidden) = latency_is_hidden(case) {
        return vec![hidden];
    }
    let mut evidence = vec![later(case)];
    if known.follows.work {
        for period in [before, after] {
            let (samples, packets) = (period.sums.samples, period.packets());
            let text = format!("{samples} latencies were shown of {packets} packets");
            evidence.push(effect(samples * 2 > packets, text));
        }
    }
    evidence
}

/// The same, by the late count.
pub(super) fn late(case: &Case<'_>) -> Vec<Effect> {
    if let Some(hidden) = latency_is_hidden(case) {
        return vec![hidden];
    }
    let [before, after] = [case.before, case.after].map(|period| period.sums.late);
    let text = format!(
        "{before} packets were later than {} before and {after} after, when each waited for up to {}",
        micros(Some(LATE_AFTER.as_seconds())),
        micros(Some(GATHER.as_seconds()))
    );
    vec![effect(after > 2 * before && after <= case.after.sums.samples, text)]
}

fn latency_is_hidden(case: &Case<'_>) -> Option<Effect> {
    let Case { platform, known, .. } = case;
    if !known.follows.latency {
        return Some(Effect::Hidden("latency comes from outside and follows nothing here"));
    }
    if !known.traffic {
        return Some(Effect::Hidden(NO_TRAFFIC));
    }
    let gathers = platform.can.waits.sleep || platform.moderation.1 >= GATHER;
    (!gathers).then_some(Effect::Hidden("packets cannot be made to wait"))
}

/// From all cores working and polling to one slow core that sleeps.
pub(super) fn watts(case: &Case<'_>) -> Vec<Effect> {
    let Case { known, before, after, .. } = case;
    if !known.follows.power {
        return vec![Effect::Hidden("watts are recorded and follow nothing here")];
    }
    let drew = [before, after].map(|period| period.sums.watts());
    let fell = drew[0].zip(drew[1]).is_some_and(|(before, after)| after < 0.99 * before);
    let [before, after] = drew.map(|w| w.map_or("nothing".to_owned(), |w| format!("{w:.1} W")));
    vec![effect(fell, format!("{before} were drawn before and {after} by a core that sleeps"))]
}

/// Over the whole run, like all figures below.
pub(super) fn entries(case: &Case<'_>) -> Vec<Effect> {
    if !case.known.traffic {
        return vec![Effect::Hidden(NO_TRAFFIC)];
    }
    let (entries, arrivals) = (case.after.entries, case.after.arrivals);
    let text = format!("entries counted {entries} packets where {arrivals} came to the queues");
    let apart = entries.abs_diff(arrivals);
    vec![effect(entries > 0 && apart <= arrivals / 10, text)]
}

pub(super) fn bytes(case: &Case<'_>) -> Vec<Effect> {
    if !case.known.traffic {
        return vec![Effect::Hidden(NO_TRAFFIC)];
    }
    let each = case.after.bytes as f64 / case.after.arrivals.max(1) as f64;
    // From the shortest IPv4 header to the longest frame.
    let text = format!("{each:.1} bytes were counted for each packet");
    vec![effect((20.0..=65_550.0).contains(&each), text)]
}

pub(super) fn residency(case: &Case<'_>) -> Vec<Effect> {
    let Case { known, after, .. } = case;
    if !known.follows.residency || !known.follows.work {
        return vec![Effect::Hidden("the kernel counts what is not Wattline's, too")];
    }
    let (states, asleep) = (after.resident_at_all().unwrap_or(0.0), after.asleep());
    let text =
        format!("cores slept for {} of the time, {} in states", percent(asleep), percent(states));
    vec![effect(asleep > 0.0 && (states - asleep).abs() < 0.05 * asleep, text)]
}

pub(super) fn softirq(case: &Case<'_>) -> Vec<Effect> {
    if !case.known.traffic || !case.known.follows.softirq {
        return vec![Effect::Hidden("no soft interrupt comes of packets here")];
    }
    let spent = case.after.softirq();
    vec![effect(spent > 0.0, format!("{spent:.3} s were spent in soft interrupts"))]
}

pub(super) fn oldest(case: &Case<'_>) -> Vec<Effect> {
    let sums = &case.after.sums;
    if sums.filled == 0 {
        return vec![Effect::Hidden("no queue was seen with packets")];
    }
    let text = format!(
        "{} of {} filled queues showed the age of the oldest packet, up to {}",
        sums.aged,
        sums.filled,
        micros(Some(sums.oldest_seconds))
    );
    vec![effect(sums.aged == sums.filled && sums.oldest_seconds > 0.0, text)]
}

pub(super) fn frequency_shown(case: &Case<'_>) -> Vec<Effect> {
    let Case { platform, known, .. } = case;
    if !known.follows.frequency {
        return vec![Effect::Hidden("it is recorded and follows nothing here")];
    }
    if !platform.can.set_frequency || platform.frequencies.len() < 2 {
        return vec![Effect::Hidden("nothing changes it here")];
    }
    // Else the trial of the knob has complained.
    vec![Effect::Seen("it followed what was set".to_owned())]
}

pub(super) fn offered(_: &Case<'_>) -> Vec<Effect> {
    vec![Effect::Hidden("only clairvoyant policies see it, and the probe is none")]
}
