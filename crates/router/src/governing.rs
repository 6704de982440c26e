//! The governor across changes of ports. Its cores, queues and cards are fixed as long as it runs.
//! So it ends before they change, which restores all settings, and a new governor starts with the
//! new ones. Workers and programs forward meanwhile.

use super::Router;
use super::kernel::forwarded;
use super::power::Rules;
use std::time::Instant;
use wattline_daemon::reload::Report;

impl Router {
    /// Applies the configured wait mode and batch size to workers, as far as no governor controls
    /// them.
    pub(super) fn leave_workers(&self) {
        let Rules { waiting, batch } = self.rules();
        if !waiting {
            self.workers.configure(&self.configured.config.router);
        } else if !batch {
            self.workers.set_batch(&self.configured.config.router);
        }
    }

    fn rules(&self) -> Rules {
        self.power.as_ref().map_or_else(Rules::default, |power| power.rules())
    }

    /// Ends the governor before ports change. [`Self::resume_governor`] has to follow.
    pub(super) fn pause_governor(&mut self) {
        let Some(power) = &mut self.power else { return };
        power.pause();
        self.serve_ungoverned();
    }

    /// Has parked workers serve again: the interfaces send to all workers now.
    fn serve_ungoverned(&mut self) {
        self.workers.set_active(self.workers.count());
        self.leave_workers();
    }

    /// Starts a governor with the present ports.
    pub(super) fn resume_governor(&mut self) {
        let Self { power: Some(power), configured, kernel, workers, ports, .. } = self else {
            return;
        };
        let config = &configured.config;
        let forwarded = forwarded(config, kernel.as_ref(), ports.zero_copy());
        power.resume(config, ports.queues(config), workers, forwarded);
        if !power.governs() {
            // It may have changed some workers before it failed.
            self.serve_ungoverned();
        }
    }

    /// Restarts the governor if an interface's queues changed or if it is waiting.
    pub(super) fn poll_governor(&mut self, now: Instant) {
        let Some(power) = &self.power else { return };
        let queues = self.ports.queues(&self.configured.config);
        if power.is_out_of_date(&queues, now) {
            self.pause_governor();
            self.resume_governor();
        }
    }

    /// Adds to a reload's report that the governor waits, or which settings it controls.
    pub(super) fn report_governor(&self, report: &mut Report) {
        if let Some(why) = self.power.as_ref().and_then(|power| power.waits_because()) {
            report.not_as_configured.push(format!("[power]: the governor waits: {why}"));
        }
        let Rules { waiting, batch } = self.rules();
        let keys =
            [("[router] mode", waiting), ("[router] batch", batch), ("[router] idle", waiting)];
        let is_ruled = |key: &&'static str| keys.contains(&(*key, true));
        let ruled: Vec<&'static str> =
            report.applied.extract_if(.., |key| is_ruled(&*key)).collect();
        if !ruled.is_empty() {
            let ruled = ruled.join(", ");
            report
                .not_as_configured
                .push(format!("{ruled}: the governor decides while it governs"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, PowerPlatform};
    use crate::error::{Remedy, RouterError};
    use crate::platform::{Plan, PlatformDriver, Platforms, Running, Seen};
    use crate::stats::{PowerStats, Stats};
    use crate::{Extensions, metrics};
    use std::cell::RefCell;
    use std::sync::Arc;
    use std::time::Duration;
    use wattline_dataplane::worker::{Command, Control};
    use wattline_governor::account::{LoopTotals, MachineTotals, Totals};
    use wattline_governor::energy::Energy;
    use wattline_governor::ledger::{Entry, Knob};
    use wattline_policies::POLICIES;
    use wattline_policy::Latency;
    use wattline_policy::{Can, OperatingPoint, Platform};
    use wattline_status::{Details, HostStatus};
    use wattline_traffic::capture::{LinkType, Resolution, Writer};
    use wattline_units::{Hertz, Joules, Provenance, Span, Time};

    /// Script and record of the test's platform. Its driver lives in the router's thread, which is
    /// the test's.
    #[derive(Default)]
    struct Fake {
        /// Error of the start.
        obstacle: Option<&'static str>,
        /// Error of giving back.
        stuck: Option<&'static str>,
        /// True if another process has restored it since.
        given_back: bool,
        /// Count of the present governor: seconds, each with its packet, its 5 J and its step.
        seconds: u64,
        /// Abilities.
        can: Option<Can>,
        starts: u32,
        governs: bool,
        controls: Vec<Arc<Control>>,
    }

    thread_local! {
        static FAKE: RefCell<Fake> = RefCell::default();
    }

    fn fake<T>(ask: impl FnOnce(&mut Fake) -> T) -> T {
        FAKE.with_borrow_mut(ask)
    }

    impl Fake {
        fn totals(&self) -> Totals {
            let joules = Joules(5.0 * self.seconds as f64);
            let energy = Energy::new(joules, [("package", joules)], Provenance::EMULATED);
            let machine =
                MachineTotals { offered: self.seconds, energy, ..MachineTotals::default() };
            let own = LoopTotals { steps: self.seconds, ..LoopTotals::default() };
            Totals { at: Time::ZERO + Span::from_millis(1_000 * self.seconds), own, machine }
        }

        /// One of two cores is active.
        fn seen(&self) -> Seen {
            let platform = Platform {
                cores: 2,
                frequencies: vec![Hertz(1e9), Hertz(2e9)],
                can: self.can.unwrap_or(Can::EVERY_KNOB),
                ..Platform::BARE
            };
            let mut point = OperatingPoint::full(&platform);
            point.set_active(1, 0, 0);
            let entry = Entry {
                knob: Knob::Frequency,
                steps: self.seconds,
                altered: 0,
                foreign: 0,
                failed: 0,
                last_problem: None,
                effective: true,
            };
            Seen { point, platform, decisions: Vec::new(), knobs: vec![entry] }
        }
    }

    struct Driver;

    impl PlatformDriver for Driver {
        fn follows_ports(&self) -> bool {
            true
        }
        fn start(&mut self, router: Running<'_>) -> Result<Option<Totals>, RouterError> {
            fake(|fake| {
                fake.starts += 1;
                fake.seconds = 0;
                fake.controls = router.workers.iter().map(|it| Arc::clone(&it.control)).collect();
                // It has parked a worker before it fails.
                fake.controls[1].command(Command::Park);
                fake.controls.iter().for_each(|control| control.set_batch(3));
                if let Some(why) = fake.obstacle {
                    return Err(RouterError::Unfit(why.to_owned()));
                }
                fake.governs = true;
                Ok(Some(fake.totals()))
            })
        }
        fn totals(&self, _: Duration) -> Option<(Totals, Option<Latency>)> {
            fake(|fake| fake.governs.then(|| (fake.totals(), None)))
        }
        fn look(&self, _: Duration) -> Option<Seen> {
            fake(|fake| fake.governs.then(|| fake.seen()))
        }
        fn has_failed(&self) -> bool {
            false
        }
        fn details(&self) -> Details {
            let status = |fake: &mut Fake| HostStatus {
                sensors: [("rapl:0".to_owned(), true)].into(),
                waited_at_moves_packets: 2 * fake.seconds,
                ..HostStatus::default()
            };
            Details { host: Some(fake(status)), ..Details::default() }
        }
        fn holds_machine(&self) -> bool {
            fake(|fake| fake.governs)
        }
        fn give_back(&mut self) -> Result<(), RouterError> {
            fake(|fake| {
                let stuck = fake.stuck.filter(|_| fake.governs);
                fake.governs = false;
                stuck.map_or(Ok(()), |what| Err(RouterError::Platform(what.to_owned())))
            })
        }
        fn is_given_back(&self) -> bool {
            fake(|fake| fake.given_back)
        }
    }

    const PLATFORMS: Platforms =
        &[(PowerPlatform::Host, |_: &Config, _: Plan| Ok(Box::new(Driver)))];

    const CONFIG: &str = r#"
[router]
socket = "FOLDER/socket"
workers = 2
mode = "adaptive"
batch = 32
[power]
platform = "host"
policy = "performance"
[[port]]
name = "a"
capture = { read = "FOLDER/in.pcap", write = "FOLDER/a.pcap", paced = true }
mac = "02:00:00:00:00:01"
addresses = ["192.0.2.1/24"]
"#;

    /// Returns a router between captures, whose last packet comes after an hour, with its folder.
    fn router() -> (Router, tempfile::TempDir) {
        FAKE.set(Fake::default());
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mut writer =
            Writer::create(at("in.pcap"), LinkType::ETHERNET, Resolution::Nanos).unwrap();
        for time in [Duration::ZERO, Duration::from_secs(3_600)] {
            writer.write(time, &[0; 60]).unwrap();
        }
        writer.finish().unwrap();
        let config = at("router.toml");
        std::fs::write(&config, CONFIG.replace("FOLDER", &folder.path().to_string_lossy()))
            .unwrap();
        let extensions = Extensions { applications: &[], platforms: PLATFORMS, policies: POLICIES };
        let router = Router::start(&config, extensions, Box::new(|_| {})).unwrap();
        (router, folder)
    }

    /// Pauses and resumes as around a change of ports, which captures do not know.
    fn ports_change(router: &mut Router) {
        router.pause_governor();
        router.resume_governor();
    }

    fn power(router: &Router) -> PowerStats {
        router.stats().power.unwrap()
    }

    fn has_metric(router: &Router, line: &str) -> bool {
        let text = metrics::render(&router.stats(), &router.snapshots(), &[]);
        text.lines().any(|found| found == line)
    }

    fn stopped(mut router: Router) -> (Stats, Result<(), RouterError>) {
        router.stopping = true;
        router.run()
    }

    const OBSTACLE: &str = "another process governs this machine";

    #[test]
    fn governor_that_cannot_restart_waits_and_counts_continue_later() {
        let (mut router, _folder) = router();
        fake(|fake| (fake.seconds, fake.obstacle) = (10, Some(OBSTACLE)));
        let before = power(&router);
        assert_eq!((before.cores_active, before.frequency_hertz.len()), (1, 2));
        assert_eq!((before.power_watts, before.waits_because), (Some(5.0), None));
        assert!(has_metric(&router, "wattline_governing 1"));

        ports_change(&mut router);
        let waits = power(&router);
        assert_eq!(waits.waits_because.as_deref(), Some(OBSTACLE));
        assert_eq!((waits.power_watts, waits.power_rest_watts), (None, None));
        assert!(waits.frequency_hertz.is_empty() && waits.power_by_component_watts.is_empty());
        assert_eq!(waits.cores_active, 2, "packets go to all");
        assert!(router.stats().workers.iter().all(|worker| worker.active));
        let counts = (waits.energy_joules, waits.offered_packets, waits.steps);
        assert_eq!(counts, (Some(50.0), 10, 10));
        assert_eq!(waits.details.host.map(|host| host.waited_at_moves_packets), Some(20));
        std::thread::sleep(Duration::from_millis(20));
        let later = power(&router).energy_unmetered_seconds;
        assert!(later >= waits.energy_unmetered_seconds + 0.02, "unmetered while waiting: {later}");
        const WRITES: &str = "wattline_knob_writes_total{knob=\"frequency\",result=\"done\"}";
        for line in [
            "wattline_governing 0",
            "wattline_waited_at_moves_packets_total 20",
            &format!("{WRITES} 10"),
        ] {
            assert!(has_metric(&router, line), "{line}");
        }
        let report = router.reload().unwrap();
        let waits = format!("[power]: the governor waits: {OBSTACLE}");
        assert_eq!(report.not_as_configured, [waits]);

        // It is tried again every ten seconds, and then continues with its former counts.
        let now = Instant::now();
        router.poll_governor(now);
        assert_eq!(fake(|fake| fake.starts), 2);
        router.poll_governor(now + Duration::from_secs(11));
        assert_eq!(fake(|fake| fake.starts), 3);
        assert!(power(&router).waits_because.is_some());
        fake(|fake| fake.obstacle = None);
        router.poll_governor(now + Duration::from_secs(22));
        fake(|fake| fake.seconds = 2);
        let again = power(&router);
        assert_eq!((fake(|fake| fake.starts), &again.waits_because), (4, &None));
        let counts = (again.energy_joules, again.offered_packets, again.steps);
        assert_eq!(counts, (Some(60.0), 12, 12));
        assert_eq!((again.power_watts, again.cores_active), (Some(5.0), 1));
        assert!(again.energy_unmetered_seconds >= later, "{again:?}");
        for line in [
            "wattline_governing 1",
            "wattline_waited_at_moves_packets_total 24",
            &format!("{WRITES} 12"),
        ] {
            assert!(has_metric(&router, line), "{line}");
        }
        stopped(router).1.unwrap();
    }

    /// The account covers the run up to the time when the governor began to wait.
    #[test]
    fn account_of_a_router_whose_governor_waits_is_of_the_whole_run() {
        let (mut router, _folder) = router();
        fake(|fake| (fake.seconds, fake.obstacle) = (10, Some(OBSTACLE)));
        ports_change(&mut router);
        let (stats, outcome) = stopped(router);
        outcome.unwrap();
        let power = stats.power.unwrap();
        assert_eq!((power.power_watts, power.energy_joules), (Some(5.0), Some(50.0)));
        assert_eq!(power.power_by_component_watts["package"], 5.0);
        assert_eq!((power.offered_packets, power.steps), (10, 10));
        assert!(power.frequency_hertz.is_empty());
        assert_eq!(power.waits_because.as_deref(), Some(OBSTACLE));
    }

    #[test]
    fn unrestored_setting_is_reported_at_the_end_unless_restored_since() {
        let stop = |then: fn(&mut Router)| {
            let (mut router, _folder) = router();
            fake(|fake| (fake.stuck, fake.obstacle) = (Some("cpu0: it hangs"), Some(OBSTACLE)));
            ports_change(&mut router);
            then(&mut router);
            stopped(router).1
        };
        let error = stop(|_| {}).unwrap_err();
        assert_eq!((error.remedy(), error.to_string()), (Remedy::System, "cpu0: it hangs".into()));
        // A later attempt restored it, and failed afterwards.
        stop(|_| fake(|fake| fake.given_back = true)).unwrap();
        // A governor that starts has restored it.
        stop(|router| {
            fake(|fake| (fake.obstacle, fake.stuck) = (None, None));
            router.poll_governor(Instant::now() + Duration::from_secs(11));
        })
        .unwrap();
    }

    /// Checks the batch size of all workers.
    #[track_caller]
    fn has_batch(packets: usize) {
        let seen = fake(|fake| format!("{:?}", fake.controls));
        let batch = format!("batch: {packets},");
        assert_eq!(seen.matches(&batch).count(), 2, "{batch} {seen}");
    }

    #[test]
    fn reload_applies_settings_that_the_governor_does_not_control() {
        let (mut router, folder) = router();
        let mut reload = |mode: &str, batch: u32| {
            let text = CONFIG.replace("FOLDER", &folder.path().to_string_lossy());
            let text = text.replace("adaptive", mode).replace("32", &batch.to_string());
            std::fs::write(folder.path().join("router.toml"), text).unwrap();
            let report = router.reload().unwrap();
            assert!(report.needs_restart.is_empty(), "{report}");
            (report.applied, report.not_as_configured)
        };
        let both = "[router] mode, [router] batch: the governor decides while it governs";
        assert_eq!(reload("poll", 16), (vec![], vec![both.to_owned()]));
        has_batch(3);
        // With XDP programs it sees no batches, and does not set their size.
        fake(|fake| fake.can = Some(Can { set_batch: false, ..Can::EVERY_KNOB }));
        let mode = "[router] mode: the governor decides while it governs";
        assert_eq!(reload("adaptive", 8), (vec!["[router] batch"], vec![mode.to_owned()]));
        has_batch(8);
        // Without a governor the configuration is in force, including earlier changes.
        fake(|fake| (fake.can, fake.obstacle) = (None, Some(OBSTACLE)));
        assert_eq!(reload("poll", 16).1, [both.to_owned()]);
        ports_change(&mut router);
        has_batch(16);
        stopped(router).1.unwrap();
    }
}
