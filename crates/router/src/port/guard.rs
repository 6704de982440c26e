//! Guard of a port: the one place that decides whether frames that a port receives for others may
//! pass.
//!
//! Applications such as `[ipsec]`, `[[acl]]` and `[urpf]` judge frames in the workers, unknown to
//! the kernel. A guarded port is therefore blocked whenever no worker serves it: it is left to the
//! kernel, its interface has gone or returned, its attachment failed, or its queues change. A port
//! is up only with an [`Admission`], which only [`Guard::admit`] grants.

use super::action::Action;
use crate::application::Application;
use crate::config::Config;
use wattline_dataplane::port::PortId;

/// Fate of the frames that a port receives for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passage {
    /// They are not judged: workers, XDP programs or the kernel forward them.
    Passes,
    /// Workers judge and forward them; the kernel gets none to forward.
    Judged,
    /// They are dropped.
    Blocked,
}

/// Permission for frames of a port to reach workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admission(Passage);

/// Guard of one port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Guard {
    /// The sections that judge its frames; `None` if frames pass unjudged.
    pub(super) judges: Option<String>,
}

impl Guard {
    /// Returns the guard of a port under a configuration, with these applications.
    pub fn new(config: &Config, port: PortId, applications: &[Box<dyn Application>]) -> Self {
        let of_all = applications.iter().filter(|it| it.guards());
        let of_all = of_all.map(|it| format!("[{}]", it.name()));
        let of_port = config.sections_for_workers(usize::from(port.0));
        let of_port = of_port.into_iter().map(str::to_owned);
        let judges: Vec<String> = of_all.chain(of_port).collect();
        Self { judges: (!judges.is_empty()).then(|| judges.join(", ")) }
    }

    /// Returns the sections that judge frames of the port, if any.
    pub fn judges(&self) -> Option<&str> {
        self.judges.as_deref()
    }

    /// Returns true if the kernel may forward no frame of the port.
    pub fn is_guarded(&self) -> bool {
        self.judges.is_some()
    }

    /// Decides about frames of a port, which is up if it has an admission.
    pub fn passage(&self, admission: Option<Admission>) -> Passage {
        match (&self.judges, admission) {
            (_, Some(Admission(passage))) => passage,
            (None, _) => Passage::Passes,
            (Some(_), _) => Passage::Blocked,
        }
    }

    /// Admits frames to workers that have the queues and the tables of the port.
    pub(super) fn admit(&self) -> (Admission, Vec<Action>) {
        match self.is_guarded() {
            true => (Admission(Passage::Judged), vec![Action::Guard, Action::SetSockets]),
            false => (Admission(Passage::Passes), vec![Action::SetSockets]),
        }
    }

    /// Lists the actions that attach the program. A start or a reload that may still fail
    /// (`in_force` is false) leaves the frames to the kernel, as before.
    pub(super) fn attach(&self, in_force: bool) -> Vec<Action> {
        let blocked = in_force && self.is_guarded();
        vec![Action::Attach { blocked }, Action::OpenEgress]
    }

    /// Lists the actions that keep all frames from workers.
    pub(super) fn close(&self, in_force: bool) -> Vec<Action> {
        match in_force && self.is_guarded() {
            true => vec![Action::Guard, Action::ClearSockets, Action::CloseEgress],
            false => vec![Action::Detach, Action::CloseEgress],
        }
    }

    /// Lists the actions that block a port that is not up, if needed. `attached` is true if its
    /// program is attached to the present interface, `blocked` if the program is guarded.
    pub(super) fn hold(&self, attached: bool, blocked: bool) -> Vec<Action> {
        match (self.passage(None), attached) {
            (Passage::Blocked, false) => vec![Action::Attach { blocked: true }],
            (Passage::Blocked, true) if !blocked => vec![Action::Guard],
            _ => Vec::new(),
        }
    }
}
