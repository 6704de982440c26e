//! Rules of the house: who may use whom (`house.toml`), under which licences others are used, what is
//! defined once, and that the recorded examples of how to add to it apply.

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
