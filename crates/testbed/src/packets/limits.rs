//! Limits of the generator itself: sender and receiver on one link, without a device.

use super::cost::OwnCost;
use super::end::End;
use super::flows::Addresses;
use super::load::Load;
use super::methods::Methods;
use super::outcome::Latency;
use super::role::Placement;
use super::tester::{Tester, plain_link};
use crate::Error;
use crate::namespace::Namespace;
use crate::topology::{SINK, SOURCE, connect};
use serde::Serialize;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Duration of each trial.
const TRIAL: Duration = Duration::from_millis(300);
/// Rates that are tried until one loses nothing, as parts of the rate of sender and receiver at
/// full speed.
const PARTS: [f64; 8] = [0.95, 0.85, 0.75, 0.6, 0.45, 0.3, 0.15, 0.05];
/// Attempts of each trial: interference of other programs is not a limit of the generator.
const ATTEMPTS: u32 = 2;
/// Lowest rate that is a useful load for a device.
const LEAST_PPS: f64 = 1_000.0;

/// Limits of the generator, found on a link without a device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limits {
    /// The measured link.
    pub link: String,
    /// Methods of sending and receiving packets.
    pub ways: String,
    /// Packets per second sent at full speed.
    pub flat_out_rate_pps: f64,
    /// Received rate.
    pub flat_out_received_rate_pps: f64,
    /// Highest tried rate that was held without loss, or 0. Faster devices cannot be measured.
    pub lossless_rate_pps: f64,
    /// Latency at half of this rate, which the generator adds to that of any device.
    pub latency: Latency,
    /// Processor time of the sender per packet at the lossless rate.
    pub sender_cpu_seconds_per_packet: Option<f64>,
    /// Processor time of the receiver per packet; `None` if a program in the driver receives, whose
    /// time the kernel charges to interrupted threads.
    pub receiver_cpu_seconds_per_packet: Option<f64>,
    /// Part of the generator's own code in both; the rest is the kernel's.
    pub own: OwnCost,
    /// Share of the packets due in the last trial that were not sent in time; a trial allows 0.01.
    pub unsent_share: f64,
    /// Longest time for which the receiver did not read its frames, in any trial.
    pub receiver_stall_max_seconds: f64,
    /// Packets for which the receiver has room meanwhile; 0 if it needs no ring.
    pub receiver_ring_packets: u64,
}

impl Limits {
    /// Returns the packets per second above which the longest stall fills the receiver's rings;
    /// `None` if there was no stall.
    pub fn stall_rate_pps(&self) -> Option<f64> {
        let rate = self.receiver_ring_packets as f64 / self.receiver_stall_max_seconds;
        rate.is_finite().then_some(rate)
    }

    /// Returns the error that frames of a length or mix cannot be used, because no rate was held
    /// without loss.
    pub fn too_busy(&self, frames: &str) -> Error {
        let is_length = frames.bytes().all(|byte| byte.is_ascii_digit());
        Error::Generator {
            frames: if is_length { format!("{frames} bytes") } else { frames.to_owned() },
            link: self.link.clone(),
            methods: self.ways.clone(),
            unsent_percent: 100.0 * self.unsent_share,
            sent_rate_pps: self.flat_out_rate_pps,
            received_rate_pps: self.flat_out_received_rate_pps,
        }
    }
}

/// Measures on an open link without a device. Only lengths and flows of `load` are used.
///
/// # Errors
/// Fails as [`Tester::trial`].
pub fn measure(
    tester: &mut Tester,
    addresses: &Addresses,
    load: &Load,
    placement: Placement<'_>,
    link: String,
) -> Result<Limits, Error> {
    let never = AtomicBool::new(false);
    let ways = tester.methods.words();
    let own = tester.own_cost(addresses, load)?;
    let ring_packets = u64::from(tester.to.ring) * u64::from(tester.to.queues);
    let mut stall = 0.0_f64;
    let mut trial = |rate_pps: f64| {
        let load = Load {
            rate_pps,
            duration: TRIAL,
            sizes: load.sizes.clone(),
            flows: load.flows,
            drain: Duration::from_millis(100),
            ..Load::default()
        };
        let outcome = tester.trial(addresses, &load, placement, &never, &mut |_| ())?;
        stall = stall.max(outcome.receiver_stall_max_seconds);
        Ok::<_, Error>(outcome)
    };
    let flat_out = trial(f64::INFINITY)?;
    let reached = flat_out.sent_rate_pps.min(flat_out.received_rate_pps);
    let mut limits = Limits {
        link,
        ways,
        flat_out_rate_pps: flat_out.sent_rate_pps,
        flat_out_received_rate_pps: flat_out.received_rate_pps,
        lossless_rate_pps: 0.0,
        latency: Latency::default(),
        sender_cpu_seconds_per_packet: None,
        receiver_cpu_seconds_per_packet: None,
        own,
        unsent_share: 0.0,
        receiver_stall_max_seconds: 0.0,
        receiver_ring_packets: ring_packets,
    };
    let rates = PARTS.map(|part| reached * part);
    'found: for rate in rates.into_iter().filter(|rate| *rate >= LEAST_PPS) {
        for _ in 0..ATTEMPTS {
            let outcome = trial(rate)?;
            let due = outcome.sent_packets + outcome.unsent_packets;
            limits.unsent_share = outcome.unsent_packets as f64 / due.max(1) as f64;
            if outcome.lost_packets == 0 && outcome.is_sound() {
                limits.lossless_rate_pps = outcome.sent_rate_pps;
                limits.sender_cpu_seconds_per_packet = outcome.sender_cpu_seconds_per_packet;
                limits.receiver_cpu_seconds_per_packet = outcome.receiver_cpu_seconds_per_packet;
                break 'found;
            }
        }
    }
    if limits.lossless_rate_pps > 0.0 {
        limits.latency = trial(limits.lossless_rate_pps / 2.0)?.latency;
    }
    limits.receiver_stall_max_seconds = stall;
    Ok(limits)
}

/// Measures over a temporary pair of veth interfaces.
///
/// # Errors
/// Fails without root or iproute2.
pub fn veth_limits(
    load: &Load,
    queues: u32,
    methods: Methods,
    placement: Placement<'_>,
) -> Result<Limits, Error> {
    let (near, far) = (Namespace::create("near")?, Namespace::create("far")?);
    let veth_queues = u16::try_from(queues).unwrap_or(u16::MAX);
    connect(&near, SOURCE, &far, SINK, 1500, veth_queues)?;
    let end = |of: &'static str, namespace| End { namespace: Some(namespace), interface: of };
    let from = end(SOURCE.interface, near.name());
    let mut tester = Tester::open(from, Some(end(SINK.interface, far.name())), queues, methods)?;
    let addresses = plain_link(&tester.from, &tester.to);
    measure(&mut tester, &addresses, load, placement, "a veth pair made for it".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generator_that_always_loses_is_reported() {
        let limits = Limits {
            link: "a veth pair made for it".to_owned(),
            ways: "sent by live frames".to_owned(),
            flat_out_rate_pps: 250_000.4,
            flat_out_received_rate_pps: 90_000.0,
            lossless_rate_pps: 0.0,
            latency: Latency::default(),
            sender_cpu_seconds_per_packet: None,
            receiver_cpu_seconds_per_packet: None,
            own: OwnCost::default(),
            unsent_share: 0.052,
            receiver_stall_max_seconds: 0.1,
            receiver_ring_packets: 4096,
        };
        let text = limits.too_busy("64").to_string();
        for words in [
            "frames of 64 bytes",
            "a veth pair",
            "live frames",
            "5.2 %",
            "250000",
            "90000",
            "quiet",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains(['{', '}']), "{text}");
        assert!(limits.too_busy("imix").to_string().contains("frames of imix,"));
    }
}
