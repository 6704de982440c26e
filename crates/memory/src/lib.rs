//! Memory as the data path needs it: in huge pages ([`Pages`]), and on its way to the processor
//! before it is needed ([`prefetch()`]).

mod pages;
mod prefetch;

pub use pages::{HUGE_PAGE, Pages, Supply};
pub use prefetch::prefetch;
