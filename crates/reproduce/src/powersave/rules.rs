//! The server's parameters, the controller's rules, and the simulator against the closed form.

use super::bench::{Steady, all, ipv4, napping, server};
use crate::error::ReproduceError;
use crate::figure::Figure;
use wattline_policy::{CoreSet, IndirectionTable, find};
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_report::{Check, Grounds, Table};
use wattline_server::{DvfsDomain, ServerModel};
use wattline_units::PacketsPerSecond;

pub(super) fn figures() -> Result<Vec<Figure>, ReproduceError> {
    let server = server()?;
    let mut checks = parameters(&server);
    checks.extend(rules());
    let (table, chart, model) = closed_form(&server)?;
    checks.extend(model);
    Ok(vec![Figure {
        id: "model",
        title: "The server's model and PowerSave's rules".into(),
        about:
            "Parameters as shipped in crates/server/servers/westmere-2010.toml; the fitted closed form against \
                the simulator, where the same powers come out of single wake-ups and batches \
                (Poisson arrivals of 64-byte packets)."
                .into(),
        table,
        plots: vec![chart.svg()],
        checks,
    }])
}

fn parameters(server: &ServerModel) -> Vec<Check> {
    let processor = &server.processor;
    let gigahertz: Vec<f64> = processor.frequencies.iter().map(|f| f.gigahertz()).collect();
    let has = |wanted: f64| gigahertz.iter().any(|f| (f - wanted).abs() < 1e-3);
    let nic = &server.nic;
    let checks = vec![
        Check::near(&["PS-011"], "processors", processor.sockets as f64, 2.0, 0.0),
        Check::near(
            &["PS-012"],
            "cores of a processor",
            processor.cores_per_socket as f64,
            6.0,
            0.0,
        ),
        Check::near(
            &["PS-013"],
            "highest frequency (GHz)",
            processor.highest_frequency().gigahertz(),
            3.3,
            0.05,
        ),
        Check::near(&["PS-016", "PS-024"], "ports of 10 Gbps", nic.ports as f64, 4.0, 0.0),
        Check::near(&["PS-055"], "P-states", gigahertz.len() as f64, 14.0, 0.0),
        Check::holds(
            &["PS-056"],
            "1.6, 2.4, 3.2 and 3.333 GHz are among them",
            [1.6, 2.4, 3.2, 3.3333].into_iter().all(has),
            "steps of 133.3 MHz",
            "1.6 to 3.3 GHz",
        ),
        Check::holds(
            &["PS-057"],
            "one frequency for a whole processor",
            processor.dvfs == DvfsDomain::PerChip,
            "per chip",
            "per chip",
        ),
        Check::holds(
            &["PS-023"],
            "a receive queue for every core on every port",
            nic.queues_per_port >= processor.cores(),
            format!("{} queues, {} cores", nic.queues_per_port, processor.cores()),
            "n cores, n queues",
        ),
        Check::near(
            &["PS-104"],
            "entries of the indirection table",
            nic.redirect_table_entries as f64,
            128.0,
            0.0,
        ),
    ];
    checks.into_iter().map(|check| check.on(Grounds::Parameter)).collect()
}

fn rules() -> Vec<Check> {
    let default = |name: &str| {
        let policy = find("powersave");
        let parameter = policy.and_then(|p| p.parameters.iter().find(|known| known.name == name));
        parameter.and_then(|p| p.default.parse().ok()).unwrap_or(f64::NAN)
    };
    let mut widest = 0;
    let mut stray = 0;
    let mut table = IndirectionTable::new(128, CoreSet::first(1));
    for cores in (1..=12).chain((1..12).rev()) {
        table.spread(CoreSet::first(cores));
        let held =
            |core: usize| table.entries().iter().filter(|e| usize::from(**e) == core).count();
        let counts: Vec<usize> = (0..cores).map(held).collect();
        let most = counts.iter().max().copied().unwrap_or(0);
        widest = widest.max(most - counts.iter().min().copied().unwrap_or(0));
        stray += 128 - counts.iter().sum::<usize>();
    }
    let low_bits = table.core(0xffff_ff80) == table.core(0);
    let checks = vec![
        Check::near(&["PS-098"], "q_h (packets)", default("q_h"), 32.0, 0.0),
        Check::near(&["PS-099"], "q_l (packets)", default("q_l"), 4.0, 0.0),
        Check::near(
            &["PS-100"],
            "target delay: q_h at 3 Mpps (µs)",
            default("q_h") / 3.0,
            10.0,
            1.0,
        ),
        Check::near(
            &["PS-122"],
            "7 µs of polling and the target delay (µs)",
            7.0 + default("q_h") / 3.0,
            17.7,
            0.1,
        ),
        Check::near(
            &["PS-106"],
            "entries per active queue, most less least, 1 to 12 cores",
            widest as f64,
            1.0,
            0.0,
        ),
        Check::near(&["PS-106"], "entries left on inactive queues", stray as f64, 0.0, 0.0),
        Check::holds(
            &["PS-105"],
            "bits of the hash beyond the lowest seven do not matter",
            low_bits,
            "they do not",
            "7 bits",
        ),
        Check::holds(
            &["PS-093"],
            "a table policy and an oracle to compare with",
            find("table").is_some() && find("oracle").is_some(),
            "table, oracle",
            "a rejected alternative",
        ),
    ];
    checks.into_iter().map(|check| check.on(Grounds::Program)).collect()
}

/// Simulated power and the closed form over load, and the difference between them.
fn closed_form(server: &ServerModel) -> Result<(Table, Chart, Vec<Check>), ReproduceError> {
    let cost = ipv4(server)?;
    let points = [(3, 1.6), (12, 1.6), (12, 3.3333)];
    let mut runs = Vec::new();
    let mut expected = Vec::new();
    for (cores, gigahertz) in points {
        let frequency =
            server.processor.nearest_frequency(wattline_units::Hertz::from_gigahertz(gigahertz));
        let capacity = server.core_capacity(cost, cores, frequency);
        for step in 1..=9 {
            let rate = capacity * (0.1 * f64::from(step));
            runs.push(Steady::new(napping(cores, frequency, "C1"), rate.mpps()));
            let point = server.napi_point(cores, frequency);
            expected.push(server.power_terms(cost, 64, &point, PacketsPerSecond(rate.0)).total().0);
        }
    }
    let reports = all(server, &runs)?;
    let mut table = Table::new([
        "cores",
        "frequency_ghz",
        "offered_mpps",
        "simulated_watts",
        "closed_form_watts",
    ]);
    let mut chart = Chart::new(
        "Simulator against closed form, interrupt-driven cores",
        Axis::new("offered load (Mpps)").range(0.0, 30.0),
        Axis::new("power (W)").from_zero(),
    );
    let mut widest: f64 = 0.0;
    for (index, (cores, gigahertz)) in points.into_iter().enumerate() {
        let own = 9 * index..9 * (index + 1);
        let rate = |i: usize| runs[i].packets_per_second / 1e6;
        for i in own.clone() {
            table.numbers([cores as f64, gigahertz, rate(i), reports[i].power_watts, expected[i]]);
            widest = widest.max((reports[i].power_watts - expected[i]).abs());
        }
        let name = format!("{cores} × {gigahertz:.1} GHz");
        chart = chart
            .series(
                format!("{name}, closed form"),
                Mark::Line,
                own.clone().map(|i| (rate(i), expected[i])),
            )
            .series(
                format!("{name}, simulated"),
                Mark::Points,
                own.map(|i| (rate(i), reports[i].power_watts)),
            );
    }
    let whole = &reports[0];
    let checks = vec![
        Check::below(
            &["PS-133", "PS-134", "PS-135", "PS-136"],
            "widest difference of simulator and closed form (W)",
            widest,
            1.5,
        ),
        Check::near(
            &["PS-058"],
            "energy over the sum of its parts' power times time",
            whole.energy_joules
                / whole
                    .power_by_component_watts
                    .parts()
                    .iter()
                    .map(|(_, w)| w.0 * whole.duration_seconds)
                    .sum::<f64>(),
            1.0,
            1e-9,
        ),
    ];
    Ok((table, chart, checks))
}
