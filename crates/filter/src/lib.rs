//! The applications `acl` and `urpf`, which decide whether received packets may be forwarded.
//!
//! - [`acl`]: access lists by prefix, protocol and port, without state
//! - [`urpf`]: comparison of source addresses with the routes (RFC 3704)
//!
//! Both judge packets that the router forwards, as they arrive. Packets to the router's own
//! addresses belong to the kernel and pass its filters.
//!
//! A program passes [`ACL`] and [`URPF`] to its router (`wattline-router`), after all other
//! applications: received packets then pass these first.
#![forbid(unsafe_code)]

pub mod acl;
pub mod urpf;

use wattline_router::application::ApplicationKind;

/// Registration of the access lists.
pub const ACL: ApplicationKind =
    ApplicationKind { section: &acl::ACL_SECTIONS, start: acl::control::start };

/// Registration of the reverse-path check.
pub const URPF: ApplicationKind =
    ApplicationKind { section: &urpf::URPF_SECTION, start: urpf::control::start };
