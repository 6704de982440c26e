//! What a browser makes of a page: every part that pages are made of, with texts that mean no good.

use wattline_browser::{Browser, look, url_of};
use wattline_report::plot::{Axis, BarSeries, Bars, Chart, Mark};
use wattline_report::{Check, Verdict, page};

const HOSTILE: &str = "</script></title><img src=x onerror=\"document.title='broken'\"> & 'quoted'";

fn chart() -> Chart {
    let line = |slope: f64| (1..60).map(move |x| (f64::from(x), slope * f64::from(x)));
    Chart::new(HOSTILE, Axis::new("load, Mpps"), Axis::new(HOSTILE).from_zero())
        .series("powersave", Mark::Line, line(3.0))
        .series(HOSTILE, Mark::LineAndPoints, line(3.2))
        .series("poll", Mark::Points, line(5.0))
        .series("printed", Mark::Published, line(4.0).step_by(10))
        .band("the paper's", 20.0, 60.0)
}

fn bars() -> Bars {
    Bars {
        title: "Watts by component".to_owned(),
        x_label: HOSTILE.to_owned(),
        y: Axis::new("W"),
        groups: vec![HOSTILE.to_owned(), "memory".to_owned()],
        series: vec![BarSeries {
            name: "ours".to_owned(),
            values: vec![12.0, 30.0],
            published: vec![Some(13.0), None],
        }],
        stacked: false,
        published: vec![None, None],
    }
}

fn whole() -> String {
    let mut text = page::begin(HOSTILE);
    text.push_str("<h1>A page</h1>\n<p>What it says first.</p>\n");
    let near = |claim, ours| Check::near(&[claim], HOSTILE, ours, 3.0, 0.5).note(HOSTILE);
    let checks = [near("PS-001", 1.0), near("PS-002", 3.1), near("PS-003", 3.0).fitted("a figure")];
    page::verdict_filter(&mut text, [(Verdict::Differs, 1), (Verdict::Meets, 1)]);
    page::checks(&mut text, &checks);
    text.push_str(&format!("<div class=\"plots\">{}{}</div>\n", chart().svg(), bars().svg()));
    let long = "x".repeat(300);
    let rows = [[HOSTILE.to_owned(), "2".to_owned()], [long, "3".to_owned()]];
    page::table(&mut text, [HOSTILE, "n"], rows.into_iter());
    page::end(&mut text);
    text
}

#[test]
fn every_part_is_readable_on_any_screen_and_no_text_becomes_markup() {
    let Some(mut browser) = Browser::start("parts of pages") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.html");
    std::fs::write(&path, whole()).unwrap();
    let url = url_of(&path);
    let wrong = look(&mut browser, "parts", &url, "document.querySelectorAll('svg').length === 2");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    assert_eq!(browser.value("document.title"), format!("Wattline: {HOSTILE}"));
    assert_eq!(browser.value("document.querySelectorAll('img').length"), 0);
    assert!(browser.text().contains("'quoted'"));

    // Rows of one verdict alone, by a button and by the address.
    let shown = "[...document.querySelectorAll('tr[data-verdict]')].filter(r => !r.hidden).length";
    assert_eq!(browser.value(shown), 3);
    browser.value("document.querySelector('button[data-verdict=differs]').click()");
    assert_eq!(browser.value(shown), 1);
    assert_eq!(browser.value("location.hash"), "#verdict=differs");
    browser.open(&format!("{url}#verdict=meets"));
    assert_eq!(browser.value(shown), 1);

    // Values by keys, for whoever has no pointer.
    let press = "(() => { const p = document.querySelector('svg.plot'); p.focus(); \
                 p.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'})); \
                 return document.getElementById('tip').innerText; })()";
    let tip = browser.value(press);
    assert!(tip.as_str().is_some_and(|tip| tip.contains("powersave: ")), "{tip}");
    assert!(browser.complaints().is_empty());
}

/// The rules of [`look`] find what they are for.
#[test]
fn a_bad_page_is_found_out() {
    let Some(mut browser) = Browser::start("a bad page") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.html");
    let bad = "<!doctype html><html><body><p id=a>x</p><p id=a style=\"color:#ccc\">faint</p>\
               <a href=\"#nowhere\">y</a><div style=\"width:2000px\">wide</div>\
               <script>console.error('oh'); throw new Error('no')</script></body></html>";
    std::fs::write(&path, bad).unwrap();
    let wrong = look(&mut browser, "bad", &url_of(&path), "true").join("\n");
    for found in [
        "wider than the screen",
        "not one <main>",
        "no title",
        "no language",
        "ids used twice: a",
        "#nowhere",
        "poor contrast",
        "oh",
        "no",
    ] {
        assert!(wrong.contains(found), "{found:?} is not in\n{wrong}");
    }
}
