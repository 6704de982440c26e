//! Descriptions of traffic: their meaning, and all possible errors.

use crate::sources;
use std::time::Duration;
use wattline_traffic::capture::{LinkType, Resolution, Writer};
use wattline_traffic::spec::KINDS;
use wattline_traffic::{Block, Packet, Spec};
use wattline_units::{BitsPerSecond, PacketsPerSecond, Span, Time};

fn mistakes(text: &str) -> String {
    Spec::parse(text).unwrap_err().to_string()
}

fn run(spec: &Spec, seed: u64, seconds: f64) -> Vec<Packet> {
    sources::run(spec.build(seed).unwrap().as_mut(), seconds)
}

#[track_caller]
fn delivers(text: &str, seconds: f64, bits_per_second: f64) {
    let packets = run(&Spec::parse(text).unwrap(), 1, seconds);
    let seen = packets.iter().map(|p| 8.0 * f64::from(p.length)).sum::<f64>() / seconds;
    assert!((seen / bits_per_second - 1.0).abs() < 0.01, "{text}: {seen} bit/s");
}

#[test]
fn every_synthetic_kind_delivers_its_mean() {
    delivers("constant:29Mpps,size=64", 0.05, 29e6 * 512.0);
    delivers("constant:40Gbps,size=1024", 0.05, 40e9);
    delivers("poisson:5Mpps,size=imix", 1.0, 5e6 * 8.0 * 4342.0 / 12.0);
    delivers("mmpp:1Mpps,high=50us,low=200us", 4.0, 512e6);
    delivers("self_similar:1Mpps,longest=5ms", 10.0, 512e6);
    delivers("onoff:10Gbps,burst=64,size=1024", 0.2, 10e9);
    delivers("day:35%,duration=500ms,size=600", 0.5, 14e9);
    delivers("abilene-i-standin:10Gbps,longest=5ms", 4.0, 10e9);
    delivers("poisson:1Gbps + constant:2Gbps,size=500", 0.5, 3e9);
}

#[test]
fn means_are_known_beforehand() {
    let spec = Spec::parse("poisson:5Mpps,size=100 + constant:4Gbps,size=500").unwrap();
    assert_eq!(spec.packet_rate(), Some(PacketsPerSecond(6e6)));
    assert_eq!(spec.bit_rate(), Some(BitsPerSecond(8e9)));
    assert_eq!(Spec::parse("capture:x.pcap").unwrap().packet_rate(), None);
}

#[test]
fn toml_form_is_equivalent() {
    let toml = r#"
        [[source]]
        kind = "poisson"
        rate = "5Mpps"
        size = 64
        popularity = "zipf:1.2"

        [[source]]
        kind = "onoff"
        rate = "1Gbps"
        burst = 100
    "#;
    let short = "poisson:5Mpps,size=64,popularity=zipf:1.2 + onoff:1Gbps,burst=100";
    let (toml, short) = (Spec::from_toml(toml).unwrap(), Spec::parse(short).unwrap());
    assert_eq!(run(&toml, 3, 0.01), run(&short, 3, 0.01));
    assert_ne!(run(&toml, 3, 0.01), run(&short, 4, 0.01));
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let text = mistakes("poisson:5Mp,siez=64,flows=0,spread=evn + posson:1Mpps");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert!(lines[0].starts_with("poisson: rate: \"5Mp\" is not a rate"), "{text}");
    assert!(lines[1].contains("flows: \"0\" is out of range; allowed: 1 to 4194304"), "{text}");
    assert!(lines[2].contains("spread: \"evn\" is not known; allowed: even, hash"), "{text}");
    assert!(lines[3].contains("siez: is not a key of poisson; did you mean \"size\"?"), "{text}");
    assert!(lines[4].contains("\"posson\": is not a kind of traffic"), "{text}");
    assert!(lines[4].contains("; known are: constant, poisson"), "{text}");
    assert!(lines[4].ends_with("; did you mean \"poisson\"?"), "{text}");
}

#[test]
fn mistakes_in_toml_have_their_line() {
    let toml = "[[source]]\nkind = \"day\"\nduration = \"0s\"\n\n[[sorce]]\nkind = \"day\"\n";
    let text = Spec::from_toml(toml).unwrap_err().to_string();
    assert!(text.contains("line 5: sorce: is not known; did you mean \"source\"?"), "{text}");
    assert!(text.contains("line 3: day: duration: \"0s\" is out of range"), "{text}");
    let text = Spec::from_toml("[[source]\n").unwrap_err().to_string();
    assert!(text.starts_with("line 1: "), "{text}");
    assert!(Spec::from_toml("").unwrap_err().to_string().contains("no source"));
}

#[test]
fn a_rate_beyond_the_links_is_refused() {
    assert!(mistakes("constant:41Gbps").contains("rate: \"41Gbps\" is 102 % of what the links"));
    assert!(mistakes("poisson:80Mpps,size=64").contains("up to 40 Gbps of link"));
    assert!(mistakes("poisson:60Mpps,size=64,overhead=24").contains("which is 56.82 Mpps"));
    assert!(mistakes("poisson:11Gbps,ports=1").contains("allowed: up to 10 Gbps"));
    assert!(mistakes("mmpp:30Gbps,ratio=100").contains("means a high rate of"));
    assert!(mistakes("poisson:30Gbps + constant:30Gbps").contains("load the links by 150 %"));
}

#[test]
fn percentage_is_of_the_links_capacity() {
    for size in [64, 1024] {
        let frame = f64::from(size) + 20.0;
        let packets = 40e9 / (8.0 * frame);
        let text = format!("constant:100%,size={size},overhead=20");
        delivers(&text, 0.05, packets * 8.0 * f64::from(size));
        delivers(&text.replace("constant", "onoff"), 0.2, packets * 8.0 * f64::from(size));
        let rate = Spec::parse(&text).unwrap().packet_rate().unwrap().0;
        assert!((rate / packets - 1.0).abs() < 1e-9, "{rate}");
    }
    assert!(mistakes("constant:101%,size=64,overhead=20").contains("is 101 % of what the links"));
}

#[test]
fn rate_with_too_many_changes_per_packet_is_refused() {
    for text in [
        "day:0.1pps,duration=2ms",
        "day:1e-9pps,duration=60s",
        "square:1pps,period=1us",
        "sawtooth:1e-300pps",
        "flash:1e-6pps",
        "mmpp:0.001pps,high=1us,low=1us",
        "self-similar:0.1pps,sources=65536,shortest=1us",
        "poisson:1Mpps + day:0.1bps,duration=1ms",
        "day:1e-9pps,duration=1s,trains=100",
    ] {
        assert!(
            mistakes(text).contains("times for each packet; allowed: 0, or at least"),
            "{text}"
        );
    }
    for text in ["day:1kpps,duration=2ms", "day:0pps", "poisson:1e-9pps", "mmpp:1pps"] {
        let mut source = Spec::parse(text).unwrap().build(1).unwrap();
        source.next_block(&mut Block::new()).unwrap();
    }
}

#[test]
fn missing_and_invalid_keys_are_named() {
    assert!(mistakes("").contains("is not a kind of traffic"));
    assert!(mistakes("poisson").contains("poisson: rate: is missing"));
    assert!(mistakes("capture").contains("capture: file: is missing"));
    assert!(mistakes("poisson:-5Mpps").contains("is not a rate"));
    assert!(mistakes("onoff:1Gbps,burst=0").contains("burst: \"0\" is out of range"));
    assert!(mistakes("constant:1Mpps,size=10").contains("size: \"10\" is out of range"));
    assert!(mistakes("constant:1Mpps,size=64*0").contains("weights that are negative or all zero"));
    assert!(mistakes("constant:1Mpps,rate=2Mpps").contains("rate: is given twice"));
    assert!(mistakes("capture:x.pcap,loop=maybe").contains("allowed: true, false"));
    assert!(mistakes("self-similar:1Mpps,shortest=1s").contains("is not above the shortest"));
}

#[test]
fn rates_of_a_file_are_followed_and_repeat() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("day.csv");
    std::fs::write(&path, "time_seconds,rate_pps\n0,2e6\n0.01,0\n0.02,1e6\n0.03,0\n").unwrap();
    let text = format!("rates:{},scale=0.5", path.display());
    let packets = run(&Spec::parse(&text).unwrap(), 1, 0.08);
    let counts: Vec<usize> = (0..8)
        .map(|step| packets.iter().filter(|it| it.picos / 10_000_000_000 == step).count())
        .collect();
    for (count, expected) in counts.iter().zip([10_000, 0, 5_000, 0, 10_000, 0, 5_000, 0]) {
        assert!(count.abs_diff(expected) <= expected / 10, "{counts:?}");
    }
    std::fs::write(&path, "time_seconds,rate_pps\n0,0\n1,0\n").unwrap();
    assert_eq!(run(&Spec::parse(&text).unwrap(), 1, 0.1), []);
    std::fs::write(&path, "time_seconds,rate_pps\n0,9e9\n1,0\n").unwrap();
    assert!(Spec::parse(&text).unwrap().build(1).is_err(), "beyond the links");
    std::fs::remove_file(&path).unwrap();
    let error = Spec::parse(&text).unwrap().build(1).err().unwrap().to_string();
    assert!(error.contains("day.csv: cannot be read"), "{error}");
    assert!(mistakes("rates").contains("rates: file: is missing"));
    assert!(mistakes("rates:a.csv,scale=0").contains("scale: \"0\" is out of range"));
}

#[test]
fn rate_of_zero_is_no_traffic() {
    for kind in ["constant", "poisson", "mmpp", "self-similar", "onoff", "day", "square", "flash"] {
        let spec = Spec::parse(&format!("{kind}:0pps")).unwrap();
        assert_eq!(run(&spec, 1, 0.1), [], "{kind}");
        let mixed = Spec::parse(&format!("{kind}:0% + constant:1kpps")).unwrap();
        assert_eq!(run(&mixed, 1, 0.1).len(), 99, "{kind}");
    }
    assert!(mistakes("capture:x.pcap,rate=0pps").contains("is not positive"));
    assert!(mistakes("constant:1pps,link=0bps").contains("1kbps to 1Tbps"));
}

/// Three packets in two milliseconds, cut to their headers.
fn capture() -> tempfile::TempPath {
    let path = tempfile::Builder::new().suffix(".pcap").tempfile().unwrap().into_temp_path();
    let mut writer = Writer::create(&path, LinkType::ETHERNET, Resolution::Nanos).unwrap();
    for (millis, length) in [(0, 100), (1, 200), (2, 900)] {
        writer.write_cut(Duration::from_millis(5 + millis), &[0; 54], length).unwrap();
    }
    writer.finish().unwrap();
    path
}

#[test]
fn a_capture_is_replayed_at_its_original_lengths() {
    let path = capture();
    let once = Spec::parse(&format!("capture:{},loop=false", path.display())).unwrap();
    let packets = run(&once, 1, 1.0);
    let seen: Vec<(Time, u16)> = packets.iter().map(|p| (p.time(), p.length)).collect();
    let at = |millis| Time::ZERO + Span::from_millis(millis);
    assert_eq!(seen, [(at(0), 100), (at(1), 200), (at(2), 900)]);

    let spec = Spec::parse(&format!("capture:{}", path.display())).unwrap();
    assert!(spec.ignores_seeds());
    assert_eq!(run(&spec, 1, 0.3).len(), 300);
    // A study builds its source many times, and reads the file once.
    let away = path.with_extension("away");
    std::fs::rename(&path, &away).unwrap();
    assert_eq!(run(&spec.clone(), 2, 0.3).len(), 300);
    std::fs::rename(&away, &path).unwrap();

    let text = format!("capture:{},copies=8,rate=8Gbps", path.display());
    let fast = run(&Spec::parse(&text).unwrap(), 1, 0.01);
    let bits: f64 = fast.iter().map(|p| 8.0 * f64::from(p.length)).sum();
    assert!((bits / 8e7 - 1.0).abs() < 0.01, "{bits}");
    assert!((0..4).all(|port| fast.iter().any(|p| p.port == port)));

    let sizes = format!("poisson:1Mpps,size={}", path.display());
    let lengths: Vec<u16> =
        run(&Spec::parse(&sizes).unwrap(), 1, 0.01).iter().map(|p| p.length).collect();
    assert!([100, 200, 900].iter().all(|length| lengths.contains(length)));
    assert!(lengths.iter().all(|length| [100, 200, 900].contains(length)));
}

#[test]
fn unusable_capture_is_named() {
    let build = |text: &str| Spec::parse(text).unwrap().build(1).err().unwrap().to_string();
    assert!(build("capture:/nonexistent.pcap").starts_with("/nonexistent.pcap: "));
    let path = capture();
    let text = build(&format!("capture:{},rate=50Gbps", path.display()));
    assert!(text.contains("exceed the links"), "{text}");
}

#[test]
fn every_kind_is_listed_and_stand_ins_say_so() {
    for (name, first, _) in KINDS {
        let spec = if first == "file" { "x.pcap" } else { "1Mpps" };
        let spec = Spec::parse(&format!("{name}:{spec}")).unwrap();
        assert_eq!(spec.notes().is_empty(), !name.contains("standin"), "{name}");
    }
}

#[test]
fn random_text_never_panics() {
    bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let _ = Spec::parse(&text);
        let _ = Spec::from_toml(&text);
        let _ = Spec::parse(&format!("onoff:{text}"));
    });
}
