//! The optimiser compared with an independently written exhaustive search.

use wattline_server::bolla::{BollaModel, Chi, FrequencyPoint};
use wattline_server::{Application, ServerModel};
use wattline_study::optimise::trace::Interval;
use wattline_study::optimise::{Infeasible, LoadedServer, cheapest, over_trace};
use wattline_units::{Hertz, PacketsPerSecond, Span, Watts};

fn bolla() -> BollaModel {
    let point = |gigahertz, idle, active, kpps: f64| FrequencyPoint {
        frequency: Hertz::from_gigahertz(gigahertz),
        idle: Watts(idle),
        active: Watts(active),
        max_rate: PacketsPerSecond(kpps * 1e3),
    };
    BollaModel {
        name: "made up for tests".into(),
        base: Watts(100.0),
        frequencies: vec![point(2.0, 10.0, 30.0, 750.0), point(3.0, 12.0, 45.0, 1040.0)],
        gamma: vec![1.0, 1.8, 2.4],
        chi: Chi::printed().corrected(),
    }
}

/// Returns power and point of the cheapest way to carry a rate, by the model's own methods.
fn search(model: &ServerModel, mpps: f64, bound: Option<Span>) -> Option<(f64, usize, f64)> {
    let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
    let rate = PacketsPerSecond::from_mpps(mpps);
    let mut best: Option<(f64, usize, f64)> = None;
    for &frequency in &model.processor.frequencies {
        for cores in 1..=model.processor.cores() {
            let point = model.napi_point(cores, frequency);
            let carried = model.core_capacity(cost, cores, frequency) >= rate;
            let latency = model.mean_latency(cost, &point, rate).map(|latency| latency.total());
            let in_time = bound.is_none_or(|bound| latency.is_some_and(|time| time <= bound));
            let watts = model.power_at(cost, 64, &point, rate).total().0;
            if carried && in_time && best.is_none_or(|(least, ..)| watts < least) {
                best = Some((watts, cores, frequency.gigahertz()));
            }
        }
    }
    best
}

#[test]
fn server_model_equals_exhaustive_search() {
    let model = ServerModel::load("westmere-2010").unwrap();
    let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
    let server = LoadedServer { model: &model, cost, frame_bytes: 64 };
    let bounds = [None, Some(Span::from_nanos(11_500)), Some(Span::from_micros(50))];
    let mut tight = 0;
    for step in 0..=145 {
        let mpps = f64::from(step) * 0.2;
        for bound in bounds {
            let ours = cheapest(&server, PacketsPerSecond::from_mpps(mpps), bound);
            match (ours, search(&model, mpps, bound)) {
                (Ok(ours), Some((watts, cores, gigahertz))) => {
                    assert!((ours.power.0 - watts).abs() < 1e-9, "{mpps} {bound:?}");
                    assert_eq!((ours.cores, ours.frequency.gigahertz()), (cores, gigahertz));
                    tight += usize::from(bound == bounds[1]);
                }
                (Err(_), None) => {}
                (ours, theirs) => panic!("{mpps} Mpps, {bound:?}: {ours:?} against {theirs:?}"),
            }
        }
    }
    assert!((10..140).contains(&tight), "the tight bound decides nothing: {tight}");
}

#[test]
fn bolla_model_equals_exhaustive_search_and_saves() {
    let model = bolla();
    for step in 0..100 {
        let rate = PacketsPerSecond(f64::from(step) * 25e3);
        let mut best = f64::INFINITY;
        for cores in 1..=3 {
            for frequency in 0..2 {
                if model.even_capacity(cores, frequency) >= rate {
                    best = best.min(model.even_power(cores, frequency, rate).0);
                }
            }
        }
        let ours = cheapest(&model, rate, None).unwrap();
        assert_eq!(ours.power.0, best);
        assert!(ours.capacity >= rate && best <= model.even_power(3, 1, rate).0);
    }
    let too_fast = cheapest(&model, PacketsPerSecond(2.6e6), None).unwrap_err();
    assert_eq!(
        too_fast.to_string(),
        "2.6000 Mpps are more than the server forwards at most, 2.4960 Mpps"
    );
    let with_latency = cheapest(&model, PacketsPerSecond(1e6), Some(Span::from_micros(1)));
    assert_eq!(with_latency, Err(Infeasible::LatencyUnknown));
}

#[test]
fn trace_is_optimal_piece_by_piece() {
    let model = bolla();
    let pieces = [(10, 0.0), (10, 2e6), (5, 2e6), (5, 5e5), (5, 1e6)];
    let piece = |(line, (seconds, rate)): (usize, (u64, f64))| Interval {
        line,
        length: Span::from_millis(1000 * seconds),
        rate: PacketsPerSecond(rate),
    };
    let trace: Vec<Interval> = pieces.into_iter().enumerate().map(piece).collect();
    let result = over_trace(&model, &trace, None).unwrap();
    let by_hand: f64 = trace
        .iter()
        .map(|piece| {
            cheapest(&model, piece.rate, None).unwrap().power.0 * piece.length.as_seconds()
        })
        .sum();
    assert!((result.energy.0 - by_hand).abs() < 1e-6);
    assert!(result.energy < result.energy_at_maximum);
    assert_eq!(result.length, Span::from_millis(35_000));
    assert!(result.changes >= 2);

    let too_much = Interval { rate: PacketsPerSecond(9e9), ..trace[0] };
    let impossible = over_trace(&model, &[too_much, trace[1], too_much], None).unwrap_err();
    assert_eq!(impossible.len(), 2);
}

#[test]
fn impossible_latency_names_the_lowest() {
    let model = ServerModel::load("westmere-2010").unwrap();
    let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
    let server = LoadedServer { model: &model, cost, frame_bytes: 64 };
    let refused = cheapest(&server, PacketsPerSecond(1e6), Some(Span::from_micros(2)));
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("within 2.00 us; the lowest mean latency is 9."), "{message}");
}
