//! `fit` recovers a known model from rows made with it.

use rand::{Rng, SeedableRng, rngs::StdRng};
use rand_distr::{Distribution, Normal};
use wattline_server::bolla::{BollaModel, Chi, FrequencyPoint};
use wattline_server::{Origin, ServerFile};
use wattline_study::fit::{Estimate, Fit, FitError, FitOptions, Row, fit};
use wattline_units::{Hertz, PacketsPerSecond, Watts};

const CORES: [usize; 3] = [1, 2, 4];

fn truth(base: f64, chi: Chi) -> BollaModel {
    let point = |gigahertz: f64, idle, active, kpps: f64| FrequencyPoint {
        frequency: Hertz::from_gigahertz(gigahertz),
        idle: Watts(idle),
        active: Watts(active),
        max_rate: PacketsPerSecond(kpps * 1e3),
    };
    BollaModel {
        name: "truth".into(),
        base: Watts(base),
        frequencies: vec![
            point(1.8, 22.0, 36.0, 690.0),
            point(2.4, 24.0, 45.0, 880.0),
            point(3.0, 26.0, 55.0, 1040.0),
        ],
        gamma: vec![1.0, 1.8, 2.4, 2.9],
        chi,
    }
}

/// Returns rows over all frequencies, numbers of cores and loads up to 1.3 of capacity; `noise` is
/// the relative standard deviation of both meters.
fn rows(model: &BollaModel, noise: f64, random: &mut impl Rng) -> Vec<Row> {
    let error = Normal::new(1.0, noise).unwrap();
    let mut rows = Vec::new();
    for (index, point) in model.frequencies.iter().enumerate() {
        for cores in CORES {
            let capacity = model.even_capacity(cores, index).0;
            for step in 0..=26 {
                let offered = capacity * f64::from(step) / 20.0;
                let forwarded = PacketsPerSecond(offered.min(capacity));
                rows.push(Row {
                    line: rows.len() + 2,
                    frequency_hertz: point.frequency.0,
                    cores,
                    throughput_pps: forwarded.0 * error.sample(random),
                    power_watts: model.even_power(cores, index, forwarded).0 * error.sample(random),
                    offered_pps: Some(offered),
                });
            }
        }
    }
    rows
}

/// Returns every fitted value paired with the true one.
fn pairs(fit: &Fit, truth: &BollaModel) -> Vec<(String, Estimate, f64)> {
    let mut pairs = vec![("base".to_string(), fit.base_watts, truth.base.0)];
    for (fitted, point) in fit.frequencies.iter().zip(&truth.frequencies) {
        let name = |what: &str| format!("{what} at {}", point.frequency);
        pairs.push((name("idle"), fitted.idle_watts, point.idle.0));
        pairs.push((name("active"), fitted.active_watts, point.active.0));
        pairs.push((name("r_max"), fitted.max_rate_pps, point.max_rate.0));
    }
    for fitted in &fit.gamma[1..] {
        let name = format!("gamma({})", fitted.cores);
        pairs.push((name, fitted.gamma, truth.gamma(fitted.cores)));
    }
    pairs
}

#[test]
fn exact_rows_give_the_exact_model() {
    let truth = truth(60.0, Chi::polynomial(vec![0.0, 2.0, -1.0]));
    let rows = rows(&truth, 0.0, &mut StdRng::seed_from_u64(0));
    let fit = fit(&rows, &FitOptions { error_bound: 1e-4, ..FitOptions::default() }).unwrap();
    for (name, estimate, value) in pairs(&fit, &truth) {
        assert!((estimate.value / value - 1.0).abs() < 1e-6, "{name}: {estimate:?}, not {value}");
    }
    assert_eq!(fit.chi.order, 2, "the lowest order that is exact");
    assert!(fit.held_out.unwrap().largest < 1e-6);
}

/// With 2 % noise on both meters, about 95 % of the intervals contain the true value.
#[test]
fn two_percent_noise_stays_within_the_intervals() {
    for base in [0.0, 80.0] {
        let truth = truth(base, Chi::printed().corrected());
        let (mut inside, mut all) = (0, 0);
        for seed in 0..40 {
            let rows = rows(&truth, 0.02, &mut StdRng::seed_from_u64(seed));
            let fit = fit(&rows, &FitOptions::default()).unwrap();
            for (name, estimate, value) in pairs(&fit, &truth) {
                all += 1;
                inside += usize::from(estimate.contains(value));
                let error = (estimate.value - value).abs();
                assert!(error <= 0.15 * value.max(30.0), "{name}: {estimate:?}, not {value}");
            }
            let held_out = fit.held_out.unwrap();
            assert!((0.017..0.025).contains(&held_out.root_mean_square), "{held_out:?}");
        }
        let covered = f64::from(inside as u32) / f64::from(all);
        println!("base {base} W: {covered:.3} of {all} true values lie within their intervals");
        assert!(covered > 0.92, "only {covered} of the intervals hold");
    }
}

#[test]
fn form_function_is_recovered_and_simpler_with_a_wider_bound() {
    let truth = truth(80.0, Chi::printed());
    let rows = rows(&truth, 0.002, &mut StdRng::seed_from_u64(3));
    let with_bound =
        |error_bound| fit(&rows, &FitOptions { error_bound, ..FitOptions::default() }).unwrap();
    let orders: Vec<usize> =
        [0.5, 0.1, 0.02, 0.005].map(|bound| with_bound(bound).chi.order).to_vec();
    assert!(orders.is_sorted() && orders[0] == 1 && orders[3] >= 6, "{orders:?}");
    let chi = with_bound(0.005).model("fitted").chi;
    for step in 0..=20 {
        let t = f64::from(step) / 20.0;
        assert!((chi.value(t) - Chi::printed().value(t)).abs() < 0.03, "chi({t})");
    }
}

/// The richest fit follows the noise, so its departure is no evidence against a parabola.
#[test]
fn noise_does_not_raise_the_order_of_a_parabola() {
    let truth = truth(80.0, Chi::polynomial(vec![0.0, 2.0, -1.0]));
    for noise in [0.005, 0.02, 0.05] {
        let orders: Vec<usize> = (0..20)
            .map(|seed| {
                let rows = rows(&truth, noise, &mut StdRng::seed_from_u64(100 + seed));
                fit(&rows, &FitOptions::default()).unwrap().chi.order
            })
            .collect();
        assert!(orders.iter().all(|order| *order <= 3), "{noise}: {orders:?}");
        let right = orders.iter().filter(|order| **order == 2).count();
        assert!(right >= 16, "{noise}: {orders:?}");
    }
}

/// With three or five loads at three frequencies and three numbers of cores, orders 5 to 7 follow
/// the noise and are wrong by 37 to 285 % between the loads.
#[test]
fn few_noisy_rows_are_not_overfitted() {
    let mut truth = truth(70.0, Chi::polynomial(vec![0.0, 1.6, -0.9, 0.3]));
    truth.gamma = vec![1.0, 1.9, 2.75, 3.6];
    let mut kept = 0;
    for seed in 0..60 {
        let random = &mut StdRng::seed_from_u64(300 + seed);
        let (error, rate_error) =
            (Normal::new(1.0, 0.02).unwrap(), Normal::new(1.0, 0.01).unwrap());
        let mut rows: Vec<Row> = Vec::new();
        for (index, point) in truth.frequencies.iter().enumerate() {
            for (cores, loads) in
                [(1, &[0.0, 0.5, 1.2][..]), (2, &[0.6, 1.2]), (4, &[0.0, 0.3, 0.6, 0.9, 1.2])]
            {
                let capacity = truth.even_capacity(cores, index).0;
                for load in loads {
                    let forwarded = PacketsPerSecond((capacity * load).min(capacity));
                    rows.push(Row {
                        line: rows.len() + 2,
                        frequency_hertz: point.frequency.0,
                        cores,
                        throughput_pps: (forwarded.0 * rate_error.sample(random)).min(capacity),
                        power_watts: truth.even_power(cores, index, forwarded).0
                            * error.sample(random),
                        offered_pps: Some(capacity * load),
                    });
                }
            }
        }
        let Ok(fit) = fit(&rows, &FitOptions::default()) else { continue };
        kept += 1;
        let fitted = fit.model("fitted");
        for (index, cores) in [(0, 1), (1, 2), (2, 4)] {
            let capacity = truth.even_capacity(cores, index).0;
            for step in 0..=20 {
                let rate = PacketsPerSecond(capacity * f64::from(step) / 20.0);
                let ratio =
                    fitted.even_power(cores, index, rate) / truth.even_power(cores, index, rate);
                assert!(
                    (ratio - 1.0).abs() < 0.2,
                    "seed {seed}, {step}/20: {ratio}, {:?}",
                    fit.chi
                );
            }
        }
    }
    assert!(kept > 50, "{kept} of 60 were fitted");
}

#[test]
fn gamma_between_measured_cores_is_assumed() {
    let truth = truth(80.0, Chi::printed());
    let rows = rows(&truth, 0.001, &mut StdRng::seed_from_u64(11));
    let mut fit = fit(&rows, &FitOptions::default()).unwrap();
    assert!(fit.notes.iter().any(|note| note.contains("not measured at 3 cores")), "{fit:?}");
    let figure = |fit: &Fit, field: &str| {
        let file = ServerFile::parse("my.toml", &fit.to_toml("my", "rows")).unwrap();
        file.figures.into_iter().find(|figure| figure.field == field).unwrap()
    };
    let gamma = figure(&fit, "bolla.gamma");
    assert_eq!(gamma.origin, Origin::Assumed);
    assert!(gamma.note.as_ref().unwrap().contains("not measured at 3 cores"), "{gamma:?}");
    assert_eq!(figure(&fit, "bolla.base_watts").origin, Origin::Fitted);
    fit.gamma.truncate(2);
    assert_eq!(figure(&fit, "bolla.gamma").origin, Origin::Fitted, "1 and 2 were measured");
    let known = FitOptions { base_watts: Some(80.0), ..FitOptions::default() };
    let fit = wattline_study::fit::fit(&rows, &known).unwrap();
    assert_eq!(figure(&fit, "bolla.base_watts").origin, Origin::User);
}

#[test]
fn fitted_file_can_be_loaded_again() {
    let truth = truth(80.0, Chi::printed());
    let rows = rows(&truth, 0.02, &mut StdRng::seed_from_u64(11));
    let fit = fit(&rows, &FitOptions::default()).unwrap();
    let text = fit.to_toml("my-router", "rows \"of\" March");
    let file = ServerFile::parse("my-router.toml", &text).unwrap();
    let (loaded, fitted) = (file.bolla().unwrap(), fit.model("my-router"));
    assert_eq!(loaded.gamma.len(), 4);
    let power = |model: &BollaModel| model.even_power(3, 1, PacketsPerSecond(1.3e6)).0;
    assert!((power(loaded) - power(&fitted)).abs() < 1e-4);
    assert!(file.model().is_err(), "a fit is not a whole server");
}

#[test]
fn one_number_of_cores_leaves_the_platform_in_phi() {
    let truth = truth(80.0, Chi::printed().corrected());
    let mut rows = rows(&truth, 0.01, &mut StdRng::seed_from_u64(5));
    rows.retain(|row| row.cores == 1);
    let fit = fit(&rows, &FitOptions::default()).unwrap();
    assert_eq!(fit.base_watts, Estimate::exact(0.0));
    assert!((fit.frequencies[0].idle_watts.value - 102.0).abs() < 1.5);
    assert!(fit.notes.iter().any(|note| note.contains("same number of cores")));
}

#[test]
fn rows_without_offered_rates_still_work() {
    let truth = truth(80.0, Chi::printed().corrected());
    let mut rows = rows(&truth, 0.01, &mut StdRng::seed_from_u64(6));
    rows.iter_mut().for_each(|row| row.offered_pps = None);
    let fit = fit(&rows, &FitOptions::default()).unwrap();
    for (fitted, point) in fit.frequencies.iter().zip(&truth.frequencies) {
        assert!((fitted.max_rate_pps.value / point.max_rate.0 - 1.0).abs() < 0.03);
    }
    assert!(fit.notes.iter().any(|note| note.contains("offered_pps")));
}

#[test]
fn underdetermined_rows_are_refused() {
    let truth = truth(80.0, Chi::printed().corrected());
    let all = rows(&truth, 0.01, &mut StdRng::seed_from_u64(7));
    let refused = |rows: &[Row]| match fit(rows, &FitOptions::default()) {
        Err(FitError::Unidentified(why)) => why,
        other => panic!("{other:?}"),
    };
    let without_one: Vec<Row> = all.iter().filter(|row| row.cores > 1).copied().collect();
    assert!(refused(&without_one).contains("no row has one core"));
    let split: Vec<Row> =
        all.iter().filter(|r| (r.cores == 1) == (r.frequency_hertz < 2e9)).copied().collect();
    assert!(refused(&split).contains("cannot be told apart"));
    assert!(refused(&all[..6]).contains("rows cannot fix"));
    let mut falling = all.clone();
    falling.iter_mut().for_each(|row| row.power_watts = 300.0 - row.power_watts);
    let why = refused(&falling);
    assert!(why.contains("does not rise with throughput at 1800000000 Hz, 2400000000 Hz"), "{why}");
    let options = FitOptions { order_max: 0, error_bound: 0.02, base_watts: Some(-1.0) };
    assert!(matches!(fit(&all, &options), Err(FitError::BadOption { field: "order-max", .. })));
}
