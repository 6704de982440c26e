//! External meters: files that grow, pipes, and invalid lines.

use std::fs::File;
use std::io::Write;
use wattline_meters::external::{External, ExternalError, Options};
use wattline_meters::{Meter, Rejection};
use wattline_units::{Accuracy, Joules, Span, Time, Watts};

fn at(seconds: f64) -> Time {
    Time::ZERO + Span::from_seconds(seconds)
}

struct Log {
    _directory: tempfile::TempDir,
    path: std::path::PathBuf,
    file: File,
}

fn log(head: &str) -> Log {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("meter.csv");
    let mut file = File::create(&path).unwrap();
    file.write_all(head.as_bytes()).unwrap();
    Log { _directory: directory, path, file }
}

#[test]
fn energy_is_the_integral_over_the_meters_own_time() {
    let mut log = log("time,watts\n100.0,50\n");
    let options = Options { accuracy: Accuracy::Gold, ..Options::default() };
    let mut meter = External::open(&log.path, options).unwrap();
    // The last line is not finished: it waits.
    write!(log.file, "101.0,70\n103.0,70\n104.0,1").unwrap();
    let reading = meter.read(at(0.0)).unwrap();
    assert_eq!(reading.energy, Some(Joules(60.0 + 140.0)));
    assert_eq!(reading.elapsed, Span::from_seconds(3.0));
    assert_eq!(reading.provenance.accuracy, Accuracy::Gold);
    writeln!(log.file, "30").unwrap();
    assert_eq!(meter.read(at(0.1)).unwrap().power, Watts(100.0));
    assert_eq!(meter.read(at(0.2)), Err(Rejection::NothingNew));
    assert_eq!(meter.read(at(60.1)), Err(Rejection::Silent(Span::from_millis(60_000))));
}

#[test]
fn a_shunt_and_a_clamp_give_the_same_watts() {
    let mut shunt = log("Time, Volts, Shunt_Volts\n");
    let options = Options { shunt_ohms: Some(0.01), ..Options::default() };
    let mut by_shunt = External::open(&shunt.path, options).unwrap();
    write!(shunt.file, "0,12,0.05\n1,12,0.05\n").unwrap();
    let mut clamp = log("volts,time,amperes\n");
    let mut by_clamp = External::open(&clamp.path, Options::default()).unwrap();
    write!(clamp.file, "12,0,5\n12,1,5\n").unwrap();
    let (one, other) = (by_shunt.read(at(1.0)).unwrap(), by_clamp.read(at(1.0)).unwrap());
    assert!((one.power.get() - 60.0).abs() < 1e-9, "{}", one.power);
    assert_eq!(other.power, Watts(60.0));
}

#[test]
fn columns_without_power_are_refused_with_the_needed_ones() {
    for head in ["volts,amperes\n", "time,volts,shunt_volts\n", "nonsense\n"] {
        let log = log(head);
        let error = External::open(&log.path, Options::default()).unwrap_err();
        assert!(matches!(error, ExternalError::Columns { .. }), "{error}");
        assert!(error.to_string().contains("resistance"), "{error}");
    }
    let missing = External::open(std::path::Path::new("/no/meter"), Options::default());
    assert!(matches!(missing, Err(ExternalError::Open(_))));
}

#[test]
fn all_bad_lines_are_named_at_once_and_cost_none_of_their_neighbours() {
    let mut log = log("time,watts\n0,10\n");
    let mut meter = External::open(&log.path, Options::default()).unwrap();
    write!(log.file, "1,ten\n0.5,-1\n2\n0,10\n3,NaN\n4,20\n").unwrap();
    let reading = meter.read(at(0.0)).unwrap();
    assert_eq!(reading.energy, Some(Joules(60.0)), "as a line from sample to sample");
    assert_eq!(reading.elapsed, Span::from_seconds(4.0));
    let lines = meter.mistakes();
    assert_eq!(lines.len(), 5, "{lines:#?}");
    assert!(lines[0].ends_with("line 3: watts is \"ten\", expected a number"), "{}", lines[0]);
    assert!(lines[3].ends_with("time 0 is not after 0 of the line before"), "{}", lines[3]);
    assert_eq!(meter.mistakes(), Vec::<String>::new(), "reported once");
    writeln!(log.file, "5,20\n6,x").unwrap();
    assert_eq!(meter.read(at(1.0)).unwrap().energy, Some(Joules(20.0)));
    assert_eq!(meter.mistakes().len(), 1);
    // Only mistakes: no figure, and the next one covers the time.
    writeln!(log.file, "7,y").unwrap();
    let Err(Rejection::BadLines(lines)) = meter.read(at(2.0)) else { panic!() };
    assert_eq!(lines.len(), 1, "{lines:#?}");
    writeln!(log.file, "8,20").unwrap();
    let reading = meter.read(at(3.0)).unwrap();
    assert_eq!((reading.energy, reading.elapsed), (Some(Joules(60.0)), Span::from_seconds(3.0)));
    assert_eq!(meter.mistakes(), Vec::<String>::new());
}

#[test]
fn truncated_file_and_pipe_without_a_writer_are_survived() {
    let log = log("time,watts\n0,10\n");
    let mut meter = External::open(&log.path, Options::default()).unwrap();
    log.file.set_len(0).unwrap();
    assert_eq!(meter.read(at(0.0)).unwrap_err().name(), "unreadable");

    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    let mut meter = External::open(&pipe, Options::default()).unwrap();
    assert_eq!(meter.read(at(0.0)), Err(Rejection::NothingNew));
    let mut writer = File::options().write(true).open(&pipe).unwrap();
    write!(writer, "time,watts\n0,10\n2,20\n").unwrap();
    assert_eq!(meter.read(at(1.0)).unwrap().energy, Some(Joules(30.0)));
}

/// Lines with impossible times or powers give no figure, and the reason is reported.
#[test]
fn implausible_samples_are_not_measured() {
    for (line, reason) in [
        ("1e308,100", "expected seconds"),
        ("-1e308,100", "expected seconds"),
        ("1e12,100", "expected seconds"),
        ("inf,100", "expected a number"),
        ("NaN,100", "expected a number"),
        ("5e-324,100", "is not after"),
        ("1e-9,100", "is not after"),
        ("0,100", "is not after"),
        ("-5,100", "is not after"),
        ("1e10,100", "energy in between is not known"),
        ("-1e10,100", "energy in between is not known"),
        ("1,1e300", "not plausible"),
        ("1,-1", "not plausible"),
        ("1,1e999", "expected a number"),
        ("1,NaN", "expected a number"),
    ] {
        let mut log = log("time,watts\n0,100\n");
        let mut meter = External::open(&log.path, Options::default()).unwrap();
        writeln!(log.file, "{line}").unwrap();
        match meter.read(at(1.0)) {
            Err(Rejection::BadLines(lines)) => {
                assert!(lines[0].contains(reason), "{line}: {lines:?}");
            }
            other => panic!("{line}: {other:?}"),
        }
    }
}

#[test]
fn jump_of_the_meters_clock_costs_one_interval() {
    let mut log = log("time,watts\n0,100\n");
    let mut meter = External::open(&log.path, Options::default()).unwrap();
    for (line, energy) in
        [("1", 100.0), ("1e9", 0.0), ("1000000001", 100.0), ("5", 0.0), ("7", 200.0)]
    {
        writeln!(log.file, "{line},100").unwrap();
        let read = meter.read(at(1.0));
        let found = read.as_ref().map_or(0.0, |reading| reading.energy.unwrap().get());
        assert!((found - energy).abs() < 1e-3, "{line}: {read:?}");
    }
}

proptest::proptest! {
    #[test]
    fn every_figure_is_finite_and_plausible(
        samples in proptest::collection::vec((proptest::num::f64::ANY, proptest::num::f64::ANY), 1..20),
        steps in proptest::collection::vec((1e-9..1e4f64, -1.0..2e5f64), 1..20),
    ) {
        let mut log = log("time,watts\n");
        let mut meter = External::open(&log.path, Options::default()).unwrap();
        let mut time = 0.0;
        let steps = steps.into_iter().map(|(step, watts)| { time += step; (time, watts) });
        for (time, watts) in samples.into_iter().chain(steps) {
            writeln!(log.file, "{time},{watts}").unwrap();
            if let Ok(reading) = meter.read(at(1.0)) {
                proptest::prop_assert!((0.0..=100_000.0).contains(&reading.power.get()));
                proptest::prop_assert!(reading.energy.is_some_and(|it| it.get().is_finite()));
                proptest::prop_assert!(reading.elapsed > Span::ZERO);
            }
        }
    }
}
