//! Counters of a network card's driver (`ethtool -S`): names and values
//! (include/uapi/linux/ethtool.h, `ETHTOOL_GSSET_INFO`, `ETHTOOL_GSTRINGS`, `ETHTOOL_GSTATS`).

use crate::ethtool::request;
use std::io;

const GSTRINGS: u32 = 0x1b;
const GSTATS: u32 = 0x1d;
const GSSET_INFO: u32 = 0x37;
/// `ETH_SS_STATS`.
const STATISTICS: u32 = 1;
/// Bytes of a name (`ETH_GSTRING_LEN`).
const NAME: usize = 32;
/// Drivers with more statistics than this are ignored.
const MOST: usize = 1 << 14;
/// The kernel writes as many values as the driver has at that moment, whatever number was requested
/// (`ethtool_get_stats`, net/ethtool/ioctl.c). The buffers therefore have room for several times as
/// many, in case the driver gets more queues in between.
const ROOM: usize = 4 * MOST;

/// Counters of one interface, with a buffer that all readings use.
#[derive(Debug)]
pub struct CardStatistics {
    interface: String,
    names: Vec<String>,
    words: Vec<u32>,
}

impl CardStatistics {
    /// Asks for the names.
    ///
    /// # Errors
    /// EOPNOTSUPP if the driver has no statistics of its own, ENODEV if there is no such interface.
    pub fn open(interface: &str) -> io::Result<Self> {
        let count = count(interface)?;
        let mut words = vec![0; 3 + ROOM * NAME / 4];
        words[..3].copy_from_slice(&[GSTRINGS, STATISTICS, count as u32]);
        request(interface, &mut words)?;
        let names = words[3..].chunks_exact(NAME / 4).take(count).map(name).collect();
        Ok(Self { interface: interface.to_owned(), names, words: vec![0; 2 + ROOM * 2] })
    }

    /// Returns the names of the counters, in the order of the values.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Reads all values into `values`, in the order of the names.
    ///
    /// # Errors
    /// ENODEV if the interface is gone. EAGAIN if the number of counters has changed since the
    /// start, as after a change of queues: open it again.
    pub fn read(&mut self, values: &mut Vec<u64>) -> io::Result<()> {
        let count = self.names.len();
        if self::count(&self.interface)? != count {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        self.words[..2].copy_from_slice(&[GSTATS, count as u32]);
        request(&self.interface, &mut self.words)?;
        if self.words[1] as usize != count {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        values.clear();
        let pairs = self.words[2..].chunks_exact(2).take(count);
        values.extend(pairs.map(|pair| {
            let [low, high] = [pair[0].to_ne_bytes(), pair[1].to_ne_bytes()];
            let mut bytes = [0; 8];
            bytes[..4].copy_from_slice(&low);
            bytes[4..].copy_from_slice(&high);
            u64::from_ne_bytes(bytes)
        }));
        Ok(())
    }
}

/// Returns the number of the driver's statistics.
fn count(interface: &str) -> io::Result<usize> {
    // struct ethtool_sset_info: command, reserved, a mask of 64 bits, a length for each bit.
    let mask: [u8; 8] = (1u64 << STATISTICS).to_ne_bytes();
    let [low, high] = [0, 4].map(|at| {
        let mut word = [0; 4];
        word.copy_from_slice(&mask[at..at + 4]);
        u32::from_ne_bytes(word)
    });
    let mut words = [GSSET_INFO, 0, low, high, 0];
    request(interface, &mut words)?;
    match words[4] as usize {
        // The kernel clears the bit if there is no such set.
        _ if words[2] == 0 && words[3] == 0 => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
        count @ 1..=MOST => Ok(count),
        _ => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
    }
}

fn name(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_without_statistics_is_rejected() {
        let code = |name: &str| CardStatistics::open(name).unwrap_err().raw_os_error();
        assert_eq!(code("lo"), Some(libc::EOPNOTSUPP));
        assert_eq!(code("no-such-if"), Some(libc::ENODEV));
    }

    /// On any cards of this machine: as many values as names, and no value decreases.
    #[test]
    fn values_are_as_many_as_names() {
        let mut found = 0;
        for entry in std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten() {
            let interface = entry.file_name().to_string_lossy().into_owned();
            let Ok(mut statistics) = CardStatistics::open(&interface) else { continue };
            let (mut first, mut second) = (Vec::new(), Vec::new());
            statistics.read(&mut first).unwrap();
            statistics.read(&mut second).unwrap();
            assert_eq!(first.len(), statistics.names().len(), "{interface}");
            assert!(statistics.names().iter().all(|name| !name.is_empty()), "{interface}");
            let packets = statistics.names().iter().zip(first.iter().zip(&second));
            for (name, (first, second)) in packets.filter(|(name, _)| name.contains("packets")) {
                assert!(first <= second, "{interface} {name}: {first}, then {second}");
            }
            found += 1;
        }
        println!("{found} interfaces whose drivers count");
    }
}
