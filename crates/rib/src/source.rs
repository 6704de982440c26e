//! Sources of the events that make up the routing state.

/// Source of an event. Each source has its own dumps: an object that a dump of one source omits is
/// not removed from the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// The configuration; its routes win over the kernel's for the same prefix.
    Static,
    /// The kernel.
    Kernel,
}
