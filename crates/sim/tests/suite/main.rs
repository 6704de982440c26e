//! The simulator against closed forms, published figures and itself; one program, which links once
//! and runs its files side by side.

mod bursts;
mod closed_form;
mod common;
mod conformance;
mod contract;
mod engine;
mod knobs;
mod latency_view;
mod output_links;
mod published;
mod requests;
mod theory;
