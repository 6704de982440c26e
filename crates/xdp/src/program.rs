//! Programs attached to interfaces.

use crate::bpf::{BpfError, Link, Program};
use crate::by_cpu::ForwardedByCpu;
use crate::egress::Sent;
use crate::error::{XdpError, explain};
use crate::flows::FlowLookup;
use crate::forward::XdpForward;
use crate::loaded::Loaded;
use crate::mode::{XdpMode, XdpModeChoice};
use crate::station::Station;
use crate::verdict::{Verdict, XdpCounters};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, netdevice, socket};
use std::net::IpAddr;
use std::sync::Arc;

/// Most queues of an interface that can have a socket, as in `bpf/port.h`.
pub const QUEUES_MAX: u32 = 256;
/// Most local addresses of each family, likewise.
pub const LOCAL_ADDRESSES_MAX: u32 = 16_384;

/// Kind of a local address; its number is the value in the program's maps, as in `bpf/port.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum LocalAddress {
    /// Address of this machine.
    Host = 1,
    /// Address of this machine where tunnels end.
    EndsTunnels = 2,
    /// Address of a network, or its broadcast address: the kernel answers to it, or forwards to it.
    Shared = 3,
    /// IPv6 address of another machine for which the kernel answers neighbour discovery at this
    /// interface.
    Proxied = 4,
}

/// The program on one interface, attached until this is dropped.
pub struct XdpProgram {
    pub(crate) loaded: Loaded,
    /// Keeps the program in the driver.
    pub(crate) link: Option<Link>,
    pub(crate) mode: XdpMode,
    /// The driver's error, if native mode was tried first and refused.
    pub(crate) refused: Option<Errno>,
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

    /// Does the same with a program that, in native mode, forwards by itself to the interfaces that
    /// are open in `forward`.
    ///
    /// # Errors
    /// See [`XdpError`]; nothing stays attached then.
    pub fn load_forwarding(
        ifindex: u32,
        mac: [u8; 6],
        choice: XdpModeChoice,
        forward: Option<&XdpForward>,
    ) -> Result<Self, XdpError> {
        Self::load_prepared(ifindex, mac, choice, forward, &mut |_| Ok(()))
    }

    /// Does the same, and calls `prepare` to fill the program's maps before its first frame.
    ///
    /// # Errors
    /// See [`XdpError`], and errors of `prepare`; nothing stays attached then.
    pub fn load_prepared(
        ifindex: u32,
        mac: [u8; 6],
        choice: XdpModeChoice,
        forward: Option<&XdpForward>,
        prepare: &mut dyn FnMut(&Self) -> Result<(), BpfError>,
    ) -> Result<Self, XdpError> {
        let modes: &[XdpMode] = match choice {
            XdpModeChoice::Auto => &[XdpMode::Native, XdpMode::Generic],
            XdpModeChoice::Only(XdpMode::Native) => &[XdpMode::Native],
            XdpModeChoice::Only(XdpMode::Generic) => &[XdpMode::Generic],
        };
        let mut refusals = Vec::new();
        for &mode in modes {
            // Forwarding in generic mode has no advantage: the socket buffer exists already.
            let ports = match mode {
                XdpMode::Native => forward.map(XdpForward::ports),
                XdpMode::Generic => None,
            };
            let mut program =
                Self { loaded: Loaded::new(mac, ports)?, link: None, mode, refused: None };
            prepare(&program)?;
            match attach(&program.loaded.program, ifindex, mode)? {
                Ok(link) => {
                    program.link = Some(link);
                    program.refused = refusals.first().map(|(_, errno)| *errno);
                    return Ok(program);
                }
                Err(errno) => refusals.push((mode, errno)),
            }
        }
        Err(XdpError::Refused { ifindex, refusals })
    }

    /// Loads the program that forwards the established flows of an nftables flowtable to the
    /// interfaces that are open in `forward`, and leaves everything else to the kernel. It runs
    /// only in native mode.
    ///
    /// # Errors
    /// See [`XdpError`]; nothing stays attached then.
    pub fn load_of_flows(
        ifindex: u32,
        mac: [u8; 6],
        forward: &XdpForward,
        lookup: &FlowLookup,
    ) -> Result<Self, XdpError> {
        let mode = XdpMode::Native;
        let loaded = Loaded::flow_program(mac, forward.ports(), lookup)?;
        match attach(&loaded.program, ifindex, mode)? {
            Ok(link) => Ok(Self { loaded, link: Some(link), mode, refused: None }),
            Err(errno) => Err(XdpError::Refused { ifindex, refusals: vec![(mode, errno)] }),
        }
    }

    /// Attaches the program to an interface that has replaced a removed one, in the same mode as
    /// before. Counters, local addresses and VLANs are kept; there is no socket until one is set.
    /// If the program is attached there already, it is not interrupted.
    ///
    /// # Errors
    /// See [`XdpError`]; the program is attached nowhere then.
    pub fn attach_again(&mut self, ifindex: u32, mac: [u8; 6]) -> Result<(), XdpError> {
        let is_there = self.interface() == Some(ifindex);
        if !is_there {
            self.link = None;
        }
        self.clear_sockets()?;
        self.set_mac(mac)?;
        if is_there {
            return Ok(());
        }
        // The new driver is only asked for the previous mode.
        self.refused = None;
        match attach(&self.loaded.program, ifindex, self.mode)? {
            Ok(link) => self.link = Some(link),
            Err(errno) => {
                return Err(XdpError::Refused { ifindex, refusals: vec![(self.mode, errno)] });
            }
        }
        Ok(())
    }

    /// Gives all frames back to the kernel. The counters can still be read.
    pub fn detach(&mut self) {
        self.link = None;
    }

    /// Returns the count of frames that the program itself has forwarded to the interface at this
    /// slot of its [`XdpForward`].
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn sent(&self, slot: u32) -> Result<Sent, BpfError> {
        self.loaded.maps.forward.as_ref().map_or(Ok(Sent::default()), |forward| forward.sent(slot))
    }

    /// Returns true if the program itself forwards, by the kernel's tables.
    pub fn does_forward(&self) -> bool {
        self.loaded.maps.forward.is_some()
    }

    /// Returns the mode in which the program runs.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// Returns the reason why it does not run in native mode, if the driver refused.
    pub fn generic_reason(&self) -> Option<String> {
        self.refused.map(|errno| explain(XdpMode::Native, errno))
    }

    /// Sends transit frames of a receive queue to an AF_XDP socket bound to that queue.
    ///
    /// # Errors
    /// When the queue is not below [`QUEUES_MAX`] or the socket has no receive ring.
    pub fn set_socket(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), BpfError> {
        self.loaded.maps.sockets.set(&queue.to_ne_bytes(), &socket.as_raw_fd().to_ne_bytes())
    }

    /// Sends the frames of a receive queue to the kernel again.
    ///
    /// # Errors
    /// When the queue is not below [`QUEUES_MAX`].
    pub fn clear_socket(&self, queue: u32) -> Result<(), BpfError> {
        self.loaded.maps.sockets.remove(&queue.to_ne_bytes()).map(|_| ())
    }

    /// Does the same for all queues.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn clear_sockets(&self) -> Result<(), BpfError> {
        (0..QUEUES_MAX).try_for_each(|queue| self.clear_socket(queue))
    }

    /// Returns the interface that the program is attached to, by its number in its own network
    /// namespace.
    pub fn interface(&self) -> Option<u32> {
        self.link.as_ref()?.attached().ok()??.interface
    }

    /// Sets the interface's MAC address after a change.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn set_mac(&self, mac: [u8; 6]) -> Result<(), BpfError> {
        Station { mac, ..Station::read(&self.loaded.maps.station)? }
            .write(&self.loaded.maps.station)
    }

    /// Leaves IP packets of more than this many bytes, which are too long for the sockets, to the
    /// kernel. Initially there is no limit.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn set_longest(&self, bytes: u16) -> Result<(), BpfError> {
        Station { longest: bytes, ..Station::read(&self.loaded.maps.station)? }
            .write(&self.loaded.maps.station)
    }

    /// Sets or clears the guard of the interface; initially it is not guarded. On a guarded
    /// interface nothing is left to the kernel that it would forward: packets that workers can
    /// judge go to the sockets, packets for this machine go to the kernel, and the rest is dropped.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn set_guarded(&self, guarded: bool) -> Result<(), BpfError> {
        Station { guarded, ..Station::read(&self.loaded.maps.station)? }
            .write(&self.loaded.maps.station)
    }

    /// Leaves packets to this address to the kernel: an address of any interface of this machine,
    /// or a subnet's broadcast address. If tunnels end there, ESP packets, also in UDP (RFC 3948),
    /// go to the sockets; IKE still goes to the kernel. Packets to shared addresses go to the
    /// sockets while the interface is guarded.
    ///
    /// # Errors
    /// When there are more than [`LOCAL_ADDRESSES_MAX`] of the family.
    pub fn add_local(&self, address: IpAddr, kind: LocalAddress) -> Result<(), BpfError> {
        self.loaded.maps.local.add(address, kind as u8)
    }

    /// Removes an address; nothing happens if it was not added.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn remove_local(&self, address: IpAddr) -> Result<(), BpfError> {
        self.loaded.maps.local.remove(address)
    }

    /// Enables or disables routing of frames tagged with this VLAN (0 to 4095).
    ///
    /// # Errors
    /// When the number is above 4095.
    pub fn set_vlan(&self, vlan: u16, routed: bool) -> Result<(), BpfError> {
        let (key, value) = (u32::from(vlan), u32::from(routed));
        self.loaded.maps.vlans.set(&key.to_ne_bytes(), &value.to_ne_bytes())
    }

    /// Returns the counter, by processor, of frames that the program itself forwards, for use in
    /// another thread. It continues to count when the program is attached again.
    pub fn forwarded(&self) -> ForwardedByCpu {
        ForwardedByCpu::new(Arc::clone(&self.loaded.maps.counters))
    }

    /// Returns the frames by verdict since the program was loaded.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn counters(&self) -> Result<XdpCounters, BpfError> {
        let mut counters = XdpCounters::default();
        for verdict in Verdict::ALL {
            let values = self.loaded.maps.counters.get(&(verdict as u32).to_ne_bytes())?;
            let values = values.unwrap_or_default();
            let (per_cpu, _) = values.as_chunks::<8>();
            counters.set(verdict, per_cpu.iter().map(|value| u64::from_ne_bytes(*value)).sum());
        }
        Ok(counters)
    }
}

/// Attaches a program, or returns the error with which the driver refuses it.
fn attach(program: &Program, ifindex: u32, mode: XdpMode) -> Result<Result<Link, Errno>, XdpError> {
    match program.attach(ifindex, mode.flag()) {
        Ok(link) => Ok(Ok(link)),
        Err(error) => match error.errno() {
            Some(Errno::BUSY | Errno::EXIST) => Err(XdpError::Occupied { ifindex }),
            // The kernel returns EINVAL for this, too.
            Some(_) if !exists(ifindex) => Err(XdpError::NoInterface { ifindex }),
            // Missing capabilities: the other mode needs the same.
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
