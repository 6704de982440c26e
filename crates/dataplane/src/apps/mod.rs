//! Applications: what a router can do to packets beside forwarding them. Each is a folder with
//! its nodes and what they share; it comes into the graph as a [`crate::feature::Feature`].

pub mod esp;
