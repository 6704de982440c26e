//! The simulator compared with closed forms, published figures and itself. This is one program, so
//! that it links once and runs its files in parallel.

mod bursts;
mod captures;
mod closed_form;
mod common;
mod conformance;
mod contract;
mod engine;
mod estimator;
mod kernel_path;
mod knobs;
mod latency_view;
mod liars;
mod output_links;
mod published;
mod requests;
mod spec_servers;
mod theory;
