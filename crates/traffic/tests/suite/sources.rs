//! Promises of every source: its rate, order and bursts, and equal packets for equal seeds.

use wattline_traffic::source::{
    Constant, Content, DayProfile, Links, Mix, Mmpp, Modulated, OnOff, Poisson, Rate, SelfSimilar,
};
use wattline_traffic::{Block, Packet, Popularity, Sizes, Source, Spread};
use wattline_units::Time;

fn content(sizes: Sizes, popularity: Popularity) -> Content {
    Content::new(sizes, 4096, 4, popularity, Spread::Even, 1)
}

fn fixed(bytes: u16) -> Content {
    content(Sizes::fixed(bytes), Popularity::Uniform)
}

/// Packets before `seconds`, in order.
pub fn run(source: &mut dyn Source, seconds: f64) -> Vec<Packet> {
    let end = Time::ZERO + wattline_units::Span::from_seconds(seconds);
    let (mut packets, mut block) = (Vec::new(), Block::new());
    loop {
        source.next_block(&mut block).unwrap();
        for packet in block.iter() {
            if packet.time() >= end {
                return packets;
            }
            assert!(packets.last().is_none_or(|last: &Packet| last.time() <= packet.time()));
            packets.push(*packet);
        }
        if block.is_empty() {
            return packets;
        }
    }
}

fn bits(packets: &[Packet]) -> f64 {
    packets.iter().map(|p| 8.0 * f64::from(p.length)).sum()
}

#[track_caller]
fn within(seen: f64, expected: f64, tolerance: f64) {
    assert!((seen / expected - 1.0).abs() <= tolerance, "{seen} for {expected}");
}

/// Number of packets in each whole interval of this many seconds.
fn counts(packets: &[Packet], interval: f64, seconds: f64) -> Vec<f64> {
    let mut counts = vec![0.0; (seconds / interval + 1e-9) as usize];
    for packet in packets {
        let index = (packet.time().as_seconds() / interval) as usize;
        if let Some(count) = counts.get_mut(index) {
            *count += 1.0;
        }
    }
    counts
}

fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, variance)
}

#[test]
fn constant_is_equally_spaced() {
    let mut source =
        Constant::new(Rate::Packets(29e6), content(Sizes::fixed(64), Popularity::Turns));
    let packets = run(&mut source, 0.1);
    assert!(packets.len().abs_diff(2_900_000) <= 1, "{}", packets.len());
    for pair in packets.windows(2) {
        let gap = pair[1].time().since(pair[0].time()).as_picos();
        assert!((34_482..=34_483).contains(&gap), "{gap}");
    }
    for port in 0..4 {
        let share = packets.iter().filter(|p| p.port == port).count() as f64;
        within(share, 725_000.0, 1e-3);
    }
}

#[test]
fn constant_bit_rate_holds_with_mixed_sizes() {
    let sizes = Sizes::weighted(&Sizes::IMIX).unwrap();
    let mut source = Constant::new(Rate::Bits(40e9), content(sizes, Popularity::Uniform));
    within(bits(&run(&mut source, 0.01)), 0.4e9, 1e-4);
}

#[test]
fn poisson_has_an_index_of_dispersion_of_one() {
    let mut source = Poisson::new(Rate::Packets(5e6), fixed(64), 7);
    let packets = run(&mut source, 1.0);
    within(packets.len() as f64, 5e6, 0.005);
    for interval in [1e-5, 1e-3] {
        let (mean, variance) = mean_and_variance(&counts(&packets, interval, 1.0));
        // Deviation of the estimate with n intervals: sqrt(2 / n), here at most 0.045.
        assert!((variance / mean - 1.0).abs() < 0.15, "{interval} s: {}", variance / mean);
    }
}

#[test]
fn mmpp_has_its_mean_and_is_burstier_than_poisson() {
    let modulator = Mmpp::new(2e6, 10.0, 1e-4, 4e-4, 3);
    let mut source = Modulated::new(modulator, fixed(64), 3);
    let packets = run(&mut source, 5.0);
    within(packets.len() as f64, 1e7, 0.01);
    let (mean, variance) = mean_and_variance(&counts(&packets, 1e-4, 5.0));
    assert!(variance / mean > 50.0, "{}", variance / mean);
}

/// Estimates the Hurst parameter from counts: their relative variance falls with the
/// scale as scale^(2H - 2).
fn hurst(source: &mut dyn Source, seconds: f64) -> (f64, f64) {
    let packets = run(source, seconds);
    let points: Vec<(f64, f64)> = [2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2, 6.4e-2f64]
        .iter()
        .map(|&interval| {
            let (mean, variance) = mean_and_variance(&counts(&packets, interval, seconds));
            (interval.ln(), (variance / (mean * mean)).ln())
        })
        .collect();
    let count = points.len() as f64;
    let x = points.iter().map(|p| p.0).sum::<f64>() / count;
    let y = points.iter().map(|p| p.1).sum::<f64>() / count;
    let slope = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>()
        / points.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>();
    (1.0 + slope / 2.0, packets.len() as f64 / seconds)
}

#[test]
fn self_similar_traffic_shows_its_hurst_parameter() {
    let mut poisson = Poisson::new(Rate::Packets(2e5), fixed(64), 5);
    let (estimate, _) = hurst(&mut poisson, 30.0);
    assert!((0.45..0.55).contains(&estimate), "Poisson: {estimate}");
    // Where the times are cut off, the estimate of a high parameter falls short.
    for (wanted, low, high) in [(0.6, 0.55, 0.65), (0.75, 0.68, 0.80), (0.9, 0.80, 0.95)] {
        let modulator = SelfSimilar::new(2e5, wanted, 64, 1e-4, 1.0, 5);
        let (estimate, rate) = hurst(&mut Modulated::new(modulator, fixed(64), 5), 30.0);
        assert!((low..high).contains(&estimate), "{estimate} for {wanted}");
        within(rate, 2e5, 0.01);
    }
}

#[test]
fn bursts_have_exactly_their_length_at_a_constant_mean() {
    let links = Links::POWERSAVE;
    for burst in [1, 2, 32, 1000] {
        let mut source = OnOff::new(Rate::Bits(10e9), burst, links, &fixed(1024), 9);
        let packets = run(&mut source, 0.2);
        within(bits(&packets), 2e9, 0.01);
        // Back to back: 1024 bytes at 10 Gbit/s.
        let wire = 819_200;
        for port in 0..4 {
            let times: Vec<u64> =
                packets.iter().filter(|p| p.port == port).map(|p| p.time().as_picos()).collect();
            let mut length = 1;
            let mut first = true;
            for pair in times.windows(2) {
                if pair[1] - pair[0] <= wire + 1 {
                    length += 1;
                    continue;
                }
                // The run begins with a whole burst on every port.
                assert_eq!(length, burst, "port {port}");
                length = 1;
                first = false;
            }
            assert!(!first, "port {port} has at least two bursts");
        }
    }
}

#[test]
fn a_day_has_a_mean_of_35_percent_and_never_exceeds_a_port() {
    let bytes = 600;
    let full = 40e9 / (8.0 * f64::from(bytes));
    let modulator = DayProfile::new(0.35 * full, full, 2.88, 12, 4);
    let mut source = Modulated::new(modulator, fixed(bytes), 4);
    let packets = run(&mut source, 2.88);
    within(bits(&packets) / 2.88, 14e9, 0.01);
    for port in 0..4 {
        let own: Vec<Packet> = packets.iter().copied().filter(|p| p.port == port).collect();
        within(own.len() as f64, packets.len() as f64 / 4.0, 0.01);
        for count in counts(&own, 0.01, 2.88) {
            // A hundredth of a second of a full port, and six deviations.
            let most = full / 400.0;
            assert!(count <= most + 6.0 * most.sqrt(), "{count}");
        }
    }
}

#[test]
fn a_mix_keeps_every_packet_of_its_sources() {
    let parts = || -> Vec<Box<dyn Source>> {
        vec![
            Box::new(Poisson::new(Rate::Packets(1e6), fixed(64), 1)),
            Box::new(Constant::new(Rate::Packets(2e6), fixed(128))),
            Box::new(OnOff::new(Rate::Packets(5e5), 16, Links::POWERSAVE, &fixed(256), 1)),
        ]
    };
    let mut expected: Vec<Packet> =
        parts().iter_mut().flat_map(|part| run(part.as_mut(), 0.1)).collect();
    let mut mixed = run(&mut Mix::new(parts()), 0.1);
    let key = |p: &Packet| (p.time(), p.length, p.flow, p.port);
    expected.sort_by_key(key);
    mixed.sort_by_key(key);
    assert_eq!(mixed, expected);
}

#[test]
fn a_seed_gives_the_same_packets_and_another_seed_others() {
    let sources = |seed: u64| -> Vec<Box<dyn Source>> {
        let content =
            || Content::new(Sizes::fixed(64), 100, 4, Popularity::Uniform, Spread::Hash, seed);
        vec![
            Box::new(Poisson::new(Rate::Packets(1e6), content(), seed)),
            Box::new(Modulated::new(Mmpp::new(1e6, 5.0, 1e-3, 1e-3, seed), content(), seed)),
            Box::new(Modulated::new(
                SelfSimilar::new(1e6, 0.8, 16, 1e-4, 0.1, seed),
                content(),
                seed,
            )),
            Box::new(Modulated::new(DayProfile::new(1e6, 3e6, 0.01, 3, seed), content(), seed)),
            Box::new(OnOff::new(Rate::Packets(1e6), 8, Links::POWERSAVE, &content(), seed)),
        ]
    };
    for ((mut one, mut same), mut other) in sources(1).into_iter().zip(sources(1)).zip(sources(2)) {
        let first = run(one.as_mut(), 0.01);
        assert!(!first.is_empty());
        assert_eq!(first, run(same.as_mut(), 0.01));
        assert_ne!(first, run(other.as_mut(), 0.01));
    }
}
