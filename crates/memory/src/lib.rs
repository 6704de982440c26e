//! Memory for the data path: in huge pages ([`Pages`]), divided into chunks that the kernel may
//! have ([`ChunkMemory`], [`Apart`], [`ChunkSet`]), and prefetched before use ([`prefetch()`]).

mod apart;
mod chunk_set;
mod chunks;
mod pages;
mod prefetch;

pub use apart::{Apart, MOST_APART};
pub use chunk_set::ChunkSet;
pub use chunks::{ChunkMemory, HEAD};
pub use pages::{HUGE_PAGE, Pages, Supply};
pub use prefetch::prefetch;
