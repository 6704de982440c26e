//! `--dashboard`: a running router, server or demonstration in a browser.

use crate::govern::running::Machine;
use crate::metrics::{free_port, get, router_with};
use crate::program::{ended_with, wattline};
use std::process::{Command, Stdio};
use wattline_needs::browser::{Browser, look};
use wattline_needs::until;

#[test]
fn a_router_on_emulated_cores_is_shown_with_its_watts_and_decisions() {
    let Some(mut browser) = Browser::start("a router's dashboard") else { return };
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let at = format!("127.0.0.1:{port}");
    let power = "[power]\nplatform = \"scale\"\nscale = 100\n";
    let _router = router_with(folder.path(), free_port(), power, &["--dashboard", &at]);
    until("the dashboard answers", || get(port, "/state.json"));
    let ready = "document.querySelectorAll('#charts canvas').length >= 4 && !!document.getElementById('changes')";
    let wrong = look(&mut browser, "router", &format!("http://{at}/"), ready);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let text = browser.text();
    for shown in [
        "Wattline router on ",
        "emulated",
        "queue-length",
        "100 times slower",
        "cpu-cores",
        "no rate was measured yet",
    ] {
        assert!(text.contains(shown), "{shown:?} is missing in\n{text}");
    }
}

#[test]
fn a_governed_server_is_shown_with_its_frequencies_and_its_rule() {
    let Some(mut browser) = Browser::start("a governor's dashboard") else { return };
    let mut machine = Machine::new();
    let port = free_port();
    let at = format!("127.0.0.1:{port}");
    machine.start_with("latency_target = \"1ms\"\n", &["--dashboard", &at]);
    until("the dashboard answers", || get(port, "/state.json"));
    let wrong = look(
        &mut browser,
        "governor",
        &format!("http://{at}/"),
        "!!document.getElementById('chart-frequency') && !!document.getElementById('changes')",
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let text = browser.text();
    for shown in [
        "Wattline governor on ",
        "overruled: silent-source",
        "hardware",
        "3.3 GHz",
        "a source of latency is silent",
    ] {
        assert!(text.contains(shown), "{shown:?} is missing in\n{text}");
    }
    machine.signal("-TERM");
    assert_eq!(machine.ended(), Some(0), "{}", machine.log());
    assert!(machine.is_as_before());
}

/// Two days and the packets in memory, or between namespaces where the test is root: the same page all
/// the time.
#[test]
fn a_demonstration_is_shown_through_all_its_stages() {
    let Some(mut browser) = Browser::start("a demonstration's dashboard") else { return };
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let at = format!("127.0.0.1:{port}");
    let mut demo = Command::new(wattline_needs::program());
    demo.args(["demo", "--policies", "poll,queue-length", "--duration", "5s", "--load", "10%"]);
    demo.args(["--size", "1514", "--compare-duration", "2s", "--dashboard", &at, "--out"]);
    demo.arg(folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let demo = demo.spawn().unwrap();
    until("the dashboard answers", || get(port, "/state.json"));
    let url = format!("http://{at}/");
    let day = |policy: &str| {
        format!(
            "document.getElementById('stage').textContent.includes('under {policy}:') \
             && document.querySelectorAll('#tiles div').length > 4"
        )
    };
    let compared = "document.getElementById('stage').textContent.startsWith('Stage 3 of') \
                    && document.querySelectorAll('#stages tbody tr').length >= 2";
    let mut wrong = Vec::new();
    browser.open(&url);
    for (stage, ready) in [
        ("poll", day("poll")),
        ("queue-length", day("queue-length")),
        ("compared", compared.to_owned()),
    ] {
        browser.until(&ready);
        browser.picture(&format!("demo-dashboard-{stage}"), true);
        wrong.extend(browser.complaints());
        let text = browser.text();
        match stage {
            "compared" => assert!(text.contains("a day under queue-length"), "{text}"),
            _ => {
                for shown in ["500 times slower", "emulated, static", "all links", "cpu-cores"] {
                    assert!(text.contains(shown), "{stage}: {shown:?} is missing in\n{text}");
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let output = demo.wait_with_output().unwrap();
    ended_with(&output, 0, &[&format!("dashboard at http://{at}/")]);
}

#[test]
fn an_address_that_others_reach_needs_to_be_allowed_and_nothing_is_begun_before() {
    for (arguments, code, words) in [
        (&["run", "/nowhere.toml", "--dashboard", "0.0.0.0:9418"][..], 2, "--dashboard-remote"),
        (&["govern", "--dashboard", "[::]:9418"], 2, "ssh -L"),
        (&["demo", "--dashboard", "0.0.0.0:9418"], 2, "--dashboard-remote"),
        (&["govern", "--dashboard-remote"], 2, "--dashboard <ADDRESS>"),
        (&["run", "/nowhere.toml", "--dashboard", "localhost"], 2, "invalid"),
    ] {
        ended_with(&wattline(arguments), code, &[words]);
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    ended_with(&wattline(&["govern", "--dashboard", &at]), 69, &[&at]);
}
