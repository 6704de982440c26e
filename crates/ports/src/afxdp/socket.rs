//! One AF_XDP socket: its rings, its binding to a queue, its kicks.

use super::address::QueueAddress;
use super::error::OpenError;
use super::layout::Layout;
use super::options::{BusyPoll, CopyMode, Options};
use super::ring::{Consumer, Producer};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING,
    XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc,
    XdpOptionsFlags, XdpStatistics, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wattline_memory::Pages;

/// `XDP_MAX_TX_SKB_BUDGET` of `if_xdp.h`, Linux 6.17: descriptors that one kick may send in copy
/// mode; 32 unless raised.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;
/// `SO_PREFER_BUSY_POLL`, Linux 5.11.
const SO_PREFER_BUSY_POLL: libc::c_int = 69;
/// `SO_BUSY_POLL_BUDGET`, Linux 5.11.
const SO_BUSY_POLL_BUDGET: libc::c_int = 70;
/// Bytes of kernel memory that frames to be sent may hold in copy mode: enough for
/// full rings of small frames, where the usual 208 KiB stop at about 250 frames.
const SEND_BUFFER: usize = 8 << 20;
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// Mode in which a queue was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueMode {
    /// True if the card reads and writes the worker's memory itself.
    pub zero_copy: bool,
    /// True if the kernel indicates when it needs a wake-up, so that idle queues cost no system
    /// call.
    pub need_wakeup: bool,
    /// True if preferred busy polling is in force.
    pub busy_poll: bool,
    /// True if one kick may send a whole ring; otherwise the kernel stops at 32 frames in copy mode
    /// and is kicked again.
    pub whole_ring_kick: bool,
    /// True if the frames lie in reserved huge pages.
    pub huge_pages: bool,
}

/// The rings of a socket. They are unmapped before the descriptor is closed (fields are dropped in
/// order): a remaining mapping would keep the queue occupied.
pub(super) struct Socket {
    pub(super) receive: Consumer<XdpDesc>,
    pub(super) transmit: Producer<XdpDesc>,
    pub(super) fill: Producer<u64>,
    pub(super) completion: Consumer<u64>,
    pub(super) mode: QueueMode,
    descriptor: OwnedFd,
}

impl Socket {
    /// Opens and binds a socket. Without `sharing` it registers `region` as its UMEM, otherwise it
    /// shares the UMEM (and the copy mode) of that socket.
    pub(super) fn open(
        address: &QueueAddress,
        region: &Arc<Pages>,
        layout: Layout,
        options: &Options,
        copy: CopyMode,
        sharing: Option<BorrowedFd<'_>>,
    ) -> Result<Self, OpenError> {
        let failed = |action| {
            move |source| OpenError::System {
                action,
                interface: address.interface.clone(),
                queue: address.queue,
                source,
            }
        };
        let descriptor =
            // Close-on-exec: child programs would keep the queue occupied.
            rustix::net::socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None).map_err(|errno| {
                match errno {
                    Errno::PERM => OpenError::MissingCapability { capability: "CAP_NET_RAW" },
                    Errno::AFNOSUPPORT => OpenError::MissingFeature {
                        feature: "AF_XDP sockets (CONFIG_XDP_SOCKETS, Linux 5.4 or later)",
                        source: errno,
                    },
                    _ => failed("opening a socket")(errno),
                }
            })?;
        if sharing.is_none() {
            let umem = XdpUmemReg {
                addr: region.start().addr().get() as u64,
                len: region.length() as u64,
                chunk_size: layout.kernel,
                headroom: options.headroom,
                flags: XdpUmemRegFlags::empty(),
                tx_metadata_len: 0,
            };
            sockopt::set_xdp_umem_reg(&descriptor, umem).map_err(|errno| match errno {
                Errno::NOBUFS | Errno::NOMEM => OpenError::LockedMemory { bytes: region.length() },
                _ => failed("registering the frame memory")(errno),
            })?;
        }
        let ring = options.ring;
        // Frames that are being sent are in the transmit ring or in flight.
        let completions = 2 * ring;
        sockopt::set_xdp_umem_fill_ring_size(&descriptor, ring)
            .and_then(|()| sockopt::set_xdp_umem_completion_ring_size(&descriptor, completions))
            .and_then(|()| sockopt::set_xdp_rx_ring_size(&descriptor, ring))
            .and_then(|()| sockopt::set_xdp_tx_ring_size(&descriptor, ring))
            .map_err(failed("sizing the rings"))?;
        let offsets =
            sockopt::xdp_mmap_offsets(&descriptor).map_err(failed("asking for the rings"))?;
        let fd = descriptor.as_fd();
        let mapping = failed("mapping the rings");
        let receive = Consumer::map(fd, XDP_PGOFF_RX_RING, &offsets.rx, ring).map_err(&mapping)?;
        let transmit = Producer::map(fd, XDP_PGOFF_TX_RING, &offsets.tx, ring).map_err(&mapping)?;
        let fill =
            Producer::map(fd, XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, ring).map_err(&mapping)?;
        let completion =
            Consumer::map(fd, XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, completions)
                .map_err(&mapping)?;

        let busy_poll = match options.busy_poll {
            Some(wanted) => {
                prefer_busy_poll(fd, wanted).map_err(failed("asking for busy polling"))?;
                true
            }
            None => false,
        };
        // Both only raise a limit; if that is refused, kicks are repeated.
        let _ = sockopt::set_socket_send_buffer_size_force(fd, SEND_BUFFER)
            .or_else(|_| sockopt::set_socket_send_buffer_size(fd, SEND_BUFFER));
        let whole_ring_kick = set_option(fd, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, ring).is_ok();

        bind(fd, address, copy, layout.pieces > 1, sharing, options.patience)?;
        let zero_copy = sockopt::xdp_options(fd)
            .map_err(failed("asking for the copy mode"))?
            .contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY);
        let mode = QueueMode {
            zero_copy,
            need_wakeup: true,
            busy_poll,
            whole_ring_kick: whole_ring_kick || zero_copy,
            huge_pages: region.reserved(),
        };
        Ok(Self { receive, transmit, fill, completion, mode, descriptor })
    }

    /// Asks the kernel to send the frames of the transmit ring; does not block.
    pub(super) fn kick_transmit(&self) -> Result<(), Errno> {
        rustix::net::send(&self.descriptor, &[], SendFlags::DONTWAIT).map(|_| ())
    }

    /// Lets the kernel receive (fill ring topped up, or busy polling); does not block.
    pub(super) fn kick_receive(&self) -> Result<(), Errno> {
        rustix::net::recv(&self.descriptor, &mut [0_u8; 0], RecvFlags::DONTWAIT).map(|_| ())
    }

    pub(super) fn statistics(&self) -> Result<XdpStatistics, Errno> {
        sockopt::xdp_statistics(&self.descriptor)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Binds a socket to its queue; waits a bounded time for a queue that is being released.
fn bind(
    socket: BorrowedFd<'_>,
    address: &QueueAddress,
    copy: CopyMode,
    in_pieces: bool,
    sharing: Option<BorrowedFd<'_>>,
    patience: Duration,
) -> Result<(), OpenError> {
    let flags = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP
        | match copy {
            CopyMode::Auto => SocketAddrXdpFlags::empty(),
            CopyMode::Copy => SocketAddrXdpFlags::XDP_COPY,
            CopyMode::ZeroCopy => SocketAddrXdpFlags::XDP_ZEROCOPY,
        }
        | match in_pieces {
            true => SocketAddrXdpFlags::XDP_USE_SG,
            false => SocketAddrXdpFlags::empty(),
        };
    let deadline = Instant::now() + patience;
    let bind_once = || match sharing {
        None => {
            rustix::net::bind(socket, &SocketAddrXdp::new(flags, address.ifindex, address.queue))
        }
        Some(shared_umem_fd) => {
            // The kernel takes all other flags from the socket that owns the UMEM.
            let flags = SocketAddrXdpFlags::XDP_SHARED_UMEM;
            let addr = SocketAddrXdp::new(flags, address.ifindex, address.queue);
            rustix::net::bind(socket, &SocketAddrXdpWithSharedUmem { addr, shared_umem_fd })
        }
    };
    let errno = loop {
        match bind_once() {
            Ok(()) => return Ok(()),
            Err(Errno::BUSY) if Instant::now() < deadline => std::thread::sleep(BUSY_PAUSE),
            Err(errno) => break errno,
        }
    };
    let (interface, queue) = (address.interface.clone(), address.queue);
    Err(match errno {
        Errno::BUSY => OpenError::InUse { interface, queue },
        Errno::INVAL => OpenError::NoSuchQueue { interface, queue },
        Errno::NETDOWN => OpenError::Down { interface },
        Errno::OPNOTSUPP => OpenError::NoZeroCopy { interface, queue, source: errno },
        source => OpenError::System { action: "binding a socket", interface, queue, source },
    })
}

fn prefer_busy_poll(socket: BorrowedFd<'_>, wanted: BusyPoll) -> Result<(), Errno> {
    let duration = u32::try_from(wanted.duration.as_micros()).unwrap_or(u32::MAX);
    set_option(socket, libc::SOL_SOCKET, SO_PREFER_BUSY_POLL, 1)?;
    set_option(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL, duration)?;
    set_option(socket, libc::SOL_SOCKET, SO_BUSY_POLL_BUDGET, u32::from(wanted.budget))
}

/// Sets a 32-bit socket option that rustix has no function for.
fn set_option(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: u32,
) -> Result<(), Errno> {
    let length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes at the address of `value`, which outlives
    // the call, and writes nothing.
    #[allow(unsafe_code)]
    let result = unsafe {
        let value = std::ptr::from_ref(&value).cast();
        libc::setsockopt(socket.as_raw_fd(), level, name, value, length)
    };
    if result == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}
