//! Sections 3.4 and 4.3: the six proposals, in misses, cycles and watts.

use super::known::{ASSUMED, LEVEL_1, PACKETS, failed, host, lacks};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned::{self, Plan};
use wattline_report::plot::{Axis, Bars};
use wattline_report::{Grounds, Table};
use wattline_study::receive::cost::{Energy, small_core_slowdown};
use wattline_study::receive::proposals::{Effect, Proposal, effects};
use wattline_study::receive::rate_adaptive::RateAdaptive;
use wattline_study::receive::{Data, FRAME_LINES, Outcome, Phase, ReceivePath};
use wattline_units::{BitsPerSecond, Span};

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let plan = planned::made_for(Paper::Liao)?;
    Ok(vec![switches(plan, inputs)?, rate_adaptive(plan)?])
}

fn switches(plan: &'static Plan, inputs: &Inputs) -> Result<Figure, ReproduceError> {
    let host = host()?;
    let path = inputs.receive_path()?;
    let all = effects(path, PACKETS, |base| Energy::measured_on(&host, base));
    let missing = || lacks("CPU, memory and throughput of the receiving host");
    let all = all.map_err(failed)?.ok_or_else(missing)?;
    let mut table = Table::new([
        "proposal",
        "skb_and_page_misses_per_packet",
        "copy_misses_per_packet",
        "copy_stall_cycles_per_packet",
        "payload_memory_accesses_per_line",
        "pcie_bytes_per_packet",
        "cycles_per_packet",
        "cpu_watts",
        "memory_watts",
    ]);
    for effect in &all {
        table.row([
            effect.proposal.name().into(),
            format!("{:.3}", effect.outcome.management_misses()),
            format!("{:.3}", effect.outcome.phase_misses(Phase::Copy)),
            format!("{:.0}", effect.outcome.stall_cycles(Phase::Copy)),
            format!("{:.3}", payload_accesses(&effect.outcome)),
            format!("{:.0}", pcie(&effect.outcome)),
            format!("{:.0}", effect.cycles.total()),
            format!("{:.2}", effect.cpu.0),
            format!("{:.2}", effect.memory.0),
        ]);
    }
    let mut checks = judged(plan, &all)?;
    let single = ReceivePath { chain: 1, ..path }.run(PACKETS).map_err(failed)?;
    let protocol = |outcome: &Outcome| {
        let touches = |data: &Data| outcome.counts(Phase::Protocol, *data).touches;
        outcome.per_packet(Data::ALL.iter().map(touches).sum())
    };
    let [with, without] = [&all[0].outcome, &single].map(protocol);
    checks.push(
        plan.check("large-receive-offload", &[with / without])?
            .note(format!("{with:.2} and {without:.2}; \"substantially\" has no number, half is our reading, and the costs in \
                 cycles were in Figure 3")),
    );
    let bars = Bars::new(
        "Modelled dynamic power at 9.49 Gbit/s",
        "proposal",
        Axis::new("power (W)"),
        (1..=all.len()).map(|index| index.to_string()),
    )
    .series("processors", all.iter().map(|effect| effect.cpu.0))
    .series("memory", all.iter().map(|effect| effect.memory.0))
    .stacked([]);
    Ok(Figure {
        id: "proposals",
        title: "Sections 3.4 and 4.3: what the proposals change".into(),
        about:
            "Misses, memory and bus are simulated. Cycles take the published packet and replace \
                its stalls; watts take the second machine's power over the first machine's cycles, \
                so they compare the rows and describe no machine. Bars in the table's order."
                .into(),
        table,
        plots: vec![bars.svg()],
        checks: checks.into_iter().map(|check| check.on(Grounds::Caches)).collect(),
    })
}

fn payload_accesses(outcome: &Outcome) -> f64 {
    outcome.per_packet(outcome.memory(Data::Payload).total()) / f64::from(FRAME_LINES)
}

fn pcie(outcome: &Outcome) -> f64 {
    outcome.per_packet(outcome.pcie_bytes)
}

fn judged(
    plan: &'static Plan,
    all: &[Effect],
) -> Result<Vec<wattline_report::Check>, ReproduceError> {
    let of = |proposal: Proposal| -> Result<&Outcome, ReproduceError> {
        let found = all.iter().find(|effect| effect.proposal == proposal);
        found
            .map(|effect| &effect.outcome)
            .ok_or_else(|| ReproduceError::Model(format!("no run of \"{}\"", proposal.name())))
    };
    let l1 = |outcome: &Outcome| {
        let misses = |data: &Data| outcome.counts(Phase::Copy, *data).l1_misses;
        outcome.per_packet(Data::ALL.iter().map(misses).sum())
    };
    let touches = |outcome: &Outcome| {
        let touches = |data: &Data| outcome.counts(Phase::Copy, *data).touches;
        outcome.per_packet(Data::ALL.iter().map(touches).sum())
    };
    let (base, dca) = (of(Proposal::None)?, of(Proposal::DirectCacheAccess)?);
    let (extended, die) = (of(Proposal::ExtendedDirectCacheAccess)?, of(Proposal::OnDie)?);
    let copy = |outcome: &Outcome| outcome.misses(Phase::Copy, Data::Payload);
    let (fewer, same) = (copy(dca) / copy(base).max(1e-9), l1(dca) / l1(base));
    let slowdown = small_core_slowdown(base, 2.0);
    let pool = "the pool holds two batches a queue, which is assumed";
    Ok(vec![
        plan.holds(
            "dca-and-copy",
            fewer < 0.1 && same > 0.95,
            format!("{fewer:.3} of the former, {same:.3} of the latter"),
        )?
        .note(format!(
            "prefetchers leave {:.3} misses a packet in the copy even without it; it only removes \
             waiting for lines in flight: {:.0} of {:.0} cycles remain",
            copy(base),
            dca.stall_cycles(Phase::Copy),
            base.stall_cycles(Phase::Copy)
        ))
        .fitted(LEVEL_1),
        plan.check("dca-extended-pcie", &[pcie(extended) / pcie(base)])?,
        plan.check("dca-extended-misses", &[extended.management_misses()])?.fitted(ASSUMED),
        plan.check("on-die-pcie", &[pcie(die)])?,
        plan.check("contiguous-misses", &[of(Proposal::ContiguousBuffers)?.management_misses()])?
            .fitted(pool),
        plan.check("copy-engine", &[touches(of(Proposal::CopyEngine)?)])?,
        plan.check("dca-write-backs", &[payload_accesses(dca)])?
            .note("the prefetcher reads lines behind the end of a frame")
            .fitted(ASSUMED),
        plan.check("invalidation", &[payload_accesses(of(Proposal::Invalidation)?)])?
            .note("all of them are lines behind the end of a frame, which the prefetcher reads"),
        plan.check("small-core", &[slowdown])?
            .note(format!(
                "such a core saves energy when it draws less than {:.2} of the large one's power",
                1.0 / slowdown
            ))
            .fitted("half the speed is assumed; the paper has no figure for such a core"),
    ])
}

fn rate_adaptive(plan: &'static Plan) -> Result<Figure, ReproduceError> {
    let card = RateAdaptive::default();
    let mut table = Table::new([
        "busy_percent",
        "energy_joules",
        "fixed_joules",
        "ratio",
        "lost_in_transition_percent",
        "lost_otherwise_percent",
        "shifts",
    ]);
    let mut worst = (0.0_f64, 0.0_f64);
    for busy in [0, 10, 35, 50, 100] {
        // The load lasts 20 s; each second begins busy and ends silent.
        let load = (0..20_000)
            .map(|tick| BitsPerSecond(if tick % 1000 < busy * 10 { 9.49e9 * 0.8 } else { 0.0 }));
        let result = card.carry(load, Span::from_millis(1));
        let ratio = result.energy / result.fixed;
        let percent = |bytes: f64| bytes / result.offered_bytes.max(1.0) * 100.0;
        table.numbers([
            f64::from(busy),
            result.energy.0,
            result.fixed.0,
            ratio,
            percent(result.lost_in_transition_bytes),
            percent(result.lost_otherwise_bytes),
            f64::from(result.shifts),
        ]);
        if busy == 35 {
            worst.0 = ratio;
        }
        worst.1 = worst.1.max(result.lost_otherwise_bytes);
    }
    let check = plan
        .holds(
            "rate-adaptive",
            worst.0 < 1.0 && worst.1 == 0.0,
            format!("{:.2} when busy for 35 % of the time; {:.0} B", worst.0, worst.1),
        )?
        .fitted(
            "transitions of 10 ms, a buffer of 512 kB, 1 W at 100 Mbit/s and the rule that shifts \
             are assumed; retransmission is not modelled",
        );
    Ok(Figure {
        id: "rate-adaptive",
        title: "Section 4.3: a card that adapts its rate".into(),
        about:
            "On-off load at 80 % of line rate; 10 W at 10 Gbit/s and 1 W at 1 Gbit/s as printed."
                .into(),
        table,
        plots: Vec::new(),
        checks: vec![check],
    })
}
