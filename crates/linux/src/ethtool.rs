//! Settings of network cards through `SIOCETHTOOL` (include/uapi/linux/ethtool.h): interrupt
//! moderation, the redirect table of receive-side scaling, channels and rings.

use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::str::FromStr;

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const GCOALESCE: u32 = 0x0e;
const SCOALESCE: u32 = 0x0f;
const GRINGPARAM: u32 = 0x10;
const GCHANNELS: u32 = 0x3c;
const SCHANNELS: u32 = 0x3d;
const GRSSH: u32 = 0x46;
const SRSSH: u32 = 0x47;
const PERQUEUE: u32 = 0x4b;

/// Words of `struct ethtool_coalesce`, command included.
const COALESCE_WORDS: usize = 23;
/// Words of `struct ethtool_per_queue_op` before its data: command, command for each queue, and
/// a bit for each of 4096 queues.
const PER_QUEUE_WORDS: usize = 2 + MOST_QUEUES / 32;
const MOST_QUEUES: usize = 4096;
/// Words of `struct ethtool_rxfh` before the table; then come table and hash key.
const RXFH_WORDS: usize = 6;
/// Keeps the byte of `rxfh.hfunc` (0: leave the hash function as it is) out of its word.
const WITHOUT_HASH_FUNCTION: u32 = !u32::from_ne_bytes([0xff, 0, 0, 0]);
/// The largest table and key of any driver in the kernel, with room.
const MOST_RSS_WORDS: usize = 16_384;

/// An interrupt moderation parameter, named as `ethtool -C` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coalesce {
    /// Microseconds that a receive interrupt waits for more packets.
    RxUsecs,
    /// Packets after which it waits no longer.
    RxFrames,
    /// The same for transmission.
    TxUsecs,
    /// The same for transmission.
    TxFrames,
    /// 1: the driver chooses the receive parameters itself.
    AdaptiveRx,
    /// 1: the driver chooses the transmit parameters itself.
    AdaptiveTx,
}

impl Coalesce {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::RxUsecs,
        Self::RxFrames,
        Self::TxUsecs,
        Self::TxFrames,
        Self::AdaptiveRx,
        Self::AdaptiveTx,
    ];

    /// Its word in `struct ethtool_coalesce`.
    fn word(self) -> usize {
        match self {
            Self::RxUsecs => 1,
            Self::RxFrames => 2,
            Self::TxUsecs => 5,
            Self::TxFrames => 6,
            Self::AdaptiveRx => 10,
            Self::AdaptiveTx => 11,
        }
    }
}

/// All parameters of an interface, as its driver reports them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoalesceValues([u32; COALESCE_WORDS]);

impl CoalesceValues {
    /// One of them.
    pub fn get(&self, parameter: Coalesce) -> u32 {
        self.0[parameter.word()]
    }
}

/// The redirect table: which receive queue each hash value goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectTable {
    /// A queue per entry.
    pub queues: Vec<u32>,
}

/// Queues of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channels {
    /// Receive and transmit queues with a common interrupt.
    pub combined: u32,
    /// The most that the card can have of them.
    pub most_combined: u32,
    /// Queues that only receive.
    pub receive: u32,
    /// Queues that only transmit.
    pub transmit: u32,
}

/// Descriptors per queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rings {
    /// Receive descriptors.
    pub receive: u32,
    /// The most that the card can have of them.
    pub most_receive: u32,
    /// Transmit descriptors.
    pub transmit: u32,
    /// The most that the card can have of them.
    pub most_transmit: u32,
}

/// The interrupt moderation of an interface.
///
/// # Errors
/// EOPNOTSUPP where the driver has none, ENODEV where there is no such interface.
pub fn coalesce(interface: &str) -> io::Result<CoalesceValues> {
    let mut words = [0; COALESCE_WORDS];
    words[0] = GCOALESCE;
    request(interface, &mut words)?;
    Ok(CoalesceValues(words))
}

/// Sets one parameter and leaves the others as they are.
///
/// # Errors
/// Also EPERM without CAP_NET_ADMIN, EINVAL or EOPNOTSUPP where the driver refuses.
pub fn set_coalesce(interface: &str, parameter: Coalesce, value: u32) -> io::Result<()> {
    let CoalesceValues(mut words) = coalesce(interface)?;
    words[0] = SCOALESCE;
    words[parameter.word()] = value;
    request(interface, &mut words)
}

/// The interrupt moderation of one queue of an interface.
///
/// # Errors
/// EOPNOTSUPP where the driver has none, or none for single queues.
pub fn queue_coalesce(interface: &str, queue: u32) -> io::Result<CoalesceValues> {
    let mut words = per_queue(queue, GCOALESCE)?;
    request(interface, &mut words)?;
    let mut values = [0; COALESCE_WORDS];
    values.copy_from_slice(&words[PER_QUEUE_WORDS..]);
    Ok(CoalesceValues(values))
}

/// Sets one parameter of one queue and leaves the others as they are.
///
/// # Errors
/// As [`queue_coalesce`], and as [`set_coalesce`].
pub fn set_queue_coalesce(
    interface: &str,
    queue: u32,
    parameter: Coalesce,
    value: u32,
) -> io::Result<()> {
    let CoalesceValues(present) = queue_coalesce(interface, queue)?;
    let mut words = per_queue(queue, SCOALESCE)?;
    words[PER_QUEUE_WORDS + 1..].copy_from_slice(&present[1..]);
    words[PER_QUEUE_WORDS + parameter.word()] = value;
    request(interface, &mut words)
}

/// A `struct ethtool_per_queue_op` for one queue, with room for its `struct ethtool_coalesce`.
fn per_queue(queue: u32, command: u32) -> io::Result<Vec<u32>> {
    let bit = queue as usize;
    if bit >= MOST_QUEUES {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut words = vec![0; PER_QUEUE_WORDS + COALESCE_WORDS];
    words[0] = PERQUEUE;
    words[1] = command;
    words[2 + bit / 32] = 1 << (bit % 32);
    words[PER_QUEUE_WORDS] = command;
    Ok(words)
}

/// The redirect table of an interface.
///
/// # Errors
/// EOPNOTSUPP where the card has none.
pub fn redirect_table(interface: &str) -> io::Result<RedirectTable> {
    let mut sizes = [GRSSH, 0, 0, 0, 0, 0];
    request(interface, &mut sizes)?;
    let (entries, key_bytes) = (sizes[2] as usize, sizes[3] as usize);
    let words = RXFH_WORDS + entries + key_bytes.div_ceil(4);
    if entries == 0 || words > MOST_RSS_WORDS {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    let mut buffer = vec![0; words];
    buffer[0] = GRSSH;
    buffer[2] = sizes[2];
    buffer[3] = sizes[3];
    request(interface, &mut buffer)?;
    Ok(RedirectTable { queues: buffer[RXFH_WORDS..RXFH_WORDS + entries].to_vec() })
}

/// Replaces the redirect table; hash function and key stay.
///
/// # Errors
/// EINVAL where its length is not the card's or a queue does not exist.
pub fn set_redirect_table(interface: &str, table: &RedirectTable) -> io::Result<()> {
    let entries = u32::try_from(table.queues.len())
        .ok()
        .filter(|entries| *entries > 0 && (*entries as usize) < MOST_RSS_WORDS)
        .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
    // The symmetric-hash flag, where the card has one, is in the same word: handed back as is.
    let mut present = [GRSSH, 0, 0, 0, 0, 0];
    request(interface, &mut present)?;
    let mut buffer = vec![SRSSH, 0, entries, 0, present[4] & WITHOUT_HASH_FUNCTION, 0];
    buffer.extend_from_slice(&table.queues);
    request(interface, &mut buffer)
}

/// The queues of an interface.
///
/// # Errors
/// EOPNOTSUPP where the driver does not say.
pub fn channels(interface: &str) -> io::Result<Channels> {
    let mut words = [GCHANNELS, 0, 0, 0, 0, 0, 0, 0, 0];
    request(interface, &mut words)?;
    let [_, _, _, _, most_combined, receive, transmit, _, combined] = words;
    Ok(Channels { combined, most_combined, receive, transmit })
}

/// Sets the number of combined queues.
///
/// # Errors
/// EINVAL where there are not so many, EBUSY or EINVAL while the redirect table uses more.
pub fn set_combined_channels(interface: &str, combined: u32) -> io::Result<()> {
    let mut words = [GCHANNELS, 0, 0, 0, 0, 0, 0, 0, 0];
    request(interface, &mut words)?;
    words[0] = SCHANNELS;
    words[8] = combined;
    request(interface, &mut words)
}

/// The ring sizes of an interface.
///
/// # Errors
/// EOPNOTSUPP where the driver does not say.
pub fn rings(interface: &str) -> io::Result<Rings> {
    let mut words = [GRINGPARAM, 0, 0, 0, 0, 0, 0, 0, 0];
    request(interface, &mut words)?;
    let [_, most_receive, _, _, most_transmit, receive, _, _, transmit] = words;
    Ok(Rings { receive, most_receive, transmit, most_transmit })
}

/// One request: `words` starts with the command, holds the whole structure that belongs to
/// it, and is overwritten by the answer.
pub(crate) fn request(interface: &str, words: &mut [u32]) -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketType, socket};
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: all fields of `ifreq` are integers, pointers and unions of them, for which zero
    // is valid.
    #[allow(unsafe_code)]
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.is_empty() || interface.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: `ifru_data` points to `words`, live and exclusive during the call. Each caller
    // gives the fixed structure of its command in full; for the redirect table, whose length
    // varies, the kernel writes no more entries and key bytes than the sizes in the request
    // say, and the buffer was made from those; statistics have far more room than any driver fills
    // (`card_statistics`).
    #[allow(unsafe_code)]
    let result = unsafe {
        libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, std::ptr::from_mut(&mut request))
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl fmt::Display for Coalesce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RxUsecs => "rx-usecs",
            Self::RxFrames => "rx-frames",
            Self::TxUsecs => "tx-usecs",
            Self::TxFrames => "tx-frames",
            Self::AdaptiveRx => "adaptive-rx",
            Self::AdaptiveTx => "adaptive-tx",
        })
    }
}

impl FromStr for Coalesce {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|parameter| parameter.to_string() == text).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_named_by_the_error() {
        for name in ["", "no-such-if", "a-name-that-is-far-too-long"] {
            assert_eq!(coalesce(name).unwrap_err().raw_os_error(), Some(libc::ENODEV), "{name}");
        }
    }

    #[test]
    fn the_loopback_has_nothing_to_set() {
        assert_eq!(coalesce("lo").unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
        assert_eq!(redirect_table("lo").unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
        assert_eq!(queue_coalesce("lo", 0).unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
        let none = queue_coalesce("lo", 4096).unwrap_err();
        assert_eq!(none.raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn parameter_names_read_back() {
        for parameter in Coalesce::ALL {
            assert_eq!(parameter.to_string().parse(), Ok(parameter));
        }
    }
}
