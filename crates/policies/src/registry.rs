//! The list of policies, and the only place to add a new one.

use crate::*;
use wattline_policy::Registry;

/// All policies, baselines first.
pub static POLICIES: Registry = Registry::new(&[
    poll::INFO,
    napi::INFO,
    performance::INFO,
    powersave_governor::INFO,
    ondemand::INFO,
    conservative::INFO,
    schedutil::INFO,
    intel_pstate::INFO,
    hardware_pstates::INFO,
    dpdk_power::INFO,
    l3fwd_power::INFO,
    ovs_sleep::INFO,
    vpp_adaptive::INFO,
    grout_sleep::INFO,
    grout_autoscale::INFO,
    metronome::INFO,
    rsspp::INFO,
    shenango::INFO,
    snabb::INFO,
    cndp_idle::INFO,
    hare::INFO,
    tortoise::INFO,
    table::INFO,
    oracle::INFO,
    queue_length::INFO,
    copi::INFO,
    wattline::INFO,
]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, server};
    use wattline_policy::{BuildContext, build};
    use wattline_server::Application;

    #[test]
    fn every_policy_builds_with_its_defaults_and_decides() {
        let model = server();
        let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
        for info in POLICIES.iter() {
            let mut bench = Bench::new();
            // As in the request simulator.
            bench.platform.can.driver_rules = true;
            let context = BuildContext {
                platform: &bench.platform,
                server: Some(&model),
                packet: Some((cost, 64)),
                seed: 1,
            };
            let spec = POLICIES.parse(info.name).unwrap();
            let policy = build(&spec, &context).unwrap();
            bench.begin(policy);
            assert!(!bench.point.active.is_empty(), "{}", info.name);
        }
    }
}
