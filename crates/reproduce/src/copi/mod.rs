//! Co-PI: V/F state and interrupt rate together, for servers on the kernel's stack.
//!
//! The figures are images, and the paper prints neither costs nor watts. Parts of the server are
//! therefore fitted. `crates/reproduce/published/checks/copi.toml` names them and was written before the model.
//! Figures 6 to 11 come from seeds on which nothing was fitted.

mod compare;
mod cross;
mod defaults;
mod idle_states;
mod ranges;
mod runs;
mod sets;
mod settings;
mod shares;
mod tables;
mod traces;

use crate::step::Step;

pub(super) use sets::judged_sets;

pub(super) const STEPS: &[Step] = &[
    Step::new("copi: settings and rules", &["settings"], settings::figures),
    Step::new("copi: latency of every request", &["fig1", "fig2"], traces::figures),
    Step::new("copi: ranges by interrupt rate", &["fig3", "fig4"], ranges::figures),
    Step::new("copi: profiles, full and sparse", &["profiles"], tables::figures),
    Step::new("copi: memcached under three policies", &["fig8", "fig9"], shares::memcached),
    Step::new("copi: nginx under three policies", &["fig10", "fig11"], shares::nginx),
    Step::new("copi: latency and energy", &["fig6", "fig7"], compare::figures),
    Step::new("copi: fitted on one server, judged by the other", &["cross"], cross::figures),
    Step::new("copi: other defaults of the driver", &["defaults"], defaults::figures),
    Step::new("copi: accepted sets", &["sets"], sets::figures),
    Step::new("copi: idle state as third dimension", &["idle-states"], idle_states::figures),
];

#[cfg(test)]
mod tests {
    use crate::paper::Paper;
    use crate::planned;
    use wattline_traffic::requests::Workload;

    #[test]
    fn every_planned_check_is_made_somewhere() {
        let code = [
            include_str!("compare.rs"),
            include_str!("ranges.rs"),
            include_str!("settings.rs"),
            include_str!("shares.rs"),
            include_str!("tables.rs"),
            include_str!("traces.rs"),
        ]
        .concat();
        let savings: Vec<String> = [Workload::Memcached, Workload::Nginx]
            .into_iter()
            .flat_map(|workload| ["low", "medium", "high"].map(|load| (workload, load)))
            .flat_map(|(workload, load)| super::compare::saving_ids(workload, load))
            .collect();
        for check in &planned::made_for(Paper::Copi).unwrap().checks {
            let named = code.contains(&format!("\"{}\"", check.id));
            assert!(named || savings.contains(&check.id), "{}", check.id);
        }
    }

    #[test]
    fn settings_and_rules_match_the_paper() {
        use wattline_report::Verdict;
        let figures = super::settings::figures(&crate::inputs::Inputs::default()).unwrap();
        for check in &figures[0].checks {
            let contradiction = check.claims.contains(&"CP-052");
            let expected =
                if contradiction { Verdict::PaperContradictsItself } else { Verdict::Meets };
            assert_eq!(check.verdict, expected, "{}: {}", check.quantity, check.ours);
        }
    }
}
