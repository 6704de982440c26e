//! The day of Figures 14 to 16 for IPv4: dependence of the savings on the extra cost of a long
//! packet over a short one, which the paper does not print.

use super::bench::{cost, server, simulate};
use super::breakdown::MPPS_40G;
use super::day::{self, BYTES, POLICIES, capacities, micros, packets, worst};
use super::latency::click_micros;
use super::own;
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::own::OwnTraffic;
use crate::paper::Paper;
use crate::planned;
use crate::printed::printed_pair;
use crate::runner::side_by_side;
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_report::{Check, Table};
use wattline_server::{Application, ApplicationCost, ServerModel, WakeUpCost};
use wattline_sim::Report;
use wattline_traffic::source::TrainShape;
use wattline_units::PacketsPerSecond;

/// Length of the day in seconds: a third of the other days'.
const SECONDS: f64 = 8.0;
/// Cycles per packet that each byte beyond 64 adds.
const SLOPES: [f64; 5] = [0.0, 0.4, 0.8, 1.1, 1.4];
const SHORT: u16 = 64;
/// Packet length in bytes in the measurement of NAPI-Click's 22 % (section 3).
const LOADED: u16 = 1024;

/// Returns the power of NAPI-Click's twelve cores at 40 Gbps, from the closed form.
fn napi_watts(server: &ServerModel) -> Result<f64, ReproduceError> {
    let point = server.napi_point(server.processor.cores(), server.processor.highest_frequency());
    let cost = cost(server, Application::Ipv4, LOADED)?;
    let offered = PacketsPerSecond::from_mpps(MPPS_40G);
    Ok(server.power_at(cost, LOADED.into(), &point, offered).total().0)
}

/// Makes a server whose packets cost `slope` cycles more per byte beyond 64, such that all figures
/// of section 3 still hold. The share of work in the 5 µs of an interrupt (12 µs of latency minus
/// 7) is chosen so that NAPI-Click draws the same power at 40 Gbps of 1024-byte packets.
fn variant(server: &ServerModel, slope: f64) -> Result<ServerModel, ReproduceError> {
    let mut own = server.clone();
    let wanted = napi_watts(server)?;
    let shortest = cost(server, Application::Ipv4, SHORT)?.cycles;
    if let Some(ipv4) = own.applications.get_mut(&Application::Ipv4) {
        let cycles_per_packet = shortest - slope * f64::from(SHORT);
        *ipv4 = ApplicationCost { cycles_per_packet, cycles_per_byte: slope, ..*ipv4 };
    }
    let fastest = server.processor.highest_frequency();
    let work = server.wake_up_work(fastest).as_seconds();
    let whole = work + server.wake_up.delivery_seconds;
    let wake_up = |work_share: f64| WakeUpCost {
        delivery_seconds: whole - work_share * work,
        fixed_seconds: work_share * server.wake_up.fixed_seconds,
        cycles: work_share * server.wake_up.cycles,
        ..server.wake_up
    };
    // More work draws more power; fifty bisections are far below any digit shown.
    let (mut low, mut high) = (0.0, whole / work);
    for _ in 0..50 {
        let middle = 0.5 * (low + high);
        own.wake_up = wake_up(middle);
        if napi_watts(&own)? < wanted { low = middle } else { high = middle }
    }
    Ok(own)
}

struct Case {
    slope: f64,
    server: ServerModel,
    /// Reports in the order of [`POLICIES`].
    reports: Vec<Report>,
}

impl Case {
    fn saving(&self, over: usize) -> f64 {
        let joules = |policy: usize| self.reports[policy].energy_joules;
        100.0 * (1.0 - joules(2) / joules(over))
    }
    fn mean(&self, policy: usize) -> f64 {
        micros(self.reports[policy].latency_mean_seconds)
    }
    /// Returns the highest 99th percentile of any interval under PowerSave, with Click's mean
    /// calibrated to the printed one.
    fn tail(&self) -> f64 {
        worst(&self.reports[2]).0 + click_micros() - self.mean(0)
    }
}

fn cases(inputs: &Inputs) -> Result<Vec<Case>, ReproduceError> {
    let shipped = server(inputs)?;
    let servers = SLOPES.iter().map(|slope| variant(&shipped, *slope));
    let servers = servers.collect::<Result<Vec<_>, _>>()?;
    let runs: Vec<_> =
        servers.iter().flat_map(|server| POLICIES.map(|(policy, _)| (server, policy))).collect();
    let mut reports = side_by_side(&runs, |(server, policy)| {
        let (capacity, _) = capacities(server, Application::Ipv4, BYTES)?;
        let job = day::job(policy, Application::Ipv4, SECONDS);
        simulate(server, &job, packets(capacity, SECONDS, TrainShape::NONE).as_mut())
    })?
    .into_iter();
    let case = |(slope, server)| {
        let reports = reports.by_ref().take(POLICIES.len()).collect();
        Case { slope, server, reports }
    };
    Ok(SLOPES.into_iter().zip(servers).map(case).collect())
}

/// Makes the figure from the reader's own traffic.
pub(super) fn own(inputs: &Inputs, own: &OwnTraffic) -> Result<Vec<Figure>, ReproduceError> {
    let server = server(inputs)?;
    let servers = SLOPES.map(|slope| variant(&server, slope).map(|server| (slope, server)));
    let servers = servers.into_iter().collect::<Result<Vec<_>, _>>()?;
    let case = |(slope, server)| {
        let name = format!("{slope} cycles per byte");
        (name, own::Case::new(server, Application::Ipv4))
    };
    let cases: Vec<_> = servers.iter().map(|(slope, server)| case((slope, server))).collect();
    own::compared(
        inputs,
        own,
        ("fig15-lengths", "Figure 15 with packets whose cost rises with length"),
        &cases,
    )
}

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let cases = cases(inputs)?;
    let mut table = Table::new([
        "cycles_per_byte",
        "interrupt_delivery_us",
        "wake_up_work_us",
        "saving_over_napi_percent",
        "saving_over_click_percent",
        "click_latency_mean_us",
        "powersave_latency_mean_us",
        "calibrated_powersave_latency_p99_highest_us",
        "powersave_core_changes",
    ]);
    for case in &cases {
        let fastest = case.server.processor.highest_frequency();
        table.numbers([
            case.slope,
            1e6 * case.server.wake_up.delivery_seconds,
            1e6 * case.server.wake_up_work(fastest).as_seconds(),
            case.saving(1),
            case.saving(0),
            case.mean(0),
            case.mean(2),
            case.tail(),
            case.reports[2].core_changes as f64,
        ]);
    }
    let chart = Chart::new(
        "Savings of IPv4 over the extra cost of longer packets",
        Axis::new("cycles for each byte beyond 64"),
        Axis::new("saving over NAPI-Click (%)").range(0.0, 40.0),
    )
    .series("PowerSave", Mark::LineAndPoints, cases.iter().map(|it| (it.slope, it.saving(1))))
    .band("printed, of four applications", printed_pair("PS-117").0, printed_pair("PS-117").1);
    Ok(vec![Figure {
        id: "fig15-lengths",
        title: "Figure 15 with packets whose cost rises with length, IPv4".into(),
        about: format!(
            "Simulated, a day of {SECONDS} s. Section 3 gives the cost of 64-byte packets, and NAPI-Click's 22 % for \
             1024 bytes. In the server's file the cost of IPv4 does not depend on the length, which is assumed. Here \
             each byte beyond 64 costs extra. A smaller part of the 5 µs of an interrupt is then work, so that \
             NAPI-Click's 22 % at 40 Gbps and its 12 µs still hold. So no printed figure excludes the printed \
             savings. But packets of {BYTES} bytes are then slower to serve, cores change more often with our c_up \
             and c_down, and the tail of Figure 16 is not met. The paper's c_up and c_down, which it does not print, \
             may give both."
        ),
        table,
        plots: vec![chart.svg()],
        checks: checks(&cases)?,
    }])
}

/// These checks answer no claim: they show what follows from an assumption.
fn checks(cases: &[Case]) -> Result<Vec<Check>, ReproduceError> {
    let plan = planned::made_for(Paper::Powersave)?;
    let Some(case) = cases.iter().find(|case| case.saving(1) <= printed_pair("PS-117").1 + 2.0)
    else {
        return Ok(Vec::new());
    };
    let name = format!("{} cycles per byte", case.slope);
    Ok(vec![
        plan.check("saving-napi-lengths", &[case.saving(1)])?.of(&name),
        plan.check("saving-click-lengths", &[case.saving(0)])?.of(&name),
        plan.check("tail-lengths", &[case.tail()])?
            .of(&name)
            .note(format!("cores change {} times in this day", case.reports[2].core_changes)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_expensive_bytes_keep_the_figures_of_section_3() {
        let shipped = server(&Inputs::default()).unwrap();
        let fastest = shipped.processor.highest_frequency();
        let set_up = |server: &ServerModel| {
            server.wake_up.delivery_seconds + server.wake_up_work(fastest).as_seconds()
        };
        for slope in SLOPES {
            let own = variant(&shipped, slope).unwrap();
            let cycles = |server: &ServerModel, bytes| {
                cost(server, Application::Ipv4, bytes).unwrap().cycles
            };
            assert!((cycles(&own, SHORT) - cycles(&shipped, SHORT)).abs() < 1e-9, "{slope}");
            assert!((cycles(&own, LOADED) - cycles(&own, SHORT) - 960.0 * slope).abs() < 1e-9);
            let watts = napi_watts(&own).unwrap();
            assert!((watts - napi_watts(&shipped).unwrap()).abs() < 1e-6, "{slope}: {watts}");
            assert!((set_up(&own) - set_up(&shipped)).abs() < 2e-12, "{slope}");
            assert!(own.wake_up.delivery_seconds >= shipped.wake_up.delivery_seconds - 1e-12);
        }
    }
}
