//! Memory for the data path: in huge pages ([`Pages`]), and prefetched before use ([`prefetch()`]).

mod pages;
mod prefetch;

pub use pages::{HUGE_PAGE, Pages, Supply};
pub use prefetch::prefetch;
