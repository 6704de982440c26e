//! One port that an interface serves: its settings, its state, its guard and its open sockets.
//!
//! [`machine`] decides which actions follow an event, and [`guard`] whether frames of the port may
//! pass (each frame is judged by `classify.h` in the kernel and by the nodes of `filter`). Only the
//! [`actuator`] changes programs, sockets, workers and tables for a port. The sockets of a start
//! are opened elsewhere, all at once: `queues::open`.

pub(crate) mod action;
pub(crate) mod actuator;
pub(crate) mod guard;
pub(crate) mod machine;
pub(crate) mod ports;
#[cfg(test)]
mod tests;

use super::queues::{Sockets, Unopened, Unserved};
use crate::config::{Config, PortSettings};
use guard::Guard;
use machine::{Life, State};
use std::time::{Duration, Instant};
use wattline_dataplane::port::PortId;
use wattline_linux::netlink::Link;
use wattline_ports::afxdp::{QueueState, QueueStatus};
use wattline_rib::Rib;
use wattline_status::PortState;

/// Time between two tries to take over an interface: an obstacle, such as another program, may
/// disappear without an event.
pub(crate) const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Returns the state of a served port by its link.
pub(crate) fn from_link(link: &Link) -> PortState {
    match (link.enabled, link.running) {
        (false, _) => PortState::Down,
        (true, false) => PortState::NoCarrier,
        (true, true) => PortState::Up,
    }
}

/// Returns the cause and the remedy if packets cannot pass the link.
fn link_reason(state: PortState, interface: &str) -> Option<String> {
    match state {
        PortState::Down => Some(format!("it was set down: `ip link set dev {interface} up`")),
        PortState::NoCarrier => Some(format!(
            "{interface} has no carrier: its cable, its transceiver or the far end is missing \
             or down; no route leads out of it until that is back"
        )),
        _ => None,
    }
}

/// Returns true if no worker serves the port.
pub(crate) fn is_without(state: PortState) -> bool {
    use PortState::{Absent, Blocked, Failed, Left};
    matches!(state, Absent | Failed | Left | Blocked)
}

/// Returns the mode of a port that no worker serves.
fn mode_without_worker(state: PortState) -> Option<&'static str> {
    match state {
        PortState::Left => Some("kernel"),
        PortState::Blocked => Some("blocked"),
        PortState::Absent | PortState::Failed => Some("not attached"),
        PortState::Attaching => Some("attaching"),
        PortState::Up | PortState::Down | PortState::NoCarrier | PortState::Gone => None,
    }
}

/// A port that an interface serves, or is to serve.
pub(crate) struct Port {
    pub id: PortId,
    /// Name of the port.
    pub name: String,
    /// Configured name of its interface.
    pub interface: String,
    /// Sections for which workers forward the received packets, if any.
    pub by_workers: String,
    /// Its state and its guard.
    pub life: Life,
    /// Reason why it could not be blocked, and the time of the next try.
    pub unblocked: Option<(String, Instant)>,
    /// Its sockets, while it has an interface.
    pub sockets: Sockets,
    /// True if its frames reach workers without a copy, or did while it was served.
    pub zero_copy: bool,
    /// Description of its program and of the mode of its queues.
    pub mode: String,
    /// Index of its interface, while it has one.
    pub ifindex: u32,
    /// The queues for which there is memory.
    pub queues: u32,
    /// Queues that are or were last served; 0 before the first time.
    pub queues_served: u32,
    /// True if its XDP program is the one for bonds, once it has a program.
    pub is_bond: Option<bool>,
    /// Log text for the next time that it is attached; `None` at the start.
    pub attached_words: Option<&'static str>,
    /// Time of the next check of its program and the number of its queues.
    pub next_check: Instant,
    /// Time until which workers may empty its queues.
    pub emptied_by: Instant,
    /// Time until which its queues may be in use, by its own former sockets or by another program.
    pub released_by: Instant,
    /// The link at the last try to serve the port, and the time of the next try.
    pub seen: Option<Link>,
    pub next_try: Instant,
    /// Present name of its interface, if it is not the configured one.
    pub renamed: Option<String>,
    /// State of the interface's link, while it is served and the kernel knows it.
    pub link: Option<PortState>,
}

impl Port {
    /// Creates a port without an interface.
    pub fn new(id: PortId, config: &Config, guard: Guard) -> Self {
        let place = usize::from(id.0);
        let settings: &PortSettings = &config.ports[place];
        let now = Instant::now();
        Self {
            id,
            name: settings.name.clone(),
            interface: settings.kind.taken_over().unwrap_or_default().to_owned(),
            by_workers: config.sections_for_workers(place).join(", "),
            life: Life::new(guard),
            unblocked: None,
            sockets: Sockets::default(),
            zero_copy: false,
            mode: String::new(),
            ifindex: 0,
            queues: 0,
            queues_served: 0,
            is_bond: None,
            attached_words: Some("attached to"),
            next_check: now,
            emptied_by: now,
            released_by: now,
            seen: None,
            next_try: now,
            renamed: None,
            link: None,
        }
    }

    /// Notes why the port cannot be opened at the start.
    pub fn note_unopened(&mut self, unopened: &Unopened) {
        self.queues = unopened.queues;
        self.seen.clone_from(&unopened.link);
        self.next_try = Instant::now();
        if matches!(unopened.why, Unserved::Failed(_)) {
            self.next_try += TRY_AGAIN;
        }
    }

    /// Returns the index of its interface, if it has one.
    pub fn ifindex(&self) -> Option<u32> {
        self.life.state.has_interface().then_some(self.ifindex)
    }

    /// Describes the mode in which its frames are received.
    pub fn mode(&self) -> &str {
        let (shown, _) = self.describe();
        mode_without_worker(shown).unwrap_or(&self.mode)
    }

    /// Returns a remark if the interface has another name now.
    pub fn renamed(&self) -> Option<String> {
        let now = self.renamed.as_ref()?;
        let before = &self.interface;
        Some(format!(
            "its interface is called {now} now, and is still served; after a restart it would be the \
             one that is called {before} then"
        ))
    }

    /// Describes the state, and gives the reason for it.
    pub fn describe(&self) -> (PortState, Option<String>) {
        match &self.life.state {
            State::Up(_) => self.describe_up(),
            State::Open | State::Offered | State::Listed | State::Removed => {
                (PortState::Attaching, Some("workers take its queues".to_owned()))
            }
            State::Without(why) | State::Emptying { why, .. } => self.describe_without(why),
        }
    }

    fn describe_up(&self) -> (PortState, Option<String>) {
        let now = self.renamed.as_ref().unwrap_or(&self.interface);
        let reason = self.link.and_then(|link| link_reason(link, now));
        let reasons: Vec<String> = reason.into_iter().chain(self.renamed()).collect();
        // The worst of its queues. They notice that an interface is up again when they use it.
        let worst = self.sockets.statuses.iter().map(QueueStatus::state).max_by_key(|it| *it as u8);
        let shown = match (self.link, worst) {
            (_, Some(QueueState::Gone)) => PortState::Gone,
            (Some(link), _) => link,
            (None, Some(QueueState::Down)) => PortState::Down,
            (None, _) => PortState::Up,
        };
        (shown, (!reasons.is_empty()).then(|| reasons.join("; ")))
    }

    fn describe_without(&self, why: &Unserved) -> (PortState, Option<String>) {
        let (shown, reason) = match (why, self.life.guard.judges()) {
            (Unserved::Absent(why), _) => (PortState::Absent, why.clone()),
            (Unserved::Failed(why), None) => (PortState::Failed, why.clone()),
            (Unserved::Failed(why), Some(what)) => {
                let fate = match &self.unblocked {
                    None => {
                        format!("packets for others are dropped, as {what} would not hold")
                    }
                    Some((error, _)) => format!(
                        "the kernel forwards received packets without {what}, as the port cannot \
                         be blocked: {error}"
                    ),
                };
                (PortState::Failed, format!("{why}; {fate}"))
            }
            (Unserved::Left(why), None) => (PortState::Left, why.clone()),
            (Unserved::Left(why), Some(what)) => (
                PortState::Blocked,
                format!(
                    "packets for others are dropped, as {what} would not hold if the kernel \
                     forwarded them: {why}"
                ),
            ),
        };
        (shown, Some(reason))
    }

    /// Returns a sentence if the port differs from the configuration. A missing cable is not a
    /// configuration error.
    pub fn complaint(&self) -> Option<String> {
        let (shown, reason) = match self.life.state {
            State::Removed => return None,
            State::Up(_) => (PortState::Up, self.renamed()),
            _ => self.describe(),
        };
        Some(format!("{}: {}: {}", self.name, shown.name(), reason?))
    }

    /// Notes the present name of the served interface and the state of its link.
    pub fn note_link(&mut self, rib: &Rib) {
        let link = match self.life.state {
            State::Up(_) => rib.link_of(self.id).filter(|it| it.index == self.ifindex),
            _ => None,
        };
        let now = link.map(|link| &link.name).filter(|name| **name != self.interface).cloned();
        let state = link.map(from_link);
        if now == self.renamed && state == self.link {
            return;
        }
        let logs = match (self.link, state) {
            (Some(_), Some(_)) => true,
            // It has just been attached.
            (None, Some(state)) => state != PortState::Up || now != self.renamed,
            (_, None) => now != self.renamed,
        };
        (self.renamed, self.link) = (now, state);
        if logs {
            let name = &self.name;
            match self.describe() {
                (shown, Some(reason)) => {
                    tracing::warn!("port {name}: {}: {reason}", shown.name());
                }
                (shown, None) => tracing::info!("port {name}: {}", shown.name()),
            }
        }
    }

    /// Logs why the port is not served from the start on.
    pub fn log_unopened(&self) {
        let (name, interface) = (&self.name, &self.interface);
        match self.life.state.reason() {
            Some(Unserved::Absent(why)) => tracing::warn!(
                "port {name}: {why}; the port is attached as soon as {interface} is there and up, and \
                 the kernel forwards packets routed over it until then"
            ),
            Some(Unserved::Failed(why)) => self.log_failed(why),
            _ => {}
        }
    }

    /// Logs that the port cannot be attached.
    pub fn log_failed(&self, reason: &str) {
        tracing::warn!(
            "port {}: cannot be attached: {reason}; the kernel forwards packets routed over it, \
             and \
             the router tries again once a second",
            self.name
        );
    }

    /// Returns why the served interface can no longer be used, if so.
    pub fn is_lost(&self, rib: &Rib) -> Option<String> {
        let ifindex = self.ifindex()?;
        let interface = &self.interface;
        let is_there = match self.life.state {
            State::Up(_) => rib.link_of(self.id).is_some_and(|it| it.index == ifindex),
            _ => rib.has_link(ifindex),
        };
        if !is_there {
            return Some(format!("its interface {interface} is gone"));
        }
        // The number may have been given to another interface since.
        let failed = self.sockets.statuses.iter().any(QueueStatus::failed);
        failed.then(|| format!("its interface {interface} is gone: its sockets are cut off"))
    }
}
