//! Counters of IPsec.

use crate::contract::{Contract, Document};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Security associations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SaTable {
    /// Number of the contract that this document follows.
    pub contract: Contract,
    /// The counters, as in `applications` of `stats`.
    #[serde(flatten)]
    pub ipsec: IpsecStats,
}

impl Document for SaTable {
    const NAME: &'static str = "show sas";
}

/// Counters of IPsec.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IpsecStats {
    /// Configured tunnels.
    pub tunnels: Vec<TunnelStats>,
    /// Wattline's blocking policies in the kernel.
    pub blocked_in_kernel: usize,
    /// Policies put back after another program removed them.
    #[serde(default)]
    pub restored_in_kernel: u64,
    /// Traffic that these policies block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<BlockStats>,
    /// Tunnels whose keys are in the kernel, if these are followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelTunnels>,
}

/// A configured tunnel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TunnelStats {
    /// Its name.
    pub name: String,
    /// Sent packets.
    pub outbound: OutboundStats,
    /// Received packets.
    pub inbound: InboundStats,
    /// Reason why packets of the peer cannot arrive, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// Tunnels whose keys are in the kernel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelTunnels {
    /// Associations that send.
    pub outbound: Vec<OutboundStats>,
    /// Associations that receive.
    pub inbound: Vec<InboundStats>,
    /// Associations and policies that Wattline cannot serve and leaves to the kernel.
    pub left_to_kernel: u64,
}

/// A security association that sends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutboundStats {
    /// Fields common to both directions.
    #[serde(flatten)]
    pub association: AssociationStats,
    /// Last sequence number sent.
    pub sequence: u64,
}

/// A security association that receives.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InboundStats {
    /// Fields common to both directions.
    #[serde(flatten)]
    pub association: AssociationStats,
    /// Highest sequence number received.
    pub highest_sequence: u64,
    /// Reason why packets of the peer cannot arrive, if any; for a configured tunnel it is in the
    /// tunnel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// A security association.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AssociationStats {
    /// Its name.
    pub name: String,
    /// Its SPI, in hexadecimal.
    pub spi: String,
    /// Its algorithms.
    pub algorithm: String,
    /// Local address of the tunnel.
    pub local: IpAddr,
    /// Remote address of the tunnel.
    pub remote: IpAddr,
    /// Its state.
    pub state: AssociationState,
    /// Packets protected or accepted.
    pub packets: u64,
    /// Bytes of the inner packets.
    pub bytes: u64,
    /// Packets dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
}

impl Default for AssociationStats {
    fn default() -> Self {
        let unspecified = IpAddr::from([0, 0, 0, 0]);
        Self {
            name: String::new(),
            spi: String::new(),
            algorithm: String::new(),
            local: unspecified,
            remote: unspecified,
            state: AssociationState::default(),
            packets: 0,
            bytes: 0,
            dropped: BTreeMap::new(),
        }
    }
}

/// State of a security association.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AssociationState {
    /// In use.
    #[default]
    Active,
    /// In use, with keys past their soft lifetime.
    Expiring,
    /// Keys past their hard lifetime.
    Ended,
    /// No sequence numbers left.
    Exhausted,
}

/// Traffic that the kernel must not forward in clear.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Block {
    /// Configuration that protects it.
    pub configuration: String,
    /// Owner of the kernel's policies, derived from the path of the configuration.
    pub owner: u32,
    /// The traffic.
    pub blocked: Vec<BlockedTraffic>,
}

/// Traffic that the kernel blocks for a router.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockStats {
    /// The traffic and its owner.
    #[serde(flatten)]
    pub block: Block,
    /// True if it stays blocked when the router stops.
    pub when_stopped: bool,
}

/// Traffic that the kernel would block for a router, as in `wattline plan`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockPlan {
    /// The traffic and its owner.
    #[serde(flatten)]
    pub block: BlockStats,
    /// Policies of this owner in the kernel now, if they can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_now: Option<usize>,
}

/// A blocking policy in the kernel, as in `wattline block`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelBlock {
    /// The traffic.
    #[serde(flatten)]
    pub traffic: BlockedTraffic,
    /// Owner of the policy.
    pub owner: u32,
    /// Time of its addition, in seconds since 1970.
    pub since_seconds: u64,
    /// Configuration of the owner, if known.
    pub configuration: Option<String>,
}

/// Traffic between two prefixes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockedTraffic {
    /// Source prefix.
    pub source: String,
    /// Destination prefix.
    pub destination: String,
}
