//! A single HTML page with all plots, checks and claims, without external resources.

use crate::figure::Figure;
use crate::reproduction::Reproduction;
use wattline_report::page::{self, checks, put, verdict};
use wattline_report::{Verdict, escape};

pub(super) fn html(reproductions: &[Reproduction]) -> String {
    let mut page = page::begin("published against ours");
    page.push_str(
        "<h1>Published against ours</h1>\n\
         <p>Powers are those of models, not measurements. Black crosses and grey bands are what \
         the papers print; colours are ours.</p>\n",
    );
    for reproduction in reproductions {
        paper(&mut page, reproduction);
    }
    page::end(&mut page);
    page
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
                verdict(report.verdict),
                escape(&report.ours),
                escape(&report.note),
            ),
        );
    }
    page.push_str("</table></details>\n");
}
