//! Mapping of functions to the parts of a packet's path.

use serde::Serialize;
use wattline_units::named;

named! {
    /// A part of a packet's path (Liao and Bhuyan, section III).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Group {
        /// Driver of the card, and the layer between it and the protocols.
        Driver = "driver",
        /// Internet protocol: routes, neighbours, filters.
        Ip = "ip",
        /// TCP.
        Tcp = "tcp",
        /// Copying bytes between user and kernel.
        Copy = "copy",
        /// Allocating and freeing socket buffers and their memory.
        BufferManagement = "buffer management",
        /// Entering the kernel, files, sockets.
        SystemCall = "system call",
        /// The program itself.
        Application = "application",
        /// Scheduling, timers, locks, interrupts.
        Other = "other",
        /// Functions missing in the table of groups.
        Unclaimed = "unclaimed",
    }
}

/// A table of groups for some kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups {
    from: (u32, u32),
    to: (u32, u32),
    /// Whole names, sorted.
    names: Vec<(String, Group)>,
    /// Prefixes of names, the longest first.
    prefixes: Vec<(String, Group)>,
}

const LINUX_6: &str = include_str!("groups-linux-6.txt");

impl Groups {
    /// Returns the table for a kernel's release such as `6.12.5-amd64`, and true if it was made for
    /// this release.
    ///
    /// # Errors
    /// Never fails with the built-in tables, as a test checks.
    pub fn kernel_groups(release: &str) -> Result<(Self, bool), String> {
        let groups = Self::parse(LINUX_6)?;
        let fits = version(release).is_some_and(|it| (groups.from..=groups.to).contains(&it));
        Ok((groups, fits))
    }

    /// Parses a table; see `groups-linux-6.txt` for the format.
    ///
    /// # Errors
    /// Returns the line and its error.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut groups = Self { from: (0, 0), to: (0, 0), names: Vec::new(), prefixes: Vec::new() };
        let mut group = None;
        for (number, line) in text.lines().enumerate() {
            let wrong = |fault: &str| format!("line {}: {fault}: {line}", number + 1);
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(versions) = line.strip_prefix("kernel ") {
                let (from, to) = versions.split_once(' ').ok_or_else(|| wrong("two versions"))?;
                groups.from = version(from).ok_or_else(|| wrong("no version"))?;
                groups.to = version(to).ok_or_else(|| wrong("no version"))?;
            } else if let Some(name) = line.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
                let found = Group::ALL.into_iter().find(|group| group.name() == name);
                group = Some(found.ok_or_else(|| wrong("no such group"))?);
            } else {
                let group = group.ok_or_else(|| wrong("a name before any group"))?;
                match line.strip_suffix('*') {
                    Some(prefix) => groups.prefixes.push((prefix.to_owned(), group)),
                    None => groups.names.push((line.to_owned(), group)),
                }
            }
        }
        groups.names.sort();
        groups.prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Ok(groups)
    }

    /// Returns the table with all functions that begin with `prefix` in another group.
    #[must_use]
    pub fn with(mut self, prefix: &str, group: Group) -> Self {
        self.prefixes.retain(|(known, _)| known != prefix);
        self.prefixes.push((prefix.to_owned(), group));
        self.prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        self
    }

    /// Returns the group of a function of the kernel.
    pub fn group_of(&self, function: &str) -> Group {
        // The compiler appends suffixes to clones of a function: `tcp_ack.part.0`.
        let plain = function.split('.').next().unwrap_or(function);
        if let Ok(found) = self.names.binary_search_by(|(name, _)| name.as_str().cmp(plain)) {
            return self.names[found].1;
        }
        let mut found = self.prefixes.iter().filter(|(it, _)| plain.starts_with(it.as_str()));
        found.next().map_or(Group::Unclaimed, |(_, group)| *group)
    }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|letter: char| !letter.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_kernel_are_in_their_groups() {
        let (groups, fits) = Groups::kernel_groups("6.18.5-amd64").unwrap();
        assert!(fits);
        for (function, group) in [
            ("veth_xmit", Group::Driver),
            ("dev_gro_receive", Group::Driver),
            ("ip_rcv_core.isra.0", Group::Ip),
            ("tcp_sendmsg_locked", Group::Tcp),
            ("rep_movs_alternative", Group::Copy),
            ("skb_copy_datagram_iter", Group::Copy),
            ("skb_release_data", Group::BufferManagement),
            ("kmem_cache_alloc_node_noprof", Group::BufferManagement),
            ("sock_wfree", Group::BufferManagement),
            ("sock_sendmsg", Group::SystemCall),
            ("sock_def_readable", Group::Tcp),
            ("napi_threaded_poll_loop", Group::Other),
            ("napi_complete_done", Group::Driver),
            ("_raw_spin_lock", Group::Other),
            ("somebody_elses_function", Group::Unclaimed),
        ] {
            assert_eq!(groups.group_of(function), group, "{function}");
        }
        assert!(!Groups::kernel_groups("4.19.0").unwrap().1);
        assert!(!Groups::kernel_groups("strange").unwrap().1);
    }

    #[test]
    fn prefix_may_be_in_another_group() {
        let (groups, _) = Groups::kernel_groups("6.12").unwrap();
        assert_eq!(groups.group_of("bpf_prog_1234_forward"), Group::Driver);
        let groups = groups.with("bpf_prog_", Group::Application);
        assert_eq!(groups.group_of("bpf_prog_1234_forward"), Group::Application);
        assert_eq!(groups.group_of("veth_poll"), Group::Driver);
    }

    #[test]
    fn errors_in_tables_are_reported_by_line() {
        for text in ["name", "[nonsense]", "kernel 6", "kernel a b"] {
            assert!(Groups::parse(text).unwrap_err().starts_with("line 1"), "{text}");
        }
    }
}
