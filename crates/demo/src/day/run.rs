//! Runs one policy after the other, on `scale` and in the simulator.

use super::live::Live;
use super::report::{Conditions, Day, Report};
use super::settings::Settings;
use super::{checks, figures, modern, step};
use crate::error::Error;
use crate::scale;
use crate::watch::{Done, Watch};
use wattline_policy::PolicySpec;
use wattline_scale::Setting;
use wattline_traffic::Spec;

/// Runs the day under every policy; each is a stage of `watch`.
///
/// # Errors
/// Fails when the traffic description is invalid, or when a server cannot be emulated.
pub fn run(settings: &Settings, watch: &Watch) -> Result<Report, Error> {
    let spec = settings.spec().map_err(|error| wattline_testbed::Error::Data {
        path: "traffic".into(),
        reason: error.to_string(),
    })?;
    let mut days = Vec::new();
    for policy in &settings.policies {
        days.push(day(settings, &spec, policy, watch)?);
    }
    save(&mut days);
    let conditions = Conditions::new(settings, &spec);
    let checks = checks::list(&conditions, &days);
    watch.meanwhile("the same traffic on a newer server, in the simulator");
    let modern = modern::days(settings);
    Ok(Report::new(conditions, days, modern, checks))
}

fn day(settings: &Settings, spec: &Spec, policy: &PolicySpec, watch: &Watch) -> Result<Day, Error> {
    let stage = format!("a day under {policy}");
    watch.begin(&stage);
    let scenario = settings.scenario(&settings.server, policy, spec);
    let setting = Setting {
        server: settings.server.clone(),
        application: Settings::APPLICATION,
        policy: policy.clone(),
        mean_bytes: scenario.mean_bytes(),
        dilation: settings.dilation,
        seed: settings.seed,
    };
    let plan = scale::Plan {
        setting,
        duration: settings.day(),
        warmup: settings.interval(),
        interval: settings.interval(),
    };
    let source = spec.build(settings.seed).map_err(wattline_sim::SimError::from)?;
    let mut live = Live::new(policy, settings);
    let end = (plan.warmup + plan.duration).as_seconds();
    let outcome = scale::run(&plan, source, |interval, scale| {
        live.show(interval);
        let over = (interval.from_seconds + interval.duration_seconds) / end;
        watch.publish(over, || figures::stats(interval, scale, policy.policy.name));
    })?;
    drop(live);
    let whole = &outcome.record.whole;
    watch.done(Done {
        stage,
        offered_packets: outcome.delivery.sent_packets,
        lost_packets: outcome.delivery.dropped_packets,
        power_watts: whole.power_watts,
        source: Some(whole.source.to_string()),
        latency_p99_seconds: whole.latency.map(|latency| latency.latency_p99_seconds),
        cpu_seconds_per_packet: None,
    });
    watch.meanwhile("the same day in the simulator");
    // Runs after the real packets, whose threads need this machine.
    let simulated = scenario.run()?;
    watch.meanwhile("a step of load");
    let step = step::run(settings, &plan)?;
    Ok(Day::new(policy, outcome, simulated, step))
}

/// Fills in the savings over `poll`, and over `napi` if they apply.
fn save(days: &mut [Day]) {
    let energy_of = |days: &[Day], name: &str| {
        let day = days.iter().find(|day| day.policy == name)?;
        day.outcome.record.whole.energy_joules
    };
    let (poll, napi) = (energy_of(days, "poll"), energy_of(days, "napi"));
    for day in days {
        let own = day.outcome.record.whole.energy_joules;
        let over = |other: Option<f64>, name: &str| {
            let other = other.filter(|joules| *joules > 0.0 && day.policy != name)?;
            own.map(|own| 1.0 - own / other)
        };
        (day.saving_over_poll_ratio, day.saving_over_napi_ratio) =
            (over(poll, "poll"), over(napi.filter(|_| day.policy != "poll"), "napi"));
    }
}
