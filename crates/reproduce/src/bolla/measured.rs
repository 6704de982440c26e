//! Figures 1 to 6: points preserved in the text, and the model's results.

use super::known::xeon_max_pps;
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned::{self, Plan};
use crate::printed::{printed, text_of};
use std::collections::BTreeSet;
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_report::{Check, Table};
use wattline_server::bolla::Chi;

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let plan = planned::made_for(Paper::Bolla)?;
    Ok(vec![platforms(plan, inputs)?, throughput(plan)?, power(plan)?, idle(plan)?])
}

/// Name, and the claims about processor, clock and memory.
const PLATFORMS: [(&str, [&str; 3]); 7] = [
    ("bolla-x", ["BO-020", "BO-021", "BO-022"]),
    ("bolla-pd", ["BO-023", "BO-024", "BO-025"]),
    ("bolla-a", ["BO-026", "BO-027", "BO-028"]),
    ("bolla-pm", ["BO-029", "BO-030", "BO-031"]),
    ("bolla-o", ["BO-032", "BO-033", "BO-034"]),
    ("bolla-c2", ["BO-035", "BO-036", "BO-037"]),
    ("bolla-a2", ["BO-038", "BO-039", "BO-040"]),
];

/// Returns the designations in a text, such as 5050, DDR2-533 or X2: words with a digit, in lower
/// case, without punctuation.
fn designations(text: &str) -> BTreeSet<String> {
    // Cells and files write "2x2 MB" and "2 x 2 MB".
    let text = text.to_lowercase().replace(" x ", "x");
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '.');
    let words = words.map(|word| word.trim_matches('.').to_owned());
    words.filter(|word| word.chars().any(|c| c.is_ascii_digit())).collect()
}

/// Returns the designations of a claim that are missing in the file.
fn lacking(claim: &str, file: &str) -> Vec<String> {
    // The number of cores after the semicolon is derived, and printed in another section.
    let printed = text_of(claim);
    let printed =
        printed.split("; ").filter(|part| !part.ends_with(" core") && !part.ends_with(" cores"));
    let file = designations(file);
    let wanted = printed.flat_map(designations).collect::<BTreeSet<_>>();
    wanted.difference(&file).cloned().collect()
}

fn platforms(plan: &'static Plan, inputs: &Inputs) -> Result<Figure, ReproduceError> {
    let mut table = Table::new([
        "platform",
        "cpu",
        "clock_ghz",
        "cache",
        "bus",
        "memory",
        "io_bus",
        "missing_figures",
    ]);
    let mut checks = Vec::new();
    for (name, claims) in PLATFORMS {
        let file = inputs.server(name)?;
        let platform = &file.platform;
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let ours = platform.clock.map_or(f64::NAN, |clock| clock.gigahertz());
        let missing = file.missing_figures("");
        table.row([
            name.into(),
            text(&platform.cpu),
            format!("{ours}"),
            text(&platform.cache),
            text(&platform.bus),
            text(&platform.memory),
            text(&platform.io_bus),
            missing.iter().map(|(field, _)| field.as_str()).collect::<Vec<_>>().join(" "),
        ]);
        let hierarchy = [&platform.cache, &platform.bus, &platform.memory, &platform.io_bus]
            .map(text)
            .join("; ");
        for (claim, file) in [(claims[0], text(&platform.cpu)), (claims[2], hierarchy)] {
            let lacking = lacking(claim, &file);
            let holds = lacking.is_empty() && !file.is_empty();
            let check = plan.holds("designations", holds, file)?.of(name).note(lacking.join(", "));
            checks.push(Check { claims: vec![claim], published: text_of(claim), ..check });
        }
        checks.push(plan.each("clock", claims[1], name, ours)?);
    }
    let count = PLATFORMS.len() as f64;
    checks.push(plan.check("number-platforms", &[count])?);
    Ok(Figure {
        id: "fig1-2",
        title: "Figures 1 and 2: the seven platforms".into(),
        about: "Both figures are lost: powers and rates by frequency and number of cores. The text \
                describes the machines and keeps a few figures (X and O above 150 W, C2 30 to 50 W, A \
                1.5 Mpps, X 1.04 Mpps with one core at 3 GHz). What is missing is left for the user to \
                supply; nothing is invented, so nothing is plotted."
            .into(),
        table,
        plots: Vec::new(),
        checks,
    })
}

fn rates() -> impl Iterator<Item = f64> {
    (0..=60).map(|i| f64::from(i) * 20_000.0)
}

fn throughput(plan: &'static Plan) -> Result<Figure, ReproduceError> {
    let mut table = Table::new(["offered_pps", "throughput_pps"]);
    for load in rates() {
        table.numbers([load, load.min(xeon_max_pps())]);
    }
    let chart = Chart::new(
        "Figure 3: throughput of one Xeon core, 3 GHz",
        Axis::new("offered load (kpps)").range(0.0, 1200.0),
        Axis::new("throughput (kpps)").range(0.0, 1200.0),
    )
    .series(
        "equation 6",
        Mark::Line,
        rates().map(|load| (load / 1e3, load.min(xeon_max_pps()) / 1e3)),
    )
    .series("printed", Mark::Published, [(printed("BO-053"), printed("BO-053"))]);
    let most = rates().map(|load| load.min(xeon_max_pps())).fold(0.0, f64::max);
    Ok(Figure {
        id: "fig3",
        title: "Figure 3: throughput over offered load".into(),
        about: "The curves of the lower frequencies are lost with the figure; section IV.B prints \
                the maximum at 3 GHz. Figure 4, latencies, is lost and the model has none."
            .into(),
        table,
        plots: vec![chart.svg()],
        checks: vec![plan.check("maximum-one-xeon", &[most / 1e3])?],
    })
}

fn power(plan: &'static Plan) -> Result<Figure, ReproduceError> {
    let (chi, corrected) = (Chi::printed(), Chi::printed().corrected());
    let load = |rate: f64| rate / xeon_max_pps();
    let mut table = Table::new(["throughput_pps", "relative_power", "relative_power_corrected"]);
    for rate in rates().filter(|rate| *rate <= xeon_max_pps()) {
        table.numbers([rate, chi.value(load(rate)), corrected.value(load(rate))]);
    }
    let line = |chi: &Chi| {
        rates()
            .filter(|rate| *rate <= xeon_max_pps())
            .map(|rate| (rate / 1e3, chi.value(load(rate))))
            .collect::<Vec<_>>()
    };
    let chart = Chart::new(
        "Figure 5: power of one Xeon core, 3 GHz",
        Axis::new("throughput (kpps)").range(0.0, 1100.0),
        Axis::new("power between idle and active").range(0.0, 1.1),
    )
    .series("equation 5, chi as printed", Mark::Line, line(&chi))
    .series("equation 5, chi corrected", Mark::Line, line(&corrected))
    .series(
        "text: about its maximum from 700 kpps on",
        Mark::Published,
        [(printed("BO-052"), 1.0)],
    );
    Ok(Figure {
        id: "fig5",
        title: "Figure 5: power over throughput".into(),
        about: "The watts are lost with the figure; between idle and active power the shape is \
                equation 5's, the same for all frequencies by construction."
            .into(),
        table,
        plots: vec![chart.svg()],
        checks: vec![plan.holds(
            "not-linear-one",
            (chi.value(0.5) - 0.5).abs() > 0.05,
            format!("chi(1/2) = {:.4}", chi.value(0.5)),
        )?],
    })
}

fn idle(plan: &'static Plan) -> Result<Figure, ReproduceError> {
    let chi = Chi::printed();
    let idle = |rate: f64| 1.0 - chi.value(rate / xeon_max_pps());
    let left = idle(1e3 * printed("BO-052"));
    let mut table = Table::new(["throughput_pps", "idle_probability"]);
    let rates = || rates().filter(|rate| *rate <= xeon_max_pps());
    for rate in rates() {
        table.numbers([rate, idle(rate)]);
    }
    let chart = Chart::new(
        "Figure 6: idle time of one Xeon core, 3 GHz",
        Axis::new("throughput (kpps)").range(0.0, 1100.0),
        Axis::new("fraction of time idle").range(-0.05, 1.0),
    )
    .series("equation 8, chi as printed", Mark::Line, rates().map(|rate| (rate / 1e3, idle(rate))))
    .series("text: near zero at 700 kpps", Mark::Published, [(printed("BO-052"), 0.0)]);
    Ok(Figure {
        id: "fig6",
        title: "Figure 6: idle time".into(),
        about: "Counts of interrupts are lost with the figure. The text's point and the printed \
                coefficients do not agree."
            .into(),
        table,
        plots: vec![chart.svg()],
        checks: vec![
            plan.check("idle-time-printed", &[left])?
                .note(format!(
                    "chi is {:.3} there with the printed coefficients, which leaves {:.0} % of the time idle; \
                     the text, about the measurement, says that none is left. The polynomial is fitted to all \
                     platforms, so the two are of different things",
                    1.0 - left,
                    100.0 * left
                )),
        ],
    })
}
