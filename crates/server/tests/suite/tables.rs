//! Tables of a profile: the search compared with exhaustive search, and files of all kinds.

use proptest::prelude::*;
use wattline_server::tables::{Conditions, EnergyOrder, Fingerprint, ProfilePoint, ProfileTables};
use wattline_units::Span;

fn conditions() -> Conditions {
    Conditions {
        version: 1,
        server: "test \"machine\"\n# of two lines".into(),
        workload: "memcached".into(),
        source: "modelled".into(),
        percentile: 95.0,
        machine: Fingerprint {
            cores: 4,
            frequencies_ghz: vec![0.8, 1.3, 1.8],
            moderation_us: [6.0, 1022.0],
            hardware: vec![
                "processor \"A\"".into(),
                "card of igb, 2 queues, each moderated".into(),
            ],
        },
        arrivals_per_request: Vec::new(),
        energy: None,
    }
}

type Cell = Option<(u8, u8)>;

/// Makes tables of three loads, three frequencies and four periods: 36 cells and three defaults.
/// The values are a few whole numbers, so that ties are common.
fn tables(cells: &[Cell], defaults: &[Cell]) -> ProfileTables {
    let periods = [6, 50, 200, 1022].map(Span::from_micros).to_vec();
    let mut tables = ProfileTables::new(conditions(), vec![10.0, 20.0, 40.0], periods).unwrap();
    for (index, cell) in cells.iter().enumerate() {
        if let Some(point) = cell.map(point) {
            tables.set(index / 12, index / 4 % 3, index % 4, point);
        }
    }
    for (load, cell) in defaults.iter().enumerate() {
        if let Some(point) = cell.map(point) {
            tables.set_default(load, point);
        }
    }
    tables
}

/// Converted from seconds, 1022 us would be 1021.9999999999999.
#[test]
fn period_is_written_as_set() {
    let mut tables = tables(&[Some((1, 1)); 36], &[]);
    tables.conditions.machine.moderation_us[1] = Span::from_micros(1022).as_seconds() * 1e6;
    let text = tables.to_text();
    assert!(text.contains(",1022,") && text.contains("[6.0, 1022.0]"), "{text}");
    assert!(!text.contains("1021.99"), "{text}");
    let mut other = conditions().machine;
    other.moderation_us = [6.0, 200.0];
    let difference = tables.conditions.machine.differs_from(&other).unwrap();
    assert!(difference.contains("[6.0, 1022.0] us"), "{difference}");
}

/// Removes the watts, as on a machine without a meter.
fn forget_watts(tables: &mut ProfileTables) {
    for index in 0..36 {
        let (load, frequency, period) = (index / 12, index / 4 % 3, index % 4);
        if let Some(point) = tables.point(load, frequency, period) {
            tables.set(load, frequency, period, ProfilePoint { power_watts: f64::NAN, ..point });
        }
    }
}

fn point((latency, power): (u8, u8)) -> ProfilePoint {
    // One point in eight is saturated.
    let latency_seconds = if latency > 7 { f64::INFINITY } else { f64::from(latency + 1) };
    ProfilePoint { latency_seconds, power_watts: f64::from(power) }
}

/// The same search in a different form: computes every point at the load, then sorts.
fn by_brute_force(
    tables: &ProfileTables,
    load: f64,
    target: f64,
    correction: f64,
) -> Option<(usize, usize)> {
    let mut all = Vec::new();
    for frequency in 0..3 {
        for period in 0..4 {
            let cell = |index: usize| tables.point(index, frequency, period);
            let at = match tables.loads().iter().position(|known| *known >= load)? {
                0 => cell(0),
                upper => match (cell(upper - 1), cell(upper)) {
                    (_, None) => None,
                    (None, above) => above,
                    (_, Some(above)) if load == tables.loads()[upper] => Some(above),
                    (Some(below), Some(above)) => {
                        let (from, to) = (tables.loads()[upper - 1], tables.loads()[upper]);
                        let part = (load - from) / (to - from);
                        let both = [below.latency_seconds, above.latency_seconds];
                        let latency = if both.iter().all(|latency| latency.is_finite()) {
                            below.latency_seconds
                                + (above.latency_seconds - below.latency_seconds) * part
                        } else {
                            f64::INFINITY
                        };
                        let power =
                            below.power_watts + (above.power_watts - below.power_watts) * part;
                        Some(ProfilePoint { latency_seconds: latency, power_watts: power })
                    }
                },
            };
            if let Some(at) = at
                && at.latency_seconds.is_finite()
                && at.latency_seconds * correction <= target
            {
                all.push((at.power_watts, at.latency_seconds, frequency, period));
            }
        }
    }
    if tables.energy_order() == Some(EnergyOrder::StateThenPeriod) {
        // The lowest state, then the longest period.
        all.sort_by_key(|(_, _, frequency, period)| (*frequency, std::cmp::Reverse(*period)));
        return all.first().map(|(_, _, frequency, period)| (*frequency, *period));
    }
    all.sort_by(|a, b| {
        let figures = a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1));
        figures.then((b.2, b.3).cmp(&(a.2, a.3)))
    });
    all.first().map(|(_, _, frequency, period)| (*frequency, *period))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn search_equals_brute_force_and_is_never_infeasible(
        cells in prop::collection::vec(prop::option::weighted(0.8, (0u8..9, 0u8..6)), 36),
        load in prop_oneof![0.0f64..60.0, Just(10.0), Just(20.0), Just(40.0)],
        target in 0u8..9,
        correction in prop_oneof![Just(1.0f64), 1.0f64..3.0],
        has_watts in any::<bool>(),
    ) {
        let mut tables = tables(&cells, &[]);
        if !has_watts {
            forget_watts(&mut tables);
        }
        let target = f64::from(target);
        let chosen = tables.choose(load, target, correction, None);
        let indices = chosen.map(|choice| (choice.frequency, choice.period));
        prop_assert_eq!(indices, by_brute_force(&tables, load, target, correction));
        if let Some(choice) = chosen {
            prop_assert!(choice.point.latency_seconds * correction <= target);
            let again =
                tables.feasible(load, target, correction, choice.frequency, choice.period);
            let latency = |point: ProfilePoint| point.latency_seconds;
            prop_assert_eq!(again.map(latency), Some(latency(choice.point)));
            prop_assert_eq!(has_watts, choice.point.power_watts.is_finite());
            prop_assert!(tables.is_near(&choice, &choice, 0.0));
        }
    }
}

proptest! {
    #[test]
    fn text_is_read_as_it_was_written(
        cells in prop::collection::vec(prop::option::of((0u8..9, 0u8..6)), 36),
        defaults in prop::collection::vec(prop::option::of((0u8..9, 0u8..6)), 3),
    ) {
        let tables = tables(&cells, &defaults);
        match ProfileTables::parse("t", &tables.to_text()) {
            Ok(read) => {
                prop_assert_eq!(read.known_points(), tables.known_points());
                prop_assert_eq!(&read.conditions, &tables.conditions);
                // Axes without a point are not written, but everything else must be equal.
                for load in [5.0, 10.0, 20.0, 33.0, 40.0] {
                    if read.loads() == tables.loads() && read.periods() == tables.periods() {
                        prop_assert_eq!(read.choose(load, 5.0, 1.0, None), tables.choose(load, 5.0, 1.0, None));
                        prop_assert_eq!(read.target(load), tables.target(load));
                    }
                }
            }
            Err(error) => {
                prop_assert_eq!(tables.known_points(), 0, "{}", error);
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}", tail in "[0-9a-z.,\\n -]{0,120}") {
        let _ = ProfileTables::parse("t", &text);
        let head = tables(&[None; 36], &[]).to_text();
        let _ = ProfileTables::parse("t", &format!("{head}{tail}"));
    }
}

#[test]
fn hostile_figures_are_named_with_their_lines() {
    let head = tables(&[None; 36], &[]).to_text();
    let lines = head.lines().count();
    let bad = "nan,1.8,6,1,1\n10,1.8,6,-1,1\n10,1.8,6,1,1e300\n10,1.7,6,5,1\n10,0.8,default,5,1\n\
               10,1.8,6,5,1\n10,1.8,6,5,1\n10,1.8,6,5\n";
    let error = ProfileTables::parse("bad.csv", &format!("{head}{bad}")).unwrap_err().to_string();
    for (offset, part) in
        [(1, "load_rps"), (2, "latency_us"), (3, "power_watts"), (8, "has 4 cells")]
    {
        let place = format!("{}", lines + offset);
        assert!(error.contains(part) && error.contains(&place), "{part} {place}: {error}");
    }
    let sound_rows = "10,1.7,6,5,1\n10,0.8,default,5,1\n10,1.8,6,5,1\n10,1.8,6,5,1\n";
    let error = ProfileTables::parse("t", &format!("{head}{sound_rows}")).unwrap_err().to_string();
    for part in ["none of the machine's frequencies", "highest frequency alone", "second time"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let error = ProfileTables::parse("t", &head.replace("version = 1", "version = 2")).unwrap_err();
    assert!(error.to_string().contains("this program reads 1"), "{error}");
}

#[test]
fn another_machine_is_distinguished() {
    let machine = conditions().machine;
    let other = Fingerprint {
        cores: 8,
        frequencies_ghz: vec![0.8, 1.3],
        moderation_us: [6.0, 200.0],
        hardware: Vec::new(),
    };
    let text = machine.differs_from(&other).unwrap();
    for part in ["4 cores, not 8", "frequencies", "moderation"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(machine.differs_from(&machine.clone()), None);
}

#[test]
fn parts_of_a_machine_identify_it() {
    let machine = conditions().machine;
    let with = |parts: &[&str]| Fingerprint {
        hardware: parts.iter().map(|part| (*part).to_owned()).collect(),
        ..conditions().machine
    };
    let [processor, card] = ["processor \"A\"", "card of igb, 2 queues, each moderated"];
    let text = machine.differs_from(&with(&["processor B", card])).unwrap();
    assert!(text.contains("processor \"A\", which is not here (processor B"), "{text}");
    let deferred = "card of igb, 2 queues, deferred by NAPI";
    assert!(
        machine.differs_from(&with(&[processor, deferred])).unwrap().contains("each moderated")
    );
    // An additional card does not make another machine, nor do tables older than this field.
    assert_eq!(machine.differs_from(&with(&[processor, "card of veth", card])), None);
    assert_eq!(with(&[]).differs_from(&machine), None);
    assert_eq!(machine.differs_from(&with(&[])), None, "a simulated machine");
}

/// The kernel measures the frequency of a machine with only one at every boot.
#[test]
fn machine_of_one_frequency_is_the_same_after_a_restart() {
    let of = |ghz: &[f64]| Fingerprint { frequencies_ghz: ghz.to_vec(), ..conditions().machine };
    assert_eq!(of(&[2.596148]).differs_from(&of(&[2.5962])), None);
    assert!(of(&[2.596148]).differs_from(&of(&[2.5])).is_some());
    // Drivers with several frequencies report exact figures; 1 MHz more stands for turbo.
    assert!(of(&[0.8, 2.1]).differs_from(&of(&[0.8, 2.101])).is_some());
}

/// A governor counts packets, while the tables are indexed by requests.
#[test]
fn packets_are_converted_to_requests_by_load() {
    let made = |arrivals_per_request: Vec<f64>| {
        let conditions = Conditions { arrivals_per_request, ..conditions() };
        ProfileTables::new(conditions, vec![10.0, 20.0, 40.0], vec![Span::from_micros(6)])
    };
    let one_each = made(Vec::new()).unwrap();
    assert_eq!([0.0, 15.0, 99.0].map(|packets| one_each.load_of(packets)), [0.0, 15.0, 99.0]);
    // 20, 30 and 44 packets a second at the profiled loads.
    let mut acknowledged = made(vec![2.0, 1.5, 1.1]).unwrap();
    for (packets, load) in [
        (0.0, 0.0),
        (10.0, 5.0),
        (20.0, 10.0),
        (25.0, 15.0),
        (30.0, 20.0),
        (37.0, 30.0),
        (88.0, 80.0),
    ] {
        let found = acknowledged.load_of(packets);
        assert!((found - load).abs() < 1e-9, "{packets}: {found}, not {load}");
    }
    // Also if noise makes more requests bring fewer packets.
    let noisy = made(vec![2.0, 0.9, 1.0]).unwrap();
    for packets in 0..200 {
        let load = noisy.load_of(f64::from(packets));
        assert!(load.is_finite() && load >= 0.0, "{packets}: {load}");
    }
    acknowledged.set(0, 0, 0, point((1, 1)));
    acknowledged.set(1, 0, 0, point((1, 1)));
    acknowledged.set(2, 0, 0, point((1, 1)));
    let text = acknowledged.to_text();
    assert!(text.contains("# arrivals_per_request = [2.0, 1.5, 1.1]"), "{text}");
    let read = ProfileTables::parse("t", &text).unwrap();
    assert_eq!((&read.conditions, read.loads()), (&acknowledged.conditions, acknowledged.loads()));
    for wrong in [vec![1.0], vec![1.0, 1.0, 0.0], vec![1.0, f64::NAN, 1.0]] {
        assert!(made(wrong).unwrap_err().contains("each of the 3 loads"));
    }
    let wrong = text.replace("[2.0, 1.5, 1.1]", "[2.0, 1.5]");
    let error = ProfileTables::parse("t", &wrong).unwrap_err().to_string();
    assert!(error.contains("each of the 3 loads"), "{error}");
}

/// Any latency would meet the infinite target of a default that did not sustain its load.
#[test]
fn target_beyond_the_last_sustained_load_of_the_default_is_that_of_this_load() {
    let target = |defaults: [Option<f64>; 3], load| {
        let mut tables = tables(&[], &[]);
        for (index, latency) in defaults.into_iter().enumerate() {
            if let Some(latency_seconds) = latency {
                tables.set_default(index, ProfilePoint { latency_seconds, power_watts: 100.0 });
            }
        }
        tables.target(load)
    };
    let saturated = [Some(1.0), Some(f64::INFINITY), Some(f64::INFINITY)];
    for load in [5.0, 10.0, 10.1, 20.0, 25.0, 40.0] {
        assert_eq!(target(saturated, load), Some(1.0), "at {load}");
    }
    assert_eq!(target(saturated, 41.0), None);
    assert_eq!(target([Some(f64::INFINITY); 3], 15.0), None);
    assert_eq!(target([Some(1.0), None, Some(3.0)], 15.0), None);
    assert_eq!(target([Some(1.0), Some(2.0), Some(f64::INFINITY)], 30.0), Some(2.0));
}
