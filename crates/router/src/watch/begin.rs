//! Start of a capture or trace.

use super::form::Form;
use super::rounds::Rounds;
use super::session::Session;
use super::{capture, trace};
use crate::Router;
use crate::taps::watchers::Kind;
use wattline_daemon::socket::{Answer, Look as Wanted, Reply};
use wattline_dataplane::port::PortId;
use wattline_dataplane::tap::copies;
use wattline_dataplane::tap::filter::Filter;
use wattline_dataplane::tap::slots::SLOTS;
use wattline_dataplane::tap::tap::{Tap, TapOptions};
use wattline_status::WatchStart;

impl Router {
    /// Starts a capture or a trace.
    pub(crate) fn watch(&mut self, kind: Kind, wanted: &Wanted) -> Reply {
        let refused = |message: String| Reply::Answer(Answer::Error(message));
        let number = |name: &str| u16::try_from(self.configured.config.port_named(name)?).ok();
        let filter = match Filter::parse(&wanted.filter, &number) {
            Ok(filter) => filter,
            Err(error) => return refused(error.to_string()),
        };
        if wanted.rate == 0 || wanted.snap == 0 || wanted.most == Some(0) {
            return refused("rate, snap and the number of packets begin at 1".to_owned());
        }
        let Some(slot) = self.watchers.take_slot(wanted.snap) else {
            return refused(format!("{SLOTS} captures and traces run already, which is the most"));
        };
        let nodes = kind == Kind::Trace;
        let options = TapOptions { filter, nodes, snap: wanted.snap, rate: wanted.rate };
        let (snap, nodes) = (self.watchers.snap(), self.workers.nodes().len());
        let mut programs = self.kernel.as_mut().map(|kernel| &mut kernel.programs);
        let copying = programs.as_mut().map_or(Ok(()), |it| it.copying.update(snap, nodes));
        let reader = programs.and_then(|it| it.copying.worker());
        let mut worker_taps = self.workers.worker_taps();
        worker_taps.extend(reader);
        let copies = self.kernel.as_ref().and_then(|it| it.programs.copying.copies.clone());
        let copies = copies.map(|it| (it.uncopied().unwrap_or_default(), it));
        let mut session = Session {
            watchers: self.watchers.clone(),
            inbox_sender: self.control.inbox_sender.clone(),
            slot,
            rounds: Rounds::default(),
            worker_taps,
            most: wanted.most.unwrap_or(u64::MAX),
            copies: copies.map(|(before, it)| (it, before)),
        };
        for worker in &session.worker_taps {
            let (tap, records, counters) = Tap::new(options.clone(), worker.chunks);
            session.rounds.add(records, counters);
            worker.slots.put(slot, tap);
            worker.wake();
        }
        let mut unseen = self.unseen();
        if session.copies.as_ref().is_some_and(|(copies, _)| copies.is_refused()) {
            unseen.push(
                "packets that XDP programs forward (this kernel refuses programs that copy)"
                    .to_owned(),
            );
        }
        if let Err(error) = copying {
            unseen.push(format!("packets that XDP programs forward ({error})"));
        }
        let names: Vec<String> =
            self.configured.config.ports.iter().map(|port| port.name.clone()).collect();
        let mut form: Box<dyn Form> = match kind {
            Kind::Capture => {
                let remark = format!("filter: {}; not seen: {}", wanted.filter, unseen.join("; "));
                Box::new(capture::Capture::new(self.described(), &remark, wanted.snap))
            }
            Kind::Trace => {
                let rules = self.applications.iter().find_map(|it| it.rule_names());
                let mut nodes = self.workers.nodes().to_vec();
                nodes.push(copies::NODE);
                Box::new(trace::Trace::new(names, nodes, rules))
            }
        };
        let head = match Answer::document(&WatchStart { unseen, ..WatchStart::default() }) {
            Answer::Ok(head) => head,
            refused @ Answer::Error(_) => return refused.into(),
        };
        Reply::Stream(head, Box::new(move |out| session.run(&mut *form, out)))
    }
}

impl Router {
    /// Returns the ports with their interfaces.
    fn described(&self) -> Vec<(String, String)> {
        let ports = self.configured.config.ports.iter().enumerate();
        let interface = |number: usize| {
            let link = self.rib.link_of(PortId(number as u16))?;
            Some(format!("interface {}", link.name))
        };
        ports
            .map(|(number, port)| (port.name.clone(), interface(number).unwrap_or_default()))
            .collect()
    }

    /// Describes the packets that are not seen.
    fn unseen(&self) -> Vec<String> {
        let Some(kernel) = &self.kernel else { return Vec::new() };
        let mut unseen = vec![
            "packets that go to the kernel before a worker sees them (ARP, routing protocols, \
             packets to this machine, multicast, IPv4 options, packets whose time to live ends \
             here): tcpdump on the interface shows them"
                .to_owned(),
        ];
        for (number, port) in self.configured.config.present_ports() {
            if let Some((state, reason)) = self.ports.state(number)
                && crate::port::is_without(state)
            {
                let state = state.name();
                let reason = reason.map_or_else(String::new, |why| format!(" ({why})"));
                let but = match kernel.programs.flows.state(number) {
                    Some(Ok(())) => ", but for the flows of its flowtable",
                    _ => "",
                };
                unseen.push(format!("port {}, which is {state}{reason}{but}", port.name));
            }
            if let Some(left) = self.left_alone(usize::from(number.0)) {
                unseen.push(format!("port {}: {left}", port.name));
            }
        }
        unseen
    }
}
