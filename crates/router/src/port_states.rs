//! The ports of a router with what serves them.

use super::attachments::Attachments;
use super::statics::PortLinks;
use wattline_ports::capture::CaptureStatus;

/// The ports by kind: interfaces and captures.
pub(super) struct Ports {
    pub attachments: Attachments,
    pub captures: Vec<CaptureStatus>,
    /// In words, by place.
    pub modes: Vec<String>,
    pub links: PortLinks,
    /// Whether frames of some interface reach workers without a copy.
    pub zero_copy: bool,
}
