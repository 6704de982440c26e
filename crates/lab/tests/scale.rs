//! The platform `scale` beside the simulator: one policy, one model, the same packets.

use wattline_control::scale::Setting;
use wattline_lab::scale::{Outcome, Plan, run};
use wattline_policy::PolicySpec;
use wattline_server::{Application, ServerFile};
use wattline_sim::Report;
use wattline_traffic::Spec;
use wattline_units::Span;

fn plan(policy: &str, dilation: u32, millis: u64) -> Plan {
    let file = ServerFile::load("westmere-2010").unwrap();
    Plan {
        setting: Setting {
            server: file.model().unwrap().clone(),
            application: Application::Ipv4,
            policy: PolicySpec::parse(policy).unwrap(),
            mean_bytes: 64,
            dilation,
            seed: 1,
        },
        duration: Span::from_millis(millis),
        warmup: Span::from_millis(millis / 10),
        interval: Span::from_micros(millis * 1_000 / 10),
    }
}

fn both(plan: &Plan, traffic: &str) -> (Outcome, Report) {
    let spec = Spec::parse(traffic).unwrap();
    let scale = run(plan, spec.build(plan.setting.seed).unwrap(), |_, _| {}).unwrap();
    let setting = wattline_sim::Setting {
        server: &plan.setting.server,
        application: plan.setting.application,
        policy: plan.setting.policy.clone(),
        mean_bytes: plan.setting.mean_bytes,
        duration: plan.duration,
        warmup: plan.warmup,
        interval: None,
        seed: plan.setting.seed,
        log_states: false,
        profile: false,
    };
    let mut source = spec.build(plan.setting.seed).unwrap();
    (scale, wattline_sim::run(&setting, source.as_mut()).unwrap())
}

#[test]
fn first_look() {
    for policy in ["poll", "napi", "powersave"] {
        for rate in ["0.5", "5"] {
            let (scale, sim) = both(&plan(policy, 500, 4), &format!("poisson:{rate}Mpps,size=64"));
            let whole = &scale.record.whole;
            println!(
                "{policy} {rate}: {:?} W {} | cores {} {} | f {:.3e} {:.3e} | lat {:?} {:?} | tr {} {} | dec {} {} | off {} {}",
                whole.power_watts,
                sim.power_watts,
                whole.cores_active_mean,
                sim.cores_active_mean,
                whole.frequency_mean_hertz,
                sim.frequency_mean_hertz,
                whole.latency.map(|l| l.latency_mean_seconds),
                sim.latency_mean_seconds,
                whole.transitions,
                sim.transitions,
                whole.decisions,
                sim.decisions,
                whole.offered_packets,
                sim.offered_packets
            );
            println!(
                "   {:?} {:?} mean late {}",
                scale.delivery,
                scale.record.disturbance,
                scale.record.disturbance.lateness_mean_seconds()
            );
        }
    }
}
