//! The generator with its open interfaces, for successive trials.

use super::account::Account;
use super::cost::{self, OwnCost};
use super::end::{End, OpenEnd};
use super::flows::{Addresses, Flow};
use super::live::{self, LiveSender};
use super::load::Load;
use super::methods::{Methods, MethodsFound};
use super::opened_queue::InterfaceFacts;
use super::outcome::Outcome;
use super::role::{Placement, Progress, Role};
use super::sender::Sender;
use super::sizes::FCS;
use super::stamp::{SEQUENCE_MAX, Stamp};
use super::trial::{self, Driver, Queue, Task, Work};
use crate::Error;
use crate::clock::monotonic_nanos;
use std::sync::atomic::AtomicBool;

/// One or two interfaces that are open for trials.
pub struct Tester {
    /// The interfaces; the second is `None` if the first receives its own packets.
    ends: (OpenEnd, Option<OpenEnd>),
    queues: u32,
    /// True if both interfaces send and receive.
    both: bool,
    /// The sending interface.
    pub from: InterfaceFacts,
    /// The receiving interface.
    pub to: InterfaceFacts,
    /// Methods of sending and receiving packets.
    pub methods: MethodsFound,
    run: u8,
}

/// Number of packets for the measurement of the programs' own cost.
const COST_PACKETS: u32 = 2_000;

impl Tester {
    /// Opens the first `queues` queues of both ends; `to` is `None` if packets return to the
    /// sending interface.
    ///
    /// # Errors
    /// Fails without CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, if interfaces or queues are missing,
    /// or if an explicitly requested method is unavailable.
    pub fn open(
        from: End<'_>,
        to: Option<End<'_>>,
        queues: u32,
        methods: Methods,
    ) -> Result<Self, Error> {
        let mut near = from.open(queues, to.is_none(), methods)?;
        let far = to.map(|to| to.open(queues, true, methods)).transpose()?;
        near.open_to_send(methods)?;
        Ok(Self::from_ends(near, far, queues, false))
    }

    /// Opens both ends to send and to receive, for [`Self::trial_both`].
    ///
    /// # Errors
    /// Fails as [`Self::open`].
    pub fn open_both(
        from: End<'_>,
        to: End<'_>,
        queues: u32,
        methods: Methods,
    ) -> Result<Self, Error> {
        let mut near = from.open(queues, true, methods)?;
        let mut far = to.open(queues, true, methods)?;
        near.open_to_send(methods)?;
        far.open_to_send(methods)?;
        Ok(Self::from_ends(near, Some(far), queues, true))
    }

    fn from_ends(near: OpenEnd, far: Option<OpenEnd>, queues: u32, both: bool) -> Self {
        let receiver = far.as_ref().unwrap_or(&near);
        let mut methods = MethodsFound {
            live_frames: near.live.is_some(),
            program: receiver.sink.is_some(),
            reasons: near.reasons.clone(),
        };
        if let Some(far) = &far {
            methods.reasons.extend(far.reasons.iter().cloned());
        }
        let (from, to) = (near.facts.clone(), receiver.facts.clone());
        Self { ends: (near, far), queues, both, from, to, methods, run: 0 }
    }

    #[cfg(test)]
    pub(super) fn in_memory(
        sender: super::opened_queue::OpenedQueue,
        receiver: super::opened_queue::OpenedQueue,
        both: bool,
    ) -> Self {
        Self::from_ends(OpenEnd::in_memory(sender), Some(OpenEnd::in_memory(receiver)), 1, both)
    }

    /// Runs a trial. `watch` is called about a hundred times per second with the counts so far;
    /// `stop` ends the sending early.
    ///
    /// # Errors
    /// Fails for an impossible load, and when `placement` fails.
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

    /// Runs a trial with the load in both directions at once. The results are those from
    /// [`Self::from`], then from [`Self::to`]; each has its own addresses and account.
    ///
    /// # Errors
    /// Fails as [`Self::trial`], and if the tester was not opened by [`Self::open_both`].
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

    /// Measures the cost of the generator's own code for a packet of `load`, without the kernel.
    pub(super) fn own_cost(
        &mut self,
        addresses: &Addresses,
        load: &Load,
    ) -> Result<OwnCost, Error> {
        let mut cost = cost::measure(addresses, load);
        let mine = Load { burst: Some(COST_PACKETS.into()), ..load.clone() };
        self.run = self.run.wrapping_add(1);
        let plan = Plan::new(self.run, 1, addresses, &mine);
        let flows = &plan.flows[0];
        let (near, far) = &mut self.ends;
        if let Some(live) = &near.live {
            let program =
                live::load(live.ifindex, (plan.run, 0), flows, &load.sizes, &mine.schedule())?;
            let nanos = program.cost_nanos(COST_PACKETS).map_err(live::refused)?;
            cost.sender_seconds_per_packet = nanos as f64 * 1e-9;
        }
        if let Some(sink) = &mut far.as_mut().unwrap_or(near).sink {
            sink.begin(plan.run, &plan.streams())?;
            let frame = |sequence| {
                let mut frame = vec![0; usize::from(load.sizes.at(sequence) - FCS)];
                let nanos = monotonic_nanos();
                let stamp = Stamp { run: plan.run, stream: 0, sequence, nanos };
                flows[sequence as usize % flows.len()].write(&mut frame, stamp);
                frame
            };
            let frames: Vec<_> = (0..u64::from(COST_PACKETS)).map(frame).collect();
            cost.receiver_seconds_per_packet = sink.cost(&frames)?.as_secs_f64();
        }
        Ok(cost)
    }

    /// Runs a trial with the load in each of one or two directions.
    fn trials(
        &mut self,
        addresses: &[&Addresses],
        load: &Load,
        placement: Placement<'_>,
        stop: &AtomicBool,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<Vec<Outcome>, Error> {
        for addresses in addresses {
            load.check(addresses.destination.is_ipv6(), self.queues)
                .map_err(|reason| unsound(&reason))?;
        }
        let mut plans = Vec::new();
        for addresses in addresses {
            // Each direction has its own number, so that a packet that returns to its sender does
            // not count for the other direction.
            self.run = self.run.wrapping_add(1);
            plans.push(Plan::new(self.run, self.queues, addresses, load));
        }
        let (near, far) = &mut self.ends;
        for (plan, receiver) in plans.iter().zip(receivers(near, far)) {
            if let Some(sink) = &mut receiver.sink {
                sink.begin(plan.run, &plan.streams())?;
            }
        }
        let before: Vec<u64> = receivers(near, far).map(OpenEnd::overflow).collect();
        let mut tasks = Vec::new();
        let mut drivers = Vec::new();
        let (forth, back) = (plans.first(), plans.get(1));
        // With a single interface, packets return to it.
        let to_near =
            if far.is_none() { forth.map(|plan| (0, plan)) } else { back.map(|plan| (1, plan)) };
        let near_work = EndWork { sends: forth.map(|plan| (0, plan)), receives: to_near, first: 0 };
        near_work.prepare(near, &mut tasks, &mut drivers)?;
        if let Some(far) = far {
            let sends = back.map(|plan| (1, plan));
            let far_work =
                EndWork { sends, receives: forth.map(|plan| (0, plan)), first: self.queues };
            far_work.prepare(far, &mut tasks, &mut drivers)?;
        }
        let directions = addresses.len();
        let parts = trial::run(tasks, &drivers, directions, load.drain, placement, stop, watch)?;
        let after: Vec<u64> = receivers(near, far).map(OpenEnd::overflow).collect();
        let lost = after.into_iter().zip(before).map(|(now, before)| now.saturating_sub(before));
        Ok(parts.into_iter().zip(lost).map(|(part, lost)| Outcome::new(load, part, lost)).collect())
    }
}

/// Returns the receiving interface of each direction.
fn receivers<'a>(
    near: &'a mut OpenEnd,
    far: &'a mut Option<OpenEnd>,
) -> impl Iterator<Item = &'a mut OpenEnd> {
    let (first, second) = match far {
        Some(far) => (far, Some(near)),
        None => (near, None),
    };
    std::iter::once(first).chain(second)
}

/// Plan of one direction.
struct Plan<'a> {
    run: u8,
    /// Flows by stream.
    flows: Vec<Vec<Flow>>,
    /// Largest number of packets of a stream.
    packets: u64,
    load: &'a Load,
}

impl<'a> Plan<'a> {
    fn new(run: u8, queues: u32, addresses: &Addresses, load: &'a Load) -> Self {
        let flows = (0..queues)
            .map(|queue| {
                let mine = (queue..load.flows).step_by(queues as usize);
                mine.map(|number| Flow::new(addresses, number)).collect()
            })
            .collect();
        let packets = load.capacity().div_ceil(queues.into()).min(SEQUENCE_MAX);
        Self { run, flows, packets, load }
    }

    /// Returns the number of flows and the largest number of packets of each stream.
    fn streams(&self) -> Vec<(usize, u64)> {
        self.flows.iter().map(|flows| (flows.len(), self.packets)).collect()
    }

    fn account(&self) -> Result<Account, Error> {
        Account::new(self.run, &self.streams())
            .map_err(|_| unsound("more packets than this machine can tell apart"))
    }
}

/// Work of one interface in a trial, and its directions.
struct EndWork<'a> {
    sends: Option<(usize, &'a Plan<'a>)>,
    receives: Option<(usize, &'a Plan<'a>)>,
    /// Number of its first sending thread.
    first: u32,
}

impl EndWork<'_> {
    /// Adds the threads of the interface, and its program in the driver.
    fn prepare<'e>(
        &self,
        end: &'e mut OpenEnd,
        tasks: &mut Vec<Task<'e>>,
        drivers: &mut Vec<Driver<'e>>,
    ) -> Result<(), Error> {
        let OpenEnd { queues, live, sink, .. } = end;
        let by_driver = sink.is_some();
        if let (Some(sink), Some((direction, _))) = (sink, self.receives) {
            drivers.push(Driver { direction, sink });
        }
        if let (Some(live), Some((direction, plan))) = (&*live, self.sends) {
            for (stream, flows) in plan.flows.iter().enumerate() {
                // At most 256 queues.
                let (number, streams) = (stream as u8, plan.flows.len() as u64);
                let schedule = plan.load.schedule().share(stream as u64, streams);
                let sizes = &plan.load.sizes;
                let sender = LiveSender::new(live, (plan.run, number), flows, sizes, schedule)?;
                let role = Role::Sends(self.first + stream as u32);
                tasks.push(Task { role, work: Work::Live(direction, sender) });
            }
        }
        let by_socket = self.sends.filter(|_| live.is_none());
        for (index, opened) in queues.iter_mut().enumerate() {
            let sends = by_socket.map(|(direction, plan)| {
                let streams = plan.flows.len() as u64;
                let schedule = plan.load.schedule().share(index as u64, streams);
                let flows = plan.flows[index].clone().into();
                // At most 256 queues.
                let which = (plan.run, index as u8);
                (direction, Sender::new(which, flows, &plan.load.sizes, schedule))
            });
            let receives = match self.receives.filter(|_| !by_driver) {
                Some((direction, plan)) => Some((direction, plan.account()?)),
                None => None,
            };
            let role = match sends {
                Some(_) => Role::Sends(self.first + index as u32),
                None => Role::Receives(index as u32),
            };
            if sends.is_some() || receives.is_some() {
                tasks.push(Task {
                    role,
                    work: Work::Queue(Box::new(Queue { opened, sends, receives })),
                });
            }
        }
        Ok(())
    }
}

fn unsound(reason: &str) -> Error {
    Error::Data { path: "offered load".into(), reason: reason.to_owned() }
}

/// Returns the addresses of packets on a plain link from `from` to `to`: benchmark addresses (RFC
/// 2544, C.2.2).
pub fn plain_link(from: &InterfaceFacts, to: &InterfaceFacts) -> Addresses {
    Addresses {
        source_mac: from.mac,
        destination_mac: to.mac,
        source: [198, 18, 0, 2].into(),
        destination: [198, 19, 0, 1].into(),
        destinations: 1,
    }
}
