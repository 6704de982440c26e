//! Ports that a reload adds and removes while the others forward.
//!
//! A port that is added is opened as a whole first: its program is attached and its sockets are open.
//! Where one of several cannot be, none is added. Only then do workers get the queues, through the same
//! slots by which an interface that came back reaches them ([`super::slot`]); their ports have places
//! beyond those of the start for that. A port that is removed is sent nothing first, then its program
//! goes, then the workers empty its queues and give them up, and last it leaves the tables.

use super::Router;
use super::attachments::{EMPTYING, OpenPort};
use super::port::guard::Guard;
use super::programs::NewPort;
use super::queues::{self, Interface};
use super::statics::port_spec;
use super::takeover::judged_and_left;
use super::view::View;
use crate::config::{Config, PortKind, PortSettings};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use wattline_dataplane::port::PortId;

/// Longest wait of a reload for workers beyond that. They take milliseconds, unless one hangs.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// Changes of the ports by a reload.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PortChanges {
    pub added: Vec<PortId>,
    pub removed: Vec<PortId>,
    /// Reasons why a restart is needed, a sentence each.
    pub fixed: Vec<String>,
}

impl PortChanges {
    /// From one configuration to another, whose ports are placed beside those of the first
    /// ([`Config::load_beside`]). `kept` says why no port can come or go, if that is so.
    pub fn between(old: &Config, new: &Config, kept: Option<&str>) -> Self {
        let mut changes = Self::default();
        let vacant = PortSettings::vacant();
        for place in 0..old.ports.len().max(new.ports.len()) {
            let at =
                |config: &'_ Config| config.ports.get(place).cloned().unwrap_or(vacant.clone());
            let (before, after, port) = (at(old), at(new), PortId(place as u16));
            let said = match (before.is_vacant(), after.is_vacant()) {
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
            if is_capture(said) {
                let name = &said.name;
                changes.fixed.push(format!("[[port]] {name}: captures are read from the start"));
            } else if let Some(why) = kept {
                changes.fixed.push(format!("[[port]] {}: {why}", said.name));
            }
        }
        changes
    }

    /// Whether ports come or go.
    pub fn any(&self) -> bool {
        !self.added.is_empty() || !self.removed.is_empty()
    }
}

/// Lists keys that differ between two ports of one name, beside their addresses.
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

impl View<'_> {
    /// Returns why the ports cannot become those of another configuration, if so.
    pub fn keeps_ports(&self, new: &Config) -> Option<String> {
        let governed = self.power.as_ref().is_some_and(|power| !power.follows_ports());
        let has_interface = self.config().ports.iter().any(|port| port.kind.taken_over().is_some());
        let of_start = |what| format!("{what} keeps the ports of the start");
        if governed {
            return Some(of_start("this [power] platform"));
        }
        if !has_interface {
            return Some(of_start("a router without interfaces"));
        }
        // Its packets would pass a section by that is not in force yet.
        let runs = |heading| self.config().applications.iter().any(|it| it.heading() == heading);
        if let Some(more) = new.applications.iter().find(|it| !runs(it.heading())) {
            return Some(format!("{} is new, which needs a restart", more.heading()));
        }
        if new.clamps_mss() && !self.config().clamps_mss() {
            return Some("clamp_mss is new, which needs a restart".to_owned());
        }
        self.applications.iter().find_map(|it| it.refuses_ports(new))
    }

    /// The interfaces of the ports, as far as can be told before anything is touched.
    fn fit_interfaces(
        &self,
        wanted: &Config,
        added: &[PortId],
    ) -> Result<Vec<Interface>, Vec<String>> {
        let (mut fit, mut wrong) = (Vec::new(), Vec::new());
        for port in added {
            let settings = &wanted.ports[usize::from(port.0)];
            let Some(name) = settings.kind.taken_over() else { continue };
            let mut present = self.config().ports.iter();
            let found = match present.find(|it| it.kind.taken_over() == Some(name)) {
                Some(other) => Err(format!(
                    "is still that of port {}: remove that one with one reload, and add this one with \
                     the next",
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
                let lacking = self.ports.attachments.lacks_room(&found, &fit, wanted);
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
    /// With everything that is wrong with any of them; all is as before then.
    pub(super) fn open_ports(
        &mut self,
        new: &Config,
        added: &[PortId],
    ) -> Result<Vec<OpenPort>, Vec<String>> {
        if added.is_empty() {
            return Ok(Vec::new());
        }
        // What else the new one says may need a restart. What it says of ports that are added is taken
        // over, or the applications would have refused them.
        let (ports, applications) = (new.ports.clone(), new.applications.clone());
        let wanted = Config { ports, applications, ..self.configured.config.clone() };
        for port in added {
            self.rib.set_port(*port, Some(port_spec(&wanted.ports[usize::from(port.0)])));
        }
        let opened =
            self.view().fit_interfaces(&wanted, added).and_then(|fit| self.open_fit(&wanted, &fit));
        if opened.is_err() {
            for port in added {
                self.rib.set_port(*port, None);
                self.lookout.iter_mut().for_each(|lookout| lookout.remove(*port));
            }
        }
        // Looked at for the new ones, and of others too.
        if let (Some(kernel), Some(lookout)) = (&mut self.kernel, &self.lookout) {
            kernel.programs.leave_prefixes(|port| lookout.left_prefixes(port));
        }
        opened
    }

    fn open_fit(
        &mut self,
        wanted: &Config,
        interfaces: &[Interface],
    ) -> Result<Vec<OpenPort>, Vec<String>> {
        let Self { kernel: Some(kernel), rib, lookout, ports, applications, .. } = self else {
            return Err(vec!["[[port]]: nothing is known of interfaces".to_owned()]);
        };
        let (mut opened, mut wrong, mut attached) = (Vec::new(), Vec::new(), Vec::new());
        for interface in interfaces {
            let Interface { port, link, .. } = interface;
            let name = &wanted.ports[usize::from(port.0)].name;
            let by_workers = wanted.why_by_workers(usize::from(port.0));
            let judges = (!by_workers.is_empty()).then(|| by_workers.join(", "));
            let guard = Guard::new(wanted, *port, applications);
            if let Some(lookout) = lookout {
                let check = applications.iter().filter_map(|it| it.will_check(*port, wanted)).max();
                lookout.add(*port, guard.is_guarded(), check, (wanted, rib));
                if let (Some(judges), Some(why)) = (&judges, lookout.left(*port)) {
                    wrong.push(judged_and_left(name, judges, why));
                    continue;
                }
            }
            let left = left_at_first(lookout.as_ref(), *port);
            let new = NewPort { by_workers: &by_workers, guard: &guard, left: &left };
            let program = match kernel.programs.add_port(*port, name, link, rib, &new) {
                Ok(program) => program,
                Err(error) => {
                    wrong.push(error.to_string());
                    continue;
                }
            };
            attached.push(*port);
            match ports.attachments.open(interface, wanted, &program, guard) {
                Ok(port) => opened.push(port),
                Err(error) => wrong.push(format!("[[port]] {name}: {error}")),
            }
        }
        if wrong.is_empty() {
            return Ok(opened);
        }
        drop(opened);
        for port in attached {
            ports.attachments.forget(port);
            if let Err(error) = kernel.programs.remove_port(port) {
                tracing::error!("taking a port back that is not added: {error}");
            }
        }
        Err(wrong)
    }

    /// Gives the workers ports that are open. They are in the configuration now.
    pub(super) fn begin_ports(&mut self, opened: Vec<OpenPort>, added: &[PortId]) {
        if added.is_empty() {
            return;
        }
        let places = self.configured.config.ports.len();
        self.ports.modes.resize(places, String::new());
        self.ports.links.resize(places, 0);
        for port in added {
            let place = usize::from(port.0);
            self.ports.modes[place] = "attaching".to_owned();
            self.ports.links[place] = self.rib.link_named_as(*port).map_or(0, |link| link.index);
        }
        self.workers.serve_ports(places);
        for port in opened {
            self.ports.zero_copy |= port.zero_copy();
            self.ports.attachments.begin(port, &self.workers);
        }
        if let (Some(kernel), true) =
            (&mut self.kernel, self.configured.config.router.kernel_routes)
        {
            // Link-local neighbours of links that are no ports are not kept.
            kernel.request_dump(Instant::now());
        }
    }

    /// Gives up the interfaces of ports that no table leads to any more.
    pub(super) fn close_ports(&mut self, removed: &[(PortId, String)]) {
        let Self { kernel: Some(kernel), ports, workers, lookout, cleared, .. } = self else {
            return;
        };
        for (port, name) in removed {
            if let Err(error) = kernel.programs.remove_port(*port) {
                tracing::error!("port {name}: {error}");
            }
            ports.attachments.remove(*port, workers);
            lookout.iter_mut().for_each(|lookout| lookout.remove(*port));
            cleared.iter_mut().for_each(|cleared| cleared.forget_port(name));
            ports.modes[usize::from(port.0)].clear();
        }
        let forgotten = |workers: &super::Workers| {
            removed.iter().all(|(port, _)| workers.have_forgotten(*port))
        };
        let begun = Instant::now();
        let mut is_patient = true;
        while !(ports.attachments.have_left() && forgotten(workers)) {
            if is_patient && begun.elapsed() > EMPTYING {
                is_patient = false;
                ports.attachments.hurry();
            }
            if begun.elapsed() > EMPTYING + PATIENCE {
                tracing::error!(
                    "a worker does not give up the queues of a port that was removed; they are closed \
                     once it does"
                );
                break;
            }
            workers.wake();
            std::thread::sleep(LOOK);
        }
        for (_, name) in removed {
            tracing::info!("port {name}: removed; the kernel forwards what comes in there");
        }
    }

    /// Waits until workers have taken the ports that were added, and traffic goes to them.
    pub(super) fn await_ports(&mut self) {
        let begun = Instant::now();
        loop {
            self.look_at_interfaces();
            if !self.ports.attachments.are_waiting() || begun.elapsed() > PATIENCE {
                return;
            }
            self.workers.wake();
            std::thread::sleep(LOOK);
        }
    }
}

/// The prefixes whose packets a port leaves to the kernel from its first frame on: all, where the port
/// as a whole is left to it.
fn left_at_first(lookout: Option<&super::Lookout>, port: PortId) -> BTreeSet<ipnet::IpNet> {
    let Some(lookout) = lookout else { return BTreeSet::new() };
    if lookout.left(port).is_some() {
        let all = [ipnet::Ipv4Net::default().into(), ipnet::Ipv6Net::default().into()];
        return all.into();
    }
    lookout.left_prefixes(port).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(names: &[&str]) -> Config {
        let port = |name: &&str| format!("[[port]]\nname = \"{name}\"\ninterface = \"{name}0\"\n");
        Config::parse(&names.iter().map(port).collect::<String>(), "test").unwrap()
    }

    #[test]
    fn ports_come_and_go_and_what_stays_is_fixed() {
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
