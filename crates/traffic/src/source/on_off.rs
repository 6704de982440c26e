//! Bursts of a given length at a constant mean rate.

use super::{Content, Links, Rate, Source};
use crate::capture::CaptureError;
use crate::packet::{Block, Packet};
use crate::random::Random;

/// Sends bursts of `burst` packets back to back at the link's rate on every port, followed by
/// silence, at a constant mean rate (PowerSave, section 7, "Impact of traffic burstiness"). A burst
/// of 1 is uniform traffic.
#[derive(Debug, Clone)]
pub struct OnOff {
    burst: u32,
    links: Links,
    rate: Rate,
    ports: Vec<Port>,
}

#[derive(Debug, Clone)]
struct Port {
    content: Content,
    next: Packet,
    /// Start of the burst of `next`, and arrival time of `next`.
    began: f64,
    picos: f64,
    /// Number of packets of the burst after `next`.
    left: u32,
    /// Bytes of the burst so far.
    bytes: u64,
}

impl OnOff {
    /// Makes the source with `burst` packets per burst. The mean rate of all ports together must be
    /// positive and within the links. The seed determines the phases of the ports.
    pub fn new(rate: Rate, burst: u32, links: Links, content: &Content, seed: u64) -> Self {
        let mut random = Random::new(seed, 0x0ff);
        let rate = rate.times(1.0 / f64::from(links.ports));
        let period = 1e12 * f64::from(burst) / rate.packets_per_second(content.mean_bytes());
        let ports = (0..links.ports)
            .map(|number| {
                let mut content = content.on_port(number);
                let began = random.unit() * period;
                let mut next = content.packet(0.0);
                let picos = began + links.picos(next.length);
                next.picos = picos as u64;
                let bytes = next.length.into();
                Port { content, next, began, picos, left: burst - 1, bytes }
            })
            .collect();
        Self { burst, links, rate, ports }
    }
}

impl Port {
    /// Returns the packet that is due and prepares the one after it.
    fn take(&mut self, burst: u32, links: &Links, rate: Rate) -> Packet {
        let due = self.next;
        if self.left == 0 {
            self.began += match rate {
                Rate::Packets(rate) => 1e12 * f64::from(burst) / rate,
                Rate::Bits(rate) => 8e12 * self.bytes as f64 / rate,
                Rate::Link { bits, overhead } => {
                    8e12 * (self.bytes as f64 + f64::from(overhead) * f64::from(burst)) / bits
                }
            };
            // With mixed sizes, a burst may last longer than its share of time.
            self.picos = self.picos.max(self.began);
            self.left = burst;
            self.bytes = 0;
        }
        self.next = self.content.packet(0.0);
        self.picos += links.picos(self.next.length);
        self.next.picos = self.picos as u64;
        self.bytes += u64::from(self.next.length);
        self.left -= 1;
        due
    }
}

impl Source for OnOff {
    fn next_block(&mut self, out: &mut Block) -> Result<(), CaptureError> {
        let Self { burst, links, rate, ports } = self;
        out.fill(|| {
            // There are only a few ports, so a linear search is cheapest.
            let mut soonest = 0;
            for port in 1..ports.len() {
                if ports[port].next.picos < ports[soonest].next.picos {
                    soonest = port;
                }
            }
            ports[soonest].take(*burst, links, *rate)
        });
        Ok(())
    }
}
