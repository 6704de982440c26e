//! Power of a server and its split by component.
//!
//! The sum is known better than its split. It is computed from terms by cause ([`PowerTerms`]),
//! which are then divided among the components. Both steps are linear, so energies may be summed as
//! terms and split once at the end.

use crate::input::Section;
use schemars::JsonSchema;
use serde::Serialize;
use wattline_units::{BitsPerSecond, Hertz, Watts};

/// Parameters of a server's power.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PowerModel {
    /// Power with every core in the deepest idle state and no traffic, by component.
    pub base: PowerBreakdown,
    /// Power of an awake core above one in the deepest idle state: the constant part.
    pub core_awake: Watts,
    /// Power of an awake core above one in the deepest idle state: the part per GHz.
    pub core_awake_per_gigahertz: Watts,
    /// Power per GHz of the shared part, once while any core is awake.
    pub uncore_per_gigahertz: Watts,
    /// Power per Gbit/s that is forwarded (frame bytes only).
    pub traffic_per_gigabit: Watts,
    /// Share of the awake cores' and uncore power that memory draws on their behalf, 0 to 1.
    pub memory_share_of_awake: f64,
}

/// Power, or energy per second of a run, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PowerTerms {
    /// Power with every core in the deepest idle state and no traffic.
    pub base: Watts,
    /// Power of cores that execute.
    pub awake_cores: Watts,
    /// Power of cores in idle states shallower than the deepest.
    pub idle_cores: Watts,
    /// Power of the part that all cores share, while any core is awake.
    pub uncore: Watts,
    /// Power of forwarding bits.
    pub traffic: Watts,
}

impl PowerTerms {
    /// Power of the whole server.
    pub fn total(&self) -> Watts {
        self.base + self.awake_cores + self.idle_cores + self.uncore + self.traffic
    }
}

/// A part of a server that draws power.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Component {
    /// Processor packages without the cores.
    CpuPackages,
    /// Cores, awake and idle.
    CpuCores,
    /// Memory.
    Memory,
    /// Network cards.
    Nic,
    /// Main board.
    Board,
    /// Fans.
    Fans,
    /// Parts that the source does not distinguish.
    Other,
}

impl Component {
    /// Returns the name in tables and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CpuPackages => "cpu-packages",
            Self::CpuCores => "cpu-cores",
            Self::Memory => "memory",
            Self::Nic => "nic",
            Self::Board => "board",
            Self::Fans => "fans",
            Self::Other => "other",
        }
    }
}

/// Power by component; the parts sum to the whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct PowerBreakdown {
    /// Processor packages without the cores.
    pub cpu_packages: Watts,
    /// Cores, awake and idle.
    pub cpu_cores: Watts,
    /// Memory.
    pub memory: Watts,
    /// Network cards.
    pub nic: Watts,
    /// Main board.
    pub board: Watts,
    /// Fans.
    pub fans: Watts,
    /// Parts that the source does not distinguish.
    pub other: Watts,
}

impl PowerBreakdown {
    /// Returns each component with its power.
    pub fn parts(&self) -> [(Component, Watts); 7] {
        [
            (Component::CpuPackages, self.cpu_packages),
            (Component::CpuCores, self.cpu_cores),
            (Component::Memory, self.memory),
            (Component::Nic, self.nic),
            (Component::Board, self.board),
            (Component::Fans, self.fans),
            (Component::Other, self.other),
        ]
    }
    /// Power of the whole server.
    pub fn total(&self) -> Watts {
        self.parts().into_iter().map(|(_, power)| power).sum()
    }
}

impl PowerModel {
    /// Returns the power of a core that executes at `frequency`, above a core in the deepest idle
    /// state.
    pub fn awake_core(&self, frequency: Hertz) -> Watts {
        self.core_awake + self.core_awake_per_gigahertz * frequency.gigahertz()
    }
    /// Returns the shared power while any core is awake; `frequency` is the highest of the awake
    /// cores.
    pub fn uncore(&self, frequency: Hertz) -> Watts {
        self.uncore_per_gigahertz * frequency.gigahertz()
    }
    /// Returns the power of forwarding this many bits of frames per second.
    pub fn traffic(&self, rate: BitsPerSecond) -> Watts {
        self.traffic_per_gigabit * (rate.0 / 1e9)
    }

    /// Divides the terms among the components; the total stays the same.
    pub fn breakdown(&self, terms: &PowerTerms) -> PowerBreakdown {
        let memory = self.memory_share_of_awake;
        // The base is scaled to its own total, so that mean terms over a run may be split too.
        let base_total = self.base.total();
        let scale = if base_total.0 > 0.0 { terms.base / base_total } else { 0.0 };
        PowerBreakdown {
            cpu_packages: self.base.cpu_packages * scale + terms.uncore * (1.0 - memory),
            cpu_cores: self.base.cpu_cores * scale
                + terms.awake_cores * (1.0 - memory)
                + terms.idle_cores,
            memory: self.base.memory * scale + (terms.awake_cores + terms.uncore) * memory,
            nic: self.base.nic * scale + terms.traffic,
            board: self.base.board * scale,
            fans: self.base.fans * scale,
            other: self.base.other * scale,
        }
    }

    /// Reads `[power]`; the cards' base power is per port, so their number is needed. Figures of
    /// the cards are optional if `[parts]` names cards.
    pub(crate) fn read(
        section: &Section<'_, '_>,
        ports: Option<usize>,
        cards_named: bool,
    ) -> Option<Self> {
        let of_cards = |section: &Section<'_, '_>, key, most| match cards_named {
            true => Some(section.optional_number(key, 0.0..=most).unwrap_or_default()),
            false => section.number(key, 0.0..=most),
        };
        let watts = 0.0..=100_000.0;
        let core_awake = section.number("core_awake_watts", watts.clone());
        let per_gigahertz = section.number("core_awake_watts_per_ghz", watts.clone());
        let uncore = section.number("uncore_watts_per_ghz", watts.clone());
        let traffic = of_cards(section, "traffic_watts_per_gbps", 1000.0);
        let memory_share = section.number_or("memory_share_of_awake", 0.0, 0.0..=1.0);
        let base = section.required_section("base", |base| {
            let cpu_packages = base.number("cpu_packages_watts", watts.clone());
            let memory = base.number("memory_watts", watts.clone());
            let nic_port = of_cards(base, "nic_port_watts", 100_000.0);
            let board = base.number("board_watts", watts.clone());
            let fans = base.number("fans_watts", watts.clone());
            let other = base.number_or("other_watts", 0.0, watts.clone());
            Some(PowerBreakdown {
                cpu_packages: Watts(cpu_packages?),
                cpu_cores: Watts::ZERO,
                memory: Watts(memory?),
                nic: Watts(nic_port? * ports? as f64),
                board: Watts(board?),
                fans: Watts(fans?),
                other: Watts(other?),
            })
        });
        Some(Self {
            base: base?,
            core_awake: Watts(core_awake?),
            core_awake_per_gigahertz: Watts(per_gigahertz?),
            uncore_per_gigahertz: Watts(uncore?),
            traffic_per_gigabit: Watts(traffic?),
            memory_share_of_awake: memory_share?,
        })
    }
}
