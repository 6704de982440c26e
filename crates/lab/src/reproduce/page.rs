//! One page with all plots, checks and claims; it needs nothing from elsewhere.

use super::report::{Check, Verdict};
use super::{Figure, Reproduction};
use crate::plot::escape;
use std::fmt::Write as _;

pub(crate) const STYLE: &str = "
:root{color-scheme:light}
body{font:16px/1.5 system-ui,'DejaVu Sans',sans-serif;max-width:1100px;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.6rem}h2{margin-top:3rem;border-bottom:2px solid #0072B2}h3{margin-top:2.2rem}
table{border-collapse:collapse;font-size:.85rem;margin:.6rem 0 1.2rem}
th,td{border:1px solid #ccc;padding:.25rem .5rem;text-align:left;vertical-align:top;overflow-wrap:break-word}
th{background:#f2f2f2}td.n{text-align:right;white-space:nowrap}
.plots{display:flex;flex-wrap:wrap;gap:1rem}.plots svg{max-width:100%;height:auto;border:1px solid #ddd}
.v{white-space:nowrap;font-weight:600}.meets{color:#00664a}.fitted{color:#5b6b00}.differs{color:#a33c00}
.paper-contradicts-itself{color:#7a3b69}.figure-lost,.not-testable{color:#666}
details summary{cursor:pointer}nav a{margin-right:.8rem}";

pub(super) fn html(reproductions: &[Reproduction]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>Wattline: published against ours</title><style>{STYLE}</style></head><body>\n\
         <h1>Published against ours</h1>\n\
         <p>Powers are those of models, not measurements. Black crosses and grey bands are what \
         the papers print; colours are ours.</p>\n"
    );
    for reproduction in reproductions {
        paper(&mut page, reproduction);
    }
    page.push_str("</body></html>\n");
    page
}

/// Writing into a string cannot fail.
fn put(page: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _ = page.write_fmt(arguments);
}

fn paper(page: &mut String, reproduction: &Reproduction) {
    put(page, format_args!("<h2 id=\"{0}\">{0}</h2>\n", reproduction.paper.name()));
    put(page, format_args!("<p>{}</p>\n<table><tr>", escape(reproduction.title)));
    for verdict in Verdict::ALL {
        put(page, format_args!("<th>{}</th>", verdict.text()));
    }
    page.push_str("<th>claims</th></tr><tr>");
    for verdict in Verdict::ALL {
        put(page, format_args!("<td class=\"n\">{}</td>", reproduction.count(verdict)));
    }
    put(
        page,
        format_args!("<td class=\"n\">{}</td></tr></table>\n<nav>", reproduction.claims.len()),
    );
    for figure in &reproduction.figures {
        let name = reproduction.paper.name();
        put(page, format_args!("<a href=\"#{name}-{0}\">{0}</a>", figure.id));
    }
    page.push_str("</nav>\n");
    for one in &reproduction.figures {
        figure(page, reproduction, one);
    }
    claims(page, reproduction);
}

fn figure(page: &mut String, reproduction: &Reproduction, figure: &Figure) {
    let name = reproduction.paper.name();
    put(page, format_args!("<h3 id=\"{name}-{}\">{}</h3>\n", figure.id, escape(&figure.title)));
    put(page, format_args!("<p>{}</p>\n<div class=\"plots\">\n", escape(&figure.about)));
    for plot in &figure.plots {
        page.push_str(plot);
    }
    page.push_str("</div>\n");
    checks(page, &figure.checks);
    put(
        page,
        format_args!(
            "<details><summary>Data ({} rows)</summary><table><tr>",
            figure.table.rows.len()
        ),
    );
    for column in &figure.table.columns {
        put(page, format_args!("<th>{}</th>", escape(column)));
    }
    page.push_str("</tr>\n");
    for row in &figure.table.rows {
        page.push_str("<tr>");
        for cell in row {
            put(page, format_args!("<td class=\"n\">{}</td>", escape(cell)));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></details>\n");
}

/// Ours beside the paper's, as a table.
pub(crate) fn checks(page: &mut String, checks: &[Check]) {
    if checks.is_empty() {
        return;
    }
    page.push_str(
        "<table><tr><th>quantity</th><th>ours</th><th>published</th><th>tolerance</th>\
         <th>verdict</th><th>claims</th><th>note</th></tr>\n",
    );
    for check in checks {
        put(
            page,
            format_args!(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                escape(&check.quantity),
                escape(&check.ours),
                escape(&check.published),
                escape(&check.tolerance),
                sign(check.verdict),
                check.claims.join(" "),
                escape(&check.note),
            ),
        );
    }
    page.push_str("</table>\n");
}

fn sign(verdict: Verdict) -> String {
    let text = verdict.text();
    format!("<span class=\"v {}\">{text}</span>", text.replace(' ', "-"))
}

fn claims(page: &mut String, reproduction: &Reproduction) {
    put(
        page,
        format_args!(
            "<h3>Every claim of the paper</h3>\n<details><summary>{} claims</summary>\
         <table><tr><th>id</th><th>where</th><th>quantity</th><th>published</th>\
         <th>verdict</th><th>ours</th><th>note</th></tr>\n",
            reproduction.claims.len()
        ),
    );
    for report in &reproduction.claims {
        let claim = &report.claim;
        put(
            page,
            format_args!(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{} {}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                escape(&claim.id),
                escape(&claim.section_or_figure),
                escape(&claim.quantity),
                escape(&claim.value),
                escape(&claim.unit),
                sign(report.verdict),
                escape(&report.ours),
                escape(&report.note),
            ),
        );
    }
    page.push_str("</table></details>\n");
}
