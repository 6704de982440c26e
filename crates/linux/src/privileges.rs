//! Capabilities of the process: the needed, the missing, and dropping the rest.

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// Capabilities that a router with AF_XDP ports needs to start: loading BPF programs and maps,
/// attaching them and resolving neighbours, raw sockets.
const NEEDED: [(CapabilitySet, &str); 3] = [
    (CapabilitySet::BPF, "CAP_BPF"),
    (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
    (CapabilitySet::NET_RAW, "CAP_NET_RAW"),
];

/// Capabilities that the control thread keeps. It updates the maps of local addresses and
/// neighbours, and opens sockets for an interface that has come back. (It could read all traffic
/// with programs without raw sockets, too.) Meters read energy counters through perf. Packet memory
/// is locked again when a worker opens sockets after its last one was closed.
const KEPT: CapabilitySet = CapabilitySet::BPF
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::IPC_LOCK);

/// Capabilities of child programs: the watchdog restores settings of cards.
const OF_PROGRAMS: CapabilitySet = CapabilitySet::NET_ADMIN;

/// Returns the names of the capabilities that a router with AF_XDP ports needs and this process
/// lacks.
pub fn missing() -> Vec<&'static str> {
    let effective = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    // Before Linux 5.8 there was no CAP_BPF: CAP_SYS_ADMIN includes it.
    let has = |needed: CapabilitySet| {
        effective.contains(needed)
            || (needed == CapabilitySet::BPF && effective.contains(CapabilitySet::SYS_ADMIN))
    };
    NEEDED.iter().filter(|(needed, _)| !has(*needed)).map(|(_, name)| *name).collect()
}

/// Rights to set parts of a machine, in addition to the modes of its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    /// CAP_SYS_ADMIN, which a few files of sysfs require in addition to their mode
    /// (drivers/cpuidle/sysfs.c).
    pub administer: bool,
    /// CAP_NET_ADMIN, for the settings of network cards.
    pub set_cards: bool,
}

impl Rights {
    /// Rights of root.
    pub const ALL: Self = Self::from_capabilities(CapabilitySet::all());

    const fn from_capabilities(capabilities: CapabilitySet) -> Self {
        Self {
            administer: capabilities.contains(CapabilitySet::SYS_ADMIN),
            set_cards: capabilities.contains(CapabilitySet::NET_ADMIN),
        }
    }

    /// Returns the rights of this thread.
    pub fn present() -> Self {
        Self::from_capabilities(
            capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective),
        )
    }

    /// Returns the rights that remain after [`drop_unneeded`].
    pub fn after_drop(self) -> Self {
        let kept = Self::from_capabilities(KEPT);
        Self {
            administer: self.administer && kept.administer,
            set_cards: self.set_cards && kept.set_cards,
        }
    }
}

/// Drops every capability that a running router does not need, of this thread and of threads that
/// it will start. No child program gets more than they have
/// (Documentation/userspace-api/no_new_privs.rst), and of that only the capabilities in the
/// bounding set.
///
/// # Errors
/// When the kernel refuses; the capabilities are then unchanged.
pub fn drop_unneeded() -> std::io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    narrow_bounding_set();
    keep(KEPT)
}

/// Needs CAP_SETPCAP. A program that was started with only some capabilities lacks it; its child
/// programs gain none anyway.
fn narrow_bounding_set() {
    for capability in CapabilitySet::all().difference(OF_PROGRAMS).iter() {
        if let Err(error) = rustix::thread::remove_capability_from_bounding_set(capability)
            // Capabilities newer than the kernel.
            && error != rustix::io::Errno::INVAL
        {
            tracing::debug!("cannot reduce the capability bounding set: {error}");
            return;
        }
    }
}

/// Drops all capabilities of this thread, which only uses open sockets, and of threads that it will
/// start. No child program gets any.
///
/// # Errors
/// When the kernel refuses; the capabilities are then unchanged.
pub fn drop_all() -> std::io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    keep(CapabilitySet::empty())
}

/// Drops all capabilities of this thread. A failure is logged, and the thread continues.
pub fn drop_all_or_warn() {
    if let Err(error) = drop_all() {
        tracing::warn!("cannot drop the capabilities of a thread that needs none: {error}");
    }
}

fn keep(kept: CapabilitySet) -> std::io::Result<()> {
    let now = capabilities(None)?;
    let sets = CapabilitySets {
        effective: now.effective.intersection(kept),
        permitted: now.permitted.intersection(kept),
        inheritable: CapabilitySet::empty(),
    };
    Ok(set_capabilities(None, sets)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plan shows beforehand the rights of the running router.
    #[test]
    fn rights_after_the_drop_are_known_before() {
        std::thread::spawn(|| {
            let expected = Rights::present().after_drop();
            let sets = capabilities(None).unwrap();
            let may_empty = sets.effective.contains(CapabilitySet::SETPCAP);
            let kept = sets.permitted.intersection(KEPT);
            drop_unneeded().unwrap();
            assert_eq!(Rights::present(), expected);
            assert!(!expected.administer);
            assert!(rustix::thread::no_new_privs().unwrap());
            // Root may narrow the bounding set.
            let present = capabilities(None).unwrap();
            for capability in [CapabilitySet::SYS_ADMIN, CapabilitySet::BPF] {
                let bound = rustix::thread::capability_is_in_bounding_set(capability).unwrap();
                assert!(!bound || !may_empty, "{capability:?}");
            }
            // The watchdog of a governor is a separate program, and sets cards.
            let program = std::process::Command::new("cat").arg("/proc/self/status").output();
            let program = String::from_utf8(program.unwrap().stdout).unwrap();
            let effective =
                program.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap();
            let effective = u64::from_str_radix(effective, 16).unwrap();
            let left = present.permitted.intersection(OF_PROGRAMS).bits();
            if rustix::process::geteuid().is_root() && may_empty {
                assert_eq!(effective, left, "{program}");
            }
            assert!(present.inheritable.is_empty());
            assert_eq!(present.permitted, kept, "meters read by perf");
            // Capabilities of a program that is started now.
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            assert!(status.contains("NoNewPrivs:\t1"), "{status}");
        })
        .join()
        .unwrap();
        assert_eq!(Rights::ALL.after_drop(), Rights { administer: false, set_cards: true });
    }

    #[test]
    fn dropped_capabilities_are_missing_in_this_thread_only() {
        let before = missing();
        std::thread::spawn(|| {
            drop_all().unwrap();
            assert_eq!(missing(), ["CAP_BPF", "CAP_NET_ADMIN", "CAP_NET_RAW"]);
        })
        .join()
        .unwrap();
        assert_eq!(missing(), before);
    }
}
