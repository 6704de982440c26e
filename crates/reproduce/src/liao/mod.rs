//! Liao and Bhuyan: the receive path of a 10 GbE host, its cycles, misses and power.
//!
//! Misses come from the cache simulator in `wattline_study::receive`. No source gives the number of
//! busy receive queues, the data waiting in the sockets, or the prefetchers that the firmware
//! enables. They determine the amount of data between two uses of a buffer, and the stalls of
//! loads. Results that depend on them are therefore at best *fitted*, and two figures show the
//! dependence.

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
