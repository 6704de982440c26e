//! Guard of a port: the one place that decides whether frames that a port receives for others may
//! pass.
//!
//! Applications such as `[ipsec]`, `[[acl]]` and `[urpf]` judge frames in the workers, and the kernel
//! knows nothing of them. A guarded port that no worker serves is therefore blocked, for whatever
//! reason: it is left to the kernel, its interface has gone or returned, its attachment failed, or
//! its queues change. Every [`Change`] is a list of [`Step`]s, which [`Programs`] takes in order and
//! ends at the first that fails. The tests fail each of them.
//!
//! [`Programs`]: crate::programs::Programs

use crate::application::Application;
use crate::config::Config;
use wattline_dataplane::port::PortId;

/// Fate of the frames that a port receives for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passage {
    /// Nobody judges them: workers, XDP programs or the kernel forward them.
    Passes,
    /// Workers judge and forward them; the kernel gets none to forward.
    Judged,
    /// They are dropped.
    Blocked,
}

/// Change of a port after the traffic was taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Workers have the queues and the tables of the port.
    Serve,
    /// No worker serves the port any more.
    Leave,
    /// The port gets an interface, which workers will serve.
    Return,
    /// The port gets an interface, which no worker will serve.
    Hold,
}

/// Step of a [`Change`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Leaves the kernel no frame of the port to forward.
    Guard,
    /// Takes the sockets from the program.
    ClearSockets,
    /// Gives the program its sockets.
    SetSockets,
    /// Attaches the program to the interface.
    Attach,
    /// Detaches the program.
    Detach,
    /// Lets other programs send out of the port.
    OpenEgress,
    /// Keeps other programs from sending out of the port.
    CloseEgress,
}

/// Guard of one port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Guard {
    /// The sections that judge its frames; `None` if frames pass unjudged.
    judges: Option<String>,
}

impl Guard {
    /// Returns the guard of a port under a configuration, with these applications.
    pub fn new(config: &Config, port: PortId, applications: &[Box<dyn Application>]) -> Self {
        let of_all = applications.iter().filter(|it| it.guards());
        let of_all = of_all.map(|it| format!("[{}]", it.name()));
        let of_port = config.why_by_workers(usize::from(port.0)).into_iter().map(str::to_owned);
        let judges: Vec<String> = of_all.chain(of_port).collect();
        Self { judges: (!judges.is_empty()).then(|| judges.join(", ")) }
    }

    /// Returns the sections that judge frames of the port, if any.
    pub fn judges(&self) -> Option<&str> {
        self.judges.as_deref()
    }

    /// Decides about frames of the port, which workers serve or not.
    pub fn passage(&self, is_served: bool) -> Passage {
        match (&self.judges, is_served) {
            (None, _) => Passage::Passes,
            (Some(_), true) => Passage::Judged,
            (Some(_), false) => Passage::Blocked,
        }
    }

    /// Returns true if the kernel may forward no frame of the port.
    pub fn is_guarded(&self) -> bool {
        self.passage(false) == Passage::Blocked
    }

    /// Returns the steps of a change, in order. The guard comes first, and no step takes it back.
    pub fn steps(&self, change: Change) -> &'static [Step] {
        use Step::{Attach, ClearSockets, CloseEgress, Detach, OpenEgress, SetSockets};
        match (change, self.is_guarded()) {
            (Change::Serve, true) => &[Step::Guard, SetSockets],
            (Change::Serve, false) => &[SetSockets],
            (Change::Leave, true) => &[Step::Guard, ClearSockets, CloseEgress],
            (Change::Leave, false) => &[Detach, CloseEgress],
            (Change::Return, true) => &[Step::Guard, Attach, OpenEgress],
            (Change::Return, false) => &[Attach, OpenEgress],
            (Change::Hold, true) => &[Step::Guard, Attach],
            (Change::Hold, false) => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn guarded() -> Guard {
        Guard { judges: Some("[ipsec]".to_owned()) }
    }

    /// A port as the kernel has it.
    #[derive(Debug, Clone, Copy, Default)]
    struct Port {
        has_interface: bool,
        is_attached: bool,
        is_guarded: bool,
        /// Whether the program has sockets, and workers serve them.
        has_sockets: bool,
        has_workers: bool,
        egress: bool,
    }

    impl Port {
        /// Fate of a frame for others that the interface receives now.
        fn passage(&self) -> Passage {
            match self {
                Self { has_interface: false, .. } => Passage::Blocked,
                Self { is_attached: false, .. } => Passage::Passes,
                Self { has_sockets: true, has_workers: true, .. } => Passage::Judged,
                Self { is_guarded: true, .. } => Passage::Blocked,
                _ => Passage::Passes,
            }
        }

        fn take(&mut self, step: Step) {
            match step {
                Step::Guard => self.is_guarded = true,
                Step::ClearSockets => self.has_sockets = false,
                Step::SetSockets => self.has_sockets = self.is_attached,
                Step::Attach => self.is_attached = self.has_interface,
                Step::Detach => (self.is_attached, self.has_sockets) = (false, false),
                Step::OpenEgress => self.egress = true,
                Step::CloseEgress => self.egress = false,
            }
        }
    }

    /// Events of a port: it is left, its interface goes or returns, its workers come and go.
    #[derive(Debug, Clone, Copy)]
    enum Event {
        Change(Change),
        InterfaceGoes,
        InterfaceReturns,
        WorkersTake,
        WorkersGiveUp,
    }

    fn events() -> impl Strategy<Value = Vec<(Event, Option<usize>)>> {
        let change = prop_oneof![
            Just(Change::Serve),
            Just(Change::Leave),
            Just(Change::Return),
            Just(Change::Hold)
        ];
        let event = prop_oneof![
            4 => change.prop_map(Event::Change),
            1 => Just(Event::InterfaceGoes),
            1 => Just(Event::InterfaceReturns),
            1 => Just(Event::WorkersTake),
            1 => Just(Event::WorkersGiveUp),
        ];
        prop::collection::vec((event, prop::option::of(0usize..3)), 1..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        /// Events in any order, each step of which may fail. A frame may pass unjudged only while
        /// the program could not be attached to an interface, which `Hold` repairs.
        #[test]
        fn no_frame_of_a_guarded_port_passes_unjudged(events in events()) {
            let guard = guarded();
            let mut port = Port { has_interface: true, ..Port::default() };
            // Traffic is taken over: the program is attached and guarded.
            for step in [Step::Guard, Step::Attach] {
                port.take(step);
            }
            for (event, fails_at) in events {
                match event {
                    Event::Change(change) => {
                        for (at, step) in guard.steps(change).iter().enumerate() {
                            if fails_at == Some(at) {
                                break;
                            }
                            port.take(*step);
                            prop_assert!(
                                !port.is_attached || port.passage() != Passage::Passes,
                                "{change:?}, {step:?}: {port:?}"
                            );
                        }
                    }
                    // The kernel takes program and sockets with it.
                    Event::InterfaceGoes => {
                        port.has_interface = false;
                        (port.is_attached, port.has_sockets) = (false, false);
                    }
                    Event::InterfaceReturns => port.has_interface = true,
                    Event::WorkersTake => port.has_workers = true,
                    Event::WorkersGiveUp => port.has_workers = false,
                }
                prop_assert!(
                    !port.is_attached || port.passage() != Passage::Passes, "{event:?}: {port:?}"
                );
                let mut held = port;
                for step in guard.steps(Change::Hold) {
                    held.take(*step);
                }
                prop_assert_ne!(held.passage(), Passage::Passes, "{:?}", held);
            }
        }
    }

    #[test]
    fn unserved_guarded_port_is_blocked_and_no_step_opens_it() {
        let none = Guard::default();
        assert_eq!(guarded().passage(true), Passage::Judged);
        assert_eq!(guarded().passage(false), Passage::Blocked);
        assert_eq!([none.passage(true), none.passage(false)], [Passage::Passes; 2]);
        for change in [Change::Serve, Change::Leave, Change::Return, Change::Hold] {
            let steps = guarded().steps(change);
            assert_eq!(steps.first(), Some(&Step::Guard), "{change:?}");
            assert!(!steps.contains(&Step::Detach), "{change:?}");
        }
    }
}
