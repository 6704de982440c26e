//! Attachments of programs.

use super::error::BpfError;
use super::syscall::{Attributes, Command};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;

/// `BPF_LINK_TYPE_XDP`
const OF_XDP: u32 = 6;

/// A program's attachment to an interface or tracepoint. It ends when its last descriptor is
/// closed: when this is dropped or the process ends, unless another process has a descriptor, too.
#[derive(Debug)]
pub struct Link {
    descriptor: OwnedFd,
}

/// Interface and program that an XDP link joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attached {
    /// The interface, by its number in its own network namespace; `None` if it is gone.
    pub interface: Option<u32>,
    /// The kernel's number of the program.
    pub program: u32,
}

impl Link {
    /// Creates a link from its descriptor.
    pub(crate) fn new(descriptor: OwnedFd) -> Self {
        Self { descriptor }
    }

    /// Replaces the attached program by another, given by its descriptor, in the same mode. The
    /// driver only swaps the programs, which changes neither queues nor carrier (Linux 5.9).
    ///
    /// # Errors
    /// [`BpfError::System`] with ENOLINK if the interface is gone.
    pub fn update(&self, program: BorrowedFd<'_>) -> Result<(), BpfError> {
        let mut attributes =
            Attributes::new().word(0, self.number()).word(4, program.as_raw_fd() as u32);
        let updated = attributes.call(Command::LinkUpdate);
        updated.map(|_| ()).map_err(|errno| error("replacing an attached program", errno))
    }

    /// Returns interface and program of the link; `None` if it is no link of an XDP program.
    ///
    /// # Errors
    /// EINVAL if the descriptor is not one of BPF.
    pub fn attached(&self) -> Result<Option<Attached>, BpfError> {
        // `struct bpf_link_info`: type, number, number of the program, 4 unused bytes, and for XDP
        // the interface. Other types may be longer and are truncated.
        let mut info = [0; 24];
        let length = info.len() as u32;
        Attributes::new()
            .word(0, self.number())
            .word(4, length)
            .output(8, &mut info)
            .call(Command::ObjectInfo)
            .map_err(|errno| error("querying a link", errno))?;
        let word = |at: usize| info[at..].first_chunk().map_or(0, |it| u32::from_ne_bytes(*it));
        let interface = Some(word(16)).filter(|interface| *interface != 0);
        let attached = Attached { interface, program: word(8) };
        Ok((word(0) == OF_XDP).then_some(attached))
    }

    fn number(&self) -> u32 {
        self.descriptor.as_raw_fd() as u32
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn error(action: &str, errno: Errno) -> BpfError {
    BpfError::new(action, CapabilitySet::BPF | CapabilitySet::NET_ADMIN, errno)
}
