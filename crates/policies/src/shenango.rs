//! Shenango and Caladan: add a core whenever a packet waits for too long, and remove an idle one.

use wattline_policy::{
    AskAgain, BuildContext, Kind, Observation, OperatingPoint, Parameter, Parameters, Policy,
    PolicyInfo, QueueView, Trigger, Wait,
};
use wattline_units::Span;

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "shenango",
    summary: "Shenango's and Caladan's core allocation: one core more at each sample with a packet that waited at the last one, too; an idle core parks",
    source: "Ousterhout et al., Shenango, NSDI 2019; Fried et al., Caladan, OSDI 2020 (`interval=10us,qdelay=10us`). Packets go to cores by the indirection table, since none can be stolen; the allocator's own core is not counted",
    parameters: &[
        Parameter {
            name: "interval",
            kind: Kind::Duration { min_micros: 1, max_micros: 1_000_000 },
            default: "5us",
            meaning: "time between two samples",
            source: "Shenango, section 4: 5 us; Caladan: 10 us",
        },
        Parameter {
            name: "qdelay",
            kind: Kind::Duration { min_micros: 0, max_micros: 1_000_000 },
            default: "0us",
            meaning: "wait of the oldest packet that asks for a core; 0 for any packet that waited at the last sample, too",
            source: "Caladan's qdelay_us; Shenango's rule is that of 0",
        },
    ],
    make,
};

struct Shenango {
    interval: Span,
    delay: Span,
    /// Queues at the last sample, and packets served, by core.
    queues: Vec<QueueView>,
    served: Vec<u64>,
}

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let platform = context.platform;
    let delay = parameters.span("qdelay");
    if !platform.can.set_cores {
        return Err("the platform takes no core out of the indirection table".into());
    }
    if !platform.can.waits.poll {
        return Err("the platform cannot wait by polling".into());
    }
    if delay > Span::ZERO && !platform.can.sees.oldest {
        return Err("qdelay: the platform does not show how long packets wait; allowed: 0us".into());
    }
    Ok(Box::new(Shenango {
        interval: parameters.span("interval"),
        delay,
        queues: vec![QueueView::default(); platform.queues.len()],
        served: vec![0; platform.cores],
    }))
}

impl Shenango {
    /// Returns true if a queue needs another core.
    fn is_congested(&self, before: &QueueView, now: &QueueView) -> bool {
        if self.delay > Span::ZERO {
            return now.oldest.is_some_and(|oldest| oldest >= self.delay);
        }
        // Queues are FIFO: if more packets wait than have arrived since, one waited at the last
        // sample.
        u64::from(now.fill) > now.arrivals.saturating_sub(before.arrivals)
    }
}

impl Policy for Shenango {
    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        let platform = seen.platform;
        let active = point.active;
        if seen.trigger == Trigger::Start {
            point.set_active(1, 0, platform.deepest());
            point.set_frequency(platform.fastest());
            point.set_wait(Wait::Poll);
        } else if self.queues.iter().zip(seen.queues).any(|(old, new)| self.is_congested(old, new))
        {
            let more = platform.all_cores().iter().find(|core| !active.contains(*core));
            more.into_iter().for_each(|core| point.active.insert(core));
        } else if active.len() > 1 {
            let idle = |core: &usize| {
                let waits = seen.queues.iter().zip(&platform.queues);
                let empty =
                    waits.filter(|(_, queue)| queue.core == *core).all(|(q, _)| q.fill == 0);
                empty && seen.cores[*core].packets == self.served[*core]
            };
            if let Some(core) = active.iter().filter(idle).last() {
                point.active.remove(core);
            }
        }
        for core in 0..platform.cores {
            let parked = !point.active.contains(core);
            point.cores[core].idle_limit = if parked { platform.deepest() } else { 0 };
        }
        self.queues.copy_from_slice(seen.queues);
        self.served.iter_mut().zip(seen.cores).for_each(|(mine, core)| *mine = core.packets);
        AskAgain::at(seen.now + self.interval)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use wattline_units::Span;

    const LOOK: Span = Span::from_micros(5);

    #[test]
    fn packet_waiting_in_two_samples_adds_a_core_and_an_idle_one_parks() {
        let mut bench = Bench::playing("shenango");
        assert_eq!(bench.rung(), (1, 13));
        // Ten packets wait, but all of them arrived since the last sample.
        bench.queues[0].fill = 10;
        bench.cores[0].packets += 1;
        bench.pass(LOOK, &[1.0], 10);
        assert_eq!(bench.rung().0, 1);
        // One of these eleven packets waited at the last sample.
        bench.queues[0].fill = 11;
        bench.cores[0].packets += 1;
        bench.pass(LOOK, &[1.0], 10);
        assert_eq!(bench.rung().0, 2);
        bench.queues[0].fill = 0;
        bench.cores[0].packets += 11;
        bench.cores[1].packets += 1;
        bench.pass(LOOK, &[1.0, 1.0], 0);
        assert_eq!(bench.rung().0, 2, "both had packets");
        bench.cores[0].packets += 1;
        bench.pass(LOOK, &[1.0], 0);
        assert_eq!(bench.rung().0, 1);
        assert_eq!(bench.point.cores[1].idle_limit, 2);
        bench.pass(LOOK, &[], 0);
        assert_eq!(bench.rung().0, 1, "the last one stays");
    }

    #[test]
    fn delay_limit_needs_a_platform_that_reports_delays() {
        let mut bench = Bench::new();
        let error = bench.refused("shenango:qdelay=10us");
        assert!(error.contains("how long packets wait"), "{error}");
        bench.platform.can.sees.oldest = true;
        bench.play("shenango:qdelay=10us", None);
        bench.queues[0].oldest = Some(Span::from_micros(9));
        bench.pass(LOOK, &[1.0], 0);
        assert_eq!(bench.rung().0, 1);
        bench.queues[0].oldest = Some(Span::from_micros(10));
        bench.pass(LOOK, &[1.0], 0);
        assert_eq!(bench.rung().0, 2);
    }
}
