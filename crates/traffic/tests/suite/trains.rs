//! Trains over any source: mean rate, lengths, flows.

use crate::sources::run;
use std::collections::HashSet;
use wattline_traffic::source::{Content, Poisson, Rate};
use wattline_traffic::source::{Links, TrainFlows, TrainLengths, TrainShape, Trains};
use wattline_traffic::{Packet, Popularity, Sizes, Spec, Spread};

/// Picoseconds of 600 bytes at 10 Gbit/s.
const WIRE: u64 = 480_000;

fn generate(text: &str, seed: u64, seconds: f64) -> Vec<Packet> {
    run(Spec::parse(text).unwrap().build(seed).unwrap().as_mut(), seconds)
}

/// Trains of all ports; two without a gap in between count as one.
fn trains(packets: &[Packet]) -> Vec<Vec<Packet>> {
    let mut trains = Vec::new();
    for port in 0..4 {
        let own: Vec<Packet> = packets.iter().copied().filter(|p| p.port == port).collect();
        let together = |a: &Packet, b: &Packet| b.time().as_picos() - a.time().as_picos() <= WIRE;
        trains.extend(own.chunk_by(together).map(<[Packet]>::to_vec));
    }
    trains
}

#[test]
fn every_kind_keeps_its_mean_rate() {
    for kind in [
        "constant:14Gbps",
        "poisson:14Gbps",
        "mmpp:14Gbps,ratio=2,high=50us,low=200us",
        "self-similar:14Gbps,longest=5ms",
        "day:35%,duration=500ms",
    ] {
        for length in ["1", "16", "fixed:32", "geometric:16"] {
            let packets = generate(&format!("{kind},size=600,trains={length}"), 2, 2.0);
            let bits = packets.len() as f64 * 600.0 * 8.0 / 2.0;
            assert!((bits / 14e9 - 1.0).abs() < 0.015, "{kind}, {length}: {bits}");
        }
    }
}

#[test]
fn a_train_of_one_packet_changes_nothing() {
    let plain = generate("poisson:5Mpps,size=imix", 4, 0.01);
    assert_eq!(plain, generate("poisson:5Mpps,size=imix,trains=1,train-flows=one", 4, 0.01));
}

#[test]
fn trains_have_their_length_back_to_back() {
    // So few trains that two hardly ever meet on a port.
    let packets = generate("poisson:5kpps,size=600,trains=12", 1, 20.0);
    let lengths: Vec<usize> = trains(&packets).iter().map(Vec::len).collect();
    let whole = lengths.iter().filter(|&&length| length == 12).count();
    assert!(whole as f64 > 0.98 * lengths.len() as f64, "{whole} of {}", lengths.len());
    for train in trains(&packets).iter().filter(|train| train.len() == 12) {
        assert_eq!(train[11].time().as_picos() - train[0].time().as_picos(), 11 * WIRE);
    }
}

#[test]
fn geometric_lengths_have_their_distribution() {
    let packets = generate("poisson:10kpps,size=600,trains=geometric:8", 1, 40.0);
    let lengths: Vec<f64> = trains(&packets).iter().map(|train| train.len() as f64).collect();
    let count = lengths.len() as f64;
    let mean = lengths.iter().sum::<f64>() / count;
    assert!((mean / 8.0 - 1.0).abs() < 0.02, "{mean}");
    // The probability of more than k packets is (7/8)^k.
    for k in [1, 8, 24] {
        let longer = lengths.iter().filter(|&&length| length > f64::from(k)).count() as f64;
        let expected = (7.0f64 / 8.0).powi(k);
        assert!((longer / count - expected).abs() < 0.015, "{k}: {}", longer / count);
    }
}

#[test]
fn a_train_is_of_one_flow_or_of_several_of_its_port() {
    let one = generate("poisson:5kpps,size=600,trains=16,train-flows=one", 1, 2.0);
    let flows = |train: &[Packet]| train.iter().map(|p| p.flow).collect::<HashSet<u32>>().len();
    let single = trains(&one).iter().filter(|train| flows(train) == 1).count();
    assert!(single as f64 > 0.95 * trains(&one).len() as f64);
    let several = generate("poisson:5kpps,size=600,trains=16", 1, 2.0);
    let mixed = trains(&several).iter().filter(|train| flows(train) > 12).count();
    assert!(mixed as f64 > 0.95 * trains(&several).len() as f64);
    // A flow stays on its port.
    let pairs: HashSet<(u32, u8)> = several.iter().map(|p| (p.flow, p.port)).collect();
    let flows: HashSet<u32> = several.iter().map(|p| p.flow).collect();
    assert_eq!(pairs.len(), flows.len());
}

#[test]
fn flows_keep_their_popularity() {
    let top = |trains: u32| {
        let text = format!("poisson:1Mpps,flows=64,popularity=zipf,trains={trains}");
        let packets = generate(&text, 3, 1.0);
        let mut counts = std::collections::BTreeMap::new();
        packets.iter().for_each(|packet| *counts.entry(packet.flow).or_insert(0.0) += 1.0);
        let most = counts.values().copied().fold(0.0, f64::max);
        most / packets.len() as f64
    };
    assert!((top(16) / top(1) - 1.0).abs() < 0.05, "{} {}", top(16), top(1));
}

#[test]
fn a_seed_gives_the_same_trains_and_another_seed_others() {
    for text in ["day:35%,duration=50ms,size=imix,trains=geometric:16", "poisson:8Mpps,trains=7"] {
        assert_eq!(generate(text, 1, 0.01), generate(text, 1, 0.01));
        assert_ne!(generate(text, 1, 0.01), generate(text, 2, 0.01));
    }
}

#[test]
fn toml_form_is_equivalent() {
    let toml =
        "[[source]]\nkind = \"poisson\"\nrate = \"5Mpps\"\ntrains = 16\ntrain-flows = \"one\"\n";
    let packets = run(Spec::from_toml(toml).unwrap().build(1).unwrap().as_mut(), 0.01);
    assert_eq!(packets, generate("poisson:5Mpps,trains=16,train-flows=one", 1, 0.01));
}

#[test]
fn invalid_trains_are_refused() {
    let mistakes = |text: &str| Spec::parse(text).unwrap_err().to_string();
    for wrong in ["0", "10001", "geometric", "normal:3", "-1", "geometric:0"] {
        let text = mistakes(&format!("poisson:1Mpps,trains={wrong}"));
        assert!(text.contains("is not a length of trains; allowed: PACKETS"), "{text}");
    }
    assert!(mistakes("day:35%,train-flows=two").contains("allowed: several, one"));
    assert!(mistakes("onoff:1Gbps,trains=3").contains("trains: is not a key of onoff"));
    assert!(mistakes("capture:x.pcap,trains=3").contains("trains: is not a key of capture"));
}

/// On a full link a train waits for the one before it.
#[test]
fn a_link_carries_one_packet_at_a_time() {
    let content = Content::new(Sizes::fixed(600), 512, 4, Popularity::Uniform, Spread::Even, 1);
    let heads = Poisson::new(Rate::Bits(36e9 / 16.0), content.clone(), 1);
    let shape = TrainShape { mean: 16, lengths: TrainLengths::Fixed, flows: TrainFlows::Several };
    let mut source = Trains::new(Box::new(heads), shape, Links::POWERSAVE, &content, 1);
    let packets = run(&mut source, 0.05);
    for port in 0..4 {
        let own: Vec<u64> =
            packets.iter().filter(|p| p.port == port).map(|p| p.time().as_picos()).collect();
        assert!(own.windows(2).all(|pair| pair[1] - pair[0] >= WIRE));
    }
}
