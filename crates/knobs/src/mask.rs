//! Files with the CPU masks of a queue (Documentation/networking/scaling.rst).

use std::fmt;

pub(crate) const NET: &str = "/sys/class/net/";

/// A kind of mask of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mask {
    /// The CPUs that take the packets of a receive queue.
    Receive,
    /// The CPUs that send by a transmit queue.
    Transmit,
}

impl Mask {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Receive, Self::Transmit];

    /// Returns the prefix of the queue's directory, and the file.
    pub(crate) fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Receive => ("rx-", "rps_cpus"),
            Self::Transmit => ("tx-", "xps_cpus"),
        }
    }
}

/// Writes the file of a mask.
pub(crate) fn path(
    f: &mut fmt::Formatter<'_>,
    interface: &str,
    queue: u32,
    mask: Mask,
) -> fmt::Result {
    let (prefix, file) = mask.names();
    write!(f, "{NET}{interface}/queues/{prefix}{queue}/{file}")
}

/// Returns the interface, queue and mask of a file; `None` for any other.
pub(crate) fn parse(text: &str) -> Option<(String, u32, Mask)> {
    let words: Vec<&str> = text.strip_prefix(NET)?.split('/').collect();
    let [interface, "queues", queue, file] = words[..] else { return None };
    let mask = Mask::ALL.into_iter().find(|mask| mask.names().1 == file)?;
    let queue = queue.strip_prefix(mask.names().0)?.parse().ok()?;
    let harmless = !["", ".", ".."].contains(&interface) && !interface.contains(char::is_control);
    harmless.then(|| (interface.to_owned(), queue, mask))
}
