//! Counts samples in the output of `perf script`.

use super::groups::{Group, Groups};
use std::collections::BTreeMap;

/// Addresses from here on are the kernel's.
const KERNEL: u64 = 0xffff_8000_0000_0000;

/// Samples of one side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Samples by group.
    pub groups: BTreeMap<Group, u64>,
    /// Samples by function, of functions in no group.
    pub unclaimed: BTreeMap<String, u64>,
}

impl Counts {
    /// Returns the number of all samples.
    pub fn total(&self) -> u64 {
        self.groups.values().sum()
    }
}

/// Counts the lines of `perf script -F comm,pid,cpu,ip,sym` by side; `side_of` returns the side of
/// a process id. Also returns the number of lines that could not be parsed.
pub fn count<const N: usize>(
    text: &str,
    groups: &Groups,
    side_of: impl Fn(u32) -> Option<usize>,
) -> ([Counts; N], u64) {
    let mut sides: [Counts; N] = std::array::from_fn(|_| Counts::default());
    let mut unread = 0;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let Some((pid, address, function)) = parse(line) else {
            unread += 1;
            continue;
        };
        let Some(side) = side_of(pid).and_then(|side| sides.get_mut(side)) else { continue };
        let group = if address >= KERNEL { groups.group_of(function) } else { Group::Application };
        *side.groups.entry(group).or_default() += 1;
        if group == Group::Unclaimed {
            *side.unclaimed.entry(function.to_owned()).or_default() += 1;
        }
    }
    (sides, unread)
}

/// Returns process id, address and function of a line; the program's name before them may have
/// blanks.
fn parse(line: &str) -> Option<(u32, u64, &str)> {
    let (before, after) = line.split_once(" [")?;
    let pid = before.rsplit(' ').next()?.parse().ok()?;
    let (_cpu, after) = after.split_once(']')?;
    let after = after.trim_start();
    let (address, function) = after.split_once(' ').unwrap_or((after, "[unknown]"));
    Some((pid, u64::from_str_radix(address, 16).ok()?, function.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
          iperf3   100 [000]  ffffffff81a00000 tcp_sendmsg_locked
      lto cgu.00   300 [001]      7f9649d0999c llvm::DemandedBits::performAnalysis
          iperf3   200 [001]  ffffffff81a00001 skb_release_data
          iperf3   200 [001]      55f94da0beda iperf_recv
 napi/a-1   150 [001]  ffffffff81a00002 nobody_knows_it
nonsense
";

    #[test]
    fn samples_are_counted_by_side_and_group() {
        let (groups, _) = Groups::kernel_groups("6.12").unwrap();
        let side = |pid| match pid {
            100 => Some(0),
            150 | 200 => Some(1),
            _ => None,
        };
        let ([sending, receiving], unread) = count::<2>(TEXT, &groups, side);
        assert_eq!(unread, 1);
        assert_eq!(sending.groups, BTreeMap::from([(Group::Tcp, 1)]));
        let expected =
            [(Group::BufferManagement, 1), (Group::Application, 1), (Group::Unclaimed, 1)];
        assert_eq!(receiving.groups, BTreeMap::from(expected));
        assert_eq!(receiving.unclaimed, BTreeMap::from([("nobody_knows_it".to_owned(), 1)]));
        assert_eq!((sending.total(), receiving.total()), (1, 3));
    }
}
