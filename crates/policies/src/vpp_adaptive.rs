//! VPP: an input node polls under high load, and waits for interrupts under low load.

use super::fixed;
use super::polling::{PollRule, Polling};
use wattline_policy::{BuildContext, Kind, Parameter, Parameters, Policy, PolicyInfo, Wait};
use wattline_units::Time;

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "vpp-adaptive",
    summary: "VPP's adaptive receive mode: a core polls above a number of packets a loop, and waits for interrupts again below a lower one",
    source: "VPP, src/vlib/main.c (polling_threshold_vector_length, interrupt_threshold_vector_length); a worker's delays before it sleeps are left out, and all its ports change together",
    parameters: &[
        fixed::CORES,
        Parameter {
            name: "up",
            kind: Kind::Number { min: 0.0, max: 256.0 },
            default: "10",
            meaning: "packets a loop from which on a core polls",
            source: "VPP, src/vlib/main.c",
        },
        Parameter {
            name: "down",
            kind: Kind::Number { min: 0.0, max: 256.0 },
            default: "5",
            meaning: "packets a loop up to which it goes back to interrupts; at most `up`",
            source: "VPP, src/vlib/main.c",
        },
    ],
    make,
};

/// Most packets of a vector (VLIB_FRAME_SIZE).
const FRAME: u32 = 256;
/// Loops over which the mean is taken (log2_main_loops_per_stats_update = 7).
const LOOPS: u32 = 128;

#[derive(Clone, Copy, Default)]
struct Loops {
    polls: u32,
    packets: u32,
    polling: bool,
}

struct VppAdaptive {
    up: f64,
    down: f64,
    /// Loops by core.
    loops: Vec<Loops>,
}

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let (up, down) = (parameters.number("up"), parameters.number("down"));
    if down > up {
        return Err(format!("down = {down}: must be at most up = {up}"));
    }
    let begin = Loops { polling: true, ..Loops::default() };
    let rule = VppAdaptive { up, down, loops: vec![begin; context.platform.cores] };
    let waits = [Wait::Poll, Wait::Interrupt];
    Ok(Box::new(Polling::new(parameters, context, FRAME, &waits, rule)?))
}

impl VppAdaptive {
    fn polled(&mut self, core: usize, packets: u32) -> Wait {
        let loops = &mut self.loops[core];
        loops.polls += 1;
        loops.packets += packets;
        if loops.polls >= LOOPS {
            let mean = f64::from(loops.packets) / f64::from(loops.polls);
            loops.polling = if loops.polling { mean > self.down } else { mean >= self.up };
            (loops.polls, loops.packets) = (0, 0);
        }
        if loops.polling { Wait::Poll } else { Wait::Interrupt }
    }
}

impl PollRule for VppAdaptive {
    const EMPTY_POLLS: u32 = 1;

    fn packets(&mut self, _: Time, core: usize, taken: u32, _: u32) -> Wait {
        self.polled(core, taken)
    }

    fn nothing(&mut self, _: Time, core: usize) -> Wait {
        self.polled(core, 0)
    }
}

#[cfg(test)]
mod tests {
    use crate::polling::testing::step;
    use crate::testing::Bench;
    use wattline_policy::Wait;

    #[test]
    fn node_polls_from_ten_packets_a_loop_and_stops_at_five() {
        let mut bench = Bench::playing("vpp-adaptive");
        for (found, wait) in [
            (6, Wait::Poll), // the node starts by polling, and six are more than five
            (5, Wait::Interrupt),
            (9, Wait::Interrupt), // between the thresholds it keeps its mode
            (10, Wait::Poll),
            (6, Wait::Poll),
            (0, Wait::Interrupt),
        ] {
            for _ in 0..127 {
                step(&mut bench, found);
            }
            assert_eq!(step(&mut bench, found), wait, "{found}");
        }
    }

    #[test]
    fn reversed_thresholds_are_refused() {
        let error = Bench::new().refused("vpp-adaptive:up=2");
        assert!(error.contains("at most up"), "{error}");
    }
}
