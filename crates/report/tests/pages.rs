//! Pages in a browser: every part of pages, with hostile texts.

use wattline_needs::browser::{Browser, View, look, url_of};
use wattline_report::plot::{Axis, Bars, Chart, Mark};
use wattline_report::runs::{Comparison, Run};
use wattline_report::{Check, Verdict, page};

const HOSTILE: &str = "</script></title><img src=x onerror=\"document.title='broken'\"> & 'quoted'";

fn chart() -> Chart {
    let line = |slope: f64| (1..60).map(move |x| (f64::from(x), slope * f64::from(x)));
    Chart::new(HOSTILE, Axis::new("load, Mpps"), Axis::new(HOSTILE).from_zero())
        .series("queue-length", Mark::Line, line(3.0))
        .series(HOSTILE, Mark::LineAndPoints, line(3.2))
        .series("=1+1", Mark::Points, line(5.0))
        .series("printed", Mark::Published, line(4.0).step_by(10))
        .band("the paper's", 20.0, 60.0)
}

fn bars() -> Bars {
    Bars::new("Watts by component", HOSTILE, Axis::new("W"), [HOSTILE, "memory"])
        .series("ours", [12.0, 30.0])
        .published_values([Some(13.0), None])
}

fn whole() -> String {
    let mut text = page::begin(HOSTILE);
    text.push_str("<h1>A page</h1>\n<p>What it says first.</p>\n");
    let near = |claim, ours| Check::near(&[claim], HOSTILE, ours, 3.0, 0.5).note(HOSTILE);
    let checks = [near("PS-001", 1.0), near("PS-002", 3.1), near("PS-003", 3.0).fitted("a figure")];
    page::verdict_filter(&mut text, [(Verdict::Differs, 1), (Verdict::Meets, 2)]);
    text.push_str("<h2>Checks</h2>\n");
    page::checks(&mut text, &checks);
    text.push_str("<h2>Plots</h2>\n");
    text.push_str(&format!("<div class=\"plots\">{}{}</div>\n", chart().svg(), bars().svg()));
    text.push_str("<h2>Data</h2>\n");
    let long = "x".repeat(300);
    let rows = [[HOSTILE.to_owned(), "2".to_owned()], [long, "3".to_owned()]];
    page::table(&mut text, [HOSTILE, "n"], rows.into_iter());
    let amounts = ["9", "-", "1,000", "-2.5 ± 1", "10"].into_iter().chain((11..22).map(|_| "50"));
    let named = amounts.enumerate().map(|(at, it)| [format!("row {at}"), it.to_owned()]);
    page::table(&mut text, ["sorted", "amount"], named);
    page::end(&mut text);
    text
}

#[test]
fn every_part_is_readable_on_any_screen_and_texts_are_escaped() {
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

    // Rows of only one verdict, by a button and by the URL.
    let shown = "[...document.querySelectorAll('tr[data-verdict]')].filter(r => !r.hidden).length";
    assert_eq!(browser.value(shown), 3);
    browser.value("document.querySelector('button[data-verdict=differs]').click()");
    assert_eq!(browser.value(shown), 1);
    assert_eq!(browser.value("location.hash"), "#verdict=differs");
    browser.open(&format!("{url}#verdict=meets"));
    assert_eq!(browser.value(shown), 2);

    contents_stay_in_view(&mut browser);
    no_width_cuts_anything(&mut browser);
    data_of_each_plot_is_a_file(&mut browser);
    plots_are_files_of_their_own(&mut browser);
    tables_are_sorted_and_filtered(&mut browser);
    let footer = browser.value("document.querySelector('footer').innerText");
    assert!(footer.as_str().is_some_and(|it| it.contains("Wattline") && it.contains("Linux")));

    // Values by keys, without a pointer.
    let press = "(() => { const p = document.querySelector('svg.plot'); p.focus(); \
                 p.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'})); \
                 return document.getElementById('tip').innerText; })()";
    let tip = browser.value(press);
    assert!(tip.as_str().is_some_and(|tip| tip.contains("queue-length: ")), "{tip}");
    assert!(browser.complaints().is_empty());
}

/// Each plot can be saved as SVG, with the style of its page.
fn plots_are_files_of_their_own(browser: &mut Browser) {
    let saved = "(() => { let saved; const click = HTMLAnchorElement.prototype.click; \
                 HTMLAnchorElement.prototype.click = function () { saved = [this.download, decodeURIComponent(this.href)]; }; \
                 document.querySelector('.plot-box button:nth-of-type(2)').click(); \
                 HTMLAnchorElement.prototype.click = click; return saved; })()";
    let saved = browser.value(saved);
    assert!(saved[0].as_str().is_some_and(|name| name.ends_with(".svg")), "{}", saved[0]);
    let text = saved[1].as_str().unwrap_or_default();
    let text = text.strip_prefix("data:image/svg+xml;charset=utf-8,").unwrap_or_default();
    for part in ["<svg xmlns=", "<style>", "queue-length"] {
        assert!(text.contains(part), "{part} is missing");
    }
}

fn tables_are_sorted_and_filtered(browser: &mut Browser) {
    let column = "[...[...document.querySelectorAll('table')].at(-1).tBodies[0].rows]\
                  .filter(r => getComputedStyle(r).display !== 'none').map(r => r.cells[1].textContent)";
    let head = "[...[...document.querySelectorAll('table')].at(-1).querySelectorAll('th')][1]";
    let first = |browser: &mut Browser| browser.value(&format!("{column}.slice(0, 3).join(' ')"));
    let last = |browser: &mut Browser| browser.value(&format!("{column}.slice(-2).join(' ')"));
    browser.value(&format!("{head}.click()"));
    assert_eq!((first(browser), last(browser)), ("-2.5 ± 1 9 10".into(), "1,000 -".into()));
    browser.value(&format!("{head}.dispatchEvent(new KeyboardEvent('keydown', {{key: 'Enter'}}))"));
    assert_eq!((first(browser), last(browser)), ("1,000 50 50".into(), "-2.5 ± 1 -".into()));
    assert_eq!(browser.value(&format!("{head}.getAttribute('aria-sort')")), "descending");
    let filter = "(words => { const box = [...document.querySelectorAll('input[type=search]')].at(-1); \
                  box.value = words; box.dispatchEvent(new Event('input')); })";
    browser.value(&format!("{filter}('ROW 1,000')"));
    assert_eq!(browser.value(&format!("{column}.join(' ')")), "1,000");
    browser.value(&format!("{filter}('')"));
    assert_eq!(browser.value(&format!("{column}.length")), 16);
}

/// Names and numbers of folders, files and figures come from outside.
#[test]
fn comparison_of_hostile_runs_is_a_valid_page() {
    let Some(mut browser) = Browser::start("a comparison of hostile runs") else { return };
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, add: f64| {
        let path = folder.path().join(name);
        std::fs::create_dir(&path).unwrap();
        for repetition in 0..3 {
            let value = |number: u32| f64::from(number + repetition) * add;
            let mut figures: serde_json::Map<String, serde_json::Value> = (0..15_000)
                .map(|number| (format!("figure-{number}"), value(number).into()))
                .collect();
            figures.insert(format!("{HOSTILE}{}", "y".repeat(50_000)), value(1).into());
            let text = serde_json::Value::Object(figures).to_string();
            std::fs::write(path.join(format!("{repetition}.json")), text).unwrap();
        }
        for number in 0..200 {
            std::fs::write(path.join(format!("{number}<b>half.json")), "{\"watts\": ").unwrap();
        }
        Run::read(&path).unwrap()
    };
    let hostile = "<img src=x onerror=\"document.title='broken'\">";
    let comparison = Comparison::new(vec![run("poll", 1.0), run(hostile, 3.0)], None);
    let path = folder.path().join("page.html");
    std::fs::write(&path, comparison.page(false).end()).unwrap();
    let ready = "document.querySelectorAll('svg.plot').length === 12";
    let wrong = look(&mut browser, "report-hostile", &url_of(&path), ready);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let text = browser.text();
    for words in [
        hostile,
        "<b>half.json: is not JSON",
        "left out: 150 files more",
        "The first 1500 rows of 15001",
    ] {
        assert!(text.contains(words), "{words:?} is missing in\n{text:.2000}");
    }
    assert_eq!(browser.value("document.querySelectorAll('img, main b b').length"), 0);
    assert_eq!(browser.value("document.title"), "Wattline: runs compared");
}

/// Returns bars of `count` series, stacked or side by side.
fn many(count: usize, stacked: bool, ordered: bool) -> String {
    let groups = ["performance 200", "ondemand 200", "copi 200", "performance 700", "ondemand 700"]
        .iter()
        .chain(&["copi 700", "performance 900", "ondemand 900", "copi 900"]);
    let title = format!("{count} series");
    let bars = Bars::new(title, "policy and load (KRPS)", Axis::new("time (%)"), groups.copied());
    let bars = (0..count)
        .fold(bars, |bars, index| bars.series(format!("P{index}"), [100.0 / count as f64; 9]));
    let bars = if stacked { bars.stacked([]) } else { bars };
    if ordered { bars.ordered().svg() } else { bars.svg() }
}

/// Opens a page with one plot in the browser.
fn with_plot(browser: &mut Browser, folder: &std::path::Path, svg: &str) {
    let mut text = page::begin("one plot");
    text.push_str(&format!("<h1>One plot</h1>\n<div class=\"plots\">{svg}</div>\n"));
    page::end(&mut text);
    let path = folder.join("one.html");
    std::fs::write(&path, text).unwrap();
    browser.open(&url_of(&path));
}

/// Compares fill and texture of the bars of a group, as painted by the browser, in light and dark.
#[test]
fn parts_of_a_bar_all_differ_in_look() {
    let Some(mut browser) = Browser::start("colours of bars") else { return };
    let folder = tempfile::tempdir().unwrap();
    let looks = "(() => { const looks = [...document.querySelectorAll('rect')]\
                 .filter(r => r.textContent.startsWith('copi 200,')).map(r => { \
                 const next = r.nextElementSibling; \
                 const lines = next && next.matches('.hatch') ? next.getAttribute('d').includes('h') ? 2 : 1 : 0; \
                 return getComputedStyle(r).fill + lines; }); \
                 return [looks.length, new Set(looks).size]; })()";
    for (count, ordered) in [(9, false), (11, true), (18, false), (24, true)] {
        for stacked in [true, false] {
            for dark in [false, true] {
                browser.set_view(View { width: 1280, height: 900, dark });
                with_plot(&mut browser, folder.path(), &many(count, stacked, ordered));
                let seen = browser.value(looks);
                let case = format!("ordered: {ordered}, stacked: {stacked}, dark: {dark}: {seen}");
                assert_eq!((&seen[0], &seen[1]), (&count.into(), &count.into()), "{case}");
            }
        }
    }
}

/// Compares the boxes on the screen of group names, values on bars, ticks and the legend.
#[test]
fn texts_of_a_plot_do_not_overlap() {
    let Some(mut browser) = Browser::start("texts of plots") else { return };
    let folder = tempfile::tempdir().unwrap();
    let small = |value: f64| {
        let groups = (1..=6).map(|load| format!("{load}00 (ours)"));
        let bars = Bars::new("latency", "run", Axis::new("mean (s)"), groups);
        let uncertain = [(value, value / 10.0); 6];
        ["performance", "ondemand", "copi"]
            .iter()
            .fold(bars, |b, name| b.uncertain(*name, uncertain))
    };
    // Boxes of slanted names are larger than the names, so these are compared along their own axis.
    let overlaps = "(() => { const leans = t => /rotate\\(-45\\)/.test(t.getAttribute('transform')); \
        const texts = [...document.querySelectorAll('svg.plot text')]; \
        const wrong = []; \
        const whole = document.querySelector('svg.plot').getBoundingClientRect(); \
        const boxes = texts.filter(t => !leans(t)).map(t => [t, t.getBoundingClientRect()]); \
        boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => { \
          if (Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1 \
            && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 3) \
            wrong.push(a.textContent + ' on ' + b.textContent); })); \
        texts.forEach(t => { const b = t.getBoundingClientRect(); \
          if (b.left < whole.left || b.right > whole.right || b.bottom > whole.bottom) \
            wrong.push(t.textContent + ' leaves the plot'); }); \
        const rows = texts.filter(leans).map(t => { const m = t.transform.baseVal.consolidate().matrix; \
          return (m.e + m.f) * Math.SQRT1_2; }).sort((a, b) => a - b); \
        rows.forEach((at, i) => { if (i && at - rows[i - 1] < 13) wrong.push('leaning names'); }); \
        return wrong.join('; '); })()";
    let plots = [
        many(9, true, false),
        many(3, false, true),
        small(7.3e-6).svg(),
        small(0.4123).svg(),
        small(12.0e6).svg(),
        chart().svg(),
    ];
    for svg in plots {
        for width in [1600, 390] {
            browser.set_view(View { width, height: 900, dark: false });
            with_plot(&mut browser, folder.path(), &svg);
            assert_eq!(browser.value(overlaps), "", "at {width} in\n{svg}");
        }
    }
}

/// The list of sections stays on the screen, wide or narrow, wherever the page is scrolled; it is
/// not printed.
fn contents_stay_in_view(browser: &mut Browser) {
    let top = "(() => { scrollTo(0, document.body.scrollHeight); \
               const box = document.querySelector('.contents').getBoundingClientRect(); \
               return [box.top, box.width, document.querySelectorAll('.contents a').length]; })()";
    for (width, height, least) in [(1440, 700, 100.0), (390, 700, 390.0)] {
        browser.set_view(View { width, height, dark: false });
        let seen = browser.value(top);
        assert_eq!((&seen[0], &seen[2]), (&0.into(), &3.into()), "{width}: {seen}");
        assert!(seen[1].as_f64().is_some_and(|wide| wide >= least), "{width}: {seen}");
    }
    let across = "document.querySelector('main').getBoundingClientRect().right";
    browser.set_view(View { width: 2200, height: 900, dark: false });
    assert_eq!(browser.value(across), 2200, "the width is used");
    browser.set_print(true);
    let shown = "[...document.querySelectorAll('.contents, button, h2, svg.plot')]\
                 .filter(e => e.getClientRects().length).map(e => e.tagName).join(' ')";
    assert_eq!(browser.value(shown), "H2 H2 svg svg H2");
    browser.set_print(false);
}

/// Plots and tables with verdicts need no sideways scrolling. On a narrow screen, names are below
/// their plot, and letters stay readable.
fn no_width_cuts_anything(browser: &mut Browser) {
    let seen = "[...document.querySelectorAll('.plot-box, .scroll:has(.v)')]\
                .filter(e => e.scrollWidth > e.clientWidth + 1).length";
    let below = "[...document.querySelectorAll('svg.plot')].every(plot => { \
                 const names = plot.querySelector('.names').getBoundingClientRect(); \
                 const axis = [...plot.querySelectorAll('line.axis')].map(l => l.getBoundingClientRect()); \
                 return axis.every(line => line.bottom < names.top + 1); })";
    let least = "Math.min(...[...document.querySelectorAll('svg.plot .tick text, svg.plot .names text')] \
                 .map(t => t.getBoundingClientRect().height))";
    let gap = "Math.max(...[...document.querySelectorAll('svg.plot')].flatMap(plot => { \
               const at = [...plot.querySelectorAll('.name')].map(n => n.getBoundingClientRect()); \
               return at.slice(1).map((name, index) => name.top - at[index].bottom); }))";
    let heads = "getComputedStyle(document.querySelector('.cards td.verdict'), '::before').content";
    // The browser notifies the page of a new width with the next frame.
    let becomes = |browser: &mut Browser, wanted: bool| {
        let what = format!("names below their plot: {wanted}");
        wattline_needs::until(&what, || browser.value(below) == wanted);
    };
    browser.set_view(View { width: 390, height: 700, dark: false });
    becomes(browser, true);
    assert_eq!(browser.value(seen), 0);
    assert!(browser.value(least).as_f64().is_some_and(|high| high >= 10.0));
    assert!(browser.value(gap).as_f64().is_some_and(|gap| gap < 8.0), "{}", browser.value(gap));
    assert!(browser.value(heads).as_str().is_some_and(|text| text.contains("verdict")));
    browser.set_view(View { width: 1200, height: 700, dark: false });
    becomes(browser, false);
    assert_eq!(browser.value(seen), 0, "tables with verdicts fit next to the list of sections");
}

/// A button below the plot exports the data; names are not interpreted as formulas.
fn data_of_each_plot_is_a_file(browser: &mut Browser) {
    let press = "(() => { const files = []; \
                 const click = HTMLAnchorElement.prototype.click; \
                 HTMLAnchorElement.prototype.click = function () { \
                   files.push([this.download, decodeURIComponent(this.href.split(',').slice(1).join(','))]); }; \
                 document.querySelectorAll('.plot-box button:first-of-type').forEach((b) => b.click()); \
                 HTMLAnchorElement.prototype.click = click; return files; })()";
    let files = browser.value(press);
    let text = |file: usize, part: usize| files[file][part].as_str().unwrap_or_default().to_owned();
    assert!(text(0, 0).ends_with(".csv") && !text(0, 0).contains('<'), "{files}");
    let lines: Vec<String> = text(0, 1).lines().map(str::to_owned).collect();
    assert!(lines[0].starts_with("series,\"load, Mpps\","), "{}", lines[0]);
    assert_eq!(lines[1..3], ["queue-length,1,3", "queue-length,2,6"]);
    assert!(lines.iter().any(|line| line.starts_with("'=1+1,")), "{}", text(0, 1));
    assert_eq!(lines.len(), 1 + 3 * 59 + 6, "every value: {}", lines.len());
    assert!(text(1, 1).contains("memory,30,") && text(1, 1).contains(",12,13"), "{}", text(1, 1));
}

/// The rules of [`look`] detect violations.
#[test]
fn bad_page_is_detected() {
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
