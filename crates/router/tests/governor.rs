//! A router whose governor fails, between captures: without root.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wattline_governor::account::Totals;
use wattline_policies::POLICIES;
use wattline_policy::Latency;
use wattline_router::config::{Config, PowerPlatform};
use wattline_router::platform::{Plan, PlatformDriver, Platforms, Running, Seen};
use wattline_router::{Extensions, Remedy, Router, RouterError};
use wattline_status::Details;
use wattline_traffic::capture::{LinkType, Resolution, Writer};

const CONFIG: &str = r#"
[router]
socket = "FOLDER/socket"
[power]
platform = "host"
policy = "performance"
[[port]]
name = "a"
capture = { read = "FOLDER/in.pcap", write = "FOLDER/a.pcap", paced = true }
mac = "02:00:00:00:00:01"
addresses = ["192.0.2.1/24"]
"#;
/// Time of the capture's last packet: no test waits for it.
const END: Duration = Duration::from_secs(3_600);

/// True if the machine was given back.
static GIVEN_BACK: AtomicBool = AtomicBool::new(false);

/// A platform whose governor panics a moment after its start.
struct Fails(Option<Instant>);

impl PlatformDriver for Fails {
    fn start(&mut self, _: Running<'_>) -> Result<Option<Totals>, RouterError> {
        self.0 = Some(Instant::now() + Duration::from_millis(100));
        Ok(None)
    }
    fn totals(&self, _: Duration) -> Option<(Totals, Option<Latency>)> {
        None
    }
    fn look(&self, _: Duration) -> Option<Seen> {
        None
    }
    fn has_failed(&self) -> bool {
        self.0.is_some_and(|at| at <= Instant::now())
    }
    fn details(&self) -> Details {
        Details::default()
    }
    fn holds_machine(&self) -> bool {
        true
    }
    fn give_back(&mut self) -> Result<(), RouterError> {
        GIVEN_BACK.store(true, Ordering::Release);
        Ok(())
    }
}

fn open(_: &Config, _: Plan) -> Result<Box<dyn PlatformDriver>, RouterError> {
    Ok(Box::new(Fails(None)))
}

const PLATFORMS: Platforms = &[(PowerPlatform::Host, open)];

/// Otherwise its last settings would remain forever.
#[test]
fn router_ends_with_its_governor_and_restores_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut writer = Writer::create(at("in.pcap"), LinkType::ETHERNET, Resolution::Nanos).unwrap();
    for time in [Duration::ZERO, END] {
        writer.write(time, &[0; 60]).unwrap();
    }
    writer.finish().unwrap();
    let config = at("router.toml");
    std::fs::write(&config, CONFIG.replace("FOLDER", &folder.path().to_string_lossy())).unwrap();
    let extensions = Extensions { applications: &[], platforms: PLATFORMS, policies: POLICIES };
    let router = Router::start(&config, extensions, Box::new(|_| {})).unwrap();
    let (_, outcome) = router.run();
    let error = outcome.unwrap_err();
    assert!(matches!(error, RouterError::Governor), "{error}");
    assert_eq!(error.remedy(), Remedy::Defect);
    assert!(error.to_string().contains("governor"), "{error}");
    assert!(GIVEN_BACK.load(Ordering::Acquire));
}
