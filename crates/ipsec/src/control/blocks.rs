//! Blocking policies in the kernel. They keep the kernel from forwarding in clear what a policy of
//! the configuration protects: packets that the router leaves to the kernel, packets from an
//! interface that is no port, and all packets after the router has been killed.
//!
//! The policies of the configuration become blocking policies of the kernel (XFRM) in the same
//! order. They are removed when the router ends in order, and stay otherwise.

use crate::section::{IpsecSettings, PolicyAction, PolicySettings};
use ipnet::IpNet;
use rustix::io::Errno;
use std::io;
use std::path::Path;
use wattline_linux::netlink::xfrm::{
    Block, BlockOwner, PolicyAction as KernelAction, PolicyDirection,
};

/// The policies that this router has added to the kernel.
pub(super) struct Blocks {
    owner: BlockOwner,
    /// Number of policies added by this router; those of others are not counted.
    pub count: usize,
    /// Whether they stay whatever happens.
    stay: bool,
}

impl Blocks {
    /// Adds the policies. If the kernel cannot hold them, this is logged and nothing is added.
    /// `own` are the networks of this machine.
    pub fn install(settings: &IpsecSettings, own: &[IpNet]) -> Option<Self> {
        let (blocks, exempt) = blocks(settings, own);
        for policy in exempt {
            tracing::warn!(
                "ipsec: packets that this machine itself sends from {} to {} leave unencrypted: \
                 blocking them would cut the machine off, since one of its own networks or the \
                 remote end of a tunnel is there",
                policy.source,
                policy.destination
            );
        }
        let owner = BlockOwner::named(name_of(&settings.state).as_bytes());
        match owner.install(&blocks) {
            Ok(others) => {
                for other in &others {
                    tracing::warn!(
                        "ipsec: the kernel already has a policy from {} to {} ({:?}), which is kept",
                        other.source,
                        other.destination,
                        other.direction
                    );
                }
                let count = blocks.len() - others.len();
                Some(Self { owner, count, stay: settings.block_when_stopped })
            }
            Err(error) if is_missing(&error) => {
                tracing::warn!(
                    "ipsec: this kernel has no XFRM, so nothing keeps it from forwarding protected \
                     packets unencrypted when the router does not run, or on interfaces that are no \
                     ports"
                );
                None
            }
            Err(error) => {
                tracing::error!(
                    "ipsec: cannot keep the kernel from forwarding protected packets unencrypted \
                     when the router ends, or on interfaces that are no ports: {error}"
                );
                // Some may have been added.
                Some(Self { owner, count: 0, stay: false })
            }
        }
    }

    /// Removes the policies, unless they are to stay.
    pub fn remove(&mut self) {
        if self.stay {
            return;
        }
        if let Err(error) = self.owner.remove_all() {
            tracing::error!(
                "ipsec: cannot remove the kernel policies that block protected packets: {error}"
            );
        }
        (self.count, self.stay) = (0, true);
    }
}

impl Drop for Blocks {
    /// A failed start leaves no policy behind; a router that crashed does.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.remove();
        }
    }
}

/// The state directory identifies the router, also across restarts.
fn name_of(state: &Path) -> String {
    let whole = std::fs::canonicalize(state).unwrap_or_else(|_| state.to_owned());
    whole.to_string_lossy().into_owned()
}

fn is_missing(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT))
}

/// Policies for the kernel, and the policies of the configuration that it cannot apply to this
/// machine's own packets.
fn blocks<'s>(settings: &'s IpsecSettings, own: &[IpNet]) -> (Vec<Block>, Vec<&'s PolicySettings>) {
    let (mut blocks, mut exempt): (Vec<Block>, Vec<&PolicySettings>) = Default::default();
    // Blocks packets that leave this machine, forwarded or its own.
    let cuts_off = |policy: &PolicySettings| {
        let to = &policy.destination;
        own.iter().any(|net| to.contains(net) || net.contains(to))
            || settings.tunnels.iter().any(|tunnel| to.contains(&tunnel.remote))
    };
    for (priority, policy) in (1..).zip(&settings.policies) {
        let passes = policy.action == PolicyAction::Bypass;
        let mut directions = vec![PolicyDirection::Forward];
        if passes || !cuts_off(policy) {
            directions.push(PolicyDirection::Out);
        } else {
            exempt.push(policy);
        }
        for direction in directions {
            let block = Block {
                source: policy.source,
                destination: policy.destination,
                direction,
                action: if passes { KernelAction::Allow } else { KernelAction::Block },
                priority,
            };
            let same = |other: &Block| {
                (other.source, other.destination, other.direction)
                    == (block.source, block.destination, block.direction)
            };
            // Of two policies for the same packets the first applies, and the kernel accepts only
            // one.
            if !blocks.iter().any(same) {
                blocks.push(block);
            }
        }
    }
    (blocks, exempt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section::IpsecSections;
    use wattline_router::config::Config;

    fn settings(policies: &[(&str, &str, &str)]) -> IpsecSettings {
        let mut text = "[[port]]\nname = \"a\"\ncapture = { read = \"x\" }\n\
            [[ipsec_tunnel]]\nname = \"t\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
            spi_in = 0x1001\nspi_out = 0x1002\nkey_in_file = \"a\"\nkey_out_file = \"b\"\n"
            .to_owned();
        for (source, destination, action) in policies {
            let tunnel = if *action == "protect" { "tunnel = \"t\"\n" } else { "" };
            text += &format!(
                "[[ipsec_policy]]\nsource = \"{source}\"\ndestination = \"{destination}\"\n\
                 action = \"{action}\"\n{tunnel}"
            );
        }
        let config = Config::parse_with(&text, "test", &[&IpsecSections]).unwrap();
        config.of::<IpsecSettings>().unwrap().clone()
    }

    #[test]
    fn policies_of_the_configuration_become_the_kernels_in_their_order() {
        use KernelAction::{Allow, Block};
        use PolicyDirection::{Forward, Out};
        let own: Vec<IpNet> =
            ["10.1.0.1/24", "192.0.2.1/24", "2001:db8::1/64"].map(|it| it.parse().unwrap()).into();
        let settings = settings(&[
            ("10.1.0.0/16", "10.2.9.0/24", "bypass"),
            ("10.1.0.0/16", "10.2.0.0/16", "protect"),
            ("2001:db8::/32", "2001:db9::/32", "discard"),
            ("10.1.0.0/16", "10.2.0.0/16", "discard"),
            // This machine's own network, and the far end of the tunnel.
            ("10.1.0.0/16", "10.1.0.0/16", "protect"),
            ("0.0.0.0/0", "0.0.0.0/0", "protect"),
            ("10.1.0.0/16", "192.0.0.0/16", "protect"),
        ]);
        let (blocks, exempt) = blocks(&settings, &own);
        let told: Vec<_> = blocks
            .iter()
            .map(|it| (it.priority, it.direction, it.action, it.destination.to_string()))
            .collect();
        let expected = [
            (1, Forward, Allow, "10.2.9.0/24"),
            (1, Out, Allow, "10.2.9.0/24"),
            (2, Forward, Block, "10.2.0.0/16"),
            (2, Out, Block, "10.2.0.0/16"),
            (3, Forward, Block, "2001:db9::/32"),
            (3, Out, Block, "2001:db9::/32"),
            (5, Forward, Block, "10.1.0.0/16"),
            (6, Forward, Block, "0.0.0.0/0"),
            (7, Forward, Block, "192.0.0.0/16"),
        ]
        .map(|(priority, direction, action, to)| (priority, direction, action, to.to_owned()));
        assert_eq!(told, expected);
        assert_eq!(exempt.len(), 3);
    }
}
