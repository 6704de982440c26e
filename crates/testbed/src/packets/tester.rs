//! The generator with its interfaces open: trial after trial.

use super::account::Account;
use super::flows::{Addresses, Flow};
use super::lane::{InterfaceFacts, Lane, open};
use super::load::Load;
use super::outcome::Outcome;
use super::role::{Placement, Progress, Role};
use super::sender::Sender;
use super::stamp::SEQUENCE_MAX;
use super::trial::{self, Task};
use crate::Error;
use crate::clock::monotonic_nanos;
use std::panic::resume_unwind;
use std::sync::atomic::AtomicBool;
use wattline_linux::namespace::{enter_thread, interface_index};

/// An interface, in a namespace or this process's own.
#[derive(Debug, Clone, Copy)]
pub struct End<'a> {
    /// Its name, as `ip netns` knows it; none for the namespace of the process.
    pub namespace: Option<&'a str>,
    /// Name of the interface.
    pub interface: &'a str,
}

/// `[NAMESPACE/]INTERFACE`.
impl<'a> From<&'a str> for End<'a> {
    fn from(text: &'a str) -> Self {
        match text.split_once('/') {
            Some((namespace, interface)) => Self { namespace: Some(namespace), interface },
            None => Self { namespace: None, interface: text },
        }
    }
}

impl End<'_> {
    /// Checks that the namespace and the interface are there: cheap, for before a long measurement.
    ///
    /// # Errors
    /// When one of them is not, or without CAP_SYS_ADMIN for a namespace.
    pub fn check(self) -> Result<(), Error> {
        let Some(namespace) = self.namespace else {
            return Ok(interface_index(self.interface).map(|_| ())?);
        };
        let found = std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                enter_thread(namespace)?;
                interface_index(self.interface)
            });
            looking.join().unwrap_or_else(|panic| resume_unwind(panic))
        });
        Ok(found.map(|_| ())?)
    }

    fn open(self, queues: u32, receives: bool) -> Result<(Vec<Lane>, InterfaceFacts), Error> {
        let Some(namespace) = self.namespace else { return open(self.interface, queues, receives) };
        // On a thread of its own, which does not come back from the namespace.
        std::thread::scope(|scope| {
            let opening = scope.spawn(|| {
                enter_thread(namespace)?;
                open(self.interface, queues, receives)
            });
            opening.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }
}

/// Two interfaces, or one, open for trials.
pub struct Tester {
    senders: Vec<Lane>,
    /// None where the senders receive as well.
    receivers: Vec<Lane>,
    /// Whether both interfaces send and receive.
    both: bool,
    /// The sending interface.
    pub from: InterfaceFacts,
    /// The receiving interface.
    pub to: InterfaceFacts,
    run: u8,
}

/// Time for all threads to begin.
const LEAD_NANOS: u64 = 5_000_000;

impl Tester {
    /// Opens the first `queues` queues of both ends; `to` is none where what is sent comes back
    /// to the interface that sent it.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, without such interfaces or so many queues.
    pub fn open(from: End<'_>, to: Option<End<'_>>, queues: u32) -> Result<Self, Error> {
        let (senders, from) = from.open(queues, to.is_none())?;
        let (receivers, to) = match to {
            Some(to) => to.open(queues, true)?,
            None => (Vec::new(), from.clone()),
        };
        Ok(Self { senders, receivers, both: false, from, to, run: 0 })
    }

    /// Opens both ends to send and to receive, for [`Self::trial_both`].
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_both(from: End<'_>, to: End<'_>, queues: u32) -> Result<Self, Error> {
        let (senders, from) = from.open(queues, true)?;
        let (receivers, to) = to.open(queues, true)?;
        Ok(Self { senders, receivers, both: true, from, to, run: 0 })
    }

    #[cfg(test)]
    pub(super) fn in_memory(sender: Lane, receiver: Lane, both: bool) -> Self {
        let facts = InterfaceFacts {
            name: "memory".into(),
            mac: [2; 6],
            queues: 1,
            zero_copy: false,
            ring: 1024,
        };
        Self {
            senders: vec![sender],
            receivers: vec![receiver],
            both,
            from: facts.clone(),
            to: facts,
            run: 0,
        }
    }

    /// One trial. `watch` is called some hundred times a second with what was counted so far;
    /// `stop` ends the sending early.
    ///
    /// # Errors
    /// An impossible load, or what `placement` says.
    pub fn trial(
        &mut self,
        addresses: &Addresses,
        load: &Load,
        placement: Placement<'_>,
        stop: &AtomicBool,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<Outcome, Error> {
        let mut outcomes = self.trials(&[addresses], load, placement, stop, watch)?;
        outcomes.pop().ok_or_else(|| unsound("no direction"))
    }

    /// One trial with the load in each direction at once: first that from [`Self::from`], then that
    /// from [`Self::to`]. Each has its own addresses and its own account.
    ///
    /// # Errors
    /// As [`Self::trial`], and where the tester was not opened by [`Self::open_both`].
    pub fn trial_both(
        &mut self,
        addresses: [&Addresses; 2],
        load: &Load,
        placement: Placement<'_>,
        stop: &AtomicBool,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<[Outcome; 2], Error> {
        if !self.both {
            return Err(unsound("both interfaces have to be open to send and to receive"));
        }
        let outcomes = self.trials(&addresses, load, placement, stop, watch)?;
        outcomes.try_into().map_err(|_| unsound("two directions"))
    }

    /// A trial with the load in each of the directions, of which there are one or two.
    fn trials(
        &mut self,
        addresses: &[&Addresses],
        load: &Load,
        placement: Placement<'_>,
        stop: &AtomicBool,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<Vec<Outcome>, Error> {
        let queues = self.senders.len() as u64;
        for addresses in addresses {
            load.check(addresses.destination.is_ipv6(), self.senders.len() as u32)
                .map_err(|reason| unsound(&reason))?;
        }
        let start = monotonic_nanos() + LEAD_NANOS;
        let mut directions = Vec::new();
        for addresses in addresses {
            // A number for each direction: a packet that comes back to its sender is not taken for
            // one of the other direction.
            self.run = self.run.wrapping_add(1);
            directions.push(Direction::new(self.run, queues, addresses, load, start)?);
        }
        let overflow_before = self.overflows(directions.len());
        let mut tasks = Vec::new();
        let one_end = self.receivers.is_empty();
        let mut directions = directions.into_iter();
        let (mut forth, mut back) = (directions.next(), directions.next());
        for (index, lane) in self.senders.iter_mut().enumerate() {
            let sends = forth.as_mut().and_then(|forth| forth.senders.pop());
            // On one interface alone, what was sent comes back to it.
            let own = forth.as_mut().filter(|_| one_end).and_then(|forth| forth.accounts.pop());
            let others = back.as_mut().and_then(|back| back.accounts.pop());
            tasks.push(Task {
                lane,
                role: Role::Sends(index as u32),
                sends: sends.map(|sender| (0, sender)),
                receives: own.map(|it| (0, it)).or(others.map(|it| (1, it))),
            });
        }
        for (index, lane) in self.receivers.iter_mut().enumerate() {
            let sends = back.as_mut().and_then(|back| back.senders.pop());
            let role = match sends {
                Some(_) => Role::Sends(queues as u32 + index as u32),
                None => Role::Receives(index as u32),
            };
            let account = forth.as_mut().and_then(|forth| forth.accounts.pop());
            tasks.push(Task {
                lane,
                role,
                sends: sends.map(|sender| (1, sender)),
                receives: account.map(|account| (0, account)),
            });
        }
        let parts = trial::run(tasks, addresses.len(), load.drain, placement, stop, watch)?;
        let overflow = self.overflows(addresses.len());
        let lost = overflow.into_iter().zip(overflow_before).map(|(now, before)| now - before);
        Ok(parts.into_iter().zip(lost).map(|(part, lost)| Outcome::new(load, part, lost)).collect())
    }

    /// Frames that came and found no room at the receiver, so far, by direction.
    fn overflows(&mut self, directions: usize) -> Vec<u64> {
        let Self { senders, receivers, .. } = self;
        let mut of = |forth: bool| -> u64 {
            let ends = if forth && !receivers.is_empty() { &mut *receivers } else { &mut *senders };
            ends.iter_mut().for_each(Lane::refresh);
            ends.iter().map(Lane::overflow).sum()
        };
        (0..directions).map(|direction| of(direction == 0)).collect()
    }
}

/// What is sent one way, and the accounts of it; the last queue first.
struct Direction {
    senders: Vec<Sender>,
    accounts: Vec<Account>,
}

impl Direction {
    fn new(
        run: u8,
        queues: u64,
        addresses: &Addresses,
        load: &Load,
        start: u64,
    ) -> Result<Self, Error> {
        let flows: Vec<Vec<Flow>> = (0..queues)
            .map(|queue| {
                let mine = (queue..u64::from(load.flows)).step_by(queues as usize);
                mine.map(|number| Flow::new(addresses, number as u32)).collect()
            })
            .collect();
        let capacity = load.capacity().div_ceil(queues).min(SEQUENCE_MAX);
        let streams: Vec<_> = flows.iter().map(|flows| (flows.len(), capacity)).collect();
        let empty = || {
            Account::new(run, &streams)
                .map_err(|_| unsound("more packets than this machine can tell apart"))
        };
        let accounts: Vec<Account> = (0..queues).map(|_| empty()).collect::<Result<_, _>>()?;
        let mut senders: Vec<Sender> = flows
            .into_iter()
            .enumerate()
            .map(|(index, flows)| {
                let schedule = load.schedule().share(index as u64, queues);
                // At most 256 queues.
                Sender::new((run, index as u8), flows.into(), &load.sizes, schedule, start)
            })
            .collect();
        senders.reverse();
        Ok(Self { senders, accounts })
    }
}

fn unsound(reason: &str) -> Error {
    Error::Data { path: "offered load".into(), reason: reason.to_owned() }
}

/// Where packets go on a plain link from `from` to `to`: benchmark addresses (RFC 2544, C.2.2).
pub fn plain_link(from: &InterfaceFacts, to: &InterfaceFacts) -> Addresses {
    Addresses {
        source_mac: from.mac,
        destination_mac: to.mac,
        source: [198, 18, 0, 2].into(),
        destination: [198, 19, 0, 1].into(),
        destinations: 1,
    }
}
