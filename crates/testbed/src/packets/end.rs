//! An interface in its namespace, opened to send and to receive.

use super::live::{LiveEnd, open_live};
use super::methods::{Methods, ReceiveBy, SendBy};
use super::opened_queue::{InterfaceFacts, OpenedQueue, facts_of, open};
use super::sink::{Sink, refused_frames};
use crate::Error;
use nix::ifaddrs::getifaddrs;
use std::net::Ipv4Addr;
use std::panic::resume_unwind;
use wattline_linux::namespace::{enter_thread, interface_index};

/// An interface, in a named namespace or that of this process.
#[derive(Debug, Clone, Copy)]
pub struct End<'a> {
    /// Name of the namespace for `ip netns`; `None` for that of the process.
    pub namespace: Option<&'a str>,
    /// Name of the interface.
    pub interface: &'a str,
}

/// Parses `[NAMESPACE/]INTERFACE`.
impl<'a> From<&'a str> for End<'a> {
    fn from(text: &'a str) -> Self {
        match text.split_once('/') {
            Some((namespace, interface)) => Self { namespace: Some(namespace), interface },
            None => Self { namespace: None, interface: text },
        }
    }
}

impl End<'_> {
    /// Checks that namespace and interface exist; a cheap check before a long measurement.
    ///
    /// # Errors
    /// Fails if one of them does not exist, or without CAP_SYS_ADMIN for a namespace.
    pub fn check(self) -> Result<(), Error> {
        self.within(|| Ok(interface_index(self.interface).map(|_| ())?))
    }

    /// Returns the interface's first IPv4 address.
    ///
    /// # Errors
    /// Fails as [`Self::check`], and if there is none.
    pub fn ipv4(self) -> Result<Ipv4Addr, Error> {
        self.check()?;
        let found = self.within(|| {
            let all = getifaddrs().map_err(|errno| Error::io("listing interfaces", errno))?;
            let mut own = all.filter(|entry| entry.interface_name == self.interface);
            Ok(own.find_map(|entry| Some(entry.address?.as_sockaddr_in()?.ip())))
        })?;
        found.ok_or_else(|| Error::Data {
            path: self.interface.into(),
            reason: "no IPv4 address; give both ends of the cable one, of the same subnet".into(),
        })
    }

    /// Runs `work` in the namespace, on a separate thread that ends there.
    ///
    /// # Errors
    /// Fails without CAP_SYS_ADMIN for a namespace, or if it does not exist.
    pub fn within<T: Send>(
        self,
        work: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        let Some(namespace) = self.namespace else { return work() };
        std::thread::scope(|scope| {
            let working = scope.spawn(|| {
                enter_thread(namespace)?;
                work()
            });
            working.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Opens the interface, with its first `queues` queues if it `receives`. The sender is opened
    /// later: a veth accepts live frames only while its peer has a program.
    pub(super) fn open(
        self,
        queues: u32,
        receives: bool,
        methods: Methods,
    ) -> Result<OpenEnd, Error> {
        self.within(|| {
            let mut open_end = OpenEnd {
                queues: Vec::new(),
                live: None,
                sink: None,
                facts: facts_of(self.interface, queues)?,
                namespace: self.namespace.map(str::to_owned),
                reasons: Vec::new(),
            };
            if receives && methods.receive != ReceiveBy::Sockets {
                let ifindex = interface_index(self.interface)?;
                match Sink::open(self.interface, ifindex, queues) {
                    Ok(sink) => open_end.sink = Some(sink),
                    Err(error) => {
                        let reason = format!("no program in the driver: {error}");
                        open_end.fall_back(methods.receive == ReceiveBy::Program, &reason)?;
                    }
                }
            }
            if receives && open_end.sink.is_none() {
                (open_end.queues, open_end.facts) = open(self.interface, queues, true)?;
            }
            Ok(open_end)
        })
    }
}

/// An open interface.
pub(super) struct OpenEnd {
    /// Sockets, if it sends or receives by sockets.
    pub queues: Vec<OpenedQueue>,
    /// Sender of live frames.
    pub live: Option<LiveEnd>,
    /// Receiving program in the driver.
    pub sink: Option<Sink>,
    pub facts: InterfaceFacts,
    namespace: Option<String>,
    /// Reasons for sockets where another method was tried.
    pub reasons: Vec<String>,
}

impl OpenEnd {
    /// Prepares to send; the receiver must be open.
    pub fn open_to_send(&mut self, methods: Methods) -> Result<(), Error> {
        let (namespace, name) = (self.namespace.clone(), self.facts.name.clone());
        End { namespace: namespace.as_deref(), interface: &name }.within(|| {
            let ifindex = interface_index(&name)?;
            if methods.send != SendBy::Sockets {
                match open_live(ifindex, self.namespace.clone(), self.facts.queues) {
                    Ok(live) => self.live = Some(live),
                    Err(why) => {
                        let reason = format!("no live frames: {why}");
                        self.fall_back(methods.send == SendBy::LiveFrames, &reason)?;
                    }
                }
            }
            if self.live.is_none() && self.queues.is_empty() {
                (self.queues, self.facts) = open(&name, self.facts.queues, false)?;
            }
            Ok(())
        })
    }

    /// Fails if the unavailable method was explicitly requested; otherwise records the reason.
    fn fall_back(&mut self, requested: bool, reason: &str) -> Result<(), Error> {
        let reason = format!("{}: {reason}", self.facts.name);
        if requested {
            let action = "opening an interface for the generator";
            return Err(Error::io(action, std::io::Error::other(reason)));
        }
        self.reasons.push(reason);
        Ok(())
    }

    #[cfg(test)]
    pub fn in_memory(opened: OpenedQueue) -> Self {
        let facts = InterfaceFacts {
            name: "memory".into(),
            mac: [2; 6],
            queues: 1,
            zero_copy: false,
            ring: 1024,
        };
        let queues = vec![opened];
        Self { queues, live: None, sink: None, facts, namespace: None, reasons: Vec::new() }
    }

    /// Returns the number of frames that found no room at the receiver so far.
    pub fn overflow(&mut self) -> u64 {
        if self.sink.is_none() {
            self.queues.iter_mut().for_each(OpenedQueue::refresh);
            return self.queues.iter().map(OpenedQueue::overflow).sum();
        }
        let end = End { namespace: self.namespace.as_deref(), interface: &self.facts.name };
        // No more frames arrive at an interface that is gone.
        end.within(|| Ok(refused_frames(end.interface))).unwrap_or(0)
    }
}
