//! memcached over TCP: the text protocol and its meta commands
//! (`doc/protocol.txt` of memcached 1.6).

mod answer;
mod load;
mod sizes;
mod workload;

pub use answer::{AnswerParser, Dialect, Expect, Operation};
pub use load::{LoadError, load};
pub use sizes::SizeDistribution;
pub use workload::{Memcached, Popularity, Workload, WorkloadError, WorkloadOptions};
