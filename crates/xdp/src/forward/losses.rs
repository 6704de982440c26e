//! Losses of frames that the XDP program sends and interfaces refuse.
//!
//! Two programs on tracepoints of the kernel count the losses, and close a port whose interface
//! refuses all frames (`bpf/losses.h`).

use crate::bpf::{BpfError, Link, object};
use crate::egress::EgressPorts;
use rustix::io::Errno;
use wattline_linux::namespace;

/// Counts refused frames, into `ports.refused`, and closes ports, until the links are dropped.
pub(super) fn count(ports: &EgressPorts) -> Result<[Link; 2], BpfError> {
    // The namespace of this thread, which attaches programs to interfaces.
    let namespace = namespace::own_number().map_err(|error| {
        let source = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        BpfError::System { action: "asking for the network namespace".to_owned(), source }
    })?;
    // Namespaces have numbers of 32 bits.
    let namespace = namespace as u32;
    let mut transmission = object!("transmit")?;
    transmission.set(&[("namespace_number", &namespace.to_ne_bytes())])?;
    let mut redirection = object!("redirect")?;
    redirection.set(&[("devices_number", &ports.devices.id()?.to_ne_bytes())])?;
    Ok([
        transmission.load(&ports.all())?.attach_tracepoint(c"xdp_devmap_xmit")?,
        redirection.load(&ports.all())?.attach_tracepoint(c"xdp_redirect_err")?,
    ])
}
