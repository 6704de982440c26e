//! The generator against servers: real ones, and such as misbehave in a known way.

mod hostile;
mod memcached;
mod nginx;
mod stall;
mod support;
mod tools;
mod wire;
