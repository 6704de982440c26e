//! Pages of simulations, as a browser shows them.

use std::path::Path;
use wattline_league::simulated::{Requests, Simulation, Sweep, SweepRow};
use wattline_needs::browser::{Browser, look, url_of};
use wattline_policies::POLICIES;
use wattline_server::{Application, ServerFile};
use wattline_sim::requests::{RequestSetting, run_requests};
use wattline_sim::{Report, Scenario, Setting};
use wattline_traffic::Spec;
use wattline_traffic::requests::RequestSpec;
use wattline_units::Span;

const HOSTILE: &str = "<img src=x onerror=\"document.title='broken'\"></h2><h2>";

fn simulate(policy: &str, traffic: &str, seed: u64, interval: Option<Span>) -> Report {
    let file = ServerFile::load("westmere-2010").unwrap();
    let policy = POLICIES.parse(policy).unwrap();
    let setting = Setting {
        warmup: Span::from_millis(1),
        interval,
        seed,
        ..Setting::new(file.model().unwrap(), policy, Span::from_millis(8))
    };
    Scenario { setting, traffic: &Spec::parse(traffic).unwrap() }.run().unwrap()
}

fn is_fine(browser: &mut Browser, name: &str, html: &str, plots: usize, words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.html");
    std::fs::write(&path, html).unwrap();
    let ready = format!("document.querySelectorAll('svg.plot').length === {plots}");
    let wrong = look(browser, name, &url_of(Path::new(&path)), &ready);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let text = browser.text();
    for word in words {
        assert!(text.contains(word), "{name}: {word:?} is missing in\n{text}");
    }
    assert_eq!(browser.value("document.querySelectorAll('img').length"), 0);
    assert!(!html.contains("NaN") && !html.contains("inf "), "{name}");
}

#[test]
fn simulation_page_shows_outcome_course_and_reasons() {
    let Some(mut browser) = Browser::start("the page of a simulation") else { return };
    let mut report =
        simulate("queue-length", "day:8Mpps,duration=8ms", 1, Some(Span::from_micros(200)));
    let changes = std::mem::take(&mut report.last_changes);
    assert!(!changes.is_empty() && report.intervals.len() > 20);
    let texts = [HOSTILE.to_owned()];
    let html = Simulation {
        server: HOSTILE,
        policy: "queue-length",
        traffic: "day:8Mpps",
        application: "ipv4",
        seed: 1,
        variations: &[],
        notes: &texts,
        sources: &report.power_by_source,
        changes: &changes,
        command: "wattline sim --traffic day:8Mpps",
        report: &report,
    }
    .page()
    .end();
    let outcome = format!("{:.2} W at ", report.power_watts);
    let words = [
        &*outcome,
        HOSTILE,
        "Power is modelled (accuracy: static)",
        "nothing here was measured",
        "Over time",
        "Power by source",
        "Niccolini",
        "Decisions",
        "wattline sim --traffic day:8Mpps",
    ];
    is_fine(&mut browser, "sim", &html, 9, &words);
    let rows =
        browser.value("document.querySelectorAll('#section-5 ~ .scroll table')[0].rows.length");
    assert_eq!(rows.as_u64(), Some(changes.len().min(300) as u64 + 1), "a row for each decision");

    // Without packets there is no latency, and without intervals no plot over time.
    let idle = simulate("poll", "poisson:1pps,size=64", 1, None);
    let html = Simulation {
        server: "s",
        policy: "poll",
        traffic: "poisson:1pps",
        application: "ipv4",
        seed: 1,
        variations: &texts,
        notes: &[],
        sources: &[],
        changes: &[],
        command: "",
        report: &idle,
    }
    .page()
    .end();
    is_fine(&mut browser, "sim-idle", &html, 2, &["–", "0.000 of 0.000 Mpps", HOSTILE]);
}

#[test]
fn request_server_page_shows_parts_and_states() {
    let Some(mut browser) = Browser::start("the page of simulated requests") else { return };
    let file = ServerFile::load("xeon-silver-4108").unwrap();
    let report = run_requests(&RequestSetting {
        server: file.requests().unwrap(),
        requests: RequestSpec::parse("memcached:100krps").unwrap(),
        policy: POLICIES.parse("ondemand+84us").unwrap(),
        duration: Span::from_millis(40),
        warmup: Span::from_millis(10),
        seed: 1,
        cores: None,
    })
    .unwrap();
    let html = Requests {
        server: "xeon-silver-4108",
        policy: HOSTILE,
        requests: "memcached:100krps",
        seed: 1,
        notes: &[],
        changes: &[],
        command: "wattline sim --requests memcached:100krps",
        report: &report,
    }
    .page()
    .end();
    let words = ["W of the package at", "uncore", "Time of each core", "krps", HOSTILE];
    is_fine(&mut browser, "sim-requests", &html, 4, &words);
}

#[test]
fn sweep_page_shows_the_least_power_and_all_cases() {
    let Some(mut browser) = Browser::start("the page of a sweep") else { return };
    let mut reports = Vec::new();
    for policy in ["poll", "queue-length"] {
        for traffic in
            ["poisson:2Mpps,size=64", "poisson:8Mpps,size=64", "constant:1Mpps,size=1514"]
        {
            for seed in [1, 2] {
                reports.push((policy, traffic, seed, simulate(policy, traffic, seed, None)));
            }
        }
    }
    let rows: Vec<SweepRow> = (reports.iter())
        .map(|(policy, traffic, seed, report)| SweepRow {
            server: HOSTILE.to_owned(),
            policy: (*policy).to_owned(),
            traffic: (*traffic).to_owned(),
            application: Application::Ipv4,
            seed: *seed,
            report: report.clone(),
            parts: Vec::new(),
        })
        .collect();
    let html = Sweep { rows: &rows, command: "wattline sweep" }.page().end();
    let words = [
        "12 simulations of 6 cases, 6 of which lost no packet.",
        "Least power without a lost packet",
        "Means over the seeds",
        "constant,size=1514, ipv4",
        HOSTILE,
    ];
    is_fine(&mut browser, "sweep", &html, 6, &words);
    let least = "[...document.querySelectorAll('table')[0].tBodies[0].rows].map(r => r.cells[3].innerText + r.cells[6].innerText).join()";
    assert_eq!(browser.value(least), "queue-length2,queue-length2,queue-length2");

    // A capture is the same for each seed, so the interval comes from parts of its time.
    let [one, .., other] = &reports[..] else { panic!() };
    let parts = vec![one.3.clone(), other.3.clone()];
    let row = || SweepRow { parts: parts.clone(), ..rows[0].clone() };
    let rows = [row(), row()];
    let html = Sweep { rows: &rows, command: "wattline sweep" }.page().end();
    assert!(html.contains("by batch means, of 2 equal parts") && !html.contains("± 0.00"));

    // A large sweep still makes a page of bounded size.
    let many: Vec<String> = (0..2_000).map(|number| format!("poisson:{number}kpps")).collect();
    let row = |traffic| SweepRow { traffic, parts: Vec::new(), ..rows[0].clone() };
    let rows: Vec<SweepRow> = many.into_iter().map(row).collect();
    let html = Sweep { rows: &rows, command: "wattline sweep" }.page().end();
    assert!(html.len() < 1 << 20, "{} bytes", html.len());
    assert!(html.contains("The first 800 of 2000; --csv writes all."));
}
