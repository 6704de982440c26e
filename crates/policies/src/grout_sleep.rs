//! grout: a worker sleeps longer while its graph finds no packets, within the limits of its rings.

use super::fixed;
use super::polling::{PollRule, Polling};
use wattline_policy::{BuildContext, Kind, Parameter, Parameters, Policy, PolicyInfo, Wait};
use wattline_units::{Span, Time};

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "grout-sleep",
    summary: "grout's workers: every 256 empty polls make the sleep 1 us longer, up to the time in which line rate fills a ring; a packet ends it",
    source: "grout, modules/infra/datapath/main_loop.c and modules/infra/control/port.c (queue_buffer_us)",
    parameters: &[
        fixed::CORES,
        Parameter {
            name: "link_gbps",
            kind: Kind::Number { min: 0.01, max: 1_000.0 },
            default: "10",
            meaning: "rate of a link in Gbit/s, which fills a ring with 64-byte packets",
            source: "PowerSave, section 3: 10G ports; grout asks the driver",
        },
    ],
    make,
};

/// Packets of a burst: our choice, since grout's batch depends on its graph nodes.
const BURST: u32 = 64;
/// Longest sleep, for any ring.
const MOST: Span = Span::from_millis(1);
/// Growth of the sleep per empty poll.
const GROWS: Span = Span::from_micros(1);
/// Bits of a 64-byte packet on the wire: preamble and gap are 20 bytes.
const WIRE_BITS: f64 = 84.0 * 8.0;

struct GroutSleep {
    max: Span,
    /// Sleep by core.
    sleeps: Vec<Span>,
}

/// Returns the time in which line rate fills a ring, computed in whole packets per microsecond as
/// grout does: a link below 672 Mbit/s has none, and never sleeps.
fn ring_span(packets: usize, gbps: f64) -> Span {
    let a_microsecond = (gbps * 1e3 / WIRE_BITS) as usize;
    let micros = packets.checked_div(a_microsecond).unwrap_or(0);
    Span::from_micros(micros as u64).min(MOST)
}

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let ring = context.platform.ring_size.unwrap_or(usize::MAX >> 16);
    let max = ring_span(ring, parameters.number("link_gbps"));
    let rule = GroutSleep { max, sleeps: vec![Span::ZERO; context.platform.cores] };
    let waits = [Wait::Poll, Wait::Sleep(GROWS)];
    Ok(Box::new(Polling::new(parameters, context, BURST, &waits, rule)?))
}

impl PollRule for GroutSleep {
    const EMPTY_POLLS: u32 = 256;

    fn packets(&mut self, _: Time, core: usize, _: u32, _: u32) -> Wait {
        self.sleeps[core] = Span::ZERO;
        Wait::Poll
    }

    fn nothing(&mut self, _: Time, core: usize) -> Wait {
        let sleep = &mut self.sleeps[core];
        *sleep = (*sleep + GROWS).min(self.max);
        if *sleep == Span::ZERO { Wait::Poll } else { Wait::Sleep(*sleep) }
    }
}

#[cfg(test)]
mod tests {
    use super::ring_span;
    use crate::polling::testing::step;
    use crate::testing::Bench;
    use wattline_policy::Wait;
    use wattline_units::Span;

    #[test]
    fn the_limit_is_the_time_that_fills_a_ring() {
        assert_eq!(ring_span(2048, 10.0), Span::from_micros(146));
        assert_eq!(ring_span(2048, 25.0), Span::from_micros(55));
        assert_eq!(ring_span(2048, 100.0), Span::from_micros(13));
        assert_eq!(ring_span(1 << 20, 1.0), Span::from_millis(1));
        assert_eq!(ring_span(2048, 0.6), Span::ZERO, "a slow link never sleeps");
    }

    #[test]
    fn empty_polls_lengthen_the_sleep_and_one_packet_ends_it() {
        let mut bench = Bench::new();
        let ask = bench.play("grout-sleep", None);
        assert_eq!(ask.after_empty_polls.map(|polls| polls.get()), Some(256));
        for micros in 1..=50u64 {
            let wait = step(&mut bench, 0);
            // 512 packets at 10 Gbit/s: 36 us.
            assert_eq!(wait, Wait::Sleep(Span::from_micros(micros.min(36))));
        }
        assert_eq!(step(&mut bench, 1), Wait::Poll);
        assert_eq!(step(&mut bench, 0), Wait::Sleep(Span::from_micros(1)));
    }
}
