//! Result pages in a browser, as users make them. Pages of long measurements are checked by the
//! tests that measure.

use crate::program::{ended_with, wattline_in};
use std::path::Path;
use wattline_needs::browser::{Browser, View, look, url_of};

/// Largest size of a page in bytes, so that it opens at once.
const LARGEST: u64 = 1 << 20;

fn wattline(folder: &Path, arguments: &[&str]) {
    ended_with(&wattline_in(folder, arguments), 0, &[]);
}

/// Checks that a page has no error, has its plots, and shows these words.
fn is_fine(browser: &mut Browser, name: &str, page: &Path, words: &[&str]) {
    let size = std::fs::metadata(page).unwrap().len();
    assert!(size < LARGEST, "{name}: {size} bytes");
    let wrong = look(browser, name, &url_of(page), "document.querySelectorAll('svg').length > 0");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let text = browser.text();
    for word in words {
        assert!(text.contains(word), "{name}: {word:?} is missing in\n{text}");
    }
}

#[test]
fn short_demo_can_be_read_on_any_screen() {
    let Some(mut browser) = Browser::start("the page of demo") else { return };
    let folder = tempfile::tempdir().unwrap();
    let light = ["--load", "10%", "--size", "1514", "--duration", "2s"];
    let day = ["demo", "--only", "day", "--policies", "poll,queue-length"];
    wattline(folder.path(), &[&day[..], &light].concat());
    let page = folder.path().join("wattline-demo.html");
    is_fine(&mut browser, "demo", &page, &["queue-length", "emulated"]);
}

#[test]
fn simulations_can_be_read_on_any_screen() {
    let Some(mut browser) = Browser::start("the pages of sim and sweep") else { return };
    let folder = tempfile::tempdir().unwrap();
    let traffic = ["--traffic", "poisson:2Mpps,size=64"];
    let one = ["sim", "--duration", "10ms", "--interval", "1ms", "--explain", "--page", "a b.html"];
    wattline(folder.path(), &[&one[..], &traffic].concat());
    let words = ["Over time", "Decisions", "modelled", "--page 'a b.html'"];
    is_fine(&mut browser, "sim-command", &folder.path().join("a b.html"), &words);
    let requests =
        ["sim", "--requests", "memcached:100krps", "--duration", "20ms", "--page", "r.html"];
    wattline(folder.path(), &requests);
    is_fine(
        &mut browser,
        "requests-command",
        &folder.path().join("r.html"),
        &["memcached:100krps"],
    );
    let many = ["sweep", "--duration", "5ms", "--policy", "poll,queue-length", "--page", "s.html"];
    wattline(folder.path(), &[&many[..], &traffic].concat());
    let words = ["2 simulations of 2 cases", "Least power without a lost packet"];
    is_fine(&mut browser, "sweep-command", &folder.path().join("s.html"), &words);
    let again = wattline_in(folder.path(), &[&many[..], &traffic].concat());
    ended_with(&again, 74, &["s.html: is there already"]);
}

#[test]
fn receive_path_can_be_read_on_any_screen() {
    let Some(mut browser) = Browser::start("the page of receive") else { return };
    let folder = tempfile::tempdir().unwrap();
    let receive = ["receive", "--packets", "6000", "--proposal", "all", "--page", "r.html"];
    wattline(folder.path(), &receive);
    let words = [
        "Fewest cycles, contiguous buffers, engine, invalidation, direct cache access",
        "modelled",
        "Again: wattline receive --packets 6000 --proposal all --page r.html",
        "bytes of the last-level cache",
    ];
    is_fine(&mut browser, "receive-command", &folder.path().join("r.html"), &words);
    assert_eq!(browser.value("document.querySelectorAll('.plot-box svg').length"), 3);
    ended_with(&wattline_in(folder.path(), &receive), 74, &["r.html: is there already"]);
}

#[test]
fn short_benchmarks_can_be_read_on_any_screen() {
    let Some(mut browser) = Browser::start("the pages of bench") else { return };
    let folder = tempfile::tempdir().unwrap();
    let routes: String =
        (0..64).map(|net| format!("10.{net}.0.0/16\n2001:db8:{net}::/48\n")).collect();
    std::fs::write(folder.path().join("routes.txt"), routes).unwrap();
    let benchmarks = [
        ("fib --routes routes.txt --repeats 2", &["ipv4 random", "prefixes"][..]),
        ("pipeline --routes routes.txt --repeats 3", &["Cycles by node", "frame, bytes"]),
        ("loop --decisions 1000 --repeats 3", &["queue-length", "to plan a change"]),
        ("sim --duration 1ms --runs 2", &["Time by part", "identical"]),
    ];
    for (benchmark, words) in benchmarks {
        let name = benchmark.split_whitespace().next().unwrap();
        let page = format!("{name}.html");
        let arguments = ["bench"].into_iter().chain(benchmark.split_whitespace());
        let arguments: Vec<&str> = arguments.chain(["--page", &page]).collect();
        wattline(folder.path(), &arguments);
        let all = [words, &["Conditions of the measurement", "machine"]].concat();
        is_fine(&mut browser, &format!("bench-{name}"), &folder.path().join(&page), &all);
    }
}

#[test]
fn a_league_can_be_read_on_any_screen() {
    let Some(mut browser) = Browser::start("the page of league") else { return };
    let folder = tempfile::tempdir().unwrap();
    let league = "servers = [\"westmere-2010\"]\npolicies = [\"wattline:p99={p99}\", \"ovs-sleep\"]\n\
         traffics = [\"poisson:2Mpps,size=64\"]\nbudgets = [\"100us\"]\nseeds = [1, 2]\n\
         duration = \"3ms\"\nwarmup = \"2ms\"\n";
    std::fs::write(folder.path().join("small.toml"), league).unwrap();
    wattline(folder.path(), &["league", "small.toml", "--out", "out"]);
    is_fine(&mut browser, "league", &folder.path().join("out/index.html"), &["ovs-sleep"]);
}

#[test]
fn claims_can_be_read_and_filtered_on_any_screen() {
    let Some(mut browser) = Browser::start("the page of reproduce") else { return };
    let folder = tempfile::tempdir().unwrap();
    wattline(folder.path(), &["reproduce", "bolla", "sohan", "--out", "out"]);
    let page = folder.path().join("out/index.html");
    is_fine(&mut browser, "reproduce", &page, &["contradicts itself", "meets"]);
    for width in [1200, 400] {
        browser.set_view(View { width, height: 900, dark: false });
        browser.open(&url_of(&page));
        let below = "Math.max(...['.headline', 'button[data-verdict]', 'svg.plot'].map(\
                     name => document.querySelector(name).getBoundingClientRect().bottom))";
        let below = browser.value(below).as_f64().unwrap();
        assert!(below <= 900.0, "headline, verdicts and first plot end at {below} px of {width}");
        let wide = "(() => { document.querySelectorAll('details').forEach(it => { it.open = true; }); \
                    return [...document.querySelectorAll('.scroll:has(.v)')]\
                    .filter(it => it.scrollWidth > it.clientWidth + 1).length; })()";
        assert_eq!(browser.value(wide), 0, "tables of verdicts that scroll sideways at {width} px");
    }
    let shown = "[...document.querySelectorAll('tr[data-verdict]')].filter(r => !r.hidden)\
                 .every(r => r.dataset.verdict === 'meets')";
    assert_eq!(browser.value(shown), false);
    browser.value("document.querySelector('button[data-verdict=meets]').click()");
    assert_eq!(browser.value(shown), true);
}

#[test]
fn load_page_shows_distribution_and_course_over_time() {
    let Some(mut browser) = Browser::start("the page of load") else { return };
    let folder = tempfile::tempdir().unwrap();
    // The path of this URL would run as a script if the page did not escape it.
    let url = format!("http://{}/<script>alert(1)</script>", crate::program::answering());
    let load =
        "--rate 200 --connections 4 --warmup 200ms --duration 2s --interval 500ms --page l.html";
    let load: Vec<&str> =
        ["load", "http", &url].into_iter().chain(load.split_whitespace()).collect();
    wattline(folder.path(), &load);
    let words =
        ["Requests that took longer than a time", "Over time", "95th percentile", "alert(1)"];
    is_fine(&mut browser, "load", &folder.path().join("l.html"), &words);
}
