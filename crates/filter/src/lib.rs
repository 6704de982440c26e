//! The applications `acl` and `urpf`: which of the packets that a port receives may be forwarded.
//!
//! - [`acl`]: access lists by prefix, protocol and port, without state
//! - [`urpf`]: comparison of source addresses with the routes (RFC 3704)
//!
//! Both judge the packets that the router forwards, where they come in. Packets to the router's own
//! addresses belong to the kernel and pass its filters.
//!
//! A program hands [`ACL`] and [`URPF`] to its router (`wattline-router`), after all other
//! applications: what was received then passes these first.
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
