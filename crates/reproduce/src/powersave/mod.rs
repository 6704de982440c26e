//! PowerSave: every figure from the simulator, except the history of Figure 2 and the diagram of
//! Figure 13.

mod applications;
mod baseline;
mod bench;
mod breakdown;
mod bursts;
mod controller;
mod day;
mod grid;
mod ladder;
mod latency;
mod lengths;
mod load_and_power;
mod own;
pub mod readings;
mod rules;
mod sleep;
mod trains;

use crate::step::{Context, Step};
use wattline_report::Verdict::{FigureLost, NotTestable};

pub(super) const STEPS: &[Step] = &[
    Step::new("powersave: the server and the rules", &["model"], rules::figures),
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
const CODE: &str = "a rule for the program; the tests of policy and simulator hold it";

pub(super) const CONTEXT: &[Context] = &[
    ("PS-002", None, NotTestable, MOTIVE),
    ("PS-003", None, NotTestable, MOTIVE),
    ("PS-004", None, NotTestable, MOTIVE),
    ("PS-005", None, NotTestable, MOTIVE),
    ("PS-008", None, NotTestable, MOTIVE),
    ("PS-009", None, NotTestable, "cores, frequency and idle states: what an operating point has"),
    ("PS-010", None, NotTestable, MOTIVE),
    ("PS-014", None, NotTestable, WORKS),
    ("PS-015", None, NotTestable, "six memory modules: the model has memory as one component"),
    ("PS-017", None, NotTestable, "the paper's measuring method"),
    ("PS-019", None, NotTestable, "the paper's measuring method"),
    ("PS-020", None, NotTestable, "eight fans: the model has them as one component"),
    ("PS-021", None, NotTestable, "the paper's measuring method"),
    ("PS-022", None, NotTestable, "software of the paper's server"),
    ("PS-025", None, NotTestable, "the paper's generators"),
    ("PS-043", None, FigureLost, "a history of other machines (SPECpower), not of this one"),
    ("PS-051", None, NotTestable, WORKS),
    ("PS-052", None, NotTestable, "caches that are cold after C3 and C6 are not in the model"),
    ("PS-053", None, NotTestable, "caches that are cold after C3 and C6 are not in the model"),
    ("PS-054", None, NotTestable, WORKS),
    ("PS-061", None, NotTestable, "a bound from the literature, which the paper refutes"),
    ("PS-063", None, NotTestable, "the paper's measuring method; Figures 4 to 9 here do the same"),
    ("PS-084", None, NotTestable, "a stray number from the axis of a lost figure"),
    ("PS-093", None, NotTestable, "an alternative that the paper rejects, without a figure"),
    ("PS-096", None, NotTestable, CODE),
    ("PS-108", None, NotTestable, CODE),
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
    ("PS-109", None, NotTestable, "the traces cannot be had; stand-ins say that they are"),
    ("PS-110", None, NotTestable, "the paper's generator"),
    ("PS-120", None, NotTestable, "the paper's measuring method"),
    ("PS-127", None, NotTestable, "the paper's traffic; Figure 17 here has the same"),
    ("PS-131", None, NotTestable, "three guiding principles, checked with Figures 7, 8 and 11"),
];
