//! Server of a machine's queues, and the scope of governed knobs.

/// Parts of this machine that a governor may set, besides CPUs, queues and interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// Workers of this process serve the queues: interrupts follow the workers, indirection tables
    /// choose among them, they poll or wait as a policy requests, and the policy can be asked at
    /// their batches. Otherwise the kernel serves the queues, with its own polling and waiting.
    pub workers: bool,
    /// True if workers see every packet, so a policy can be asked at their batches and have them
    /// poll. False if XDP programs forward as well ([`super::BesideXdp`]).
    pub every_packet: bool,
    /// Cores that receive packets.
    pub cores: bool,
    /// Frequencies, with the energy performance preference that goes with each.
    pub frequency: bool,
    /// Idle states.
    pub idle: bool,
    /// Interrupt moderation.
    pub moderation: bool,
}

impl Scope {
    /// Scope of a router: everything.
    pub const ROUTER: Self = Self {
        workers: true,
        every_packet: true,
        cores: true,
        frequency: true,
        idle: true,
        moderation: true,
    };
    /// Scope of a router whose XDP programs forward along with its workers.
    pub const XDP_ROUTER: Self = Self { every_packet: false, ..Self::ROUTER };
    /// Scope for packets served by the kernel: everything that makes sense without workers.
    pub const KERNEL: Self = Self { workers: false, every_packet: false, ..Self::ROUTER };

    /// Drops notes on parts that are not governed, and adds that they are ignored.
    pub(super) fn notes(self, mut notes: Vec<String>) -> Vec<String> {
        for (knob, listed, governed) in [
            ("cores", "cores", self.cores),
            ("frequency", "frequency", self.frequency),
            ("idle states", "idle", self.idle),
            ("interrupt moderation", "moderation", self.moderation),
        ] {
            if !governed {
                notes.retain(|note| {
                    !note.strip_prefix(knob).is_some_and(|rest| rest.starts_with(':'))
                });
                notes.push(format!(
                    "{knob}: left alone, as configured (to govern it: \"{listed}\" in knobs)"
                ));
            }
        }
        notes
    }
}
