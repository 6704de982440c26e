//! Rules of the house: who may use whom (`house.toml`), and under which licences others are used.

mod architecture;
mod circles;
mod documents;
mod floors;
mod house;
mod licences;
mod modules;
mod sight;
