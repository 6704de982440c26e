//! Reads the section `[requests]` of a server file.

use super::{KernelCosts, RequestIdleState, RequestPower, RequestServer, RequestService};
use crate::input::Section;
use crate::model::{Nic, Processor};
use std::collections::BTreeMap;

/// Workloads for which a file may give costs.
const WORKLOADS: [&str; 2] = ["memcached", "nginx"];

impl RequestServer {
    /// Reads the section; name, description, processor and card come from the rest of the file.
    pub(crate) fn read(
        section: &Section<'_, '_>,
        [name, description]: [&str; 2],
        processor: Option<&Processor>,
        nic: Option<&Nic>,
    ) -> Option<Self> {
        let states = processor.map(|processor| processor.frequencies.len());
        let kernel = KernelCosts::read(section);
        let idle_states = section.sections("idle_state", RequestIdleState::read);
        RequestIdleState::check_order(section, &idle_states);
        if !section.has("idle_state") {
            section.contradiction("", "name at least one [[requests.idle_state]]".into());
        }
        let power =
            section.required_section("power", |section| RequestPower::read(section, states));
        let services = WORKLOADS.into_iter().filter_map(|name| {
            Some((name.to_owned(), section.section(name, RequestService::read)?))
        });
        let services: BTreeMap<String, RequestService> = services.collect();
        if !WORKLOADS.into_iter().any(|name| section.has(name)) {
            section.contradiction("", format!("name at least one of {}", WORKLOADS.join(", ")));
        }
        let nic = nic?;
        if nic.moderation.is_none() {
            section.contradiction("", "needs [nic.moderation]: interrupts have a period".into());
            return None;
        }
        Some(Self {
            name: name.to_owned(),
            description: description.to_owned(),
            processor: processor?.clone(),
            nic: nic.clone(),
            kernel: kernel?,
            idle_states: (!idle_states.is_empty()).then_some(idle_states)?,
            power: power?,
            services: (!services.is_empty()).then_some(services)?,
        })
    }
}
