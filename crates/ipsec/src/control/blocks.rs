//! Blocking policies of a running router: those of its configuration ([`crate::block`]), and one
//! that marks that it runs.
//!
//! They stay when the router ends, unless the configuration or the operator says otherwise.

use crate::block::{self, Protected};
use crate::section::IpsecSettings;
use ipnet::IpNet;
use std::io;
use std::path::{Path, PathBuf};
use wattline_linux::netlink::xfrm::{Block, XfrmFollower};
use wattline_status::applications::BlockStats;

/// The policies that this router has in the kernel.
pub(super) struct Blocks {
    file: PathBuf,
    /// The policies that the router applies.
    in_force: Protected,
    /// The policies of the file as it was read last, and whether they stay at the end.
    next: (Protected, bool),
    /// Device through which the kernel gets packets from the router.
    tun: Option<u32>,
    /// The policies that were set last.
    wanted: Vec<Block>,
    /// Notifications of changes; none if the kernel has no XFRM.
    changes: Option<XfrmFollower>,
    /// Number of policies in the kernel.
    pub count: usize,
    /// Number of policies that were removed by others and put back.
    pub restored: u64,
    /// True if the router checks received packets itself.
    judges: bool,
    ended: bool,
}

impl Blocks {
    /// Adds the policies. They block both directions until [`Self::judge`]. `own` are the networks
    /// of this machine.
    pub fn install(file: &Path, settings: &IpsecSettings, own: &[IpNet], tun: Option<u32>) -> Self {
        let in_force = Protected::from_settings(settings);
        warn(&in_force, own);
        let mut blocks = Self {
            file: file.to_owned(),
            next: (in_force.clone(), settings.block_when_stopped),
            in_force,
            tun,
            wanted: Vec::new(),
            changes: XfrmFollower::policies().ok(),
            count: 0,
            restored: 0,
            judges: false,
            ended: false,
        };
        blocks.set(&blocks.in_force.blocks(tun, false));
        blocks
    }

    /// Leaves the check of received packets to the router: the kernel gets decrypted packets from
    /// now on.
    pub fn judge(&mut self) {
        if !std::mem::replace(&mut self.judges, true) {
            self.set_wanted();
        }
    }

    /// Also blocks the protected traffic of another configuration, until a restart puts it in
    /// force.
    pub fn follow(&mut self, settings: Option<&IpsecSettings>) {
        let stay = settings.is_none_or(|settings| settings.block_when_stopped);
        self.next = (settings.map(Protected::from_settings).unwrap_or_default(), stay);
        self.set_wanted();
    }

    fn set_wanted(&mut self) {
        self.set(&self.in_force.and(&self.next.0).blocks(self.tun, self.judges));
    }

    /// Removes the policies, or leaves those of the configuration if it says so; once.
    pub fn end(&mut self) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let (next, stay) = &self.next;
        let left = if *stay { next.blocks(None, false) } else { Vec::new() };
        self.set(&left);
    }

    /// Restores policies that were removed or changed by others, such as an IKE daemon that flushes
    /// all policies at its start. Without them, protected packets would leave in clear after a
    /// crash, and on interfaces that are no ports.
    pub fn restore(&mut self) {
        let Some(changes) = &mut self.changes else { return };
        if self.ended || !changes.has_changed().unwrap_or(true) {
            return;
        }
        match block::owner(&self.file).install(&self.wanted) {
            Ok(0) => {}
            Ok(restored) => {
                self.restored += restored as u64;
                self.count = self.wanted.len();
                tracing::warn!(
                    "ipsec: another program has removed {restored} of the {} kernel policies that \
                     block protected packets; they are in force again. An IKE daemon that flushes all \
                     policies as it starts should be configured not to",
                    self.count
                );
            }
            Err(error) if block::is_missing(&error) => {}
            Err(error) => {
                self.count = 0;
                log(&error);
            }
        }
    }

    /// Removes the policies at the end, whatever the configuration says.
    pub fn open(&mut self) {
        self.next.1 = false;
    }

    /// Returns a description of the blocked traffic.
    pub fn stats(&self) -> BlockStats {
        let block = block::describe(&self.file, &self.in_force);
        BlockStats { block, when_stopped: self.next.1 }
    }

    fn set(&mut self, blocks: &[Block]) {
        let set = block::set(&self.file, blocks);
        self.wanted = blocks.to_vec();
        self.count = if set.is_ok() { blocks.len() } else { 0 };
        let Err(error) = set else { return };
        if !block::is_missing(&error) {
            log(&error);
        } else if !blocks.is_empty() {
            tracing::warn!(
                "ipsec: this kernel has no XFRM, so nothing keeps it from forwarding protected \
                 packets unencrypted when the router does not run, or on interfaces that are no \
                 ports"
            );
        }
    }
}

impl Drop for Blocks {
    /// A failed start leaves the policies of the configuration behind; a crash leaves all.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end();
        }
    }
}

fn log(error: &io::Error) {
    tracing::error!(
        "ipsec: cannot set the kernel policies that keep it from forwarding protected packets \
         unencrypted when the router ends, or on interfaces that are no ports: {error}"
    );
}

/// Warns of policies that treat this machine's own packets differently from forwarded ones.
fn warn(protected: &Protected, own: &[IpNet]) {
    for (source, destination) in protected.prefixes() {
        if destination.contains(&source) {
            tracing::warn!(
                "ipsec: packets that this machine itself sends within {source} leave unencrypted: \
                 the policy to {destination} contains this network, and blocking them would cut \
                 the machine off"
            );
        } else if let Some(network) =
            own.iter().find(|network| destination.contains(&network.addr()))
        {
            tracing::warn!(
                "ipsec: the policy from {source} to {destination} also blocks packets of this \
                 machine itself to its own network {network}: if that is not wanted, add a policy \
                 with action = \"bypass\" for this network before it"
            );
        }
    }
}
