//! Figure 3 and section 3.2: cycles per packet, and register accesses over packets per interrupt.

use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned::{self, Plan};
use wattline_report::table::number;
use wattline_report::{Grounds, Table};
use wattline_study::receive::cost::{
    self, COPY_PARTS, COPY_SHARE, Cycles, DRIVER_CYCLES, REGISTER_CYCLES, RELEASE_CYCLES,
};
use wattline_units::BitsPerSecond;

/// Share of driver and buffer release in all cycles for small I/O, as printed in the abstract.
const SMALL_SHARE: f64 = 0.54;

pub(super) fn figures(_: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let plan = planned::made_for(Paper::Liao)?;
    Ok(vec![groups(plan)?, registers(plan)?])
}

fn groups(plan: &'static Plan) -> Result<Figure, ReproduceError> {
    let (total, published) = (cost::total_cycles(), Cycles::published());
    let both = DRIVER_CYCLES + RELEASE_CYCLES;
    // The total for small I/O is derived from this share, its only printed figure.
    let small_total = both / SMALL_SHARE;
    let mut table = Table::new(["group", "large_io_cycles", "64_byte_io_cycles", "basis"]);
    let lost = "not in the text; Figure 3 is lost";
    let rows: [(&str, Option<f64>, Option<f64>, &str); 9] = [
        ("driver", Some(DRIVER_CYCLES), Some(DRIVER_CYCLES), "published"),
        ("IP", None, None, lost),
        ("TCP", None, None, lost),
        ("data copy", Some(published.copy), None, "published share of the derived total"),
        ("buffer release", Some(RELEASE_CYCLES), Some(RELEASE_CYCLES), "published"),
        ("system call", None, None, lost),
        ("Iperf", None, None, lost),
        ("others", None, None, lost),
        ("all", Some(total), Some(small_total), "derived; fitted at 64 bytes"),
    ];
    let cell = |value: Option<f64>| value.map_or(String::new(), |v| format!("{v:.0}"));
    for (group, large, small, basis) in rows {
        table.row([group.into(), cell(large), cell(small), basis.into()]);
    }
    let line = cost::line_rate(BitsPerSecond(10e9));
    let ideal = |gigabits: f64| 2.0 * gigabits / 10.0;
    let scaled = [ideal(40.0), ideal(100.0)];
    let unrounded = line / cost::ONE_CORE;
    let totals = "the cycles of the two parts and the throughput of a core do not fit these shares: \
                  46 % would take 5000 cycles in all, 26 % 4615 and 20 % 5500";
    let checks = vec![
        plan.check("cycles-per-packet", &[total])?,
        plan.check("share-large", &[both / total * 100.0])?.note(totals),
        plan.check("share-small", &[both / small_total * 100.0])?
            .fitted("the total at 64 bytes is made from this share; no other figure is left"),
        plan.check("driver-share", &[DRIVER_CYCLES / total * 100.0])?.contradiction(format!(
            "1200 cycles are 26 % of 4615, but a core at 5.6 Gbit/s has {total:.0} for a packet, \
             and the 20 % of buffer release imply 5500"
        )),
        plan.check("release-share", &[RELEASE_CYCLES / total * 100.0])?,
        plan.check("copy-share", &[COPY_SHARE * 100.0])?
            .fitted("the share is the model's input; Figure 3 is lost"),
        plan.check("copy-beyond-dca", &[(COPY_PARTS[1] + COPY_PARTS[2]) * 100.0])?,
        plan.check("line-rate", &[line.0 / 1e9])?,
        plan.check("cores-10g", &[cost::cores(line)])?,
        plan.holds("cores-40-100g", scaled == [8.0, 20.0], format!("{scaled:?}"))?.note(format!(
            "unrounded, line rate takes {unrounded:.2} cores, which makes {:.0} and {:.0}",
            (4.0 * unrounded).ceil(),
            (10.0 * unrounded).ceil()
        )),
    ];
    Ok(Figure {
        id: "fig3",
        title: "Figure 3: cycles of a received packet by group".into(),
        about:
            "Of the figure's eight groups the text keeps three; the others are left empty rather \
                than invented. The total follows from the throughput of one core."
                .into(),
        table,
        plots: Vec::new(),
        checks: checks.into_iter().map(|check| check.on(Grounds::Equation)).collect(),
    })
}

fn registers(plan: &'static Plan) -> Result<Figure, ReproduceError> {
    let mut table = Table::new(["packets_per_interrupt", "cycles_per_packet"]);
    for batch in [1.0, 7.0, 16.0, 32.0, 60.0, 128.0] {
        table.numbers([batch, REGISTER_CYCLES / batch]);
    }
    let rate = |gigabits: f64| cost::packets(cost::line_rate(BitsPerSecond(gigabits * 1e9))).0;
    let period = 60.0 / rate(10.0);
    let checks = vec![
        plan.check("registers-10g", &[REGISTER_CYCLES / 60.0])?,
        plan.check("registers-1g", &[REGISTER_CYCLES / 7.0])?,
        plan.check("batch-1g", &[rate(1.0) * period])?.note(format!(
            "one interrupt every {} us gives six packets at 1 GbE; moderation of those drivers was \
             adaptive",
            number((period * 1e6).round())
        )),
    ];
    Ok(Figure {
        id: "registers",
        title: "Section 3.3.1: register access over packets per interrupt".into(),
        about: "2500 cycles for one access, shared by the packets of an interrupt.".into(),
        table,
        plots: Vec::new(),
        checks: checks.into_iter().map(|check| check.on(Grounds::Equation)).collect(),
    })
}
