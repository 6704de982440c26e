//! The documentation as a site: `scripts/build-site` makes it from every page, its links lead
//! somewhere, it loads nothing from other hosts, and no page is wider than a telephone.

use crate::documents::{read, root};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use wattline_needs::browser::{Browser, View, url_of};

/// The folder of the site; nothing where there is no mdBook.
fn build() -> Option<PathBuf> {
    let own = root().join("target/tools/python/bin/mdbook");
    let found = |program: &Path| Command::new(program).arg("--version").output().is_ok();
    if !found(&own) && !found(Path::new("mdbook")) {
        wattline_needs::tool("mdbook");
        return None;
    }
    let made = Command::new(root().join("scripts/build-site")).output().unwrap();
    let message = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{message}");
    let doubts: Vec<_> =
        message.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
    assert!(doubts.is_empty(), "{doubts:#?}");
    Some(root().join("target/site"))
}

/// Pages by their path below the site, without the one for addresses that do not exist: a server
/// shows it anywhere.
fn pages(site: &Path) -> BTreeMap<PathBuf, String> {
    let mut pages = BTreeMap::new();
    let mut open = vec![site.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "html") {
                let text = std::fs::read_to_string(&path).unwrap();
                pages.insert(path.strip_prefix(site).unwrap().to_owned(), text);
            }
        }
    }
    pages.remove(Path::new("404.html"));
    pages
}

/// Values of an attribute.
fn attributes<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let opening = format!(" {name}=\"");
    page.split(&opening).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// Counts the links of these pages, and lists the broken ones.
fn broken(site: &Path, pages: &BTreeMap<PathBuf, String>) -> (usize, Vec<String>) {
    let ids: BTreeMap<&PathBuf, BTreeSet<&str>> = pages
        .iter()
        .map(|(path, text)| (path, attributes(text, "id").into_iter().collect()))
        .collect();
    let (mut links, mut wrong) = (0, Vec::new());
    for (page, text) in pages {
        let loaded = attributes(text, "src");
        for link in attributes(text, "href").into_iter().chain(loaded.iter().copied()) {
            links += 1;
            if link.starts_with("https://") || link.starts_with("http://") {
                if loaded.contains(&link) {
                    wrong.push(format!("{}: loads {link}", page.display()));
                }
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() {
                page.clone()
            } else {
                crate::documents::plain(&page.parent().unwrap().join(file))
            };
            if !site.join(&target).is_file() {
                wrong.push(format!("{}: {link}: there is no such file", page.display()));
            } else if let Some(ids) = ids.get(&target)
                && !anchor.is_empty()
                && !ids.contains(anchor)
            {
                wrong.push(format!("{}: {link}: the page has no such place", page.display()));
            }
        }
    }
    (links, wrong)
}

/// Pages of the table of contents, as files of the site.
fn expected() -> Vec<PathBuf> {
    let summary = read("docs/SUMMARY.md");
    let links = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let file = |link: &str| match link {
        "../CONTRIBUTING.md" => PathBuf::from("contributing.html"),
        page => Path::new(page).with_extension("html"),
    };
    links.map(file).collect()
}

#[test]
fn the_site_is_built_its_links_lead_somewhere_and_it_fits_on_a_telephone() {
    let Some(site) = build() else { return };
    let mut pages = pages(&site);
    let missing: Vec<_> = expected().into_iter().filter(|page| !pages.contains_key(page)).collect();
    assert!(missing.is_empty(), "the site lacks {missing:?}");
    let (links, wrong) = broken(&site, &pages);
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(links > 1_000, "{links} links");
    println!("{} pages, {links} links", pages.len());
    // The check can fail.
    let text = r##"<a href="none.html"> <a href="#none"> <script src="https://example.org/x.js">"##;
    pages.insert("wrong.html".into(), text.to_owned());
    assert_eq!(broken(&site, &pages).1.len(), 3);

    let Some(mut browser) = Browser::start("site") else { return };
    let mut wrong = Vec::new();
    // All pages on a telephone; on a desk the widest of them, which have tables.
    let widest = ["index.html", "reference/policies.html", "reference/metrics.html"];
    for (name, width) in [("narrow", 360), ("wide", 1280)] {
        browser.set_view(View { width, height: 800, dark: false });
        let all = expected();
        assert!(widest.iter().all(|page| all.contains(&PathBuf::from(page))));
        let shown = all
            .into_iter()
            .filter(|page| name == "narrow" || widest.iter().any(|it| page.ends_with(it)));
        for page in shown {
            browser.open(&url_of(&site.join(&page)));
            let shown = page.display();
            wrong.extend(
                browser.complaints().into_iter().map(|message| format!("{shown}: {message}")),
            );
            let foreign =
                |asked: &String| !asked.starts_with("file:") && !asked.starts_with("data:");
            let asked = browser.requests().into_iter().filter(foreign);
            wrong.extend(asked.map(|asked| format!("{shown}: asks for {asked}")));
            let over = browser.value("document.documentElement.scrollWidth - innerWidth");
            if over.as_f64().is_none_or(|over| over > 0.0) {
                wrong.push(format!("{shown}, {name}: is {over} pixels too wide"));
            }
            let letters = browser.text().len();
            if letters < 200 {
                wrong.push(format!("{shown}, {name}: shows {letters} letters"));
            }
        }
        browser.open(&url_of(&site.join("index.html")));
        browser.picture(&format!("site-{name}"), false);
        browser.open(&url_of(&site.join("reference/policies.html")));
        browser.picture(&format!("site-table-{name}"), false);
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
