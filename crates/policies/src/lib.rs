//! The policies, one file each; [`POLICIES`] lists them.
//!
//! Only programs and studies that name a policy use this crate. Libraries use the contract
//! (`wattline-policy`) and are given the registry, so that a change of a policy rebuilds few of
//! them.
#![forbid(unsafe_code)]

pub mod cndp_idle;
pub mod conservative;
pub mod copi;
mod cpu_load;
pub mod dpdk_power;
mod fixed;
pub mod grout_autoscale;
pub mod grout_sleep;
pub mod hardware_pstates;
pub mod hare;
pub mod intel_pstate;
pub mod l3fwd_power;
pub mod metronome;
pub mod napi;
pub mod ondemand;
pub mod oracle;
pub mod ovs_sleep;
pub mod performance;
pub mod poll;
mod polling;
pub mod powersave_governor;
pub mod queue_length;
mod reference;
mod registry;
pub mod rsspp;
mod sampled;
pub mod schedutil;
pub mod shenango;
pub mod snabb;
pub mod table;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod tortoise;
pub mod vpp_adaptive;
pub mod wattline;

pub use reference::reference_markdown;
pub use registry::POLICIES;
