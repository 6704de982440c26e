//! Mapping of functions to the parts of a packet's path.

use serde::Serialize;
use wattline_units::named;

named! {
    /// A part of a packet's way (Liao and Bhuyan, section III).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Group {
        /// Driver of the card, and the layer between it and the protocols.
        Driver = "driver",
        /// Internet protocol: routes, neighbours, filters.
        Ip = "ip",
        /// TCP.
        Tcp = "tcp",
        /// Moving bytes between user and kernel.
        Copy = "copy",
        /// Getting and giving back socket buffers and their memory.
        BufferManagement = "buffer management",
        /// Entering the kernel, files, sockets.
        SystemCall = "system call",
        /// The program itself.
        Application = "application",
        /// Scheduling, timers, locks, interrupts.
        Other = "other",
        /// Functions that the table of groups does not have.
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
    /// Beginnings, the longest first.
    beginnings: Vec<(String, Group)>,
}

const LINUX_6: &str = include_str!("groups-linux-6.txt");

impl Groups {
    /// The table for a kernel's release such as `6.12.5-amd64`, and whether it was made for it.
    ///
    /// # Errors
    /// Never with the tables that are built in, as a test says.
    pub fn kernel_groups(release: &str) -> Result<(Self, bool), String> {
        let groups = Self::parse(LINUX_6)?;
        let fits = version(release).is_some_and(|it| (groups.from..=groups.to).contains(&it));
        Ok((groups, fits))
    }

    /// Reads a table; see the file in the source for its form.
    ///
    /// # Errors
    /// The line, and what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut groups =
            Self { from: (0, 0), to: (0, 0), names: Vec::new(), beginnings: Vec::new() };
        let mut group = None;
        for (number, line) in text.lines().enumerate() {
            let wrong = |what: &str| format!("line {}: {what}: {line}", number + 1);
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
                    Some(beginning) => groups.beginnings.push((beginning.to_owned(), group)),
                    None => groups.names.push((line.to_owned(), group)),
                }
            }
        }
        groups.names.sort();
        groups.beginnings.sort_by_key(|(beginning, _)| std::cmp::Reverse(beginning.len()));
        Ok(groups)
    }

    /// The same, with functions that begin so in another group.
    #[must_use]
    pub fn with(mut self, beginning: &str, group: Group) -> Self {
        self.beginnings.retain(|(known, _)| known != beginning);
        self.beginnings.push((beginning.to_owned(), group));
        self.beginnings.sort_by_key(|(beginning, _)| std::cmp::Reverse(beginning.len()));
        self
    }

    /// The group of a function of the kernel.
    pub fn of(&self, function: &str) -> Group {
        // The compiler's copies of a function have its name and more: `tcp_ack.part.0`.
        let plain = function.split('.').next().unwrap_or(function);
        if let Ok(found) = self.names.binary_search_by(|(name, _)| name.as_str().cmp(plain)) {
            return self.names[found].1;
        }
        let mut found = self.beginnings.iter().filter(|(it, _)| plain.starts_with(it.as_str()));
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
            assert_eq!(groups.of(function), group, "{function}");
        }
        assert!(!Groups::kernel_groups("4.19.0").unwrap().1);
        assert!(!Groups::kernel_groups("strange").unwrap().1);
    }

    #[test]
    fn a_beginning_may_be_in_another_group() {
        let (groups, _) = Groups::kernel_groups("6.12").unwrap();
        assert_eq!(groups.of("bpf_prog_1234_forward"), Group::Driver);
        let groups = groups.with("bpf_prog_", Group::Application);
        assert_eq!(groups.of("bpf_prog_1234_forward"), Group::Application);
        assert_eq!(groups.of("veth_poll"), Group::Driver);
    }

    #[test]
    fn wrong_tables_are_told_by_line() {
        for text in ["name", "[nonsense]", "kernel 6", "kernel a b"] {
            assert!(Groups::parse(text).unwrap_err().starts_with("line 1"), "{text}");
        }
    }
}
