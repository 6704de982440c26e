//! The energy that this machine has drawn since the run began, by its own meters.
//!
//! A thread of its own reads them: an ACPI or IPMI sensor can take milliseconds to answer.

use crate::governor::energy::Energy;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use wattline_kernel::sysfs::Tree;
use wattline_meters::{Meter, Rejection, Scope, disjoint, survey};
use wattline_units::{Accuracy, Joules, Provenance, Span, Time};

/// RAPL is certain for a minute, and a platform sensor has a new value about every second.
const PERIOD: Duration = Duration::from_millis(250);

/// Reads the meters as long as it lives.
#[derive(Debug, Default)]
pub(super) struct EnergyMeter {
    energy: Arc<Mutex<Energy>>,
}

impl EnergyMeter {
    /// Begins to read; unavailable where there is no meter. Already looking for meters reads
    /// their sensors, and one that blocks must not hold up the router's start.
    pub fn start(tree: &Tree) -> Self {
        let tree = tree.clone();
        Self::of(move || survey(&tree).meters)
    }

    fn of(find: impl FnOnce() -> Vec<Box<dyn Meter>> + Send + 'static) -> Self {
        let energy: Arc<Mutex<Energy>> = Arc::default();
        let watched = Arc::downgrade(&energy);
        let look = move || {
            let meters = Meters::new(find());
            if !meters.all.is_empty() {
                read(meters, &watched);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("meters".into()).spawn(look) {
            tracing::warn!("governor: no thread for the meters: {error}");
        }
        Self { energy }
    }

    /// What was drawn up to the last reading.
    pub fn energy(&self) -> Energy {
        self.energy.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn read(mut meters: Meters, watched: &Weak<Mutex<Energy>>) {
    let began = Instant::now();
    loop {
        let now = meters.read(Time::ZERO + Span::from(began.elapsed()));
        let Some(energy) = watched.upgrade() else { return };
        *energy.lock().unwrap_or_else(PoisonError::into_inner) = now;
        drop(energy);
        std::thread::sleep(PERIOD);
    }
}

/// Meters of which no one sees what another one sees, and parts that are shown beside.
struct Meters {
    all: Vec<One>,
}

struct One {
    meter: Box<dyn Meter>,
    /// Whether it counts for the whole.
    whole: bool,
    label: &'static str,
    drawn: Joules,
    /// How long that took.
    metered: Span,
    valid: bool,
    told: Option<&'static str>,
}

impl Meters {
    fn new(meters: Vec<Box<dyn Meter>>) -> Self {
        let ids: Vec<String> = disjoint(meters.iter().map(|meter| meter.description()))
            .into_iter()
            .map(|description| description.id.clone())
            .collect();
        let platforms: Vec<String> = meters
            .iter()
            .map(|meter| meter.description())
            .filter(|description| description.scope == Scope::Platform)
            .map(|description| description.id.clone())
            .collect();
        let one = |meter: Box<dyn Meter>| {
            let description = meter.description();
            let whole = ids.contains(&description.id);
            // Parts are packages and memory: cores lie within the first, devices beside.
            let label = match description.scope {
                Scope::Package => "package",
                Scope::Memory => "memory",
                Scope::Platform => "platform",
                Scope::Cores | Scope::Uncore | Scope::Device => return None,
            };
            // What is shown a second time belongs to the first; what is within the platform is
            // a part of that.
            let own = description.part_of.as_ref().is_none_or(|whole| platforms.contains(whole));
            let part = label != "platform" && own;
            let (drawn, metered, valid, told) = (Joules(0.0), Span::ZERO, false, None);
            (whole || part).then_some(One { meter, whole, label, drawn, metered, valid, told })
        };
        Self { all: meters.into_iter().filter_map(one).collect() }
    }

    fn read(&mut self, now: Time) -> Energy {
        for one in &mut self.all {
            match one.meter.read(now) {
                Ok(reading) => {
                    one.drawn += reading.energy.unwrap_or(reading.power * reading.elapsed);
                    one.metered += reading.elapsed;
                    one.valid = true;
                    one.told = None;
                }
                Err(Rejection::First | Rejection::NothingNew) => {}
                Err(rejection) => {
                    // Once per kind of failure: this is asked four times a second.
                    if one.told.replace(rejection.name()) != Some(rejection.name()) {
                        let id = &one.meter.description().id;
                        tracing::warn!("governor: meter {id}: {rejection}");
                    }
                    // Time that no figure covers: the sum is none of the whole run any more.
                    one.valid = false;
                }
            }
        }
        let whole: Vec<&One> = self.all.iter().filter(|one| one.whole).collect();
        if whole.is_empty() || !whole.iter().all(|one| one.valid) {
            return Energy::default();
        }
        let mut parts: BTreeMap<&'static str, Joules> = BTreeMap::new();
        for one in self.all.iter().filter(|one| one.valid && one.label != "platform") {
            *parts.entry(one.label).or_insert(Joules(0.0)) += one.drawn;
        }
        let provenances = || whole.iter().map(|one| one.meter.description().provenance);
        let accuracy = provenances().map(|p| p.accuracy).max_by_key(|a| rank(*a));
        let Some(first) = provenances().next() else { return Energy::default() };
        let accuracy = accuracy.unwrap_or(first.accuracy);
        let sum = whole.iter().map(|one| one.drawn).sum();
        // They are read one after the other: the difference is that of a moment.
        let metered = whole.iter().map(|one| one.metered).min();
        Energy { metered, ..Energy::new(sum, parts, Provenance { accuracy, ..first }) }
    }
}

/// The worse, the higher: a sum is as accurate as the worst of what it is made of.
fn rank(accuracy: Accuracy) -> u8 {
    match accuracy {
        Accuracy::Gold => 0,
        Accuracy::Silver => 1,
        Accuracy::Bronze => 2,
        Accuracy::Learned => 3,
        Accuracy::Historic => 4,
        Accuracy::Static => 5,
        Accuracy::Unavailable => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn fixture(name: &str) -> Tree {
        Tree::at(Path::new(env!("CARGO_MANIFEST_DIR")).join("../meters/tests/fixtures").join(name))
    }

    #[test]
    fn a_platform_meter_is_integrated_over_true_time() {
        let mut meters = Meters::new(survey(&fixture("acpi-power-meter")).meters);
        meters.read(Time::ZERO);
        let early = meters.read(Time::ZERO + Span::from_seconds(1.0));
        let late = meters.read(Time::ZERO + Span::from_seconds(3.0));
        let drawn = late.since(&early).whole.unwrap();
        let watts = drawn / Span::from_seconds(2.0);
        assert!(watts.get() > 1.0, "{watts}");
        // What was drawn belongs to the time up to the last reading, not up to now.
        assert_eq!(late.since(&early).metered, Some(Span::from_seconds(2.0)));
        assert_eq!(late.source, wattline_units::Source::Measured);
    }

    /// A sensor that answers when it is let.
    struct Blocking(wattline_meters::Description, std::sync::mpsc::Receiver<()>);

    impl Meter for Blocking {
        fn description(&self) -> &wattline_meters::Description {
            &self.0
        }
        fn read(&mut self, _: Time) -> Result<wattline_meters::Reading, Rejection> {
            let _ = self.1.recv();
            let (energy, elapsed) = (Some(Joules(5.0)), Span::from_seconds(0.1));
            let (power, provenance) = (wattline_units::Watts(50.0), self.0.provenance);
            Ok(wattline_meters::Reading { energy, elapsed, power, provenance })
        }
    }

    #[test]
    fn a_sensor_that_blocks_holds_up_nobody() {
        let (release, blocked) = std::sync::mpsc::channel();
        let found = survey(&fixture("acpi-power-meter")).meters;
        let platform = found.iter().map(|meter| meter.description().clone());
        let description = platform.into_iter().find(|it| it.scope == Scope::Platform).unwrap();
        let meter = EnergyMeter::of(|| vec![Box::new(Blocking(description, blocked))]);
        assert_eq!(meter.energy(), Energy::default(), "unavailable, at once");
        release.send(()).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while meter.energy().whole.is_none() {
            assert!(Instant::now() < end, "it answered");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(meter.energy().whole, Some(Joules(5.0)), "and blocks again");
    }

    #[test]
    fn without_a_meter_energy_is_unavailable() {
        let mut meters = Meters::new(survey(&fixture("virtual-machine")).meters);
        assert_eq!(meters.read(Time::ZERO + Span::from_seconds(1.0)), Energy::default());
    }
}
