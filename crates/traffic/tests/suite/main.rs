//! Sources of packets as others see them; one program, which links once.

mod captures;
mod requests;
mod sources;
mod specs;
mod trains;
