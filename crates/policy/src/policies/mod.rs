//! The policies, one file each.

pub mod conservative;
pub mod copi;
mod cpu_load;
mod fixed;
pub mod hare;
pub mod moderated;
pub mod napi;
pub mod ondemand;
pub mod oracle;
pub mod performance;
pub mod poll;
pub mod powersave;
pub mod powersave_governor;
mod sampled;
pub mod schedutil;
pub mod table;
#[cfg(test)]
pub(crate) mod testing;
pub mod tortoise;
pub mod wattline;
