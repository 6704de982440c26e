//! BPF maps: tables that a program and this process share.

use super::error::BpfError;
use super::syscall::{Attributes, Command};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;
use std::sync::OnceLock;

/// `enum bpf_map_type`, as far as used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    /// A hash table.
    Hash = 1,
    /// An array, whose keys are 32-bit indices.
    Array = 2,
    /// A hash table with its own values for each processor.
    PerCpuHash = 5,
    /// An array with its own values for each processor.
    PerCpuArray = 6,
    /// A table of prefixes with longest-prefix match.
    Prefixes = 11,
    /// Maps, by index.
    Maps = 12,
    /// AF_XDP sockets by queue number.
    Sockets = 17,
    /// Interfaces to send to, by any 32-bit number.
    Devices = 25,
    /// A ring of records that programs write and a process reads ([`super::Ring`]).
    Ring = 27,
}

impl MapKind {
    /// Returns the kind with this number.
    pub(super) fn numbered(number: u32) -> Option<Self> {
        let all = [
            Self::Hash,
            Self::Array,
            Self::PerCpuHash,
            Self::PerCpuArray,
            Self::Prefixes,
            Self::Maps,
            Self::Sockets,
            Self::Devices,
            Self::Ring,
        ];
        all.into_iter().find(|kind| *kind as u32 == number)
    }
}

/// Definition of a map.
#[derive(Debug, Clone, Copy)]
pub struct Definition {
    /// Type of the map.
    pub kind: MapKind,
    /// In bytes.
    pub key_size: u32,
    /// In bytes.
    pub value_size: u32,
    /// Largest number of entries.
    pub entries: u32,
    /// `BPF_F_*` of `BPF_MAP_CREATE`.
    pub flags: u32,
}

/// A map; it lives until this and every program that uses it are gone.
#[derive(Debug)]
pub struct Map {
    descriptor: OwnedFd,
    kind: MapKind,
    name: String,
    key_size: usize,
    value_size: usize,
    entries: u32,
}

impl Map {
    /// Creates a map. The kernel knows it by the first 15 bytes of its name: letters, digits, `_`
    /// and `.`.
    ///
    /// # Errors
    /// Without CAP_BPF (for a map of sockets CAP_NET_ADMIN also), or memory.
    pub fn create(name: &str, definition: Definition) -> Result<Self, BpfError> {
        Self::create_like(name, definition, None)
    }

    /// Does the same; the map may be a map of maps like `inner`.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub(super) fn create_like(
        name: &str,
        definition: Definition,
        inner: Option<&Self>,
    ) -> Result<Self, BpfError> {
        let Definition { kind, key_size, value_size, entries, flags } = definition;
        let mut attributes = Attributes::new()
            .word(0, kind as u32)
            .word(4, key_size)
            .word(8, value_size)
            .word(12, entries)
            .word(16, flags)
            .word(20, inner.map_or(0, Self::fd_number))
            .name(28, name);
        let descriptor =
            attributes.call_for_descriptor(Command::MapCreate).map_err(|errno| match errno {
                Errno::INVAL if kind == MapKind::Sockets => BpfError::MissingFeature {
                    action: format!("creating the map {name}"),
                    feature: "AF_XDP socket maps (CONFIG_XDP_SOCKETS, Linux 4.18)",
                    source: errno,
                },
                _ => {
                    let needed = CapabilitySet::BPF | CapabilitySet::NET_ADMIN;
                    BpfError::new(format!("creating the map {name}"), needed, errno)
                }
            })?;
        let (key_size, value_size) = (key_size as usize, value_size as usize);
        Ok(Self { descriptor, kind, name: name.to_owned(), key_size, value_size, entries })
    }

    /// Returns its name in programs.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Makes the map read-only for processes, so that its values are constants for programs that
    /// are loaded later (Linux 5.2).
    ///
    /// # Errors
    /// Only from the kernel.
    pub(super) fn freeze(&self) -> Result<(), BpfError> {
        let frozen = Attributes::new().word(0, self.fd_number()).call(Command::MapFreeze);
        frozen.map(|_| ()).map_err(|errno| self.error("freezing", errno))
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// When a hash table is full (E2BIG), an index is too large (E2BIG), or a socket cannot be
    /// used.
    ///
    /// # Panics
    /// When key or value have another size than the map's.
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<(), BpfError> {
        assert!(key.len() == self.key_size && value.len() == self.value_size);
        assert!(
            !matches!(self.kind, MapKind::PerCpuHash | MapKind::PerCpuArray),
            "per-CPU values are only read"
        );
        Attributes::new()
            .word(0, self.fd_number())
            .input(8, key)
            .input(16, value)
            .call(Command::MapUpdate)
            .map(|_| ())
            .map_err(|errno| self.error("writing", errno))
    }

    /// Removes a key; returns true if it existed.
    ///
    /// # Errors
    /// Only if the descriptor is no longer a map.
    ///
    /// # Panics
    /// When the key has another size than the map's.
    pub fn remove(&self, key: &[u8]) -> Result<bool, BpfError> {
        assert_eq!(key.len(), self.key_size);
        let result =
            Attributes::new().word(0, self.fd_number()).input(8, key).call(Command::MapDelete);
        match result {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(self.error("removing from", errno)),
        }
    }

    /// Reads the value of a key; for a per-CPU map the values of all possible processors, each
    /// rounded up to 8 bytes.
    ///
    /// # Errors
    /// Only if the descriptor is no longer a map.
    ///
    /// # Panics
    /// When the key has another size than the map's.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, BpfError> {
        assert_eq!(key.len(), self.key_size);
        let length = match self.kind {
            MapKind::PerCpuHash | MapKind::PerCpuArray => {
                self.value_size.next_multiple_of(8) * possible_cpus()
            }
            _ => self.value_size,
        };
        let mut value = vec![0; length];
        let result = Attributes::new()
            .word(0, self.fd_number())
            .input(8, key)
            .output(16, &mut value)
            .call(Command::MapLookup);
        match result {
            Ok(_) => Ok(Some(value)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.error("reading", errno)),
        }
    }

    /// Returns the keys of a hash table, in ascending order. Keys that are added or removed
    /// meanwhile may be included or not.
    ///
    /// # Errors
    /// Only if the descriptor is no longer a map.
    pub fn keys(&self) -> Result<Vec<Vec<u8>>, BpfError> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        // If a key is removed meanwhile, the kernel starts again with the first one.
        for _ in 0..2 * self.entries {
            let mut next = vec![0; self.key_size];
            let attributes = Attributes::new().word(0, self.fd_number());
            // Without a previous key, the kernel returns the first one.
            let attributes = match keys.last() {
                Some(last) => attributes.input(8, last),
                None => attributes,
            };
            match attributes.output(16, &mut next).call(Command::MapNextKey) {
                Ok(_) => keys.push(next),
                Err(Errno::NOENT) => break,
                Err(errno) => return Err(self.error("listing the keys of", errno)),
            }
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    /// Sets all values of an array at once (Linux 5.6).
    ///
    /// # Errors
    /// Only from the kernel.
    ///
    /// # Panics
    /// When the map is no array, or the number or size of the values is wrong.
    pub fn set_all(&self, values: &[u8]) -> Result<(), BpfError> {
        assert!(self.kind == MapKind::Array && values.len() == self.bytes());
        let keys: Vec<u32> = (0..self.entries).collect();
        Attributes::new()
            .input(16, &keys)
            .input(24, values)
            .word(32, self.entries)
            .word(36, self.fd_number())
            .call(Command::MapUpdateBatch)
            .map(|_| ())
            .map_err(|errno| self.error("writing", errno))
    }

    /// Reads all values of an array at once, in order (Linux 5.6).
    ///
    /// # Errors
    /// Only from the kernel.
    ///
    /// # Panics
    /// When the map is no array.
    pub fn get_all(&self) -> Result<Vec<u8>, BpfError> {
        assert!(self.kind == MapKind::Array, "only arrays have a value for each index");
        let mut values = vec![0; self.bytes()];
        let mut keys = vec![0; self.entries as usize * self.key_size];
        let mut position = [0; 4];
        let result = Attributes::new()
            .output(8, &mut position)
            .output(16, &mut keys)
            .output(24, &mut values)
            .word(32, self.entries)
            .word(36, self.fd_number())
            .call(Command::MapLookupBatch);
        match result {
            // The kernel returns NOENT after the last entry; all have been read then.
            Ok(_) | Err(Errno::NOENT) => Ok(values),
            Err(errno) => Err(self.error("reading", errno)),
        }
    }

    /// Returns the bytes of all values of an array.
    fn bytes(&self) -> usize {
        self.entries as usize * self.value_size
    }

    /// Returns the kernel's number of this map, which is the same for all users.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn id(&self) -> Result<u32, BpfError> {
        // `struct bpf_map_info`: type, then number.
        let mut info = [0; 8];
        let length = info.len() as u32;
        Attributes::new()
            .word(0, self.fd_number())
            .word(4, length)
            .output(8, &mut info)
            .call(Command::ObjectInfo)
            .map_err(|errno| self.error("asking for the number of", errno))?;
        let [.., a, b, c, d] = info;
        Ok(u32::from_ne_bytes([a, b, c, d]))
    }

    fn error(&self, action: &str, errno: Errno) -> BpfError {
        BpfError::new(format!("{action} the map {}", self.name), CapabilitySet::BPF, errno)
    }

    fn fd_number(&self) -> u32 {
        self.descriptor.as_raw_fd() as u32
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Returns the number of possible processors of this kernel, which is the number of values in a
/// per-CPU map.
///
/// If the kernel does not report it, returns the largest number that Linux can be built for, so
/// that a buffer is never too short.
pub(crate) fn possible_cpus() -> usize {
    const LARGEST: usize = 8192;
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| {
        std::fs::read_to_string("/sys/devices/system/cpu/possible")
            .ok()
            .and_then(|text| parse_last_cpu(&text))
            .map_or(LARGEST, |last| last + 1)
    })
}

/// Returns the last processor of a list such as `0-3,8`.
fn parse_last_cpu(text: &str) -> Option<usize> {
    text.trim().rsplit([',', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_understood() {
        assert_eq!(parse_last_cpu("0\n"), Some(0));
        assert_eq!(parse_last_cpu("0-3\n"), Some(3));
        assert_eq!(parse_last_cpu("0-3,8"), Some(8));
        assert_eq!(parse_last_cpu(""), None);
    }

    #[test]
    fn hash_map_returns_inserted_values() {
        let definition =
            Definition { kind: MapKind::Hash, key_size: 4, value_size: 1, entries: 8, flags: 0 };
        let map = match Map::create("test", definition) {
            Ok(map) => map,
            Err(error @ BpfError::MissingCapability { .. }) => {
                return wattline_needs::rights(&error);
            }
            Err(error) => panic!("{error}"),
        };
        let key = [192, 0, 2, 1];
        assert_eq!(map.get(&key).unwrap(), None);
        map.set(&key, &[7]).unwrap();
        map.set(&[198, 51, 100, 1], &[8]).unwrap();
        assert_eq!(map.keys().unwrap(), [[192, 0, 2, 1], [198, 51, 100, 1]]);
        assert_eq!(map.get(&key).unwrap(), Some(vec![7]));
        assert!(map.remove(&key).unwrap());
        assert!(!map.remove(&key).unwrap());
    }

    #[test]
    fn all_values_of_an_array_are_written_and_read_at_once() {
        let definition =
            Definition { kind: MapKind::Array, key_size: 4, value_size: 12, entries: 3, flags: 0 };
        let map = match Map::create("test", definition) {
            Ok(map) => map,
            Err(error @ BpfError::MissingCapability { .. }) => {
                return wattline_needs::rights(&error);
            }
            Err(error) => panic!("{error}"),
        };
        let values: Vec<u8> = (1..=36).collect();
        map.set_all(&values).unwrap();
        assert_eq!(map.get(&1_u32.to_ne_bytes()).unwrap().unwrap(), values[12..24]);
        assert_eq!(map.get_all().unwrap(), values);
    }
}
