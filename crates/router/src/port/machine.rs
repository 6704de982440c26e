//! Life of a port, without I/O: events move it from state to state and yield actions.
//!
//! Start, reload and return take the same steps: the program is attached, the sockets are opened,
//! the workers are offered the queues, the tables lead to the port, and only then the program gets
//! the sockets. The actuator takes the actions in order. If one fails, it reports that as an event,
//! and the actions of that event, if any, replace the remaining ones.

use super::action::Action;
use super::guard::{Admission, Guard};
use crate::queues::Unserved;

/// State of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// No worker serves the port.
    Without(Unserved),
    /// The program is attached, and the sockets are opened. The start or the reload may still fail.
    Open,
    /// The workers are offered the queues.
    Offered,
    /// The workers have the queues, and their next tables lead to the port.
    Listed,
    /// Workers serve the port.
    Up(Admission),
    /// No more frames arrive. The workers empty the queues, and give them up on request: their
    /// tables lead elsewhere by then.
    Emptying { why: Unserved, is_asked: bool },
    /// The port is removed. Workers may still have its queues.
    Removed,
}

/// Event in the life of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// A start or a reload takes the interface over.
    Attach,
    /// A reload opens the sockets.
    OpenSockets,
    /// The start or the reload has succeeded.
    Begin,
    /// An interface that can be served has appeared.
    Return,
    /// No interface can be served.
    Missing(Unserved),
    /// The workers have taken the queues, or the tables that name the port are published.
    Taken,
    /// The interface is gone.
    Lose(Unserved),
    /// The port is left to the kernel.
    Leave(String),
    /// The port is no longer left to the kernel.
    Release,
    /// The number of queues has changed.
    Recount,
    /// The tables lead elsewhere: the workers can be asked to empty the queues.
    Empty,
    /// The queues are empty, or the wait for that has ended.
    GiveUp,
    /// The configuration is in force. `attached` is true if the program is attached to the present
    /// interface.
    Hold { attached: bool },
    /// The interface of an unserved port is gone.
    Vanish,
    /// The configuration no longer has the port.
    Retire,
    /// No table leads to the port any more.
    Remove,
    /// The wait for the queues of a removed port has ended.
    Hurry,
    /// An action has failed.
    Failed(Action, Unserved),
}

/// State of a port, and its guard.
#[derive(Debug)]
pub(crate) struct Life {
    pub guard: Guard,
    pub state: State,
    /// True if the program leaves the kernel no frame to forward.
    pub is_blocked: bool,
}

impl Life {
    /// Creates the state without an interface.
    pub fn new(guard: Guard) -> Self {
        Self { guard, state: State::Without(Unserved::Absent(String::new())), is_blocked: false }
    }
}

impl State {
    /// Returns true if the port has an interface that workers serve, or are about to serve.
    pub fn has_interface(&self) -> bool {
        matches!(self, Self::Open | Self::Offered | Self::Listed | Self::Up(_))
    }

    /// Returns true if workers are yet to take the queues.
    pub fn is_waiting(&self) -> bool {
        matches!(self, Self::Offered | Self::Listed)
    }

    /// Returns the reason why no worker serves the port.
    pub fn reason(&self) -> Option<&Unserved> {
        match self {
            Self::Without(why) | Self::Emptying { why, .. } => Some(why),
            _ => None,
        }
    }

    /// Returns the same state with another reason.
    fn because(&self, why: Unserved) -> Self {
        match self {
            Self::Emptying { is_asked, .. } => Self::Emptying { why, is_asked: *is_asked },
            _ => Self::Without(why),
        }
    }
}

/// Applies an event to a port, and returns the resulting actions, in order.
pub(crate) fn next(life: &mut Life, event: Event) -> Vec<Action> {
    use State::{Emptying, Listed, Offered, Open, Removed, Up, Without};
    let Life { state, guard, is_blocked } = life;
    let in_force = *state != Open;
    // Takes the port back at once, whether or not its queues are empty.
    let withdraw = || [guard.close(in_force), vec![Action::Unlist, Action::Close]].concat();
    let retire = || [guard.close(true), vec![Action::Retire]].concat();
    let (to, actions) = match (&*state, event) {
        (Without(_), Event::Attach) => (Open, guard.attach(false)),
        (Open, Event::OpenSockets) => (Open, vec![Action::OpenSockets]),
        (Open, Event::Begin) => (Offered, vec![Action::Offer]),
        (Without(Unserved::Absent(_) | Unserved::Failed(_)), Event::Return) => {
            (Offered, [guard.attach(true), vec![Action::OpenSockets, Action::Offer]].concat())
        }
        (Offered, Event::Taken) => (Listed, vec![Action::List]),
        (Listed, Event::Taken) => {
            let (admission, actions) = guard.admit();
            (Up(admission), actions)
        }
        (Up(_), Event::Leave(why)) => {
            (Emptying { why: Unserved::Left(why), is_asked: false }, retire())
        }
        (Up(_), Event::Recount) => {
            let why = Unserved::Absent("the number of its queues has changed".to_owned());
            (Emptying { why, is_asked: false }, [vec![Action::Cover], retire()].concat())
        }
        (Open | Offered | Listed, Event::Leave(why)) => (Without(Unserved::Left(why)), withdraw()),
        (Without(_) | Emptying { .. }, Event::Leave(why)) => {
            (state.because(Unserved::Left(why)), Vec::new())
        }
        (Without(Unserved::Left(_)) | Emptying { why: Unserved::Left(_), .. }, Event::Release) => {
            let why = Unserved::Absent("it is about to be taken over again".to_owned());
            (state.because(why), Vec::new())
        }
        (Without(_), Event::Missing(why)) => (Without(why), Vec::new()),
        (Emptying { why, is_asked: false }, Event::Empty) => {
            (Emptying { why: why.clone(), is_asked: true }, vec![Action::Empty])
        }
        (Emptying { why, .. }, Event::GiveUp) => {
            (Without(why.clone()), vec![Action::Unlist, Action::Close])
        }
        (Open | Offered | Listed | Up(_), Event::Lose(why) | Event::Failed(_, why)) => {
            (Without(why), withdraw())
        }
        (Offered | Listed | Without(_) | Emptying { .. }, Event::Hold { attached }) => {
            (state.clone(), guard.hold(attached, *is_blocked))
        }
        (Without(_), Event::Vanish) => (state.clone(), vec![Action::Detach, Action::CloseEgress]),
        (state, Event::Retire) if *state != Removed => (state.clone(), vec![Action::Retire]),
        (Open, Event::Remove) => (Removed, vec![Action::Unload, Action::Forget, Action::Close]),
        (state, Event::Remove) if *state != Removed => {
            (Removed, vec![Action::Unload, Action::TakeAway { drains: true }])
        }
        (Removed, Event::Hurry) => (Removed, vec![Action::TakeAway { drains: false }]),
        (Removed, Event::GiveUp) => (Removed, vec![Action::Forget]),
        (_, Event::Failed(Action::Guard | Action::Attach { .. }, _)) => {
            // The next `Hold` tries again.
            *is_blocked = false;
            return Vec::new();
        }
        _ => return Vec::new(),
    };
    for action in &actions {
        match action {
            Action::Attach { blocked } => *is_blocked = *blocked,
            Action::Guard => *is_blocked = true,
            _ => {}
        }
    }
    *state = to;
    actions
}
