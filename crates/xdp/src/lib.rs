//! The XDP program that picks transit packets out for AF_XDP sockets, or forwards them itself.
//!
//! It is attached by a BPF link that this process owns: however the process ends, the
//! kernel detaches the program and forwards on by itself.
//!
//! - [`XdpProgram`]: what `wattline-router` attaches to an interface; [`XdpForward`]: what it needs
//!   to forward by itself
//! - [`bpf`]: programs written in Rust, maps and links
//! - [`steer`], [`CountingSink`], [`LiveGenerator`], [`PassAll`]: what test beds are made of

pub mod bpf;
mod code;
mod error;
mod forward;
mod load;
pub mod steer;
mod verdict;

#[cfg(test)]
mod tests;

pub use error::XdpError;
pub use forward::{FORWARD_PORTS_MAX, Sent, XdpForward};
pub use load::{CountingSink, LiveGenerator, PassAll};
pub use verdict::{Verdict, XdpCounters};

use crate::bpf::{BpfError, Link, Map, MapKind, Program, ProgramKind};
use code::Maps;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, netdevice, socket};
use std::net::IpAddr;

/// Most queues of an interface that can have a socket.
pub const QUEUES_MAX: u32 = 256;
/// Most local addresses of each family.
pub const LOCAL_ADDRESSES_MAX: u32 = 16_384;

/// `XDP_FLAGS_SKB_MODE`
const FLAG_GENERIC: u32 = 1 << 1;
/// `XDP_FLAGS_DRV_MODE`
const FLAG_NATIVE: u32 = 1 << 2;

/// Where the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, before the kernel makes a packet buffer of the frame.
    Native,
    /// In the kernel's stack, for drivers without XDP; slower.
    Generic,
}

/// Which mode is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum XdpModeChoice {
    /// Native where the driver can, else generic.
    #[default]
    Auto,
    /// This mode or an error.
    Only(XdpMode),
}

/// The program on one interface, attached until this is dropped.
pub struct XdpProgram {
    maps: Maps,
    program: Program,
    /// Keeps the program in the driver.
    link: Option<Link>,
    mode: XdpMode,
}

impl XdpProgram {
    /// Loads the program and attaches it to an interface of this thread's network
    /// namespace, whose MAC address is `mac`. All frames go to the kernel until sockets
    /// are set; set the local addresses before that.
    ///
    /// # Errors
    /// See [`XdpError`]; nothing stays attached then.
    pub fn load(ifindex: u32, mac: [u8; 6], choice: XdpModeChoice) -> Result<Self, XdpError> {
        Self::load_forwarding(ifindex, mac, choice, None)
    }

    /// The same, and where it runs in the driver it forwards by itself to the interfaces that
    /// `forward` is opened for.
    ///
    /// # Errors
    /// See [`XdpError`]; nothing stays attached then.
    pub fn load_forwarding(
        ifindex: u32,
        mac: [u8; 6],
        choice: XdpModeChoice,
        forward: Option<&XdpForward>,
    ) -> Result<Self, XdpError> {
        let modes: &[XdpMode] = match choice {
            XdpModeChoice::Auto => &[XdpMode::Native, XdpMode::Generic],
            XdpModeChoice::Only(XdpMode::Native) => &[XdpMode::Native],
            XdpModeChoice::Only(XdpMode::Generic) => &[XdpMode::Generic],
        };
        let mut refusals = Vec::new();
        for &mode in modes {
            // Outside of drivers there is nothing to be gained: the socket buffer is there already.
            let (flags, forward) = match mode {
                XdpMode::Native => (FLAG_NATIVE, forward),
                XdpMode::Generic => (FLAG_GENERIC, None),
            };
            let (maps, program) = Self::prepare(mac, forward)?;
            match attach(&program, ifindex, flags)? {
                Ok(link) => return Ok(Self { maps, program, link: Some(link), mode }),
                Err(errno) => refusals.push((mode, errno)),
            }
        }
        Err(XdpError::Refused { ifindex, refusals })
    }

    /// Attaches the program to another interface than before, in the mode in which it runs: to the
    /// one that came in place of one that is gone. What was counted, local addresses and VLANs
    /// stay; there is no socket until one is set.
    ///
    /// # Errors
    /// See [`XdpError`]; the program is attached nowhere then.
    pub fn attach_again(&mut self, ifindex: u32, mac: [u8; 6]) -> Result<(), XdpError> {
        self.link = None;
        for queue in 0..QUEUES_MAX {
            self.clear_socket(queue)?;
        }
        self.set_mac(mac)?;
        let flags = match self.mode {
            XdpMode::Native => FLAG_NATIVE,
            XdpMode::Generic => FLAG_GENERIC,
        };
        match attach(&self.program, ifindex, flags)? {
            Ok(link) => self.link = Some(link),
            Err(errno) => {
                return Err(XdpError::Refused { ifindex, refusals: vec![(self.mode, errno)] });
            }
        }
        Ok(())
    }

    fn prepare(mac: [u8; 6], forward: Option<&XdpForward>) -> Result<(Maps, Program), BpfError> {
        let addresses = LOCAL_ADDRESSES_MAX;
        let maps = Maps {
            sockets: Map::create(MapKind::Sockets, "wl_sockets", 4, 4, QUEUES_MAX)?,
            station: Map::create(MapKind::Array, "wl_station", 4, STATION_BYTES as u32, 1)?,
            vlans: Map::create(MapKind::Array, "wl_vlans", 4, 4, 4096)?,
            local_v4: Map::create(MapKind::Hash, "wl_local_v4", 4, 1, addresses)?,
            local_v6: Map::create(MapKind::Hash, "wl_local_v6", 16, 1, addresses)?,
            counters: Map::create(
                MapKind::PerCpuArray,
                "wl_verdicts",
                4,
                8,
                Verdict::ALL.len() as u32,
            )?,
            forward: forward.map(XdpForward::maps).transpose()?,
        };
        Station { mac, longest: u16::MAX, guarded: false }.write(&maps.station)?;
        let program = Program::load(ProgramKind::Xdp, "wattline", &code::assemble(&maps))?;
        Ok((maps, program))
    }

    /// Gives all frames back to the kernel. The counters can still be read.
    pub fn detach(&mut self) {
        self.link = None;
    }

    /// What the program has forwarded by itself to the interface at this slot of its
    /// [`XdpForward`].
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn sent(&self, slot: u32) -> Result<Sent, BpfError> {
        self.maps.forward.as_ref().map_or(Ok(Sent::default()), |forward| forward.sent(slot))
    }

    /// Where the program runs.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// Sends transit frames of a receive queue to an AF_XDP socket bound to that queue.
    ///
    /// # Errors
    /// When the queue is not below [`QUEUES_MAX`] or the socket has no receive ring.
    pub fn set_socket(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), BpfError> {
        self.maps.sockets.set(&queue.to_ne_bytes(), &socket.as_raw_fd().to_ne_bytes())
    }

    /// Sends the frames of a receive queue to the kernel again.
    ///
    /// # Errors
    /// When the queue is not below [`QUEUES_MAX`].
    pub fn clear_socket(&self, queue: u32) -> Result<(), BpfError> {
        self.maps.sockets.remove(&queue.to_ne_bytes()).map(|_| ())
    }

    /// Follows a change of the interface's MAC address.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn set_mac(&self, mac: [u8; 6]) -> Result<(), BpfError> {
        Station { mac, ..Station::read(&self.maps.station)? }.write(&self.maps.station)
    }

    /// Leaves IP packets of more than so many bytes to the kernel: those that no socket takes.
    /// At first all are taken.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn set_longest(&self, bytes: u16) -> Result<(), BpfError> {
        Station { longest: bytes, ..Station::read(&self.maps.station)? }.write(&self.maps.station)
    }

    /// Says whether the interface is guarded: then nothing is left to the kernel that it would
    /// forward. What workers can look at goes to the sockets, the rest is dropped, and what is for
    /// this machine still is the kernel's. At first it is not.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn set_guarded(&self, guarded: bool) -> Result<(), BpfError> {
        Station { guarded, ..Station::read(&self.maps.station)? }.write(&self.maps.station)
    }

    /// Leaves packets to this address to the kernel: an address of any interface of this
    /// machine, or a subnet's broadcast address. Where `ends_tunnels`, all but ESP packets and
    /// those in UDP (RFC 3948), which go to the sockets; IKE is still the kernel's.
    ///
    /// # Errors
    /// When there are more than [`LOCAL_ADDRESSES_MAX`] of the family.
    pub fn add_local(&self, address: IpAddr, ends_tunnels: bool) -> Result<(), BpfError> {
        let value = [if ends_tunnels { code::ENDS_TUNNELS } else { code::LOCAL }];
        match address {
            IpAddr::V4(address) => self.maps.local_v4.set(&address.octets(), &value),
            IpAddr::V6(address) => self.maps.local_v6.set(&address.octets(), &value),
        }
    }

    /// Takes an address back; nothing happens if it was not added.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn remove_local(&self, address: IpAddr) -> Result<(), BpfError> {
        match address {
            IpAddr::V4(address) => self.maps.local_v4.remove(&address.octets()),
            IpAddr::V6(address) => self.maps.local_v6.remove(&address.octets()),
        }
        .map(|_| ())
    }

    /// Says whether frames tagged with this VLAN (0 to 4095) are routed here.
    ///
    /// # Errors
    /// When the number is above 4095.
    pub fn set_vlan(&self, vlan: u16, routed: bool) -> Result<(), BpfError> {
        let (key, value) = (u32::from(vlan), u32::from(routed));
        self.maps.vlans.set(&key.to_ne_bytes(), &value.to_ne_bytes())
    }

    /// Frames by verdict since the program was loaded.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn counters(&self) -> Result<XdpCounters, BpfError> {
        let mut counters = XdpCounters::default();
        for verdict in Verdict::ALL {
            let values = self.maps.counters.get(&(verdict as u32).to_ne_bytes())?;
            let values = values.unwrap_or_default();
            let (per_cpu, _) = values.as_chunks::<8>();
            counters.set(verdict, per_cpu.iter().map(|value| u64::from_ne_bytes(*value)).sum());
        }
        Ok(counters)
    }
}

/// Attaches a program, or says by which answer the driver refuses it.
fn attach(program: &Program, ifindex: u32, flags: u32) -> Result<Result<Link, Errno>, XdpError> {
    match program.attach(ifindex, flags) {
        Ok(link) => Ok(Ok(link)),
        Err(error) => match error.errno() {
            Some(Errno::BUSY | Errno::EXIST) => Err(XdpError::Occupied { ifindex }),
            // The kernel says EINVAL for this, too.
            Some(_) if !exists(ifindex) => Err(XdpError::NoInterface { ifindex }),
            // No capability: the other mode needs the same.
            None => Err(error.into()),
            Some(errno) => Ok(Err(errno)),
        },
    }
}

fn exists(ifindex: u32) -> bool {
    socket(AddressFamily::INET, SocketType::DGRAM, None)
        .and_then(|socket| netdevice::index_to_name(&socket, ifindex))
        .is_ok()
}

/// Bytes of a [`Station`] in its map.
const STATION_BYTES: usize = 12;

/// What a program knows of its interface.
struct Station {
    mac: [u8; 6],
    /// The length in bytes of the longest IP packet that sockets take.
    longest: u16,
    guarded: bool,
}

impl Station {
    fn read(map: &Map) -> Result<Self, BpfError> {
        let value = map.get(&0_u32.to_ne_bytes())?.unwrap_or_default();
        let field = |at: usize| value.get(at..).unwrap_or_default();
        Ok(Self {
            mac: field(0).first_chunk().copied().unwrap_or_default(),
            longest: field(6).first_chunk().map_or(u16::MAX, |bytes| u16::from_ne_bytes(*bytes)),
            guarded: field(8).first_chunk().is_some_and(|bytes| u32::from_ne_bytes(*bytes) != 0),
        })
    }

    fn write(&self, map: &Map) -> Result<(), BpfError> {
        let mut value = [0; STATION_BYTES];
        value[..6].copy_from_slice(&self.mac);
        value[6..8].copy_from_slice(&self.longest.to_ne_bytes());
        value[8..].copy_from_slice(&u32::from(self.guarded).to_ne_bytes());
        map.set(&0_u32.to_ne_bytes(), &value)
    }
}
