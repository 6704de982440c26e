//! A small league: the same on one thread and on two, and resumed from its pieces.

use wattline_league::{Plan, Store, league, page, standings};

const SMALL: &str = r#"
servers = ["westmere-2010"]
policies = ["wattline:p99={p99}", "napi", "poll"]
traffics = ["poisson:2Mpps,size=64", "flash:2Mpps,size=64,period=8ms"]
budgets = ["100us"]
seeds = [1, 2]
duration = "10ms"
warmup = "5ms"
"#;

#[test]
fn the_same_on_one_thread_and_two_and_from_its_pieces() {
    let plan = Plan::parse("small", SMALL).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let store = Store::new(Some(directory.path().join("pieces"))).unwrap();
    let one = league::play(&plan, &Store::new(None).unwrap(), 1, || {}).unwrap();
    let two = league::play(&plan, &store, 2, || {}).unwrap();
    assert_eq!(one, two);
    let files = std::fs::read_dir(directory.path().join("pieces")).unwrap().count();
    assert_eq!(files, league::pieces(&plan));
    // The second time nothing is played: all comes from the files.
    let before = std::time::Instant::now();
    assert_eq!(league::play(&plan, &store, 2, || {}).unwrap(), two);
    println!("resumed in {:?}", before.elapsed());
    assert_eq!((one.rows.len(), one.envelopes.len()), (12, 4));
    for row in one.rows.iter().filter(|row| row.feasible) {
        assert!(row.gap_to_lower_bound >= 0.0, "{row:?}");
    }
    for row in &one.envelopes {
        let envelope = &row.envelope;
        let found = envelope.feasible_joules.unwrap();
        assert!(envelope.lower_bound_joules <= found, "{row:?}");
        assert!(found <= envelope.static_best_joules.unwrap(), "{row:?}");
    }
    let standings = standings(&one);
    assert_eq!(standings.len(), 6);
    assert!(standings.iter().all(|row| row.seeds == 2 && row.gap_within.is_finite()));
    let first = standings.iter().find(|row| row.policy.starts_with("wattline")).unwrap();
    assert_eq!((first.beside_first, first.beside_first_within), (0.0, 0.0));
    let page = page(&one);
    assert!(page.contains("<svg") && page.matches("wattline:p99=100us").count() >= 3);
}
