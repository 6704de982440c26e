//! Associations and policies of the kernel as plain values.

use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;
use zeroize::Zeroizing;

/// State of the kernel at one time.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Security associations.
    pub associations: Vec<Association>,
    /// Policies of other programs, in any order; the lowest priority applies first.
    pub policies: Vec<Policy>,
    /// Policies of [`super::BlockOwner`]s.
    pub ours: Vec<Policy>,
    /// Messages that could not be understood.
    pub unreadable: u64,
}

/// A secret, zeroed when dropped and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(pub Zeroizing<Vec<u8>>);

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Key(hidden)")
    }
}

/// A security association (`struct xfrm_usersa_info`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Association {
    /// Source of its packets.
    pub source: IpAddr,
    /// Destination of its packets.
    pub destination: IpAddr,
    /// The security parameter index.
    pub spi: u32,
    /// IP protocol: 50 is ESP.
    pub protocol: u8,
    /// Number that links it to policies.
    pub reqid: u32,
    /// Tunnel mode, not transport.
    pub tunnel: bool,
    /// Sequence numbers of 64 bits.
    pub extended: bool,
    /// Size of the anti-replay window.
    pub window: u32,
    /// Last sequence number that was sent.
    pub sent: u64,
    /// Highest sequence number that was received.
    pub received: u64,
    /// Combined encryption and authentication: the kernel's name, the length of the ICV in bits,
    /// and the key with its salt.
    pub aead: Option<(String, u32, Key)>,
    /// Encryption.
    pub cipher: Option<(String, Key)>,
    /// Authentication, with the length of the ICV in bits.
    pub integrity: Option<(String, u32, Key)>,
    /// UDP ports of source and destination, if packets are encapsulated (RFC 3948).
    pub udp: Option<(u16, u16)>,
    /// Bytes and packets after which it should be replaced; `u64::MAX` for no limit.
    pub soft: (u64, u64),
    /// Bytes and packets after which it must not be used; `u64::MAX` for no limit.
    pub hard: (u64, u64),
    /// Counts of the kernel.
    pub current: Current,
    /// Words of the anti-replay window's bitmap, if the kernel uses its longer form (`struct
    /// xfrm_replay_state_esn`).
    pub bitmap_words: Option<u32>,
}

impl Association {
    /// Returns true if it only reserves an SPI while keys are being negotiated.
    pub fn is_larval(&self) -> bool {
        const ESP: u8 = 50;
        self.protocol == ESP
            && self.aead.is_none()
            && self.cipher.is_none()
            && self.integrity.is_none()
    }
}

/// Use of an association so far (`struct xfrm_lifetime_cur`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Current {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Time of its creation, in seconds of the Unix epoch.
    pub added: u64,
    /// Time of its first use; 0 if unused.
    pub used: u64,
}

/// Direction of the packets of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyDirection {
    /// To this machine.
    In,
    /// Away from this machine, its own or forwarded.
    Out,
    /// Received and forwarded.
    Forward,
}

/// Treatment of packets that match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyAction {
    /// They pass, through the associations of the templates.
    Allow,
    /// They are dropped.
    Block,
}

/// A policy (`struct xfrm_userpolicy_info`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Sources of packets.
    pub source: IpNet,
    /// Destinations of packets.
    pub destination: IpNet,
    /// True if it selects by more than addresses: protocol or ports.
    pub narrower: bool,
    /// True if it selects only packets of one interface, or with a mark.
    pub bound: bool,
    /// Direction of packets.
    pub direction: PolicyDirection,
    /// Priority; the lowest applies.
    pub priority: u32,
    /// Treatment of packets.
    pub action: PolicyAction,
    /// Associations that packets must pass; empty to let them pass unchanged.
    pub templates: Vec<Template>,
}

/// Association that a policy requires (`struct xfrm_user_tmpl`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Template {
    /// Source of its packets.
    pub source: IpAddr,
    /// Destination of its packets.
    pub destination: IpAddr,
    /// IP protocol.
    pub protocol: u8,
    /// SPI of the only suitable association; 0 for any.
    pub spi: u32,
    /// Number that links it to associations; 0 for any.
    pub reqid: u32,
    /// Tunnel mode.
    pub tunnel: bool,
}
