//! The device under test, and the generator on both sides of it.

use crate::forward::arrangement::OUTSIDE;
use crate::forward::candidate::Router;
use crate::forward::setup::{LEFT_MAC, SOURCE_MAC, Setup};
use crate::forward::threads::{Level, Thread};
use crate::forward::{Arrangement, Load as Offer, Placement, Sink};
use serde::Serialize;
use std::net::IpAddr;
use wattline_dataplane::worker::Mode;
use wattline_testbed::Error;
use wattline_testbed::packets::limits::{self, Limits};
use wattline_testbed::packets::{
    Addresses, End, Load, Methods, Role, SendBy, Tester, anywhere, plain_link,
};

/// Rate of live frames below which sockets are tried as well.
const LIVE_LEAST_PPS: f64 = 100e3;

/// Forwarding device under test.
#[derive(Debug, Clone, PartialEq)]
pub enum Device {
    /// The kernel, in the context of its receiving thread.
    Kernel,
    /// Wattline's graph over AF_XDP, with one adaptive worker.
    Workers,
    /// Wattline's XDP programs, with a worker for the rest.
    Xdp,
    /// Any device between two interfaces of this machine.
    Ports(Ports),
}

/// Two interfaces of this machine, with a device between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ports {
    /// Sending interface, as `[NAMESPACE/]INTERFACE`.
    pub from: String,
    /// Receiving interface in the same form; `None` for the same interface.
    pub to: Option<String>,
    /// Number of queues in use on each interface.
    pub queues: u32,
    /// The device's Ethernet address; `None` if both interfaces are on one link.
    pub mac: Option<[u8; 6]>,
    /// Source address of the packets.
    pub source: IpAddr,
    /// First destination address.
    pub destination: IpAddr,
    /// Number of consecutive destination addresses.
    pub destinations: u32,
}

impl Device {
    /// Returns the name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Workers => "workers",
            Self::Xdp => "xdp",
            Self::Ports(_) => "ports",
        }
    }

    /// Describes the device.
    pub fn words(&self) -> String {
        match self {
            Self::Kernel => "the kernel's forwarding, over veth".into(),
            Self::Workers => "Wattline, one adaptive worker on AF_XDP, over veth".into(),
            Self::Xdp => "Wattline's XDP programs, over veth".into(),
            Self::Ports(ports) => format!(
                "the device between {} and {}",
                ports.from,
                ports.to.as_deref().unwrap_or(&ports.from)
            ),
        }
    }
}

/// A running device, with the generator's interfaces open.
pub(crate) struct Bed {
    pub tester: Tester,
    pub addresses: Addresses,
    pub conditions: Conditions,
    methods: Methods,
    // Stopped in this order.
    router: Option<Router>,
    between: Between,
}

/// Position of the device.
enum Between {
    Ports(Ports),
    Namespaces(Setup),
}

impl Between {
    /// Opens the generator's interfaces.
    fn open(&self, methods: Methods) -> Result<Tester, Error> {
        match self {
            Self::Ports(ports) => {
                let to = ports.to.as_deref().map(End::from);
                Tester::open(End::from(ports.from.as_str()), to, ports.queues, methods)
            }
            Self::Namespaces(setup) => ends_of(setup, methods),
        }
    }
}

fn ends_of(setup: &Setup, methods: Methods) -> Result<Tester, Error> {
    let from = End { namespace: Some(setup.source().name()), interface: setup.uplink() };
    let to = End { namespace: Some(setup.sink().name()), interface: &setup.terminal };
    Tester::open(from, Some(to), 1, methods)
}

/// Conditions of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Conditions {
    /// The device: `kernel`, `workers`, `xdp` or `ports`.
    pub device: &'static str,
    /// Description of the device.
    pub device_words: String,
    /// Description of the links.
    pub links: String,
    /// Assignment of processors.
    pub placement: String,
    /// True if frames are sent and received without copies.
    pub zero_copy: bool,
    /// Methods of sending and receiving frames.
    pub ways: String,
    /// Queues on each side.
    pub queues: u32,
}

impl Bed {
    pub fn build(device: &Device) -> Result<Self, Error> {
        let Device::Ports(ports) = device else { return Self::in_namespaces(device) };
        let (methods, between) = (Methods::default(), Between::Ports(ports.clone()));
        let tester = between.open(methods)?;
        let addresses = Addresses {
            destination_mac: ports.mac.unwrap_or(tester.to.mac),
            source: ports.source,
            destination: ports.destination,
            destinations: ports.destinations,
            ..plain_link(&tester.from, &tester.to)
        };
        let conditions = Conditions {
            device: device.name(),
            device_words: device.words(),
            links: format!("{} to {}", tester.from.name, tester.to.name),
            placement: "wherever the scheduler puts threads".into(),
            zero_copy: tester.from.zero_copy && tester.to.zero_copy,
            ways: tester.methods.words(),
            queues: ports.queues,
        };
        Ok(Self { tester, addresses, conditions, methods, router: None, between })
    }

    fn in_namespaces(device: &Device) -> Result<Self, Error> {
        if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
            return Err(Error::Router {
                what: "measurement needs two processors".into(),
                log: "one for the generator, one for the device".into(),
            });
        }
        let arrangement =
            Arrangement { placement: Placement::Shared, sink: Sink::Remote, load: Offer::Paced };
        let setup = Setup::build(arrangement)?;
        setup.let_receivers_sleep()?;
        let router = match device {
            Device::Kernel | Device::Ports(_) => None,
            Device::Workers => Some(Router::start(&setup, Mode::Adaptive, false)?),
            Device::Xdp => Some(Router::start(&setup, Mode::Adaptive, true)?),
        };
        if !matches!(device, Device::Workers) {
            // The kernel forwards itself; no router has to run.
            Thread::napi(&setup.left)?.precede(Level::Drain)?;
        }
        let (methods, between) = (Methods::default(), Between::Namespaces(setup));
        let tester = between.open(methods)?;
        let addresses = Addresses {
            source_mac: SOURCE_MAC,
            destination_mac: LEFT_MAC,
            source: [10, 1, 0, 2].into(),
            destination: [10, 9, 0, 5].into(),
            destinations: 64,
        };
        let conditions = Conditions {
            device: device.name(),
            device_words: device.words(),
            links: "veth pairs between namespaces of one machine".into(),
            placement: format!(
                "the generator has processor 0, sending and receiving; the device has processor 1, \
                 its receiving kernel threads included; all under SCHED_FIFO{}",
                sender_scheduling(rest_of_real_time())
            ),
            zero_copy: tester.from.zero_copy && tester.to.zero_copy,
            ways: tester.methods.words(),
            queues: 1,
        };
        Ok(Self { tester, addresses, conditions, methods, router, between })
    }

    /// Returns the threads of a device that was set up here: the kernel's receiving threads, and
    /// its own.
    pub fn threads(&self) -> Result<Vec<Thread>, Error> {
        let Between::Namespaces(setup) = &self.between else { return Ok(Vec::new()) };
        let mut threads = vec![Thread::napi(&setup.left)?, Thread::napi(&setup.right)?];
        threads.extend(self.router.as_ref().map(Router::thread));
        Ok(threads)
    }

    /// Returns the placement of the generator's threads.
    pub fn placement(&self) -> fn(Role) -> Result<(), Error> {
        match self.between {
            Between::Ports(_) => anywhere,
            Between::Namespaces(_) => on_generator_processor,
        }
    }

    /// Measures the limits of the generator without the device.
    ///
    /// Live frames need a processor all the time: next to other programs they hold only a small
    /// rate, or none. If sockets, which sleep between frames, hold more, they are used from here
    /// on.
    pub fn limits(self, load: &Load) -> Result<(Self, Limits), Error> {
        let limits = self.limits_by(load, self.methods)?;
        if limits.lossless_rate_pps >= LIVE_LEAST_PPS || !self.tester.methods.live_frames {
            return Ok((self, limits));
        }
        let methods = Methods { send: SendBy::Sockets, ..self.methods };
        let by_sockets = self.limits_by(load, methods)?;
        if by_sockets.lossless_rate_pps <= limits.lossless_rate_pps {
            return Ok((self, limits));
        }
        // The order of these fields: if the second opening fails, they are dropped last-started
        // first.
        let Self { between, router, tester, addresses, mut conditions, .. } = self;
        drop(tester);
        let tester = between.open(methods)?;
        conditions.ways = format!(
            "{}, because live frames held only {:.3} Mpps, perhaps because other programs took \
             their processor",
            tester.methods.words(),
            limits.lossless_rate_pps * 1e-6
        );
        conditions.zero_copy = tester.from.zero_copy && tester.to.zero_copy;
        Ok((Self { tester, addresses, conditions, methods, router, between }, by_sockets))
    }

    /// Measures the limits. For a device between given ports, a veth pair stands in for the cards.
    fn limits_by(&self, load: &Load, methods: Methods) -> Result<Limits, Error> {
        if let Between::Ports(ports) = &self.between {
            return limits::veth_limits(load, ports.queues, methods, &self.placement());
        }
        let link = Setup::link()?;
        let mut tester = ends_of(&link, methods)?;
        let addresses = plain_link(&tester.from, &tester.to);
        let words = "a veth pair set up as those of the device".to_owned();
        limits::measure(&mut tester, &addresses, load, &self.placement(), words)
    }
}

/// Returns the percentage of each second in which threads of `SCHED_FIFO` may have to rest.
///
/// With `CONFIG_RT_GROUP_SCHED` they rest in one piece even if no other thread is runnable; other
/// kernels since 6.12 only let other threads run (Documentation/scheduler/sched-rt-group.rst).
fn rest_of_real_time() -> Option<f64> {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok();
    rest(&read("sched_rt_runtime_us")?, &read("sched_rt_period_us")?)
}

/// Computes the same from the two settings.
fn rest(runtime: &str, period: &str) -> Option<f64> {
    let [runtime, period] = [runtime, period].map(|text| text.trim().parse::<f64>().ok());
    let (runtime, period) = (runtime?, period?);
    let rests = 0.0 <= runtime && runtime < period;
    rests.then(|| (1000.0 * (1.0 - runtime / period)).round() / 10.0)
}

/// Describes the scheduling of the sender if threads of `SCHED_FIFO` have to rest for `rest`
/// percent of each second.
fn sender_scheduling(rest: Option<f64>) -> String {
    rest.map_or_else(String::new, |percent| {
        format!(
            ", except the sender, an ordinary thread of priority -20: live frames take all of their \
             processor, and the kernel may suspend such threads of SCHED_FIFO for {percent} % of each \
             second (`sysctl kernel.sched_rt_runtime_us`); programs of other sessions may take half \
             of its processor"
        )
    })
}

/// Pins a thread of the generator to its processor; receivers take precedence over senders.
fn on_generator_processor(role: Role) -> Result<(), Error> {
    let thread = Thread::current();
    thread.pin(OUTSIDE)?;
    match role {
        Role::Receives(_) => thread.precede(Level::Drain),
        Role::Sends(_) if rest_of_real_time().is_some() => thread.hurry(),
        Role::Sends(_) => thread.precede(Level::Source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_withheld_from_real_time_threads_is_reported() {
        assert_eq!(rest("950000\n", "1000000\n"), Some(5.0));
        assert_eq!(rest("0\n", "1000000\n"), Some(100.0));
        for (runtime, period) in [("-1\n", "1000000\n"), ("5\n", "5\n"), ("", "5"), ("5", "x")] {
            assert_eq!(rest(runtime, period), None, "{runtime} of {period}");
        }
        assert!(
            sender_scheduling(Some(5.0)).contains("-20")
                && sender_scheduling(Some(5.0)).contains("5 %")
        );
        assert_eq!(sender_scheduling(None), "");
    }
}
