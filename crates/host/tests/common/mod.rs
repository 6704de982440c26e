//! Trees of machines, for the tests of the platform `host`.
#![allow(dead_code, reason = "each test file uses a part of it")]

#[path = "../../../knobs/tests/common/fixture.rs"]
mod fixture;

pub use fixture::Fixture;
use std::path::Path;
use wattline_governor::machine::{Machine, Taken};
use wattline_governor::step::between;
use wattline_host::{Host, HostOptions, Layout, NoWorkers, Port, Scope};
use wattline_knobs::{Access, AccessError, Machine as Settings, Session, Setting};
use wattline_linux::privileges::Rights;
use wattline_policy::OperatingPoint;

pub const CPUS: &str = "/sys/devices/system/cpu";

impl Fixture {
    pub fn copy(name: &str) -> Self {
        let knobs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../knobs/tests/fixtures");
        Self::from_folder(&knobs.join(name))
    }

    /// Copies a machine with a card of four queues.
    pub fn with_card(name: &str) -> Self {
        let fixture = Self::copy(name);
        fixture.write("/ethtool/eth9/redirect-table", ["0,1,2,3"; 32].join(","));
        fixture.write("/ethtool/eth9/combined-channels", "4");
        fixture
    }

    pub fn session(&self) -> Session<Settings> {
        self.session_by(Settings::new(&self.tree))
    }

    pub fn session_by<A: Access>(&self, access: A) -> Session<A> {
        let state = self.tree.path("/var/lib/wattline");
        Session::begin(access, &self.tree, &state).unwrap().0
    }

    /// Begins a session behind a driver that alters some values or rejects them.
    pub fn ruled<F: Rule>(&self, rule: F) -> Session<Ruled<F>> {
        self.session_by(Ruled(Settings::new(&self.tree), rule))
    }

    pub fn options(&self, cpus: &[u32]) -> HostOptions {
        let port = Port { interface: Some("eth9".into()), queues: 4, cores: Vec::new() };
        HostOptions {
            tree: self.tree.clone(),
            layout: Layout { workers: 2, cpus: cpus.to_vec(), ports: vec![port] },
            ring_size: Some(2048),
            busy_poll: false,
            sample: wattline_units::Span::from_millis(1),
            uncore: false,
            meters: false,
            rights: Rights::ALL,
            override_limits: false,
            may_raise: true,
            preferences: false,
            scope: Scope::ROUTER,
        }
    }

    pub fn host(&self, cpus: &[u32]) -> Host<Session<Settings>> {
        Host::new(self.options(cpus), self.session(), Box::new(NoWorkers)).unwrap()
    }

    pub fn host_of_one(&self) -> Host<Session<Settings>> {
        let mut options = self.options(&[0]);
        options.layout.workers = 1;
        Host::new(options, self.session(), Box::new(NoWorkers)).unwrap()
    }

    pub fn table(&self) -> Vec<u32> {
        let text = self.value("/ethtool/eth9/redirect-table");
        text.split(',').map(|queue| queue.parse().unwrap()).collect()
    }
}

/// The value that a driver makes of a written one, if it accepts it.
pub trait Rule: FnMut(&Setting, &str) -> Result<String, AccessError> {}
impl<F: FnMut(&Setting, &str) -> Result<String, AccessError>> Rule for F {}

/// A machine with a driver that follows this rule.
pub struct Ruled<F>(Settings, F);

impl<F: Rule> Access for Ruled<F> {
    fn read(&self, setting: &Setting) -> Result<String, AccessError> {
        self.0.read(setting)
    }
    fn write(&mut self, setting: &Setting, value: &str) -> Result<(), AccessError> {
        let value = (self.1)(setting, value)?;
        self.0.write(setting, &value)
    }
}

pub fn take_all(host: &mut impl Machine, from: &OperatingPoint, to: &OperatingPoint) {
    let mut steps = Vec::new();
    between(&host.platform().clone(), from, to, &mut steps);
    for step in &steps {
        assert_eq!(host.take(step), Taken::Done, "{step:?}");
    }
}
