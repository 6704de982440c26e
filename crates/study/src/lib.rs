//! Studies of server models: fits to measured rows, choices of the cheapest point, network cards and the
//! caches of the receive path.
//!
//! Only programs of the laboratory use this crate; routers and governors do not need it.
#![forbid(unsafe_code)]

pub mod cards;
mod columns;
pub mod fit;
pub mod optimise;
pub mod race;
pub mod receive;
