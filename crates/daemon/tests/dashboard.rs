//! The dashboard in a browser.

use serde_json::json;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use wattline_daemon::dashboard::Place;
use wattline_needs::browser::{Browser, look};
use wattline_status::{
    Accuracy, Decision, DemonstrationStats, Knob, KnobSteps, Latency, LinkStats, ModelCore,
    PortCounters, PortState, PortStats, Power, RouterStats, Source, StageResult, Stages, Stats,
    Waiting, WorkerStats,
};

/// Name of an interface that changes the page unless it is escaped.
const HOSTILE: &str =
    "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>";

fn owned(name: &str) -> String {
    name.to_owned()
}

/// Returns the power of a daemon that forwards more each second; some of its names are malicious.
fn power(seconds: u64, wave: f64) -> Power {
    let change = |number, at_seconds, cores_active, hertz, reason| Decision {
        number,
        at_seconds,
        cores_active,
        frequency_hertz: Some((hertz, hertz)),
        wait: Waiting::Sleep,
        nap_seconds: Some(2e-5),
        reason: owned(reason),
    };
    let parts = [("cpu-cores", 40.0 + 20.0 * wave), ("memory", 12.0), ("nics", 30.5)];
    Power {
        policy: owned("queue-length"),
        power_watts: Some(131.5 + 20.0 * wave),
        source: Source::Emulated,
        accuracy: Accuracy::Static,
        frequency_hertz: vec![1.6e9 + 1e8 * wave; 12],
        cores_active: 3,
        power_by_component_watts: parts.map(|(name, watts)| (owned(name), watts)).into(),
        power_rest_watts: Some(49.0),
        energy_joules: Some(131.5 * seconds as f64),
        scale: Some(500),
        latency: Latency {
            latency_p50_seconds: Some(9e-6),
            latency_p95_seconds: Some(2e-5),
            latency_p99_seconds: Some(5e-5 * wave + 1e-6),
            ..Latency::default()
        },
        decisions: 12,
        knobs: vec![KnobSteps {
            knob: Knob::Frequency,
            steps: 9,
            altered: 1,
            foreign: 0,
            failed: 1,
            last_problem: Some(owned(HOSTILE)),
            effective: true,
        }],
        last_changes: vec![
            change(1, 1.0, 3, 1.6e9, "queues stayed above q_h"),
            change(2, 3.25, 2, 2.4e9, HOSTILE),
        ],
        ..Power::default()
    }
}

fn wave(seconds: u64) -> f64 {
    1.0 + (seconds as f64 * 0.7).sin()
}

/// Returns a router with such a governor.
fn router(seconds: u64) -> RouterStats {
    let wave = wave(seconds);
    let packets = seconds * 400_000 + (50_000.0 * wave) as u64;
    let core = |number: u64| WorkerStats {
        active: number < 3,
        received: packets / 3,
        useful_cycles: 30 * packets,
        empty_cycles: 10 * packets,
        sleeping_cycles: 80 * packets,
        sleeps: packets / 100,
        ..WorkerStats::default()
    };
    let port = |name, received_packets, receive_ring_full, transmitted_packets| PortStats {
        name: owned(name),
        state: Some(PortState::Up),
        counters: PortCounters {
            received_packets,
            receive_ring_full,
            transmitted_packets,
            ..PortCounters::default()
        },
        ..PortStats::default()
    };
    RouterStats {
        uptime_seconds: seconds as f64,
        dropped: [("no-route", packets / 10), ("ttl", seconds), (HOSTILE, 3 * seconds)]
            .map(|(reason, count)| (owned(reason), count))
            .into(),
        ports: vec![port("left", packets, 5, 0), port(HOSTILE, 0, 0, packets - packets / 10)],
        workers: (0..12).map(core).collect(),
        power: Some(power(seconds, wave)),
        ..RouterStats::default()
    }
}

/// Returns a stage of a demonstration with such a governor, or `None` between two stages.
fn demonstration(seconds: u64, number: usize) -> DemonstrationStats {
    let wave = wave(seconds);
    let packets = seconds * 400_000 + (50_000.0 * wave) as u64;
    let done = |number: usize| StageResult {
        stage: format!("a day under {HOSTILE} {number}"),
        offered_packets: 1_234_567,
        power_watts: Some(201.25),
        source: Some(owned("emulated")),
        latency_p99_seconds: Some(5.5e-5),
        ..StageResult::default()
    };
    let core = |number: u64| ModelCore {
        active: number < 3,
        received: packets / 3,
        busy_seconds: 0.25 * seconds as f64,
        idle_seconds: 0.75 * seconds as f64,
        sleeps: packets / 100,
    };
    let link = |name, received_packets, receive_ring_full, transmitted_packets| LinkStats {
        name: owned(name),
        state: owned("up"),
        received_packets,
        receive_ring_full,
        transmitted_packets,
    };
    let between = number == 2;
    let mut stats = DemonstrationStats {
        uptime_seconds: seconds as f64,
        stages: Some(Stages {
            number,
            of: 3,
            name: format!("a day under {HOSTILE}"),
            meanwhile: between.then(|| owned("the same day in the simulator")),
            progress_ratio: (!between).then_some(0.425),
            done: (1..number).map(done).collect(),
        }),
        ..DemonstrationStats::default()
    };
    if !between {
        let links = vec![link("left", packets, 5 + seconds, 0), link(HOSTILE, 0, 0, packets)];
        stats.ports = Some(links);
        stats.workers = (0..12).map(core).collect();
        stats.power = Some(power(seconds, wave));
    }
    stats
}

fn serve(stats: impl Fn() -> Option<Stats> + Send + 'static) -> SocketAddr {
    let place = Place { address: SocketAddr::from(([127, 0, 0, 1], 0)), remote: false };
    let opened = place.open().unwrap();
    let address = opened.address();
    opened.serve("edge", stats).unwrap();
    address
}

const CHARTS: &str = "document.querySelectorAll('#charts canvas').length >= 6";

#[test]
fn page_shows_the_daemon_wide_and_narrow_light_and_dark() {
    let Some(mut browser) = Browser::start("dashboard") else { return };
    let seconds = AtomicU64::new(10);
    let silent = Arc::new(AtomicBool::new(false));
    let hush = Arc::clone(&silent);
    let address = serve(move || {
        let stats = router(seconds.fetch_add(1, Ordering::Relaxed));
        (!silent.load(Ordering::Relaxed)).then(|| Stats::Router(Box::new(stats)))
    });
    let url = format!("http://{address}/");
    let wrong = look(&mut browser, "dashboard", &url, CHARTS);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    let text = browser.text();
    for shown in [
        "edge",
        "live, running for",
        "kpps",
        "emulated, static",
        "queue-length",
        "3 of 12",
        "queues stayed above q_h",
        "3 → 2 cores",
        "in force: ",
        "1.6 GHz → 2.4 GHz",
        "cpu-cores",
        "no-route",
        "500 times slower",
        "99 % within",
    ] {
        assert!(text.contains(shown), "{shown:?} is missing in\n{text}");
    }
    assert!(text.contains(HOSTILE), "hostile names are shown as text:\n{text}");
    assert_eq!(browser.value("document.title"), "Wattline: edge");
    assert_eq!(browser.value("document.querySelectorAll('img, main script').length"), 0);
    let label = "document.querySelector('#chart-watts [role=img]').getAttribute('aria-label')";
    let label = browser.value(label);
    assert!(label.as_str().is_some_and(|text| text.contains("Power now: all 1")), "{label}");

    // The page is live: more points arrive without interaction.
    let points = browser.value("points.length").as_u64().unwrap();
    browser.until(&format!("points.length > {points} + 1"));
    let drawn = "(() => { const c = document.querySelector('#chart-rates canvas'); \
                 return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v); })()";
    assert_eq!(browser.value(drawn), true, "something is drawn");

    hush.store(true, Ordering::Relaxed);
    browser.until("document.getElementById('state').className === 'lost'");
    assert!(browser.text().contains("it does not answer"));
    hush.store(false, Ordering::Relaxed);
    browser.until("document.getElementById('state').className === ''");
}

#[test]
fn without_a_governor_there_is_no_power_and_no_empty_chart() {
    let Some(mut browser) = Browser::start("dashboard without a governor") else { return };
    let seconds = AtomicU64::new(10);
    let address = serve(move || {
        let mut stats = router(seconds.fetch_add(1, Ordering::Relaxed));
        stats.power = None;
        Some(Stats::Router(Box::new(stats)))
    });
    let ready = "document.querySelectorAll('#charts figure').length === 3";
    let wrong = look(&mut browser, "dashboard-plain", &format!("http://{address}/"), ready);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let text = browser.text();
    assert!(!text.contains("Power") && !text.contains("Decisions"), "{text}");
}

/// Shows one stage after the other, with nothing between them.
#[test]
fn demonstration_shows_the_running_stage_and_earlier_results() {
    let Some(mut browser) = Browser::start("dashboard of a demonstration") else { return };
    let seconds = AtomicU64::new(10);
    let stage = Arc::new(AtomicUsize::new(1));
    let now = Arc::clone(&stage);
    let address = serve(move || {
        let number = stage.load(Ordering::Relaxed);
        let seconds = seconds.fetch_add(1, Ordering::Relaxed);
        Some(Stats::Demonstration(Box::new(demonstration(seconds, number))))
    });
    let url = format!("http://{address}/");
    let wrong = look(&mut browser, "dashboard-stages", &url, CHARTS);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let text = browser.text();
    assert!(text.contains(&format!("Stage 1 of 3: a day under {HOSTILE}: 43 % over")), "{text}");
    assert!(!text.contains("Stages that are over"), "{text}");

    now.store(2, Ordering::Relaxed);
    browser.until("document.getElementById('stage').textContent.includes('in the simulator')");
    browser.until("document.querySelectorAll('#tiles div').length === 0");
    assert!(browser.text().contains("201.3 W, emulated"), "{}", browser.text());

    now.store(3, Ordering::Relaxed);
    browser.until("document.querySelectorAll('#stages tbody tr').length === 2");
    browser.until("document.querySelectorAll('#tiles div').length > 3 && begins.length === 2");
    let broken = "charts.get('rates').plot.data[1].filter(v => v === null).length";
    assert_eq!(browser.value(broken), 1, "no line leads from one stage to the next");
    let texts = "[units(1.3e-12, 'W'), units(-4e-13, 'W'), units(0.607, ''), units(0, ''), units(2e-9, 'W')]";
    let texts = browser.value(texts);
    assert_eq!(texts, json!(["0 W", "0 W", "0.607", "0", "2 nW"]), "{texts}");
    browser.picture("dashboard-stages-third", true);
    let wrong = browser.complaints();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(browser.value("document.querySelectorAll('img, main script').length"), 0);
}

/// Starts another server on this machine: another port is another origin.
fn other_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let page = "<!doctype html><title>evil</title>";
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n{page}",
                page.len()
            );
        }
    });
    address
}

#[test]
fn a_page_of_another_origin_gets_nothing() {
    let Some(mut browser) = Browser::start("dashboard and another origin") else { return };
    let address = serve(|| Some(Stats::Router(Box::new(router(1)))));
    browser.open(&format!("http://{}/", other_server()));
    for path in ["events", "state.json"] {
        let script = format!(
            "fetch('http://{address}/{path}').then(a => a.text()).then(t => 'read ' + t, e => 'refused')"
        );
        assert_eq!(browser.value(&script), "refused", "{path}");
    }
    let framed = format!(
        "new Promise(done => {{ const f = document.createElement('iframe'); f.src = 'http://{address}/'; \
         f.onload = () => {{ try {{ done(String(f.contentDocument)) }} catch (e) {{ done('closed') }} }}; \
         document.body.append(f); }})"
    );
    assert_ne!(browser.value(&framed), "[object HTMLDocument]");
    let complaints = browser.complaints().join("\n");
    assert!(complaints.contains("frame-ancestors"), "{complaints}");
}
