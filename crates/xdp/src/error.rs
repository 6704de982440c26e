//! Errors of loading and attaching the XDP program.

use crate::bpf::BpfError;
use crate::mode::XdpMode;
use rustix::io::Errno;

/// Reason why the XDP program could not be loaded or attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum XdpError {
    /// Privileges, kernel features or resources are missing.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// Another XDP program is attached.
    #[error(
        "interface {ifindex} has an XDP program already (another instance?): `bpftool net` shows \
         it, `ip link set dev NAME xdp off` removes one that was set by ip"
    )]
    Occupied {
        /// Index of the interface.
        ifindex: u32,
    },
    /// The interface does not exist.
    #[error("there is no interface {ifindex} in this network namespace")]
    NoInterface {
        /// Index of the interface.
        ifindex: u32,
    },
    /// The driver (and the kernel's generic hook) refused the program.
    #[error("interface {ifindex} takes no XDP program: {}", describe(refusals))]
    Refused {
        /// Index of the interface.
        ifindex: u32,
        /// The modes that were tried, with the kernel's errors.
        refusals: Vec<(XdpMode, Errno)>,
    },
}

fn describe(refusals: &[(XdpMode, Errno)]) -> String {
    refusals
        .iter()
        .map(|(of, errno)| {
            let mode = match of {
                XdpMode::Native => "native mode",
                XdpMode::Generic => "generic mode",
            };
            format!("{mode}: {}", explain(*of, *errno))
        })
        .collect::<Vec<_>>()
        .join("; ")
}

/// Explains the kernel's error by its most common cause, since the driver's own message is not
/// returned. For veth, veth_xdp_set() of drivers/net/veth.c has the messages.
pub(crate) fn explain(mode: XdpMode, errno: Errno) -> String {
    let meaning = match (mode, errno) {
        (XdpMode::Native, Errno::NOSPC) => {
            "a veth needs at least as many receive queues as its far end has transmit queues: \
             `ethtool -L NAME rx N` here, or `ethtool -L FAR tx N` there, then stop the router and start it \
             again, as a restart hands the attachment over as it is"
        }
        (XdpMode::Native, Errno::RANGE) => {
            "the MTU of the far end of a veth is too large for XDP: `ip link set dev FAR mtu N`"
        }
        (XdpMode::Native, Errno::NOTCONN) => "the far end of a veth is missing",
        (XdpMode::Native, Errno::OPNOTSUPP) => {
            "the driver has no native XDP, or not with the present MTU and offloads"
        }
        (XdpMode::Native, Errno::INVAL) => {
            "many drivers return it for an MTU that is too large, or with LRO: `ethtool -K NAME \
             lro off`"
        }
        _ => return errno.to_string(),
    };
    format!("{meaning} ({errno})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_names_its_common_cause_and_the_error_of_the_kernel() {
        let refusals = vec![(XdpMode::Native, Errno::RANGE), (XdpMode::Generic, Errno::INVAL)];
        let text = XdpError::Refused { ifindex: 7, refusals }.to_string();
        assert!(text.contains("native mode: the MTU of the far end of a veth"), "{text}");
        assert!(text.contains(&format!("({})", Errno::RANGE)), "{text}");
        assert!(text.ends_with(&format!("generic mode: {}", Errno::INVAL)), "{text}");
    }
}
