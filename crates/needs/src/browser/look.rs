//! Checks of a page, from any server.

use super::{Browser, View};

/// Views in which each page is checked.
pub type Views = [(&'static str, View); 4];

/// A desktop and a telephone (the narrowest on the market), in light and dark mode.
const VIEWS: Views = [
    ("wide-light", View { width: 1280, height: 900, dark: false }),
    ("wide-dark", View { width: 1280, height: 900, dark: true }),
    ("narrow-light", View { width: 360, height: 740, dark: false }),
    ("narrow-dark", View { width: 360, height: 740, dark: true }),
];

/// Rules for every page, as an expression that returns a list of complaints.
const RULES: &str = include_str!("rules.js");

/// Length of a page.
const LENGTH: &str = "document.documentElement.outerHTML.length";
/// Maximum number of characters of a page, so that it opens at once.
const LARGEST: f64 = 1_048_576.0;

/// Opens a page in every view, waits until `ready` (an expression in JavaScript) holds, and returns
/// all problems: complaints of the browser, requests to other servers, violations of [`RULES`], and
/// a page that is too large. Pictures are kept under `name`.
pub fn look(browser: &mut Browser, name: &str, url: &str, ready: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for (view_name, view) in VIEWS {
        browser.set_view(view);
        browser.open(url);
        browser.until(ready);
        let mut found = browser.complaints();
        let origin = url.split('/').take(3).collect::<Vec<_>>().join("/");
        let foreign = |asked: &String| !(asked.starts_with("data:") || asked.starts_with(&origin));
        let requests = browser.requests();
        assert!(!requests.is_empty(), "requests are noted");
        found.extend(requests.into_iter().filter(foreign).map(|asked| format!("asks for {asked}")));
        let letters = browser.value(LENGTH).as_f64().unwrap_or(f64::INFINITY);
        if letters > LARGEST {
            found.push(format!("has {letters} letters: more than {LARGEST}"));
        }
        let rules = browser.value(RULES);
        let texts = rules.as_array().into_iter().flatten().filter_map(|text| text.as_str());
        found.extend(texts.map(str::to_owned));
        wrong.extend(found.into_iter().map(|text| format!("{name}, {view_name}: {text}")));
        browser.picture(&format!("{name}-{view_name}"), true);
    }
    wrong
}
