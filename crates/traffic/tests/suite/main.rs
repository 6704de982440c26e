//! Sources of packets through their public interface. One program, so that it links once.

mod captures;
mod requests;
mod sources;
mod specs;
mod trains;
