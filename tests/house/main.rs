//! Rules of the house: uses between crates (`house.toml`), licences of dependencies, names that are
//! defined once, documentation, and the recorded examples of additions.

mod architecture;
mod board;
mod circles;
mod documents;
mod examples;
mod features;
mod floors;
mod house;
mod keys;
mod licences;
mod modules;
mod operator;
mod sight;
mod site;
mod skips;
mod wording;
