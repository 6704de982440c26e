//! Energy that this machine has drawn since the run began, by its own meters.
//!
//! A separate thread reads the meters: an ACPI or IPMI sensor can take milliseconds to answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use wattline_governor::energy::Energy;
use wattline_linux::sysfs::Tree;
use wattline_meters::{Meter, Reading, Rejection, Scope, disjoint, survey};
use wattline_policy::PowerView;
use wattline_units::{Joules, Provenance, Span, Time, Watts};

/// RAPL does not wrap within a minute, and a platform sensor has a new value about every second.
const PERIOD: Duration = Duration::from_millis(250);

/// Time after which a sensor counts as hanging. The slowest, of IPMI, take some hundred
/// milliseconds.
const PATIENCE: Duration = Duration::from_secs(3);

/// Time limit of the search: meters found later are not promised to policies.
const SEARCH: Duration = Duration::from_secs(2);

/// Mean power between two readings.
#[derive(Debug, Default)]
pub(super) struct MeanPower {
    last: Option<(Joules, Span)>,
    view: Option<PowerView>,
}

impl MeanPower {
    /// Returns the power since the last look, or of the meters' last period if they were not read
    /// since; none while they are unavailable.
    pub fn look(&mut self, energy: &Energy) -> Option<PowerView> {
        let (Some(whole), Some(metered)) = (energy.whole, energy.metered) else {
            *self = Self::default();
            return None;
        };
        let (joules, before) = *self.last.get_or_insert((whole, metered));
        if metered > before {
            let over = metered - before;
            let watts = Watts((whole - joules).0 / over.as_seconds());
            let provenance = Provenance { source: energy.source, accuracy: energy.accuracy };
            self.view = Some(PowerView { watts, over, provenance });
            self.last = Some((whole, metered));
        }
        self.view
    }
}

/// Reads the meters until dropped.
#[derive(Debug, Default)]
pub(super) struct EnergyMeter {
    account: Arc<Mutex<Account>>,
}

/// Results of the reading thread.
#[derive(Debug, Default)]
struct Account {
    energy: Energy,
    /// Sensor being read, and since when.
    asked: Option<(String, Instant)>,
    /// By meter: fault of the last reading, if any.
    sensors: BTreeMap<String, Option<String>>,
    /// Number of meters, once known.
    found: Option<usize>,
}

impl Account {
    /// Returns the sensor that does not answer.
    fn hangs(&self) -> Option<&str> {
        let (sensor, since) = self.asked.as_ref()?;
        (since.elapsed() > PATIENCE).then_some(sensor)
    }
}

impl EnergyMeter {
    /// Starts reading; energy is unavailable without a meter. The search for meters already reads
    /// their sensors, and one that blocks must not delay the router's start.
    pub fn start(tree: &Tree) -> Self {
        let tree = tree.clone();
        Self::start_with(move || survey(&tree).meters)
    }

    fn start_with(find: impl FnOnce() -> Vec<Box<dyn Meter>> + Send + 'static) -> Self {
        let account: Arc<Mutex<Account>> = Arc::default();
        let watched = Arc::downgrade(&account);
        let look = move || {
            ask(&watched, "looking for meters");
            let meters = Meters::new(find());
            note(&watched, |account| {
                (account.asked, account.found) = (None, Some(meters.all.len()))
            });
            if !meters.all.is_empty() {
                read(meters, &watched);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("meters".into()).spawn(look) {
            tracing::warn!("governor: cannot start the thread that reads the meters: {error}");
        }
        Self { account }
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if there is a meter; waits a moment for the search. A meter that answers later
    /// still provides energy, but is not promised to policies.
    pub fn is_there(&self) -> bool {
        let began = Instant::now();
        loop {
            match self.account().found {
                Some(found) => return found > 0,
                None if began.elapsed() > SEARCH => return false,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Returns energy up to the last reading; unavailable while a sensor hangs.
    pub fn energy(&self) -> Energy {
        let account = self.account();
        account.hangs().map_or_else(|| account.energy.clone(), |_| Energy::default())
    }

    /// Lists the meters' faults now.
    pub fn troubles(&self) -> Vec<String> {
        let account = self.account();
        let hangs = account.hangs().map(|sensor| {
            let seconds = PATIENCE.as_secs();
            format!("{sensor}: no answer for {seconds} s; energy is unavailable until it comes")
        });
        let wrong = account.sensors.iter();
        let wrong = wrong.filter_map(|(id, why)| Some(format!("meter {id}: {}", why.as_ref()?)));
        hangs.into_iter().chain(wrong).collect()
    }

    /// Returns each meter, with true if its last reading gave a figure.
    pub fn sensors(&self) -> BTreeMap<String, bool> {
        let account = self.account();
        let hangs = |id: &str| account.hangs().is_some_and(|sensor| sensor == meter(id));
        let sensors = account.sensors.iter();
        sensors.map(|(id, why)| (id.clone(), why.is_none() && !hangs(id))).collect()
    }
}

fn meter(id: &str) -> String {
    format!("meter {id}")
}

/// Notes in the account, unless its owner has been dropped.
fn note(watched: &Weak<Mutex<Account>>, note: impl FnOnce(&mut Account)) -> bool {
    let account = watched.upgrade();
    let noted = account.map(|it| note(&mut it.lock().unwrap_or_else(PoisonError::into_inner)));
    noted.is_some()
}

fn ask(watched: &Weak<Mutex<Account>>, sensor: &str) {
    let asked = Some((sensor.to_owned(), Instant::now()));
    note(watched, |account| account.asked = asked);
}

fn read(mut meters: Meters, watched: &Weak<Mutex<Account>>) {
    let began = Instant::now();
    loop {
        let now = Time::ZERO + Span::from(began.elapsed());
        let energy = meters.read(now, |id| ask(watched, &meter(id)));
        let sensors = meters.sensors();
        let wanted = note(watched, |account| {
            *account = Account { energy, asked: None, sensors, found: account.found };
        });
        if !wanted {
            return;
        }
        std::thread::sleep(PERIOD);
    }
}

/// Non-overlapping meters, and parts that are shown separately.
struct Meters {
    all: Vec<Metered>,
    /// Time in which all meters of the whole gave figures.
    metered: Span,
}

struct Metered {
    meter: Box<dyn Meter>,
    /// True if it counts for the whole.
    whole: bool,
    label: &'static str,
    drawn: Joules,
    /// Energy that is not in `drawn` yet, and the time that it took.
    pending: (Joules, Span),
    /// Time without figures, up to the last one.
    unmetered: Span,
    /// Time of its last figure.
    last: Option<Time>,
    /// True if a reading was rejected since then.
    rejected: bool,
    /// Its rejection, if any.
    wrong: Option<Rejection>,
}

impl Metered {
    /// Takes a reading.
    fn add(&mut self, now: Time, reading: &Reading) {
        self.pending.0 += reading.energy.unwrap_or(reading.power * reading.elapsed);
        self.pending.1 += reading.elapsed;
        // A counter read again may cover the time of rejected readings.
        if let Some(last) = self.last.replace(now).filter(|_| self.rejected) {
            self.unmetered += now.since(last) - reading.elapsed;
        }
        self.rejected = false;
    }

    /// Moves this much of the pending time into the account, at its mean power.
    fn settle(&mut self, time: Span) {
        let (joules, elapsed) = std::mem::take(&mut self.pending);
        if elapsed > Span::ZERO {
            self.drawn += Joules(joules.0 * (time.as_seconds() / elapsed.as_seconds()));
        }
    }

    /// Returns the time without figures, up to now.
    fn unmetered(&self, now: Time) -> Span {
        let open = self.last.filter(|_| self.rejected).map_or(Span::ZERO, |last| now.since(last));
        self.unmetered + open
    }

    /// Returns true if there is a figure and the time without one is short.
    fn is_valid(&self, now: Time) -> bool {
        self.last.is_some_and(|last| !self.rejected || now.since(last) <= Span::from(PATIENCE))
    }
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
            // Parts are packages and memory: cores lie within the first, devices next to them.
            let label = match description.scope {
                Scope::Package => "package",
                Scope::Memory => "memory",
                Scope::Platform => "platform",
                Scope::Cores | Scope::Uncore | Scope::Device => return None,
            };
            // A duplicate belongs to the first meter of the same thing; a meter within the platform
            // is a part of it.
            let own = description.part_of.as_ref().is_none_or(|whole| platforms.contains(whole));
            let part = label != "platform" && own;
            (whole || part).then_some(Metered {
                meter,
                whole,
                label,
                drawn: Joules(0.0),
                pending: (Joules(0.0), Span::ZERO),
                unmetered: Span::ZERO,
                last: None,
                rejected: false,
                wrong: None,
            })
        };
        Self { all: meters.into_iter().filter_map(one).collect(), metered: Span::ZERO }
    }

    /// Lists their rejections.
    fn sensors(&self) -> BTreeMap<String, Option<String>> {
        let why = |one: &Metered| one.wrong.as_ref().map(ToString::to_string);
        self.all.iter().map(|one| (one.meter.description().id.clone(), why(one))).collect()
    }

    /// Moves into the account what is known for all meters of the whole. A meter that was
    /// unavailable has figures for less time than the others; their energy of the remaining time is
    /// not part of the sum.
    fn settle(&mut self) {
        let whole = self.all.iter().filter(|one| one.whole);
        let common = whole.map(|one| one.pending.1).min().unwrap_or(Span::ZERO);
        self.metered += common;
        for one in &mut self.all {
            if !one.whole {
                one.settle(one.pending.1);
            } else if common > Span::ZERO {
                one.settle(common);
            }
        }
    }

    /// Reads them all; calls `asks` before each.
    fn read(&mut self, now: Time, asks: impl Fn(&str)) -> Energy {
        for one in &mut self.all {
            asks(&one.meter.description().id);
            match one.meter.read(now) {
                Ok(reading) => {
                    one.add(now, &reading);
                    let mistakes = one.meter.mistakes();
                    one.wrong = (!mistakes.is_empty()).then_some(Rejection::BadLines(mistakes));
                }
                Err(Rejection::First | Rejection::NothingNew) => {}
                Err(rejection) => {
                    one.rejected = true;
                    // Reported once for each kind of failure: the figures in it change all the
                    // time.
                    if one.wrong.as_ref().is_none_or(|last| last.name() != rejection.name()) {
                        one.wrong = Some(rejection);
                    }
                }
            }
        }
        self.settle();
        let whole: Vec<&Metered> = self.all.iter().filter(|one| one.whole).collect();
        if whole.is_empty() || !whole.iter().all(|one| one.is_valid(now)) {
            return Energy::default();
        }
        let mut parts: BTreeMap<&'static str, Joules> = BTreeMap::new();
        for one in self.all.iter().filter(|one| one.is_valid(now) && one.label != "platform") {
            *parts.entry(one.label).or_insert(Joules(0.0)) += one.drawn;
        }
        let provenances = || whole.iter().map(|one| one.meter.description().provenance);
        // As accurate as the worst of them.
        let accuracy = provenances().map(|p| p.accuracy).max();
        let Some(first) = provenances().next() else { return Energy::default() };
        let accuracy = accuracy.unwrap_or(first.accuracy);
        let sum = whole.iter().map(|one| one.drawn).sum();
        let unmetered = whole.iter().map(|one| one.unmetered(now)).max().unwrap_or(Span::ZERO);
        let energy = Energy::new(sum, parts, Provenance { accuracy, ..first });
        Energy { metered: Some(self.metered), unmetered, ..energy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use wattline_needs::until;

    fn fixture(name: &str) -> Tree {
        Tree::at(Path::new(env!("CARGO_MANIFEST_DIR")).join("../meters/tests/fixtures").join(name))
    }

    #[test]
    fn a_platform_meter_is_integrated_over_true_time() {
        let mut meters = Meters::new(survey(&fixture("acpi-power-meter")).meters);
        meters.read(Time::ZERO, |_| {});
        let early = meters.read(Time::ZERO + Span::from_seconds(1.0), |_| {});
        let late = meters.read(Time::ZERO + Span::from_seconds(3.0), |_| {});
        let drawn = late.since(&early).whole.unwrap();
        let watts = drawn / Span::from_seconds(2.0);
        assert!(watts.get() > 1.0, "{watts}");
        // The energy belongs to the time up to the last reading, not up to now.
        assert_eq!(late.since(&early).metered, Some(Span::from_seconds(2.0)));
        assert_eq!(late.source, wattline_units::Source::Measured);
    }

    #[test]
    fn mean_power_covers_the_last_period_and_names_its_source() {
        let mut meters = Meters::new(survey(&fixture("acpi-power-meter")).meters);
        let mut at = |seconds| meters.read(Time::ZERO + Span::from_seconds(seconds), |_| {});
        let (first, second, third) = (at(0.0), at(1.0), at(3.0));
        let mut power = MeanPower::default();
        assert_eq!(power.look(&first), None, "no period yet");
        assert_eq!(power.look(&first), None);
        let seen = power.look(&second).unwrap();
        assert_eq!(seen.over, Span::from_seconds(1.0));
        let watts = second.since(&first).whole.unwrap() / seen.over;
        assert!((seen.watts.get() - watts.get()).abs() < 1e-9 && watts.get() > 1.0);
        assert_eq!(seen.provenance.source, wattline_units::Source::Measured);
        assert_eq!(power.look(&second), Some(seen), "not read meanwhile: the same period");
        assert_eq!(power.look(&third).unwrap().over, Span::from_seconds(2.0));
        assert_eq!(power.look(&Energy::default()), None, "unavailable is not 0 W");
        assert_eq!(power.look(&third), None, "a new gap begins");
    }

    #[test]
    fn meters_are_promised_if_found() {
        assert!(EnergyMeter::start(&fixture("acpi-power-meter")).is_there());
        let nothing = tempfile::tempdir().unwrap();
        assert!(!EnergyMeter::start(&Tree::at(nothing.path())).is_there());
    }

    /// A sensor with scripted answers, a second apart.
    struct Scripted(wattline_meters::Description, std::vec::IntoIter<Result<f64, Rejection>>);

    impl Meter for Scripted {
        fn description(&self) -> &wattline_meters::Description {
            &self.0
        }
        fn read(&mut self, _: Time) -> Result<Reading, Rejection> {
            let elapsed = self.1.next().unwrap_or(Err(Rejection::Sentinel { value: -1 }))?;
            let provenance = self.0.provenance;
            let (power, elapsed) = (wattline_units::Watts(100.0), Span::from_seconds(elapsed));
            Ok(Reading { energy: None, elapsed, power, provenance })
        }
    }

    #[test]
    fn time_without_a_figure_is_reported_and_a_single_bad_reading_costs_nothing() {
        let found = survey(&fixture("acpi-power-meter")).meters;
        let platform = found.iter().map(|meter| meter.description().clone());
        let description = platform.into_iter().find(|it| it.scope == Scope::Platform).unwrap();
        let bad = || Err(Rejection::Sentinel { value: -1 });
        // At 3 s the time since 2 s is lost; at 6 s the counter covers the reading rejected at 5 s.
        let readings = [Err(Rejection::First), Ok(1.0), bad(), Ok(1.0), Ok(1.0), bad(), Ok(2.0)];
        let script = Scripted(description, Vec::from(readings).into_iter());
        let mut meters = Meters::new(vec![Box::new(script)]);
        let mut at = |seconds: f64| {
            let energy = meters.read(Time::ZERO + Span::from_seconds(seconds), |_| {});
            let whole = energy.whole.map(|whole| whole.get());
            (whole, energy.metered.map(Span::as_seconds), energy.unmetered.as_seconds())
        };
        assert_eq!(at(0.0), (None, None, 0.0));
        assert_eq!(at(1.0), (Some(100.0), Some(1.0), 0.0));
        assert_eq!(at(2.0), (Some(100.0), Some(1.0), 1.0), "the account goes on");
        assert_eq!(at(3.0), (Some(200.0), Some(2.0), 1.0));
        assert_eq!(at(4.0), (Some(300.0), Some(3.0), 1.0));
        assert_eq!(at(5.0), (Some(300.0), Some(3.0), 2.0));
        assert_eq!(at(6.0), (Some(500.0), Some(5.0), 1.0), "covered after all");
        assert_eq!(at(7.0).0, Some(500.0));
        assert_eq!(at(9.5), (None, None, 0.0), "nothing for longer than a moment");
    }

    /// Two supplies share the load; for ten of forty seconds one of them shows nothing.
    #[test]
    fn unavailable_supply_does_not_change_the_mean_power() {
        let found = survey(&fixture("two-supplies")).meters;
        let all: Vec<_> = found.iter().map(|meter| meter.description().clone()).collect();
        let bad = || Err(Rejection::Sentinel { value: -1 });
        let script = |number: usize| {
            let reading = |second: usize| match second {
                0 => Err(Rejection::First),
                // Two seconds are a moment: an unavailable whole would hide the rest.
                second if number == 1 && second % 4 >= 2 => bad(),
                _ => Ok(1.0),
            };
            let script: Vec<_> = (0..40).map(reading).collect();
            let ids = disjoint(&all);
            Box::new(Scripted(ids[number].clone(), script.into_iter())) as Box<dyn Meter>
        };
        let mut meters = Meters::new(vec![script(0), script(1)]);
        let mut last = Energy::default();
        for second in 0..40 {
            last = meters.read(Time::ZERO + Span::from_seconds(f64::from(second)), |_| {});
        }
        let watts = last.whole.unwrap() / last.metered.unwrap();
        assert!((watts.get() - 200.0).abs() < 1e-6, "{watts} {last:?}");
        assert!(last.metered.unwrap() < Span::from_seconds(25.0), "{last:?}");
    }

    /// A sensor that blocks until the test lets it answer.
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
    fn blocking_sensor_delays_no_reader() {
        let (release, blocked) = std::sync::mpsc::channel();
        let found = survey(&fixture("acpi-power-meter")).meters;
        let platform = found.iter().map(|meter| meter.description().clone());
        let description = platform.into_iter().find(|it| it.scope == Scope::Platform).unwrap();
        let id = description.id.clone();
        let meter = EnergyMeter::start_with(|| vec![Box::new(Blocking(description, blocked))]);
        assert_eq!(meter.energy(), Energy::default(), "unavailable, at once");
        release.send(()).unwrap();
        until("it answered", || meter.energy().whole == Some(Joules(5.0)));
        // It blocks again, and is named for it.
        until("it is named", || !meter.troubles().is_empty());
        let troubles = meter.troubles();
        assert!(troubles[0].starts_with(&format!("meter {id}: no answer")), "{troubles:?}");
        assert_eq!(meter.energy(), Energy::default(), "energy drawn before is not counted");
        assert_eq!(meter.sensors(), BTreeMap::from([(id, false)]));
        release.send(()).unwrap();
        until("it answers again", || meter.energy().whole == Some(Joules(10.0)));
        assert!(meter.troubles().is_empty());
    }

    /// A pipe without a writer in place of a sensor's file does not block any reader.
    #[test]
    fn a_pipe_in_the_place_of_a_sensor_is_named() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::at(root.path());
        let file = |name: &str| tree.path(format!("/sys/class/hwmon/hwmon0/{name}"));
        std::fs::create_dir_all(file("")).unwrap();
        std::fs::write(file("name"), "power_meter\n").unwrap();
        std::fs::write(file("power1_average"), "120000000\n").unwrap();
        let mut meters = Meters::new(survey(&tree).meters);
        std::fs::remove_file(file("power1_average")).unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, file("power1_average"), mode).unwrap();
        for seconds in [0.0, 1.0] {
            let energy = meters.read(Time::ZERO + Span::from_seconds(seconds), |_| {});
            assert_eq!(energy, Energy::default());
        }
        let sensors = meters.sensors();
        assert!(sensors.len() == 1 && sensors.values().all(Option::is_some), "{sensors:?}");
    }

    #[test]
    fn without_a_meter_energy_is_unavailable() {
        let mut meters = Meters::new(survey(&fixture("virtual-machine")).meters);
        assert_eq!(meters.read(Time::ZERO + Span::from_seconds(1.0), |_| {}), Energy::default());
    }
}
