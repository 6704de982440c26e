//! The generator against real servers and against servers that misbehave in a known way.

mod hostile;
mod memcached;
mod nginx;
mod stall;
mod support;
mod tools;
mod wire;
