//! Cores, their frequencies and their idle states.

use crate::input::Section;
use serde::Serialize;
use std::num::NonZeroU8;
use wattline_units::{Hertz, Span, Watts};

/// Limit on the forwarding cores of one machine.
pub const MAX_CORES: usize = 128;

/// Cores that share a frequency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DvfsDomain {
    /// Every core has its own frequency.
    PerCore,
    /// Groups of neighbours run at the highest frequency that any of their cores requests.
    PerCluster(NonZeroU8),
    /// All cores of a chip run at the highest frequency that any of them requests.
    PerChip,
}

/// The processors of a server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Processor {
    /// Number of chips.
    pub sockets: usize,
    /// Cores per chip.
    pub cores_per_socket: usize,
    /// Frequencies of the P-states, ascending; never empty.
    pub frequencies: Vec<Hertz>,
    /// Cores that share a frequency.
    pub dvfs: DvfsDomain,
    /// Duration of a frequency change; the core runs at the old frequency meanwhile.
    pub frequency_transition: Span,
}

impl Processor {
    /// Returns the number of cores of the whole server.
    pub fn cores(&self) -> usize {
        self.sockets * self.cores_per_socket
    }
    /// Returns the lowest frequency.
    pub fn lowest_frequency(&self) -> Hertz {
        self.frequencies.first().copied().unwrap_or(Hertz::ZERO)
    }
    /// Returns the highest frequency.
    pub fn highest_frequency(&self) -> Hertz {
        self.frequencies.last().copied().unwrap_or(Hertz::ZERO)
    }
    /// Returns the frequency of the P-state nearest to the requested one.
    pub fn nearest_frequency(&self, frequency: Hertz) -> Hertz {
        let distance = |candidate: &Hertz| (candidate.0 - frequency.0).abs();
        self.frequencies
            .iter()
            .copied()
            .min_by(|a, b| distance(a).total_cmp(&distance(b)))
            .unwrap_or(frequency)
    }

    pub(crate) fn read(section: &Section<'_, '_>) -> Option<Self> {
        let sockets = section.count("sockets", 1..=64);
        let cores_per_socket = section.count("cores_per_socket", 1..=1024);
        let frequencies = section.numbers("frequencies_ghz", 0.01..=20.0);
        let dvfs = read_domain(section);
        let transition = section.number_or("frequency_transition_us", 0.0, 0.0..=1e6);
        if let Some(frequencies) = &frequencies {
            if frequencies.is_empty() {
                section.contradiction("frequencies_ghz", "must name at least one P-state".into());
            }
            if let Some(pair) = frequencies.windows(2).find(|pair| pair[0] >= pair[1]) {
                section.contradiction(
                    "frequencies_ghz",
                    format!("must ascend, but {} is followed by {}", pair[0], pair[1]),
                );
            }
        }
        Some(Self {
            sockets: sockets? as usize,
            cores_per_socket: cores_per_socket? as usize,
            frequencies: frequencies?.into_iter().map(Hertz::from_gigahertz).collect(),
            dvfs: dvfs?,
            frequency_transition: micros(transition?),
        })
    }
}

/// Reads the cores that share a frequency; clusters with their size.
fn read_domain(section: &Section<'_, '_>) -> Option<DvfsDomain> {
    let of_cluster = DvfsDomain::PerCluster(NonZeroU8::MIN);
    let domain = section.choice(
        "dvfs_domain",
        &[
            ("per-core", DvfsDomain::PerCore),
            ("per-cluster", of_cluster),
            ("per-chip", DvfsDomain::PerChip),
        ],
    )?;
    if domain != of_cluster {
        return Some(domain);
    }
    let cores = section.count("cluster_cores", 2..=128)?;
    NonZeroU8::new(u8::try_from(cores).ok()?).map(DvfsDomain::PerCluster)
}

/// A C-state of a core.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IdleState {
    /// Name, such as `C6`.
    pub name: String,
    /// Power of one core in this state, above the server's power with all cores in the deepest.
    pub power: Watts,
    /// Mean time from the waking event to the core's first instruction.
    pub exit_latency: Span,
}

impl IdleState {
    pub(crate) fn read(section: &Section<'_, '_>) -> Option<Self> {
        let name = section.text("name");
        let power = section.number("power_watts", 0.0..=1000.0);
        let exit_latency = section.number("exit_latency_us", 0.0..=1e6);
        Some(Self { name: name?, power: Watts(power?), exit_latency: micros(exit_latency?) })
    }

    /// Checks that deeper states draw less power and take longer to leave; a rule could not choose
    /// among others.
    pub(crate) fn check_order(section: &Section<'_, '_>, states: &[Self]) {
        for pair in states.windows(2) {
            let [shallow, deep] = pair else { continue };
            if deep.power > shallow.power {
                section.contradiction(
                    "idle_state",
                    format!("{} is deeper than {} but draws more power", deep.name, shallow.name),
                );
            }
            if deep.exit_latency < shallow.exit_latency {
                section.contradiction(
                    "idle_state",
                    format!("{} is deeper than {} but left faster", deep.name, shallow.name),
                );
            }
            if deep.name == shallow.name {
                section.contradiction("idle_state", format!("{} is named twice", deep.name));
            }
        }
    }
}

pub(crate) fn micros(micros: f64) -> Span {
    Span::from_seconds(micros * 1e-6)
}
