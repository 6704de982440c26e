//! Latency from existing sources: reporting clients, the application's own histogram, TCP's round
//! trips. Each source is shown with the number and age of its samples; a silent one is named.

mod clients;
mod page;
mod source;
mod tcp;

use crate::config::{SourceKind, SourceSettings};
use source::Heard;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wattline_governor::latency::{LatencyFeed, LatencySummary, Quantile, late_of};
use wattline_policy::LatencyView;
use wattline_units::{Span, Time};

pub use wattline_status::SourceState;

/// All sources of a configuration.
#[derive(Default)]
pub struct Feed {
    sources: Vec<(String, Box<dyn Heard>)>,
    silence: Span,
}

impl Feed {
    /// Opens all sources. A source counts as silent after `silence` without a report.
    ///
    /// # Errors
    /// When a socket or a thread cannot be created, with the source's name.
    pub fn open(settings: &[SourceSettings], silence: Span) -> Result<Self, (String, io::Error)> {
        let open = |one: &SourceSettings| {
            let failed = |error| (one.name.clone(), error);
            let source: Box<dyn Heard> = match &one.kind {
                SourceKind::Clients { socket, window } => {
                    Box::new(clients::open(socket, *window).map_err(failed)?)
                }
                SourceKind::Prometheus { url, histogram, unit, period } => {
                    let unit = unit.as_seconds();
                    let page = page::open(url.clone(), histogram.clone(), unit, *period);
                    Box::new(page.map_err(failed)?)
                }
                SourceKind::Tcp { ports, period, window } => {
                    Box::new(tcp::open(ports.clone(), *period, *window).map_err(failed)?)
                }
            };
            Ok((one.name.clone(), source))
        };
        let sources = settings.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { sources, silence })
    }

    /// Reads the reports that have arrived at all sources.
    pub fn poll(&mut self, now: Time) {
        self.sources.iter_mut().for_each(|(_, source)| source.poll(now));
    }

    /// Returns the combined view of all sources: `None` if one is silent or there is none, a view
    /// without samples if no requests were made, otherwise the worst of them.
    pub fn look(&self, now: Time, late_after: Option<Span>) -> Option<LatencyView> {
        let silence = self.silence;
        let mut all = None::<LatencyView>;
        let mut silent = self.sources.is_empty();
        for (_, source) in &self.sources {
            silent |= is_silent(&**source, now, silence);
            let Some(summary) = source.figures().summary(now).filter(|known| known.age <= silence)
            else {
                continue;
            };
            let view = summary.view(late_of(source.figures(), now, late_after));
            all = Some(all.map_or(view, |known| worst(known, view)));
        }
        (!silent).then(|| all.unwrap_or_default())
    }

    /// Returns true if every source counts samples longer than a bound: the worst source is shown,
    /// which may be any.
    fn counts_late(&self) -> bool {
        self.sources.iter().all(|(_, source)| source.figures().counts_late())
    }

    /// Returns the state of each source, for statistics.
    pub fn states(&self, now: Time) -> Vec<SourceState> {
        let seconds = |quantile: Quantile| match quantile {
            Quantile::Within { estimate, .. } => Some(estimate.as_seconds()),
            Quantile::Beyond(_) => None,
        };
        let state = |(name, source): &(String, Box<dyn Heard>)| {
            let known = source.figures().summary(now);
            let of = |quantile: fn(&LatencySummary) -> Quantile| seconds(quantile(known.as_ref()?));
            SourceState {
                name: name.clone(),
                origin: source.figures().origin(),
                silent: is_silent(&**source, now, self.silence),
                heard_seconds_ago: source.heard().map(|at| now.since(at).as_seconds()),
                problem: source.problem().map(str::to_owned),
                samples: known.map_or(0, |known| known.samples),
                age_seconds: known.map(|known| known.age.as_seconds()),
                latency_mean_seconds: known.and_then(|known| Some(known.mean?.as_seconds())),
                latency_p50_seconds: of(|known| known.p50),
                latency_p95_seconds: of(|known| known.p95),
                latency_p99_seconds: of(|known| known.p99),
                refused: source.figures().refused(),
            }
        };
        self.sources.iter().map(state).collect()
    }
}

/// All sources, shared between the governor's thread, which queries them, and threads that report
/// them.
#[derive(Clone)]
pub struct SharedFeed(Arc<Mutex<Feed>>);

impl SharedFeed {
    /// Shares it.
    pub fn new(feed: Feed) -> Self {
        Self(Arc::new(Mutex::new(feed)))
    }

    /// Returns the state of each source, for statistics.
    pub fn states(&self, now: Time) -> Vec<SourceState> {
        self.feed().states(now)
    }

    fn feed(&self) -> MutexGuard<'_, Feed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LatencyFeed for SharedFeed {
    fn take_in(&mut self, now: Time) {
        self.feed().poll(now);
    }

    fn view(&self, now: Time, late_after: Option<Span>) -> Option<LatencyView> {
        self.feed().look(now, late_after)
    }

    fn counts_late(&self) -> bool {
        self.feed().counts_late()
    }
}

/// Combines two services: the figures of the one with the longer 99th percentile, with no quantile
/// shorter than the other's. If only one of them is a part of a service, the figures are the
/// other's, whose 95th percentile is more significant.
fn worst(one: LatencyView, other: LatencyView) -> LatencyView {
    let (worse, better) = if other.p99 > one.p99 { (other, one) } else { (one, other) };
    let base = if worse.part && !better.part { better } else { worse };
    let comparable = worse.part == better.part;
    LatencyView {
        p95: if comparable { worse.p95.max(better.p95) } else { base.p95 },
        p99: worse.p99,
        age: worse.age.max(better.age),
        window: worse.window.max(better.window),
        ..base
    }
}

fn is_silent(source: &dyn Heard, now: Time, silence: Span) -> bool {
    source.heard().is_none_or(|at| now.since(at) > silence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;
    use std::path::Path;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn feed(sockets: &[&Path]) -> Feed {
        let settings: Vec<SourceSettings> = sockets
            .iter()
            .enumerate()
            .map(|(number, socket)| SourceSettings {
                name: format!("s{number}"),
                kind: SourceKind::Clients {
                    socket: (*socket).to_owned(),
                    window: Span::from_millis(4_000),
                },
            })
            .collect();
        Feed::open(&settings, Span::from_millis(1_000)).unwrap()
    }

    fn seen(feed: &mut Feed, now: Time) -> Option<LatencyView> {
        feed.poll(now);
        feed.look(now, Some(Span::from_micros(2_000)))
    }

    fn report(socket: &Path, text: &str) {
        UnixDatagram::unbound().unwrap().send_to(text.as_bytes(), socket).unwrap();
    }

    #[test]
    fn silent_source_gives_no_view_and_idle_service_an_empty_one() {
        assert_eq!(seen(&mut Feed::default(), at(5)), None);
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("1"), folder.path().join("2"));
        let mut feed = feed(&[&one, &two]);
        assert_eq!(seen(&mut feed, at(10)), None);
        // A report without requests shows that the client is alive.
        report(&one, "{\"latency_seconds\":[]}");
        report(&two, "{}");
        assert_eq!(seen(&mut feed, at(20)), Some(LatencyView::default()));
        report(&one, "{\"latency_seconds\":[[0.001,9]]}");
        report(&two, "{\"latency_seconds\":[[0.004,5]]}");
        let view = seen(&mut feed, at(30)).unwrap();
        assert_eq!((view.samples, view.late, view.p99.as_seconds().round()), (5, 5, 0.0));
        assert!(view.p99 > Span::from_micros(3_900), "the worst: {view:?}");
        // One of them falls silent: the latency is unknown.
        report(&one, "{}");
        assert_eq!(seen(&mut feed, at(1_040)), None);
        let silent: Vec<bool> = feed.states(at(1_040)).iter().map(|one| one.silent).collect();
        assert_eq!(silent, [false, true]);
    }

    #[test]
    fn two_services_are_as_slow_as_the_slower_one_at_each_quantile() {
        let view = |p95, p99, part| LatencyView {
            samples: p95,
            p95: Span::from_micros(p95),
            p99: Span::from_micros(p99),
            part,
            ..LatencyView::default()
        };
        let both = worst(view(1_000, 10_000, false), view(5_000, 9_000, false));
        assert_eq!(both, LatencyView { samples: 1_000, ..view(5_000, 10_000, false) });
        // Round trips are not the latency of requests, however long they are.
        for (one, other) in [
            (view(9_000, 10_000, true), view(5_000, 6_000, false)),
            (view(5_000, 6_000, false), view(9_000, 10_000, true)),
        ] {
            assert_eq!(worst(one, other), view(5_000, 10_000, false));
        }
        assert_eq!(worst(view(1, 2, true), view(3, 4, false)), view(3, 4, false));
    }

    /// Invalid reports are rejected and counted, and a source that sends nothing else is silent.
    #[test]
    fn invalid_reports_do_not_break_a_silence() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("1");
        let mut feed = feed(&[&socket]);
        for lie in [
            "nonsense",
            "{\"latency_seconds\":[[-1,1]]}",
            "{\"latency_seconds\":[[0.1,1]],\"time_unix_seconds\":9e12}",
            "{\"latency_seconds\":[[1e9,1]]}",
        ] {
            report(&socket, lie);
        }
        assert_eq!(seen(&mut feed, at(10)), None);
        let state = &feed.states(at(10))[0];
        let refused = state.refused;
        assert_eq!((refused.malformed, refused.negative), (1, 1));
        assert_eq!((refused.future, refused.absurd), (1, 1));
        assert!(state.silent && state.samples == 0 && state.heard_seconds_ago.is_none());
    }
}
