//! PowerSave: every figure from the simulator, except the history of Figure 2 and the diagram of
//! Figure 13.

mod applications;
mod baseline;
mod bench;
mod breakdown;
mod bursts;
mod controller;
mod day;
mod driven;
mod grid;
mod idle_states;
mod ladder;
mod latency;
mod lengths;
mod load_and_power;
mod methods;
mod own;
pub mod readings;
mod rules;
mod sleep;
mod trains;

use crate::step::Step;

pub(super) use idle_states::judged_sets;

pub(super) const STEPS: &[Step] = &[
    Step::new("powersave: the server and the rules", &["model"], rules::figures),
    Step::new("powersave: knobs, traffic and methods", &["methods"], methods::figures),
    Step::new("powersave: Figure 1", &["fig1"], breakdown::figures),
    Step::new("powersave: Figure 3", &["fig3"], baseline::figures).own(baseline::own),
    Step::new(
        "powersave: Figures 4, 5, 6, 8, 9",
        &["fig4", "fig5", "fig6", "fig8", "fig9"],
        grid::figures,
    ),
    Step::new(
        "powersave: Figures 7, 10, 11, Table 1",
        &["fig7", "table1", "fig10", "fig11"],
        sleep::figures,
    ),
    Step::new("powersave: Figure 12", &["fig12"], ladder::figures).own(ladder::own),
    Step::new("powersave: Figure 12, the controller", &["fig12-controller"], controller::figures)
        .own(controller::own),
    Step::new("powersave: Figures 14 to 16", &["fig14", "fig15", "fig16"], load_and_power::figures)
        .own(own::load_and_power),
    Step::new(
        "powersave: Figure 15 with measured costs",
        &["fig15-measured"],
        applications::figures,
    )
    .own(applications::own),
    Step::new(
        "powersave: Figure 15 with dearer long packets",
        &["fig15-lengths"],
        lengths::figures,
    )
    .own(lengths::own),
    Step::new("powersave: Figure 16 with trains", &["fig16-trains"], trains::figures)
        .own(trains::own),
    Step::new("powersave: Figure 17", &["fig17"], bursts::figures).own(bursts::own),
];
