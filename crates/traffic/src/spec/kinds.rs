//! Kinds of sources by name, with their keys.

use super::capture_file::CaptureFile;
use super::error::did_you_mean;
use super::fields::Fields;
use super::quantity::RATE_FORMS;
use super::sizes::SizeSpec;
use crate::source::{
    DayProfile, Links, Rate, TrainFlows, TrainLengths, TrainShape, Wave, WaveShape,
};
use crate::{Popularity, Spread};
use std::path::PathBuf;
use wattline_units::Span;

/// Name, first value, and one line of explanation for every kind.
pub const KINDS: [(&str, &str, &str); 13] = [
    ("constant", "rate", "link-paced packets at a constant rate"),
    ("poisson", "rate", "independent arrivals"),
    ("mmpp", "rate", "Poisson arrivals whose rate switches between a low and a high one"),
    ("self-similar", "rate", "many on/off sources with heavy-tailed times"),
    ("onoff", "rate", "bursts of a given length back to back, at a constant mean rate"),
    ("day", "rate", "a day's load with spikes, compressed; the mean rate over the day"),
    ("square", "rate", "Poisson arrivals whose rate jumps between low and high at fixed times"),
    ("sawtooth", "rate", "Poisson arrivals whose rate rises on a straight line and falls at once"),
    ("flash", "rate", "Poisson arrivals with a flash crowd once a period"),
    ("rates", "file", "Poisson arrivals at rates over time from a CSV file, again and again"),
    ("capture", "file", "replay of a pcap or pcapng file"),
    ("abilene-i-standin", "rate", "synthetic stand-in for PowerSave's backbone trace"),
    ("m57-patents-standin", "rate", "synthetic stand-in for PowerSave's enterprise trace"),
];

const MINUTE: Span = Span::from_millis(60_000);
const DAY: Span = Span::from_millis(86_400_000);
const TINY: Span = Span::from_micros(1);
/// Changes of the rate for each packet, at most: a block of packets takes less than a second.
pub(super) const MOST_CHANGES_PER_PACKET: f64 = 2e5;

/// Keys of all kinds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Common {
    pub(super) links: Links,
    pub(super) size: SizeSpec,
    pub(super) flows: u32,
    pub(super) popularity: Popularity,
    pub(super) spread: Spread,
    pub(super) trains: TrainShape,
    pub(super) seed: Option<u64>,
}

/// Keys of one kind.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Constant { rate: Rate },
    Poisson { rate: Rate },
    Mmpp { rate: Rate, ratio: f64, high: Span, low: Span },
    SelfSimilar { rate: Rate, hurst: f64, sources: u32, shortest: Span, longest: Span },
    OnOff { rate: Rate, burst: u32 },
    Day { rate: Rate, duration: Span, spikes: u32 },
    Wave { rate: Rate, shape: WaveShape, ratio: f64, period: Span, share: f64, rise: Span },
    Rates { file: PathBuf, scale: f64 },
    Capture { file: CaptureFile, rate: Option<Rate>, copies: u32, repeat: bool },
}

impl Kind {
    /// Mean rate, if the description gives one.
    pub(super) fn rate(&self) -> Option<Rate> {
        match self {
            Self::Constant { rate }
            | Self::Poisson { rate }
            | Self::Mmpp { rate, .. }
            | Self::SelfSimilar { rate, .. }
            | Self::OnOff { rate, .. }
            | Self::Day { rate, .. }
            | Self::Wave { rate, .. } => Some(*rate),
            Self::Rates { .. } => None,
            Self::Capture { rate, .. } => *rate,
        }
    }

    /// Changes of the rate per second, at most; 0 if it never changes.
    fn changes_per_second(&self) -> f64 {
        match self {
            Self::Mmpp { high, low, .. } => 2.0 / (*high + *low).as_seconds(),
            Self::SelfSimilar { sources, shortest, .. } => {
                f64::from(*sources) / shortest.as_seconds()
            }
            Self::Day { duration, .. } => DayProfile::CHANGES as f64 / duration.as_seconds(),
            Self::Wave { period, .. } => Wave::CHANGES as f64 / period.as_seconds(),
            _ => 0.0,
        }
    }

    /// The lowest mean rate in packets per second: a source that changes its rate for hours
    /// before a packet comes would keep a simulation from its end.
    pub(super) fn least_rate(&self) -> f64 {
        self.changes_per_second() / MOST_CHANGES_PER_PACKET
    }

    /// The same kind with the rate times a factor.
    pub(super) fn times(&self, factor: f64) -> Self {
        let mut kind = self.clone();
        match &mut kind {
            Self::Constant { rate }
            | Self::Poisson { rate }
            | Self::Mmpp { rate, .. }
            | Self::SelfSimilar { rate, .. }
            | Self::OnOff { rate, .. }
            | Self::Day { rate, .. }
            | Self::Wave { rate, .. }
            | Self::Capture { rate: Some(rate), .. } => *rate = rate.times(factor),
            Self::Rates { scale, .. } => *scale *= factor,
            Self::Capture { rate: None, .. } => {}
        }
        kind
    }
}

/// Canonical name of a kind that may be spelt differently.
pub(super) fn canonical(name: &str) -> Result<&'static str, String> {
    let plain = |name: &str| name.to_ascii_lowercase().replace(['-', '_', ' '], "");
    let known = || KINDS.iter().map(|(name, ..)| *name);
    known().find(|known| plain(known) == plain(name)).ok_or_else(|| {
        let hint = did_you_mean(&name.to_ascii_lowercase(), known());
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        let all: Vec<&str> = known().collect();
        format!("is not a kind of traffic; known are: {}{hint}", all.join(", "))
    })
}

/// Parameters of a stand-in. The paper gives only the origin of its traces and that Abilene-I has
/// headers only, while M57 has payloads (section 7). The sizes here are typical of a backbone and
/// an office network of that time, not those of the traces.
struct StandIn {
    sizes: &'static [(u16, f64)],
    hurst: f64,
    flows: u32,
}

const ABILENE_I: StandIn = StandIn {
    sizes: &[(54, 0.42), (590, 0.14), (1066, 0.08), (1514, 0.36)],
    hurst: 0.8,
    flows: 65_536,
};
const M57_PATENTS: StandIn = StandIn {
    sizes: &[(60, 0.38), (130, 0.10), (590, 0.07), (1514, 0.45)],
    hurst: 0.85,
    flows: 2048,
};

pub(super) fn read(kind: &str, fields: &mut Fields<'_>) -> (Kind, Common) {
    let links = links(fields);
    let stand_in = match kind {
        "abilene-i-standin" => Some(ABILENE_I),
        "m57-patents-standin" => Some(M57_PATENTS),
        _ => None,
    };
    let rate = match kind {
        "capture" | "rates" => None,
        "day" => Some(fields.rate("rate", &links).unwrap_or(links.share(0.35))),
        _ if stand_in.is_some() => Some(fields.rate("rate", &links).unwrap_or(links.share(0.25))),
        _ => {
            fields.required("rate", RATE_FORMS);
            fields.rate("rate", &links)
        }
    };
    // The default of a missing rate is never used, since the error has been recorded.
    let rate = rate.unwrap_or(Rate::Packets(1.0));
    let kind = match kind {
        "constant" => Kind::Constant { rate },
        "poisson" => Kind::Poisson { rate },
        "mmpp" => Kind::Mmpp {
            rate,
            ratio: fields.number("ratio", 1.0..=10_000.0, 10.0),
            high: fields.span("high", TINY..=DAY, Span::from_millis(10)),
            low: fields.span("low", TINY..=DAY, Span::from_millis(90)),
        },
        "onoff" => Kind::OnOff { rate, burst: fields.number("burst", 1..=1_000_000, 32) },
        "day" => Kind::Day {
            rate,
            duration: fields.span("duration", Span::from_millis(1)..=DAY, MINUTE),
            spikes: fields.number("spikes", 0..=288, 12),
        },
        "square" => wave(rate, WaveShape::Square, [0.5, 0.0], fields),
        "sawtooth" => wave(rate, WaveShape::Sawtooth, [0.5, 0.0], fields),
        "flash" => wave(rate, WaveShape::Square, [0.1, 100e-6], fields),
        "rates" => Kind::Rates {
            file: fields.required("file", "a CSV file with time_seconds and rate_pps").into(),
            scale: fields.number("scale", 1e-6..=1e6, 1.0),
        },
        "capture" => Kind::Capture {
            file: fields.required("file", "the path of a pcap or pcapng file").into(),
            rate: fields.rate("rate", &links),
            copies: fields.number("copies", 1..=1024, 1),
            repeat: fields.flag("loop", true),
        },
        _ => self_similar(rate, stand_in.as_ref().map_or(0.8, |s| s.hurst), fields),
    };
    let common = common(&kind, stand_in.as_ref(), links, fields);
    if let Kind::Capture { rate: Some(rate), .. } = kind
        && rate.packets_per_second(1.0) == 0.0
    {
        fields.wrong("rate", "is not positive, as a replay needs", RATE_FORMS);
    }
    if let Kind::SelfSimilar { shortest, longest, .. } = kind
        && shortest >= longest
    {
        fields.wrong("longest", "is not above the shortest", "more than shortest");
    }
    (kind, common)
}

fn wave(rate: Rate, shape: WaveShape, [share, rise]: [f64; 2], fields: &mut Fields<'_>) -> Kind {
    let (ratio, period) = (10.0, Span::from_millis(100));
    let (ratio, period) =
        (fields.number("ratio", 1.0..=10_000.0, ratio), fields.span("period", TINY..=DAY, period));
    let (share, rise) = match shape {
        WaveShape::Sawtooth => (share, Span::ZERO),
        WaveShape::Square => (
            fields.number("share", 0.001..=0.999, share),
            fields.span("rise", Span::ZERO..=DAY, Span::from_seconds(rise)),
        ),
    };
    Kind::Wave { rate, shape, ratio, period, share, rise }
}

fn links(fields: &mut Fields<'_>) -> Links {
    let mut links = Links {
        ports: fields.number("ports", 1..=64, Links::POWERSAVE.ports),
        overhead: fields.number("overhead", 0..=64, Links::POWERSAVE.overhead),
        ..Links::POWERSAVE
    };
    match fields.rate("link", &links) {
        Some(Rate::Bits(bits)) if (1e3..=1e12).contains(&bits) => links.bits_per_second = bits,
        None => {}
        Some(_) => fields.wrong("link", "is not a rate of a link", "1kbps to 1Tbps"),
    }
    links
}

fn self_similar(rate: Rate, hurst: f64, fields: &mut Fields<'_>) -> Kind {
    Kind::SelfSimilar {
        rate,
        hurst: fields.number("hurst", 0.51..=0.99, hurst),
        sources: fields.number("sources", 1..=65_536, 64),
        shortest: fields.span("shortest", TINY..=DAY, Span::from_micros(100)),
        longest: fields.span("longest", TINY..=DAY, Span::from_millis(100)),
    }
}

fn common(
    kind: &Kind,
    stand_in: Option<&StandIn>,
    links: Links,
    fields: &mut Fields<'_>,
) -> Common {
    let seed = fields.text("seed").is_some().then(|| fields.number("seed", 0..=u64::MAX, 0));
    let common = Common {
        links,
        size: SizeSpec::Fixed(64),
        flows: 1,
        popularity: Popularity::Uniform,
        spread: Spread::Even,
        trains: TrainShape::NONE,
        seed,
    };
    if matches!(kind, Kind::Capture { .. }) {
        // A capture has its own sizes and flows.
        return common;
    }
    let default = stand_in.map_or(SizeSpec::Fixed(64), |s| SizeSpec::Weighted(s.sizes.to_vec()));
    let size = match fields.text("size") {
        None => default,
        Some(text) => SizeSpec::parse(text).unwrap_or_else(|problem| {
            fields.wrong("size", problem, super::sizes::FORMS);
            default
        }),
    };
    let flows = fields.number("flows", 1..=4_194_304, stand_in.map_or(4096, |s| s.flows));
    let popularity = match fields.text("popularity") {
        None if stand_in.is_some() => Popularity::Zipf { exponent: 1.0 },
        None if matches!(kind, Kind::Constant { .. }) => Popularity::Turns,
        None | Some("uniform") => Popularity::Uniform,
        Some("turns") => Popularity::Turns,
        Some(text) => zipf(text).unwrap_or_else(|| {
            let allowed = "uniform, turns, zipf, or zipf:EXPONENT with 0.1 to 5";
            fields.wrong("popularity", "is not known", allowed);
            Popularity::Uniform
        }),
    };
    let spread = match fields.text("spread") {
        None if stand_in.is_some() => Spread::Hash,
        None | Some("even") => Spread::Even,
        Some("hash") => Spread::Hash,
        Some(_) => {
            fields.wrong("spread", "is not known", "even, hash");
            Spread::Even
        }
    };
    // Bursts of a source have their own length.
    let trains = match kind {
        Kind::OnOff { .. } => TrainShape::NONE,
        _ => trains(fields),
    };
    Common { size, flows, popularity, spread, trains, ..common }
}

/// Largest mean length of a train, in packets.
const LONGEST_TRAIN: u32 = 10_000;

fn trains(fields: &mut Fields<'_>) -> TrainShape {
    let mut shape = TrainShape::NONE;
    if let Some(text) = fields.text("trains") {
        let (lengths, mean) = match text.split_once(':') {
            Some(("geometric", mean)) => (TrainLengths::Geometric, mean),
            Some(("fixed", mean)) => (TrainLengths::Fixed, mean),
            _ => (TrainLengths::Fixed, text),
        };
        match mean.trim().parse() {
            Ok(mean) if (1..=LONGEST_TRAIN).contains(&mean) => {
                shape = TrainShape { mean, lengths, ..shape };
            }
            _ => {
                let allowed =
                    format!("PACKETS, fixed:PACKETS, geometric:PACKETS, 1 to {LONGEST_TRAIN}");
                fields.wrong("trains", "is not a length of trains", &allowed);
            }
        }
    }
    shape.flows = match fields.text("train-flows") {
        None | Some("several") => TrainFlows::Several,
        Some("one") => TrainFlows::One,
        Some(_) => {
            fields.wrong("train-flows", "is not known", "several, one");
            TrainFlows::Several
        }
    };
    shape
}

fn zipf(text: &str) -> Option<Popularity> {
    let exponent = match text.strip_prefix("zipf")? {
        "" => 1.0,
        rest => rest.strip_prefix(':')?.parse().ok()?,
    };
    (0.1..=5.0).contains(&exponent).then_some(Popularity::Zipf { exponent })
}
