//! The test topology: three namespaces, a generator, and a counting sink.

use super::arrangement::{Arrangement, INSIDE, Load, OUTSIDE, Placement, Sink};
use super::duty_cycle::DutyCycle;
use super::threads::{Level, Thread};
use crate::memory_router::udp_template;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use wattline_dataplane::port::PortId;
use wattline_linux::namespace::{enter_thread, interface_index};
use wattline_packet::IntoBytes;
use wattline_packet::ipv4::Ipv4Header;
use wattline_ports::afxdp::QueueAddress;
use wattline_testbed::Error;
use wattline_testbed::command::LIMIT;
use wattline_testbed::namespace::Namespace;
use wattline_testbed::topology::mac_text;
use wattline_xdp::{CountingSink, LiveGenerator};

/// Bytes per frame without frame check sequence: 64 on the wire.
pub const FRAME_BYTES: usize = 60;
pub const SOURCE_MAC: [u8; 6] = [2, 0x58, 0, 0, 0, 0x12];
pub const LEFT_MAC: [u8; 6] = [2, 0x58, 0, 0, 0, 0x11];
pub const RIGHT_MAC: [u8; 6] = [2, 0x58, 0, 0, 0, 0x21];
pub const SINK_MAC: [u8; 6] = [2, 0x58, 0, 0, 0, 0x22];
/// Frames that the generator makes per call, whether due or not; at most a tenth of a second's
/// worth.
const HELPING: u32 = 1 << 18;

/// Period after which a receiver that found no frames polls again. A timer wakes it, not a sender,
/// as with the interrupt moderation of a card (`gro_flush_timeout`, `napi_defer_hard_irqs`).
/// Without it, the candidate would pay for a wake-up of the sink every few frames. With this
/// period, the 256 slots of a veth carry 5 million frames per second.
const MODERATION: Duration = Duration::from_micros(50);
/// Number of empty polls in a row after which the receiver waits until it is woken; takes 50 s.
const EMPTY_POLLS: u32 = 1_000_000;
/// The same if the time of an idle device counts.
const IDLE_EMPTY_POLLS: u32 = 20;

/// Numbers of frames since the start.
#[derive(Debug, Clone, Copy)]
pub struct Count {
    /// Frames sent by the generator.
    pub offered: u64,
    /// Frames that arrived at the sink.
    pub forwarded: u64,
}

/// Three namespaces in a row, as [`wattline_testbed::topology`] builds them. The interface names
/// are unique on the machine, since they identify the kernel's receiving threads.
pub struct Setup {
    source: Namespace,
    pub router: Namespace,
    sink: Namespace,
    pub left: String,
    pub right: String,
    uplink: String,
    pub terminal: String,
    arrangement: Arrangement,
}

impl Setup {
    pub fn build(arrangement: Arrangement) -> Result<Self, Error> {
        let setup = Self::name_all(arrangement)?;
        setup.wire()?;
        Ok(setup)
    }

    /// From now on, receivers without frames for a millisecond wait until they are woken, so that
    /// an idle device is really idle.
    pub fn let_receivers_sleep(&self) -> Result<(), Error> {
        for (namespace, interface) in [
            (&self.router, &self.left),
            (&self.router, &self.right),
            (&self.source, &self.uplink),
            (&self.sink, &self.terminal),
        ] {
            let looks = format!(
                "echo {IDLE_EMPTY_POLLS} > /sys/class/net/{interface}/napi_defer_hard_irqs"
            );
            namespace.run("sh", &["-c", &looks], LIMIT)?;
        }
        Ok(())
    }

    /// Returns the namespace that sends frames.
    pub fn source(&self) -> &Namespace {
        &self.source
    }

    /// Returns the namespace that receives frames.
    pub fn sink(&self) -> &Namespace {
        &self.sink
    }

    /// Returns the source's interface.
    pub fn uplink(&self) -> &str {
        &self.uplink
    }

    fn name_all(arrangement: Arrangement) -> Result<Self, Error> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed) % 100;
        let name = |end: char| format!("{end}{serial}p{}", std::process::id());
        Ok(Self {
            source: Namespace::create("source")?,
            router: Namespace::create("router")?,
            sink: Namespace::create("sink")?,
            left: name('l'),
            right: name('r'),
            uplink: name('u'),
            terminal: name('t'),
            arrangement,
        })
    }

    /// Sets up a link between source and sink without a device, otherwise like the other
    /// topologies, to measure the generator's limits.
    pub fn link() -> Result<Self, Error> {
        let arrangement =
            Arrangement { placement: Placement::Shared, sink: Sink::Remote, load: Load::Paced };
        let link = Self::name_all(arrangement)?;
        pair((&link.source, &link.uplink, SOURCE_MAC), (&link.sink, &link.terminal, SINK_MAC))?;
        for (interface, level) in [(&link.uplink, Level::Source), (&link.terminal, Level::Sink)] {
            let receiving = Thread::napi(interface)?;
            receiving.pin(OUTSIDE)?;
            receiving.precede(level)?;
        }
        Ok(link)
    }

    fn wire(&self) -> Result<(), Error> {
        let router = &self.router;
        let (left, right) = ((router, &self.left, LEFT_MAC), (router, &self.right, RIGHT_MAC));
        pair(left, (&self.source, &self.uplink, SOURCE_MAC))?;
        pair(right, (&self.sink, &self.terminal, SINK_MAC))?;
        self.router.ip(&format!(
            "address add 10.1.0.1/24 dev {left}\naddress add 10.2.0.1/24 dev {right}\n\
             neighbour add 10.2.0.2 lladdr {mac} nud permanent dev {right}\n\
             route add 10.9.0.0/24 via 10.2.0.2",
            left = self.left,
            right = self.right,
            mac = mac_text(SINK_MAC)
        ))?;
        self.router.sysctl(&[("ipv4/ip_forward", "1"), ("ipv4/conf/all/rp_filter", "0")])?;
        let Arrangement { placement, sink, .. } = self.arrangement;
        // On the generator's processor, a receiver drains the generator's frames. On the
        // candidate's processor, it is the source of frames for the candidate's threads.
        let receiver = match placement.receiver() {
            OUTSIDE => Level::Drain,
            _ => Level::Source,
        };
        for (interface, processor, level) in [
            (&self.left, placement.receiver(), receiver),
            (&self.right, placement.receiver(), receiver),
            (&self.uplink, OUTSIDE, Level::Source),
            (&self.terminal, sink.processor(), Level::Sink),
        ] {
            let receiving = Thread::napi(interface)?;
            receiving.pin(processor)?;
            receiving.precede(level)?;
        }
        Ok(())
    }

    /// Offers load while `observe` runs on the calling thread. `observe` gets a function that
    /// returns the number of frames so far.
    pub fn under_load<R>(
        &self,
        observe: impl FnOnce(Thread, &mut dyn FnMut() -> Result<Count, Error>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let attach = || CountingSink::attach(interface_index(&self.terminal)?).map_err(kernel);
        let sink = self.sink.enter(attach)??;
        let load = self.arrangement.load;
        let generator = self.source.enter(|| {
            let uplink = interface_index(&self.uplink)?;
            match (load, load.gap()) {
                (Load::Ample, Some(gap)) => LiveGenerator::waiting(uplink, &frame(), gap),
                (_, gap) => LiveGenerator::new(uplink, &frame(), gap),
            }
            .map_err(kernel)
        })??;
        let stop = AtomicBool::new(false);
        let (name, named) = channel();
        let (stop, generator) = (&stop, &generator);
        std::thread::scope(|scope| {
            let offering = scope.spawn(move || -> Result<(), Error> {
                enter_thread(self.source.name())?;
                Thread::current().pin(OUTSIDE)?;
                Thread::current().precede(Level::Source)?;
                let _ = name.send(Thread::current());
                while !stop.load(Ordering::Relaxed) {
                    generator.send(HELPING).map_err(kernel)?;
                }
                Ok(())
            });
            let observer = Thread::current();
            let result = observer.precede(Level::Observer).and_then(|()| {
                let _duty_cycle = (self.arrangement.placement == Placement::Rationed)
                    .then(|| DutyCycle::start(INSIDE))
                    .transpose()?;
                observe(named.recv().map_err(kernel)?, &mut || {
                    let offered = generator.sent().map_err(kernel)?;
                    Ok(Count { offered, forwarded: sink.frames().map_err(kernel)? })
                })
            });
            // The observer goes back last: as an ordinary thread it might not run again before the
            // others have ended.
            stop.store(true, Ordering::Relaxed);
            let offered = offering.join();
            let restored = observer.follow();
            offered.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            restored.and(result)
        })
    }
}

/// Joins two interfaces, each with its own receiving thread and moderation.
fn pair(
    near: (&Namespace, &String, [u8; 6]),
    far: (&Namespace, &String, [u8; 6]),
) -> Result<(), Error> {
    near.0.ip(&format!(
        "link add {} address {} type veth peer name {} address {} netns {}",
        near.1,
        mac_text(near.2),
        far.1,
        mac_text(far.2),
        far.0.name()
    ))?;
    for (namespace, interface, _) in [near, far] {
        let ipv6 = format!("ipv6/conf/{interface}/disable_ipv6");
        namespace.sysctl(&[(&ipv6, "1")])?;
        // GRO makes a veth run NAPI, without which live frames cannot be sent to it.
        namespace.run("ethtool", &["-K", interface, "gro", "on", "tx", "off"], LIMIT)?;
        namespace.ip(&format!("link set {interface} up"))?;
        let thread = format!("echo 1 > /sys/class/net/{interface}/threaded");
        namespace.run("sh", &["-c", &thread], LIMIT)?;
        let moderation = format!(
            "cd /sys/class/net/{interface} && echo {} > gro_flush_timeout && \
             echo {EMPTY_POLLS} > napi_defer_hard_irqs",
            MODERATION.as_nanos()
        );
        namespace.run("sh", &["-c", &moderation], LIMIT)?;
    }
    Ok(())
}

/// Returns the first queues of both interfaces, in the namespace of the calling thread.
pub fn addresses(interfaces: [&str; 2]) -> Result<[QueueAddress; 2], Error> {
    let [left, right] = interfaces;
    let address = |number, interface: &str| -> Result<_, Error> {
        let ifindex = interface_index(interface)?;
        let (port, interface) = (PortId(number), interface.to_owned());
        Ok(QueueAddress { port, interface, ifindex, queue: 0, mtu: 1500, copies: false })
    };
    Ok([address(0, left)?, address(1, right)?])
}

/// Converts an error of BPF or XDP to an error of the testbed.
pub fn kernel(error: impl std::fmt::Display) -> Error {
    Error::Router { what: "benchmark failed".into(), log: error.to_string() }
}

/// Returns a UDP packet of minimum length, from the source to a destination beyond the sink.
fn frame() -> Vec<u8> {
    let mut frame = udp_template(FRAME_BYTES);
    frame[..6].copy_from_slice(&LEFT_MAC);
    frame[6..12].copy_from_slice(&SOURCE_MAC);
    let [from, to] = [[10, 1, 0, 2], [10, 9, 0, 5]].map(u32::from_be_bytes);
    let header = Ipv4Header::udp((FRAME_BYTES - 14) as u16, from, to);
    frame[14..34].copy_from_slice(header.as_bytes());
    frame
}
