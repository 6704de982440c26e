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

use crate::step::{Context, Step};
use wattline_report::Verdict::{FigureLost, NotTestable};

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

const MOTIVE: &str = "a motive of the paper, about other networks or systems";
const WORKS: &str = "describes how hardware works; nothing that the model could meet or miss";

pub(super) const CONTEXT: &[Context] = &[
    ("PS-002", None, NotTestable, MOTIVE),
    ("PS-003", None, NotTestable, MOTIVE),
    ("PS-004", None, NotTestable, MOTIVE),
    ("PS-005", None, NotTestable, MOTIVE),
    ("PS-008", None, NotTestable, MOTIVE),
    ("PS-010", None, NotTestable, MOTIVE),
    ("PS-014", None, NotTestable, WORKS),
    ("PS-015", None, NotTestable, "six memory modules: the model has memory as one component"),
    ("PS-017", None, NotTestable, "the paper's measuring method"),
    (
        "PS-019",
        None,
        NotTestable,
        "counts the instruments on the paper's bench; `wattline meter` reads a whole server and a card's rails too",
    ),
    ("PS-020", None, NotTestable, "eight fans: the model has them as one component"),
    ("PS-021", None, NotTestable, "the paper's measuring method"),
    ("PS-022", None, NotTestable, "software of the paper's server"),
    ("PS-043", None, FigureLost, "a history of other machines (SPECpower), not of this one"),
    ("PS-051", None, NotTestable, WORKS),
    (
        "PS-052",
        None,
        NotTestable,
        "the cost of caches that are cold after C3 is not printed; Figure 10 counts none, and any would widen the \
         gap in which PS-085 differs",
    ),
    ("PS-054", None, NotTestable, WORKS),
    ("PS-063", None, NotTestable, "the paper's measuring method; Figures 4 to 9 here do the same"),
    ("PS-084", None, NotTestable, "a stray number from the axis of a lost figure"),
    ("PS-093", None, NotTestable, "an alternative that the paper rejects, without a figure"),
    (
        "PS-102",
        None,
        FigureLost,
        "c_up and c_down are not in the text; ours are listed by `wattline policies`",
    ),
    (
        "PS-103",
        None,
        FigureLost,
        "the batch's length is not in the text; ours is listed by `wattline policies`",
    ),
    ("PS-110", None, NotTestable, "the paper's generator"),
    ("PS-127", None, NotTestable, "the paper's traffic; Figure 17 here has the same"),
];
