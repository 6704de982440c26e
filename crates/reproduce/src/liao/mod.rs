//! Liao and Bhuyan: the receive path of a 10 GbE host, its cycles, misses and power.
//!
//! Misses come from the cache simulator in `wattline_study::receive`. No source gives how many
//! receive queues were busy, what stood in the sockets, or which prefetchers the firmware left on.
//! These decide how much data lies between two uses of a buffer, and what a load still has to wait
//! for. Results that depend on them are therefore at best *fitted*, and two figures show how much
//! they depend.

mod assumptions;
mod cycles;
mod known;
mod misses;
mod power;
mod proposals;

use crate::step::Step;

pub(super) const STEPS: &[Step] = &[
    Step::new("liao: cycles", &["fig3", "registers"], cycles::figures),
    Step::new("liao: misses", &["fig4-8", "readings", "rings", "llc"], misses::figures),
    Step::new("liao: proposals", &["proposals", "rate-adaptive"], proposals::figures),
    Step::new("liao: power", &["fig10-11", "fig12-13"], power::figures),
];
