//! Prints the results to which the parameters of a request server were fitted: the statements of
//! Co-PI's Figures 3 and 4 (named in `crates/reproduce/published/checks/copi.toml`). Run it after a change of
//! `crates/server/servers/xeon-silver-4108.toml`.

use wattline_policies::POLICIES;
use wattline_server::ServerFile;
use wattline_sim::requests::{RequestReport, RequestSetting, run_requests};
use wattline_traffic::requests::{RequestSpec, Workload};
use wattline_units::Span;

const SEED: u64 = 1;

fn main() {
    let seconds: f64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(0.5);
    let name = std::env::args().nth(3).unwrap_or_else(|| "xeon-silver-4108".into());
    let file = ServerFile::load(&name).expect("a server file");
    let server = file.requests().expect("complete");
    let run = |workload: Workload, rate: f64, policy: &str, cores| -> RequestReport {
        let mut requests = RequestSpec::new(workload, rate);
        if let Some(burst) = std::env::args().nth(2).and_then(|s| s.parse().ok()) {
            requests.burst = burst;
        }
        let setting = RequestSetting {
            server,
            requests,
            policy: POLICIES.parse(policy).expect("a policy"),
            duration: Span::from_seconds(seconds),
            warmup: Span::from_millis(100),
            seed: SEED,
            cores,
        };
        run_requests(&setting).expect("runs")
    };
    let periods = [6, 10, 16, 26, 50, 84, 124, 200, 300, 400, 600, 800, 1022];
    for rate in Workload::Memcached.published_loads() {
        println!("memcached {rate}: P95 in ms (- not sustained), power");
        for state in 0..11 {
            let ghz = 1.8 - 0.1 * f64::from(state);
            print!("P{state:<2}");
            let mut watts = Vec::new();
            for period in periods {
                let policy =
                    format!("napi:frequency_ghz={ghz:.1},idle=deepest,moderation={period}us");
                let report = run(Workload::Memcached, rate, &policy, Some(1));
                if report.sustained {
                    print!("{:7.2}", report.latency_p95_seconds.unwrap_or(0.0) * 1e3);
                    watts.push(report.power_watts);
                } else {
                    print!("      -");
                }
            }
            let most = watts.iter().copied().fold(0.0, f64::max);
            let least = watts.iter().copied().fold(f64::INFINITY, f64::min);
            println!("  W {least:.2} to {most:.2}");
        }
    }
    for workload in Workload::ALL {
        for rate in workload.published_loads() {
            for policy in ["performance+ixgbe", "ondemand+ixgbe"] {
                let report = run(workload, rate, policy, None);
                println!(
                    "{workload} {rate} {policy}: P95 {:.3} ms, {:.2} W, mean P{:.2}, P0 {:.2}, period {:.1} us, interrupts {:.2}, busy {:.2} + {:.2}",
                    report.latency_p95_seconds.unwrap_or(0.0) * 1e3,
                    report.power_watts,
                    report.mean_state(),
                    report.frequency_shares[10],
                    report.period_mean_seconds * 1e6,
                    report.interrupts_per_request.unwrap_or(0.0),
                    report.cores[0].application,
                    report.cores[0].kernel,
                );
            }
        }
    }
}
