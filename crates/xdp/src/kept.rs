//! Attachments that outlive the process that created them.
//!
//! While a router is restarted, its interfaces keep a program that passes all frames to the kernel,
//! held by the service manager. So a driver never sees an interface without a program, at which
//! many recreate their queues (and a veth drops the packets in its ring). The program does nothing,
//! so it needs no supervision.

use crate::bpf::{Attached, BpfError, Link, object};
use crate::error::XdpError;
use crate::forward::XdpForward;
use crate::loaded::Loaded;
use crate::mode::XdpMode;
use crate::program::XdpProgram;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

/// An interface's attachment, with a program that passes all frames.
#[derive(Debug)]
pub struct KeptLink {
    link: Link,
    mode: XdpMode,
}

impl KeptLink {
    /// Names by which attachments are kept, one for each mode.
    pub const NAMES: [&str; 2] = ["wattline-xdp-native", "wattline-xdp-generic"];

    /// Takes over an attachment of the previous router, by the name under which it was kept; `None`
    /// for other names, and if the descriptor is no attachment of an XDP program.
    pub fn adopt(name: &str, descriptor: OwnedFd) -> Option<Self> {
        let mode = match Self::NAMES.iter().position(|it| *it == name)? {
            0 => XdpMode::Native,
            _ => XdpMode::Generic,
        };
        let link = Link::new(descriptor);
        link.attached().ok().flatten()?;
        Some(Self { link, mode })
    }

    /// Returns the name under which to keep it.
    pub fn name(&self) -> &'static str {
        match self.mode {
            XdpMode::Native => Self::NAMES[0],
            XdpMode::Generic => Self::NAMES[1],
        }
    }

    /// Returns its interface and program; `None` if unknown.
    pub fn attached(&self) -> Option<Attached> {
        self.link.attached().ok().flatten()
    }
}

impl AsFd for KeptLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

impl XdpProgram {
    /// [`Self::load_forwarding`] for an interface whose attachment was kept: the program replaces
    /// the one that passes all frames, in the same mode.
    ///
    /// # Errors
    /// See [`XdpError`]; the attachment is given up then.
    pub fn load_in_place_of(
        kept: KeptLink,
        mac: [u8; 6],
        forward: Option<&XdpForward>,
    ) -> Result<Self, XdpError> {
        let KeptLink { link, mode } = kept;
        let ports = match mode {
            XdpMode::Native => forward.map(XdpForward::ports),
            XdpMode::Generic => None,
        };
        let loaded = Loaded::new(mac, ports)?;
        link.update(loaded.program.as_fd())?;
        Ok(Self { loaded, link: Some(link), mode, refused: None })
    }

    /// Has the driver set the program on each of its queues again, after their number has changed:
    /// veth gives new queues none. For some microseconds, received frames go to the kernel.
    ///
    /// # Errors
    /// From the kernel; the program may then be attached to only some queues.
    pub fn cover_queues(&self) -> Result<(), BpfError> {
        let Some(link) = &self.link else { return Ok(()) };
        // The kernel does not call the driver if the program is already attached
        // (bpf_xdp_link_update, net/core/dev.c).
        link.update(object!("pass")?.load(&[])?.as_fd())?;
        link.update(self.loaded.program.as_fd())
    }

    /// Replaces this program by one that passes all frames to the kernel, and returns the
    /// attachment; `None` if there is none. The counters can still be read.
    ///
    /// # Errors
    /// From the kernel; the program is attached nowhere then.
    pub fn pass_all(&mut self) -> Result<Option<KeptLink>, BpfError> {
        let Some(link) = self.link.take() else { return Ok(None) };
        link.update(object!("pass")?.load(&[])?.as_fd())?;
        Ok(Some(KeptLink { link, mode: self.mode }))
    }
}
