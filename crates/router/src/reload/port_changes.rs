//! Ports that a reload adds and removes while the others forward.
//!
//! An added port is opened as a whole first: its program is attached and its sockets are open. If
//! one of several cannot be opened, none is added. Only then do workers get the queues, through the
//! same slots as those of an interface that returned ([`super::slot`]); workers have spare places
//! for such ports. A removed port is taken from the egress ports first. Then its program is
//! detached, the workers empty its queues and give them up, and finally the port is removed from
//! the tables.

use crate::Router;
use crate::config::{Config, PortKind, PortSettings};
use crate::port::Port;
use crate::port::actuator::{Actuator, RELEASE};
use crate::port::guard::Guard;
use crate::port::machine::Event;
use crate::port::ports::{PATIENCE, await_workers};
use crate::queues::{self, Interface};
use crate::statics::port_spec;
use crate::takeover::judged_and_left;
use std::time::Instant;
use wattline_dataplane::port::PortId;

/// Changes of the ports by a reload.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PortChanges {
    pub added: Vec<PortId>,
    pub removed: Vec<PortId>,
    /// Reasons why a restart is needed, a sentence each.
    pub fixed: Vec<String>,
}

impl PortChanges {
    /// Compares two configurations; the ports of the second are placed by those of the first
    /// ([`Config::load_beside`]). `kept` is the reason why no port can be added or removed, if any.
    pub fn between(old: &Config, new: &Config, kept: Option<&str>) -> Self {
        let mut changes = Self::default();
        let vacant = PortSettings::vacant();
        for place in 0..old.ports.len().max(new.ports.len()) {
            let at =
                |config: &'_ Config| config.ports.get(place).cloned().unwrap_or(vacant.clone());
            let (before, after, port) = (at(old), at(new), PortId(place as u16));
            let changed = match (before.is_vacant(), after.is_vacant()) {
                (true, true) => continue,
                (true, false) => {
                    changes.added.push(port);
                    &after
                }
                (false, true) => {
                    changes.removed.push(port);
                    &before
                }
                (false, false) => {
                    let keys = fixed_keys(&before, &after);
                    if !keys.is_empty() {
                        changes.fixed.push(format!(
                            "[[port]] {}: {} of a port that stays cannot change: remove the port with \
                             one reload and add it again with the next",
                            before.name,
                            keys.join(", ")
                        ));
                    }
                    continue;
                }
            };
            if is_capture(changed) {
                let name = &changed.name;
                changes.fixed.push(format!("[[port]] {name}: captures are read from the start"));
            } else if let Some(why) = kept {
                changes.fixed.push(format!("[[port]] {}: {why}", changed.name));
            }
        }
        changes
    }

    /// Returns true if ports are added or removed.
    pub fn any(&self) -> bool {
        !self.added.is_empty() || !self.removed.is_empty()
    }
}

/// Lists keys that differ between two ports of one name, except their addresses.
fn fixed_keys(before: &PortSettings, after: &PortSettings) -> Vec<&'static str> {
    let keys = [
        ("interface", before.kind.taken_over() != after.kind.taken_over()),
        ("capture", is_capture(before) && before.kind != after.kind),
        ("mac", before.mac != after.mac),
        ("mtu", before.mtu != after.mtu),
        ("promiscuous", before.promiscuous != after.promiscuous),
        ("clamp_mss", before.clamp_mss != after.clamp_mss),
        ("steer", before.steer != after.steer),
    ];
    keys.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
}

fn is_capture(port: &PortSettings) -> bool {
    matches!(port.kind, PortKind::Capture { .. })
}

impl Router {
    /// Returns why the ports cannot become those of another configuration, if so.
    pub(crate) fn keeps_ports(&self, new: &Config) -> Option<String> {
        let governed = self.power.as_ref().is_some_and(|power| !power.follows_ports());
        let has_interface =
            self.configured.config.ports.iter().any(|port| port.kind.taken_over().is_some());
        let of_start = |what| format!("{what} keeps the ports of the start");
        if governed {
            return Some(of_start("this [power] platform"));
        }
        if !has_interface {
            return Some(of_start("a router without interfaces"));
        }
        // The port's packets would bypass a section that is not in force yet.
        let runs =
            |heading| self.configured.config.applications.iter().any(|it| it.heading() == heading);
        if let Some(more) = new.applications.iter().find(|it| !runs(it.heading())) {
            return Some(format!("{} is new, which needs a restart", more.heading()));
        }
        if new.clamps_mss() && !self.configured.config.clamps_mss() {
            return Some("clamp_mss is new, which needs a restart".to_owned());
        }
        self.applications.iter().find_map(|it| it.refuses_ports(new))
    }

    /// Returns the interfaces of the ports, checked as far as possible before any change.
    fn fit_interfaces(
        &self,
        wanted: &Config,
        added: &[PortId],
    ) -> Result<Vec<Interface>, Vec<String>> {
        let (mut fit, mut wrong) = (Vec::new(), Vec::new());
        for port in added {
            let settings = &wanted.ports[usize::from(port.0)];
            let Some(name) = settings.kind.taken_over() else { continue };
            let mut present = self.configured.config.ports.iter();
            let found = match present.find(|it| it.kind.taken_over() == Some(name)) {
                Some(other) => Err(format!(
                    "still belongs to port {}: remove that port with one reload, and add this one \
                     with the next",
                    other.name
                )),
                None => match self.rib.link_named_as(*port) {
                    Some(link) => queues::interface(*port, link, wanted),
                    None => {
                        Err("there is no such interface (`ip link` shows those that exist)"
                            .to_owned())
                    }
                },
            };
            let found = found.and_then(|found| {
                let lacking = self.ports.lacks_room(&found, &fit, wanted);
                lacking.map_or(Ok(found), Err)
            });
            match found {
                Ok(interface) => fit.push(interface),
                Err(why) => {
                    wrong
                        .push(format!("[[port]] {}: interface = \"{name}\": {why}", settings.name));
                }
            }
        }
        if wrong.is_empty() { Ok(fit) } else { Err(wrong) }
    }
}

impl Router {
    /// Opens all ports that are added.
    ///
    /// # Errors
    /// With all problems of all ports; nothing is changed then.
    pub(super) fn open_ports(&mut self, new: &Config, added: &[PortId]) -> Result<(), Vec<String>> {
        if added.is_empty() {
            return Ok(());
        }
        // Other changes may need a restart. Settings of added ports are applied: the applications would
        // have rejected them otherwise.
        let (ports, applications) = (new.ports.clone(), new.applications.clone());
        let wanted = Config { ports, applications, ..self.configured.config.clone() };
        for port in added {
            self.rib.set_port(*port, Some(port_spec(&wanted.ports[usize::from(port.0)])));
        }
        let fit = self.fit_interfaces(&wanted, added);
        let opened = fit.and_then(|fit| self.open_fit(&wanted, &fit));
        if opened.is_err() {
            for port in added {
                self.rib.set_port(*port, None);
                self.monitor.iter_mut().for_each(|monitor| monitor.remove(*port));
            }
        }
        // The monitor judged the new ports, and others again.
        if let (Some(kernel), Some(monitor)) = (&mut self.kernel, &self.monitor) {
            kernel.programs.leave_prefixes(|port| monitor.left_prefixes(port));
        }
        opened
    }

    fn open_fit(&mut self, wanted: &Config, interfaces: &[Interface]) -> Result<(), Vec<String>> {
        let now = Instant::now();
        self.ports.released.retain(|(_, until)| *until > now);
        let mut wrong = Vec::new();
        for interface in interfaces {
            let id = interface.port;
            let guard = Guard::new(wanted, id, &self.applications);
            let mut port = Port::new(id, wanted, guard);
            port.queues = interface.queues;
            port.attached_words = Some("added on");
            port.released_by = self.ports.patience(interface.link.index);
            if let Some(monitor) = &mut self.monitor {
                let checks = self.applications.iter().filter_map(|it| it.will_check(id, wanted));
                monitor.add(id, port.life.guard.is_guarded(), checks.max(), (wanted, &self.rib));
                let judges = Some(&port.by_workers).filter(|judges| !judges.is_empty());
                if let (Some(judges), Some(why)) = (judges, monitor.left(id)) {
                    wrong.push(judged_and_left(&port.name, judges, why));
                    continue;
                }
            }
            let Some((ports, actuator)) = self.actuator() else {
                return Err(vec!["[[port]]: the interfaces are unknown".to_owned()]);
            };
            let mut actuator = Actuator { config: wanted, ..actuator };
            let opened = actuator
                .apply(&mut port, Event::Attach, Some(interface))
                .and_then(|()| actuator.apply(&mut port, Event::OpenSockets, Some(interface)));
            if let Err(error) = opened {
                wrong.push(format!("[[port]] {}: {error}", port.name));
            }
            ports.push(port);
        }
        if wrong.is_empty() {
            return Ok(());
        }
        if let Some((ports, mut actuator)) = self.actuator() {
            let is_added = |it: &Port| interfaces.iter().any(|interface| interface.port == it.id);
            for port in ports.iter_mut().filter(|it| is_added(it)) {
                actuator.report(port, Event::Remove);
            }
            ports.retain(|it| !is_added(it));
        }
        Err(wrong)
    }

    /// Gives open ports to the workers. They are in the configuration now.
    pub(super) fn begin_ports(&mut self, added: &[PortId]) {
        if added.is_empty() {
            return;
        }
        let places = self.configured.config.ports.len();
        self.ports.links.resize(places, 0);
        for port in added {
            let link = self.rib.link_named_as(*port).map_or(0, |link| link.index);
            self.ports.links[usize::from(port.0)] = link;
        }
        self.workers.serve_ports(places);
        if let Some((ports, mut actuator)) = self.actuator() {
            actuator.begin(ports);
        }
        if let (Some(kernel), true) =
            (&mut self.kernel, self.configured.config.router.kernel_routes)
        {
            // Link-local neighbours of links that were no ports were not kept.
            kernel.request_dump(Instant::now());
        }
    }

    /// Reports an event to ports that are removed.
    fn report(&mut self, removed: &[PortId], event: &Event) {
        let Some((ports, mut actuator)) = self.actuator() else { return };
        for port in ports.iter_mut().filter(|it| removed.contains(&it.id)) {
            actuator.report(port, event.clone());
        }
    }

    /// Removes ports from the targets of the tables.
    pub(super) fn retire_ports(&mut self, removed: &[PortId]) {
        self.report(removed, &Event::Retire);
        removed.iter().for_each(|port| self.ports.links[usize::from(port.0)] = 0);
    }

    /// Gives up the interfaces of ports that no table leads to any more.
    pub(super) fn close_ports(&mut self, removed: &[PortId]) {
        let until = Instant::now() + RELEASE;
        for port in self.ports.list.iter().filter(|it| removed.contains(&it.id)) {
            self.ports.released.extend(port.ifindex().map(|index| (index, until)));
            self.monitor.iter_mut().for_each(|monitor| monitor.remove(port.id));
            self.cleared.iter_mut().for_each(|cleared| cleared.forget_port(&port.name));
        }
        self.report(removed, &Event::Remove);
        if let Some((ports, mut actuator)) = self.actuator() {
            actuator.await_removed(ports);
        }
    }

    /// Waits until workers have taken the added ports and get their traffic. Ports that
    /// applications judge are blocked meanwhile if that takes long.
    pub(super) fn await_ports(&mut self) {
        await_workers(PATIENCE, || {
            self.poll_interfaces();
            self.workers.wake();
            !self.ports.list.iter().any(|port| port.life.state.is_waiting())
        });
        if let Some((ports, mut actuator)) = self.actuator() {
            actuator.enforce(ports);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(names: &[&str]) -> Config {
        let port = |name: &&str| format!("[[port]]\nname = \"{name}\"\ninterface = \"{name}0\"\n");
        Config::parse(&names.iter().map(port).collect::<String>(), "test").unwrap()
    }

    #[test]
    fn ports_are_added_and_removed_and_others_are_fixed() {
        let old = config(&["a", "b"]);
        let mut new = config(&["a", "x", "c"]);
        new.ports[1] = PortSettings::vacant();
        new.ports[0].addresses.push("192.0.2.1/24".parse().unwrap());
        let changes = PortChanges::between(&old, &new, None);
        assert_eq!((&changes.added, &changes.removed), (&vec![PortId(2)], &vec![PortId(1)]));
        assert!(changes.fixed.is_empty(), "{changes:?}");
        let kept = Some("this [power] platform keeps the ports of the start");
        assert!(!PortChanges::between(&new, &new, kept).any());

        new.ports[0].mtu = Some(1400);
        new.ports[0].promiscuous = true;
        let fixed = PortChanges::between(&old, &new, kept).fixed;
        assert_eq!(fixed.len(), 3, "{fixed:?}");
        assert!(
            fixed[0].contains("[[port]] a: mtu, promiscuous of a port that stays"),
            "{fixed:?}"
        );
        assert!(fixed[1].contains("[[port]] b: this [power] platform keeps"), "{fixed:?}");
    }
}
