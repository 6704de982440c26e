//! Share of a table in huge pages, from `/proc/self/smaps` (proc_pid_smaps(5)).

use std::ops::Range;

/// Memory of a table that has been touched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HugePages {
    /// Resident bytes.
    pub resident_bytes: usize,
    /// Resident bytes in huge pages.
    pub huge_bytes: usize,
}

impl HugePages {
    /// Reads the mappings of this process that overlap any of these ranges.
    pub(crate) fn of(ranges: &[Range<usize>]) -> Option<Self> {
        let text = std::fs::read_to_string("/proc/self/smaps").ok()?;
        Some(Self::parse(&text, ranges))
    }

    fn parse(smaps: &str, ranges: &[Range<usize>]) -> Self {
        let mut pages = Self::default();
        let mut counted = false;
        for line in smaps.lines() {
            if let Some(mapping) = mapping(line) {
                counted = ranges.iter().any(|r| r.start < mapping.end && mapping.start < r.end);
            } else if counted && let Some(bytes) = bytes(line, "Rss:") {
                pages.resident_bytes += bytes;
            } else if counted && let Some(bytes) = bytes(line, "AnonHugePages:") {
                pages.huge_bytes += bytes;
            }
        }
        pages
    }
}

/// Address range in the line that begins a mapping: `7f00-7fff rw-p ...`.
fn mapping(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
}

/// Returns the value after a key in kB, converted to bytes.
fn bytes(line: &str, key: &str) -> Option<usize> {
    let value = line.strip_prefix(key)?.trim().strip_suffix("kB")?;
    value.trim_end().parse::<usize>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Region;
    use std::sync::atomic::{AtomicU16, Ordering};
    use wattline_memory::Supply;

    #[test]
    fn counts_mappings_that_overlap() {
        let smaps = "7f0000200000-7f0000800000 rw-p 00000000 00:00 0 \nSize: 6144 kB\n\
                     Rss:                4100 kB\nAnonHugePages:      4096 kB\n\
                     VmFlags: rd wr mr mw me ac sd hg\n\
                     7f0000800000-7f0000801000 rw-p 00000000 00:00 0 [heap-like]\n\
                     Rss:                   4 kB\nAnonHugePages:         0 kB\n";
        let of = |ranges: &[Range<usize>]| HugePages::parse(smaps, ranges);
        let first = HugePages { resident_bytes: 4100 << 10, huge_bytes: 4096 << 10 };
        assert_eq!(of(std::slice::from_ref(&(0x7f0000200000..0x7f0000800000))), first);
        assert_eq!(of(&[0..1, 0x7f0000300000..0x7f0000400000]), first);
        let both = HugePages { resident_bytes: 4104 << 10, ..first };
        assert_eq!(of(&[0x7f00007fffff..0x7f0000800001, 0..1]), both);
        assert_eq!(of(&[]), HugePages::default());
    }

    #[test]
    fn touched_pages_are_resident() {
        let region = Region::<AtomicU16>::zeroed(4 << 20, Supply::AsTouched);
        region.iter().for_each(|cell| cell.store(1, Ordering::Relaxed));
        let Some(pages) = HugePages::of(&[region.range()]) else {
            wattline_needs::machine("this kernel has no /proc/self/smaps");
            return;
        };
        assert!(pages.resident_bytes >= 8 << 20, "{pages:?}");
        assert!(pages.huge_bytes <= pages.resident_bytes, "{pages:?}");
    }
}
