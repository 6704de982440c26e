//! The older interface, `SIOCETHTOOL` (include/uapi/linux/ethtool.h), for settings without a
//! netlink message.

use super::model::{Coalesce, CoalesceValues, IndirectionTable};
use std::io;
use std::os::fd::AsRawFd;

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const GDRVINFO: u32 = 0x03;
const GCOALESCE: u32 = 0x0e;
const SCOALESCE: u32 = 0x0f;
const GFLAGS: u32 = 0x25;
const GGRO: u32 = 0x2b;
const GRXCLSRLCNT: u32 = 0x2e;
const GRSSH: u32 = 0x46;
const SRSSH: u32 = 0x47;
const PERQUEUE: u32 = 0x4b;

/// ETH_FLAG_RXVLAN: tags of received frames are taken off.
const FLAG_RXVLAN: u32 = 1 << 8;

/// Words of `struct ethtool_coalesce`, command included.
const COALESCE_WORDS: usize = 23;
/// Words of `struct ethtool_per_queue_op` before its data: command, command for each queue, and a
/// bit for each of 4096 queues.
const PER_QUEUE_WORDS: usize = 2 + MOST_QUEUES / 32;
const MOST_QUEUES: usize = 4096;
/// Words of `struct ethtool_rxfh` before the table, which is followed by the hash key.
const RXFH_WORDS: usize = 6;
/// Masks the byte of `rxfh.hfunc` (0: keep the hash function) in its word.
const WITHOUT_HASH_FUNCTION: u32 = !u32::from_ne_bytes([0xff, 0, 0, 0]);
/// Upper bound for the table and key of any driver in the kernel.
const MOST_RSS_WORDS: usize = 16_384;

/// Words of `struct ethtool_drvinfo`, command included.
const DRIVER_WORDS: usize = 49;
/// Words of `struct ethtool_rxnfc` (the kernel copies all of it), and the place of `rule_cnt`.
const RXNFC_WORDS: usize = 48;
const RULE_COUNT: usize = 46;
/// Bytes of the driver's name, after the command.
const DRIVER_NAME: std::ops::Range<usize> = 4..36;

pub(super) fn driver(interface: &str) -> io::Result<String> {
    let mut words = [0; DRIVER_WORDS];
    words[0] = GDRVINFO;
    request(interface, &mut words)?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let name = bytes[DRIVER_NAME].split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Returns a parameter's word in `struct ethtool_coalesce`.
fn word(parameter: Coalesce) -> usize {
    match parameter {
        Coalesce::RxUsecs => 1,
        Coalesce::RxFrames => 2,
        Coalesce::TxUsecs => 5,
        Coalesce::TxFrames => 6,
        Coalesce::AdaptiveRx => 10,
        Coalesce::AdaptiveTx => 11,
    }
}

fn values(words: &[u32]) -> CoalesceValues {
    let value = |parameter| words.get(word(parameter)).copied().unwrap_or(0);
    CoalesceValues(Coalesce::ALL.map(value))
}

pub(super) fn queue_coalesce(interface: &str, queue: u32) -> io::Result<CoalesceValues> {
    present_of_queue(interface, queue).map(|words| values(&words[PER_QUEUE_WORDS..]))
}

fn present_of_queue(interface: &str, queue: u32) -> io::Result<Vec<u32>> {
    let mut words = per_queue(queue, GCOALESCE)?;
    request(interface, &mut words)?;
    Ok(words)
}

pub(super) fn set_queue_coalesce(
    interface: &str,
    queue: u32,
    parameter: Coalesce,
    value: u32,
) -> io::Result<()> {
    let present = present_of_queue(interface, queue)?;
    let mut words = per_queue(queue, SCOALESCE)?;
    words[PER_QUEUE_WORDS + 1..].copy_from_slice(&present[PER_QUEUE_WORDS + 1..]);
    words[PER_QUEUE_WORDS + word(parameter)] = value;
    request(interface, &mut words)
}

/// Makes a `struct ethtool_per_queue_op` for one queue, with room for its `struct
/// ethtool_coalesce`.
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

pub(super) fn indirection_table(interface: &str) -> io::Result<IndirectionTable> {
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
    Ok(IndirectionTable { queues: buffer[RXFH_WORDS..RXFH_WORDS + entries].to_vec() })
}

pub(super) fn set_indirection_table(interface: &str, table: &IndirectionTable) -> io::Result<()> {
    let entries = u32::try_from(table.queues.len())
        .ok()
        .filter(|entries| *entries > 0 && (*entries as usize) < MOST_RSS_WORDS)
        .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
    // The symmetric-hash flag, if the card has one, is in the same word: it is written back
    // unchanged.
    let mut present = [GRSSH, 0, 0, 0, 0, 0];
    request(interface, &mut present)?;
    let mut buffer = vec![SRSSH, 0, entries, 0, present[4] & WITHOUT_HASH_FUNCTION, 0];
    buffer.extend_from_slice(&table.queues);
    request(interface, &mut buffer)
}

pub(super) fn strips_vlan_tags(interface: &str) -> io::Result<bool> {
    let mut words = [GFLAGS, 0];
    request(interface, &mut words)?;
    Ok(words[1] & FLAG_RXVLAN != 0)
}

pub(super) fn merges_packets(interface: &str) -> io::Result<bool> {
    let mut words = [GGRO, 0];
    request(interface, &mut words)?;
    Ok(words[1] != 0)
}

pub(super) fn flow_rules(interface: &str) -> io::Result<u32> {
    let mut words = [0; RXNFC_WORDS];
    words[0] = GRXCLSRLCNT;
    request(interface, &mut words)?;
    Ok(words[RULE_COUNT])
}

/// Makes one request: `words` starts with the command, holds the whole structure that belongs to
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
    // gives the fixed structure of its command in full; for the indirection table, whose length
    // varies, the kernel writes no more entries and key bytes than the sizes in the request
    // say, and the buffer was made from those; statistics have far more room than any driver fills
    // (`card_statistics`).
    #[allow(unsafe_code)]
    let result = unsafe {
        libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, std::ptr::from_mut(&mut request))
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
