//! Associations and policies of the kernel as plain values.

use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;
use zeroize::Zeroizing;

/// Everything at one time.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Security associations.
    pub associations: Vec<Association>,
    /// Policies of other programs, in no order; the lower the priority, the earlier.
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
    /// Number that joins it with policies.
    pub reqid: u32,
    /// Tunnel mode, not transport.
    pub tunnel: bool,
    /// Sequence numbers of 64 bits.
    pub extended: bool,
    /// Size of the anti-replay window.
    pub window: u32,
    /// The sequence number that was sent last.
    pub sent: u64,
    /// The highest that was received.
    pub received: u64,
    /// Encryption and authentication in one: the kernel's name, the length of the ICV in bits,
    /// and the key with its salt.
    pub aead: Option<(String, u32, Key)>,
    /// Encryption.
    pub cipher: Option<(String, Key)>,
    /// Authentication, with the length of the ICV in bits.
    pub integrity: Option<(String, u32, Key)>,
    /// UDP ports of source and destination, where packets are encapsulated (RFC 3948).
    pub udp: Option<(u16, u16)>,
    /// Bytes and packets after which it should be replaced; `u64::MAX` for no limit.
    pub soft: (u64, u64),
    /// Bytes and packets after which it must not be used; `u64::MAX` for no limit.
    pub hard: (u64, u64),
    /// Counts of the kernel.
    pub current: Current,
    /// Words of the anti-replay window's bitmap, where the kernel has the longer form of it
    /// (`struct xfrm_replay_state_esn`).
    pub bitmap_words: Option<u32>,
}

impl Association {
    /// It only holds an SPI, while keys are being agreed upon.
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
    /// When it was made, in seconds of the Unix epoch.
    pub added: u64,
    /// When it was used first; 0 for not yet.
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
    /// They pass, through what the templates say.
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
    /// It selects by more than addresses: protocol or ports.
    pub narrower: bool,
    /// It is for packets of one interface, or with a mark, only.
    pub bound: bool,
    /// Direction of packets.
    pub direction: PolicyDirection,
    /// The lowest decides.
    pub priority: u32,
    /// Treatment of packets.
    pub action: PolicyAction,
    /// The associations that packets have to pass; none to let them pass as they are.
    pub templates: Vec<Template>,
}

/// Association that a policy asks for (`struct xfrm_user_tmpl`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Template {
    /// Source of its packets.
    pub source: IpAddr,
    /// Destination of its packets.
    pub destination: IpAddr,
    /// IP protocol.
    pub protocol: u8,
    /// The only association that will do; 0 for any.
    pub spi: u32,
    /// Number that joins it with associations; 0 for any.
    pub reqid: u32,
    /// Tunnel mode.
    pub tunnel: bool,
}
