//! `fit` returns a fit or an error for any measured rows.

use proptest::prelude::*;
use wattline_server::{ServerFile, bolla::Chi};
use wattline_study::fit::{FitOptions, Row, fit, rows};
use wattline_study::optimise::cheapest;
use wattline_units::PacketsPerSecond;

fn any_row() -> impl Strategy<Value = Row> {
    let rate = prop_oneof![Just(0.0), Just(1e6), 0.0..2e6f64, 0.0..1e11f64];
    let power = prop_oneof![Just(100.0), 50.0..200.0f64, 0.1..1e5f64];
    (0usize..3, 1usize..4, rate.clone(), power, proptest::option::of(rate)).prop_map(
        |(frequency, cores, throughput_pps, power_watts, offered_pps)| Row {
            line: 2,
            frequency_hertz: [1.6e9, 2.4e9, 3.2e9][frequency],
            cores,
            throughput_pps,
            power_watts,
            offered_pps,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 128,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_rows_are_answered(
        rows in proptest::collection::vec(any_row(), 0..60),
        order_max in 1usize..=12,
    ) {
        let options = FitOptions { order_max, ..FitOptions::default() };
        if let Ok(fit) = fit(&rows, &options) {
            prop_assert_eq!(fit.residuals.len(), rows.len());
            let sum: f64 = fit.chi.coefficients.iter().sum();
            let largest = fit.chi.coefficients.iter().fold(1.0, |most: f64, a| most.max(a.abs()));
            prop_assert!((sum - 1.0).abs() < 1e-9 * largest, "{:?}", fit.chi);
            let model = fit.model("any");
            let _ = cheapest(&model, PacketsPerSecond(1e5), None);
            // A meaningless fit may be refused on loading, but with reasons.
            if let Err(error) = ServerFile::parse("any", &fit.to_toml("any", "rows")) {
                prop_assert!(!error.problems.is_empty());
            }
        }
    }

    #[test]
    fn any_text_is_answered(text in "[a-z0-9_,.#\n\" -]{0,300}") {
        if let Err(error) = rows::parse("any", &text) {
            prop_assert!(!error.problems.is_empty());
        }
    }

    #[test]
    fn corrected_chi_of_any_polynomial_is_finite(
        coefficients in proptest::collection::vec(-1e6..1e6f64, 0..13),
        t in -2.0..2.0f64,
    ) {
        prop_assert!(Chi::polynomial(coefficients).corrected().value(t).is_finite());
    }
}
