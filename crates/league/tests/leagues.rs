//! Small leagues, with and without tuned rivals: the results are the same on one thread, on two,
//! and resumed from stored pieces.

use std::time::Duration;
use wattline_league::{
    Arrivals, Budget, Case, Plan, Results, Store, league, page, plan, play_policy, standings,
};
use wattline_traffic::capture::{LinkType, Resolution, Writer};
use wattline_units::Span;

const SMALL: &str = r#"
servers = ["westmere-2010"]
policies = ["wattline:p99={p99}", "napi", "poll"]
traffics = ["poisson:2Mpps,size=64", "flash:2Mpps,size=64,period=8ms"]
budgets = ["100us"]
seeds = [1, 2]
duration = "10ms"
warmup = "5ms"
"#;

/// A capture is identified by its contents, not by its name.
#[test]
fn changed_capture_is_played_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("capture.pcap");
    let write = |payload: u16| {
        let mut frame = [0; 60];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14..18].copy_from_slice(&[0x45, 0, 0, 46]);
        frame[23] = 17;
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        frame[34..36].copy_from_slice(&payload.to_be_bytes());
        let mut writer = Writer::create(&file, LinkType::ETHERNET, Resolution::Micros).unwrap();
        for micros in 0..100 {
            writer.write(Duration::from_micros(micros), &frame).unwrap();
        }
        writer.finish().unwrap();
    };
    write(1);
    let replayed = format!("capture:{},rate=1Mpps,loop=true", file.display());
    let sizes = format!("poisson:1Mpps,size={}", file.display());
    let small = SMALL.replace("flash:2Mpps,size=64,period=8ms", &sizes);
    let plan = Plan::parse("small", &small.replace("poisson:2Mpps,size=64", &replayed)).unwrap();
    let store = Store::new(Some(directory.path().join("pieces"))).unwrap();
    league::play(&plan, &store, 2, || {}).unwrap();
    assert_eq!(league::kept(&plan, &store).unwrap(), league::pieces(&plan));
    write(2);
    assert_eq!(league::kept(&plan, &store).unwrap(), 0);
    write(1);
    assert_eq!(league::kept(&plan, &store).unwrap(), league::pieces(&plan));
}

#[test]
fn results_are_the_same_on_one_thread_on_two_and_from_stored_pieces() {
    let plan = Plan::parse("small", SMALL).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let store = Store::new(Some(directory.path().join("pieces"))).unwrap();
    let one = league::play(&plan, &Store::new(None).unwrap(), 1, || {}).unwrap();
    let two = league::play(&plan, &store, 2, || {}).unwrap();
    assert_eq!(one, two);
    let files = std::fs::read_dir(directory.path().join("pieces")).unwrap().count();
    assert_eq!(files, league::pieces(&plan));
    assert_eq!(league::kept(&plan, &store).unwrap(), files);
    assert_eq!(league::kept(&plan, &Store::new(None).unwrap()).unwrap(), 0);
    // The second time nothing is played: all results come from the files.
    let before = std::time::Instant::now();
    assert_eq!(league::play(&plan, &store, 2, || {}).unwrap(), two);
    println!("resumed in {:?}", before.elapsed());
    assert_eq!((one.rows.len(), one.envelopes.len()), (12, 4));
    for row in one.rows.iter().filter(|row| row.feasible) {
        assert!(row.gap_to_lower_bound.unwrap() >= 0.0, "{row:?}");
    }
    for row in &one.envelopes {
        let envelope = &row.envelope;
        let found = envelope.feasible_joules.unwrap();
        assert!(envelope.lower_bound_joules.unwrap() <= found, "{row:?}");
        assert!(found <= envelope.static_best_joules.unwrap(), "{row:?}");
    }
    let standings = standings(&one);
    assert_eq!(standings.len(), 6);
    assert!(standings.iter().all(|row| row.seeds == 2 && row.gap_within.is_finite()));
    let first = standings.iter().find(|row| row.policy.starts_with("wattline")).unwrap();
    assert_eq!((first.beside_first, first.beside_first_within), (0.0, 0.0));
    let page = page(&plan, &one, "wattline league <file>").end();
    assert!(page.contains("<svg") && page.matches("wattline:p99=100us").count() >= 3);
    for said in [
        "<h1>League of governors: energy above the lower bound</h1>",
        "kinds of traffic within 100 us",
        "seeds 1, 2; each run counts 10 ms after 5 ms of warm-up",
        "<th scope=\"col\">gap %</th>",
        "<th scope=\"col\">budget</th>",
        "Again: <code>wattline league &lt;file&gt;</code>",
    ] {
        assert!(page.contains(said), "{said}");
    }
    let server = "<th scope=\"col\">server</th>";
    assert_eq!(page.matches("<div class=\"multiples\">").count(), 1, "a grid for one budget");
    assert_eq!(page.matches("data-title=\"poisson:2Mpps,size=64\"").count(), 1);
    assert!(!page.contains("p99 ") && !page.contains(server), "one server needs no column");
}

/// `napi` with all cores costs most, and with one it loses packets at the higher rate.
const TUNED: &str = r#"
servers = ["westmere-2010"]
policies = ["wattline:p99={p99}"]
traffics = ["poisson:1Mpps,size=64", "poisson:8Mpps,size=64"]
budgets = ["40us", "200us"]
seeds = [1, 2]
duration = "6ms"
warmup = "2ms"
envelope = false

[tuning]
seeds = [11, 12]
duration = "4ms"
grids = ["napi:cores=12|1|4|6,frequency_ghz=3.33|1.6", "ovs-sleep:cores=1", "ovs-sleep:cores=12,max=50us|10us"]

[tuning.traffics]
"poisson:8Mpps,size=64" = "poisson:9Mpps,size=64"
"#;

#[test]
fn tuned_rivals_are_the_same_on_one_thread_on_two_and_after_an_interruption() {
    let plan = Plan::parse("tuned", TUNED).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let pieces = directory.path().join("pieces");
    let store = Store::new(Some(pieces.clone())).unwrap();
    let one = league::play(&plan, &Store::new(None).unwrap(), 1, || {}).unwrap();
    let two = league::play(&plan, &store, 2, || {}).unwrap();
    assert_eq!(one, two);
    // Removes every other file, as if the league had been killed midway.
    let files = || {
        let files = std::fs::read_dir(&pieces).unwrap().map(|file| file.unwrap().path());
        let mut files: Vec<_> = files.collect();
        files.sort();
        files
    };
    let all = files();
    for file in all.iter().step_by(2) {
        std::fs::remove_file(file).unwrap();
    }
    let before = league::kept(&plan, &store).unwrap();
    assert!(before < league::pieces(&plan), "{before}");
    assert_eq!(files().len(), all.len() / 2, "counting plays nothing");
    assert_eq!(league::play(&plan, &store, 2, || {}).unwrap(), one);
    assert_eq!(files(), all, "the same runs again, and no others");
    assert_eq!(league::kept(&plan, &store).unwrap(), league::pieces(&plan));
}

/// Returns the energy of a run of this setting, and its share of late packets if it missed the
/// budget.
fn tried(plan: &Plan, text: &str, traffic: &str, budget: Span, seed: u64) -> (f64, f64, bool) {
    let tuning = plan.tuning.as_ref().unwrap();
    let number = plan.traffics.iter().position(|(known, _)| known == traffic).unwrap();
    let case = Case {
        server: &plan.servers[0],
        application: plan.application,
        traffic: &tuning.traffics[number].1,
        duration: tuning.duration,
        warmup: plan.warmup,
        seed,
    };
    let arrivals = Arrivals::of(&case, Span::from_micros(1)).unwrap();
    let policy = plan::policy(text, budget).unwrap();
    let played = play_policy(&case, &policy, Budget::p99(budget), &arrivals).unwrap();
    (played.energy_joules, played.late_fraction, played.feasible)
}

/// Checks the choice by trying every setting on every seed, budget by budget, through another entry
/// point of the simulator.
fn check_against_trying_all(plan: &Plan, results: &Results) {
    let tuning = plan.tuning.as_ref().unwrap();
    for row in &results.tunings {
        let budget = Span::from_seconds(row.budget_seconds);
        let contender = tuning.contenders.iter().find(|known| known.name == row.contender).unwrap();
        let mut best: Option<(bool, f64, &String)> = None;
        for setting in &contender.settings {
            let of = |seed: &u64| tried(plan, setting, &row.traffic, budget, *seed);
            let runs: Vec<_> = tuning.seeds.iter().map(of).collect();
            let missed = !runs.iter().all(|(.., feasible)| *feasible);
            let energy = runs.iter().map(|(energy, ..)| energy).sum::<f64>();
            let worst = runs.iter().map(|(_, late, _)| *late).fold(0.0, f64::max);
            let found = (missed, if missed { worst } else { energy }, setting);
            if best.is_none_or(|best| (found.0, found.1) < (best.0, best.1)) {
                best = Some(found);
            }
        }
        let (missed, _, setting) = best.unwrap();
        assert_eq!((row.kept, &row.policy), (!missed, setting), "{row:?}");
        assert_eq!(row.settings, contender.settings.len());
    }
}

#[test]
fn tuned_rival_is_one_contender_with_the_setting_of_trying_all() {
    let plan = Plan::parse("tuned", TUNED).unwrap();
    let results = league::play(&plan, &Store::new(None).unwrap(), 0, || {}).unwrap();
    assert_eq!((results.rows.len(), results.envelopes.len()), (24, 0));
    assert_eq!(results.tunings.len(), 8);
    check_against_trying_all(&plan, &results);
    let settings: std::collections::BTreeSet<_> =
        results.tunings.iter().map(|row| &row.policy).collect();
    assert!(settings.len() > 2, "settings differ between kinds: {settings:?}");
    for row in &results.rows {
        assert_eq!(row.tuned, row.contender.ends_with(", tuned"), "{row:?}");
        assert!(row.tuned || row.contender == row.policy, "{row:?}");
        assert_eq!(row.gap_to_lower_bound, None);
    }
    let standings = standings(&results);
    assert_eq!(standings.len(), 2 * 2 * 3, "one row for each contender, traffic and budget");
    for row in &standings {
        assert_eq!(row.seeds, 2);
        assert!(row.beside_first.is_finite() && row.beside_first_within.is_finite(), "{row:?}");
    }
    let page = page(&plan, &results, "wattline league").end();
    assert!(
        page.contains("napi, tuned")
            && page.contains("<svg")
            && page.contains("relative to the first")
    );
    assert!(standings.iter().all(|row| page.contains(&row.setting)));
    assert!(!page.contains("Yardsticks"));
    assert!(page.contains("<h1>League of governors: energy relative to the first policy</h1>"));
    assert!(page.contains("tuned on seeds 11, 12 in trials of 4 ms"));
    for column in ["gap %", "above base %", "server"] {
        assert!(!page.contains(&format!("<th scope=\"col\">{column}</th>")), "{column}");
    }
}

#[test]
fn seed_of_the_league_is_refused_for_tuning() {
    let text = TUNED.replace("seeds = [11, 12]", "seeds = [11, 2]");
    let error = Plan::parse("x.toml", &text).unwrap_err().to_string();
    assert!(
        error.starts_with("league x.toml: tuning.seeds: 2 is among the league's seeds"),
        "{error}"
    );
    let text = format!("{TUNED}\n[tuning.durations]\n\"day\" = \"1s\"\n");
    let error = Plan::parse("x.toml", &text).unwrap_err().to_string();
    assert!(error.contains("tuning.durations: \"day\" is not among"), "{error}");
    let text = TUNED.replace("grids =", "grid =");
    let error = Plan::parse("x.toml", &text).unwrap_err().to_string();
    assert!(error.starts_with("league x.toml:14: grid: unknown field"), "{error}");
}

/// Reads the example of docs/reference/league-file.md.
#[test]
fn documented_tuning_is_read() {
    let page = include_str!("../../../docs/reference/league-file.md");
    let shown = page.split("<<'END'\n").nth(1).unwrap().lines();
    let shown = shown.take_while(|line| *line != "    END");
    let shown: Vec<&str> = shown.map(|line| line.strip_prefix("    ").unwrap_or(line)).collect();
    let plan = Plan::parse("shown", &shown.join("\n")).unwrap();
    let tuning = plan.tuning.unwrap();
    let counts: Vec<_> = tuning.contenders.iter().map(|found| found.settings.len()).collect();
    assert_eq!(counts, [6, 2]);
    let millis = |number: usize| tuning.durations[number].as_seconds() * 1e3;
    assert_eq!((millis(0), millis(1)), (10.0, 10.0));
}
