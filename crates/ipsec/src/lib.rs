//! The application `ipsec`: tunnels with keys from the configuration, or with the keys of an IKE
//! daemon that are in the kernel.
//!
//! - [`esp`]: ESP (RFC 4303), the nodes in every worker, and the cryptography
//! - [`block`]: policies in the kernel that block protected traffic while no router runs
//! - `control`: tunnels and their keys, sequence numbers on disk, reports to the kernel
//! - `section`: `[ipsec]`, `[[ipsec_tunnel]]` and `[[ipsec_policy]]` of the configuration
//!
//! A program hands [`APPLICATION`] to its router (`wattline-router`). Unsafe code lives in `multibuffer`.

pub mod block;
mod control;
pub mod esp;
pub mod multibuffer;
mod section;

pub use control::keys::{DeclaredKey, declare_new};
pub use section::{
    IpsecSettings, KeySource, Lifetime, PolicyAction, PolicySettings, SECTIONS, TunnelSettings,
};

use wattline_router::application::ApplicationKind;

/// Registration of the application.
pub const APPLICATION: ApplicationKind =
    ApplicationKind { section: &SECTIONS, start: control::start };
