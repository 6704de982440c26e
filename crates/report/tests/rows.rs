//! Links to rows in a browser: a link makes a hidden row visible.

use wattline_needs::browser::{Browser, View, look, url_of};
use wattline_report::{Check, page};

fn whole(rows: usize) -> String {
    let mut text = page::begin("rows");
    text.push_str("<h1>Rows</h1>\n<h2>Checks</h2><details class=\"claims\"><summary>3</summary>\n");
    let near = |claim, ours| Check::near(&[claim], "power (W)", ours, 3.0, 0.5);
    page::verdict_filter(&mut text, [(wattline_report::Verdict::Differs, 1)]);
    page::checks(&mut text, &[near("PS-001", 1.0), near("PS-002", 3.1), near("PS-003", 3.0)]);
    text.push_str("</details><h2>Policies</h2>\n");
    let named = (0..rows).map(|at| [format!("policy {at}"), (at % 7).to_string()]);
    page::table(&mut text, ["policy", "W"], named);
    page::end(&mut text);
    text
}

/// Returns true if the row is drawn and its middle is on the screen.
fn is_on_screen(browser: &mut Browser, id: &str) -> bool {
    let seen = format!(
        "new Promise(done => setTimeout(() => {{ const row = document.getElementById('{id}'); const box = row.getBoundingClientRect(); \
         const middle = (box.top + box.bottom) / 2; \
         done(row.checkVisibility() && box.height > 0 && middle > 0 && middle < innerHeight); }}, 50))"
    );
    browser.value(&seen) == true
}

#[test]
fn link_shows_a_hidden_row() {
    let Some(mut browser) = Browser::start("links to rows") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.html");
    std::fs::write(&path, whole(120)).unwrap();
    let url = url_of(&path);
    let wrong =
        look(&mut browser, "rows", &url, "document.querySelectorAll('a.here').length === 123");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    browser.set_view(View { width: 1200, height: 700, dark: false });
    browser.open(&url);

    // Sorted away, then filtered away.
    let [row, other] = ["policies-policy-90", "policies-policy-3"];
    browser.value("[...document.querySelectorAll('th.sorts')].at(-1).click()");
    let filter = |browser: &mut Browser, words: &str| {
        let put = format!(
            "(() => {{ const box = document.querySelector('input[type=search]'); box.value = '{words}'; \
             box.dispatchEvent(new Event('input')); }})()"
        );
        browser.value(&put);
    };
    filter(&mut browser, "policy 3");
    assert!(!is_on_screen(&mut browser, row));
    browser.value(&format!("location.hash = '{row}'"));
    assert!(is_on_screen(&mut browser, row));
    assert_eq!(browser.value("document.querySelector('input[type=search]').value"), "");
    // Filters that show the row stay active.
    filter(&mut browser, "policy 3");
    browser.value(&format!("location.hash = '{other}'"));
    assert!(is_on_screen(&mut browser, other));
    assert_eq!(browser.value("document.querySelector('input[type=search]').value"), "policy 3");

    // In collapsed details, and of a verdict other than the chosen one.
    let row = "checks-power-w-ps-002";
    assert!(!is_on_screen(&mut browser, row));
    browser.value("document.querySelector('button[data-verdict=differs]').click()");
    browser.value(&format!("location.hash = '{row}'"));
    assert!(is_on_screen(&mut browser, row));
    browser.open(&format!("{url}#{row}"));
    assert!(is_on_screen(&mut browser, row));

    // By keys, with a name; the URL may already name the row.
    let pressed = format!(
        "(() => {{ const link = document.querySelector('#{row} a.here'); link.focus(); \
         const reached = document.activeElement === link && link.tabIndex === 0; \
         scrollTo(0, document.body.scrollHeight); link.click(); \
         return [reached, link.getAttribute('aria-label'), location.hash]; }})()"
    );
    let pressed = browser.value(&pressed);
    assert_eq!(pressed[0], true);
    assert_eq!((&pressed[1], &pressed[2]), (&"Link to this row".into(), &format!("#{row}").into()));
    assert!(is_on_screen(&mut browser, row));
    assert!(browser.complaints().is_empty());
}

/// Adds rows and moves the others, whose ids must not change.
#[test]
fn ids_of_rows_do_not_depend_on_other_rows() {
    let ids = |text: &str| -> Vec<String> {
        let parts = text.split("<tr id=\"").skip(1);
        parts.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
    };
    let (few, many) = (ids(&whole(20)), ids(&whole(40)));
    assert_eq!((few.len(), many.len()), (23, 43));
    assert!(few.iter().all(|id| many.contains(id)), "{few:?}\n{many:?}");
}
