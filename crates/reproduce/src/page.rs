//! A single HTML page with all plots, checks and claims, without external resources.

use crate::figure::Figure;
use crate::reproduction::Reproduction;
use wattline_report::page::{
    self, begin_table, checks, class, end_table, put, verdict, verdict_filter,
};
use wattline_report::{Notes, Verdict, escape};

pub(super) fn html(reproductions: &[Reproduction]) -> String {
    let mut page = page::begin("published against ours");
    page.push_str(
        "<h1>Published against ours</h1>\n\
         <p>Powers are those of models, not measurements. Black crosses and grey bands are what \
         the papers print; colours are ours.</p>\n",
    );
    let total: usize = reproductions.iter().map(|one| one.claims.len()).sum();
    let counts = Verdict::ALL.map(|verdict| {
        (verdict, reproductions.iter().map(|one| one.count(verdict)).sum::<usize>())
    });
    put(
        &mut page,
        format_args!("<p>{total} claims; choose a verdict to see its rows alone.</p>\n"),
    );
    verdict_filter(&mut page, counts.into_iter().filter(|(_, count)| *count > 0));
    for reproduction in reproductions {
        paper(&mut page, reproduction);
    }
    page::end(&mut page);
    page
}

fn paper(page: &mut String, reproduction: &Reproduction) {
    put(page, format_args!("<h2 id=\"{0}\">{0}</h2>\n", reproduction.paper.name()));
    put(page, format_args!("<p>{}</p>\n", escape(reproduction.title)));
    begin_table(page, Verdict::ALL.map(Verdict::text).into_iter().chain(["claims"]));
    page.push_str("<tr>");
    for verdict in Verdict::ALL {
        put(page, format_args!("<td class=\"n\">{}</td>", reproduction.count(verdict)));
    }
    put(page, format_args!("<td class=\"n\">{}</td></tr>", reproduction.claims.len()));
    end_table(page);
    put(page, format_args!("<nav aria-label=\"figures of {}\">", reproduction.paper.name()));
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
    put(page, format_args!("<details><summary>Data ({} rows)</summary>", figure.table.rows.len()));
    begin_table(page, figure.table.columns.iter().map(String::as_str));
    for row in &figure.table.rows {
        page.push_str("<tr>");
        for cell in row {
            put(page, format_args!("<td class=\"n\">{}</td>", escape(cell)));
        }
        page.push_str("</tr>\n");
    }
    end_table(page);
    page.push_str("</details>\n");
}

fn claims(page: &mut String, reproduction: &Reproduction) {
    put(
        page,
        format_args!(
            "<h3>Every claim of the paper</h3>\n<details class=\"claims\"><summary>{} claims</summary>",
            reproduction.claims.len()
        ),
    );
    let notes = Notes::of(reproduction.claims.iter().map(|report| report.note.as_str()));
    begin_table(page, ["id", "where", "quantity", "published", "verdict", "ours", "note"]);
    for report in &reproduction.claims {
        let claim = &report.claim;
        put(
            page,
            format_args!(
                "<tr data-verdict=\"{}\"><td>{}</td><td>{}</td><td>{}</td><td>{} {}</td><td>{}</td><td>{}</td><td class=\"note\">{}</td></tr>\n",
                class(report.verdict),
                escape(&claim.id),
                escape(&claim.section_or_figure),
                escape(&claim.quantity),
                escape(&claim.value),
                escape(&claim.unit),
                verdict(report.verdict),
                escape(&report.ours),
                notes.cell(&report.note),
            ),
        );
    }
    end_table(page);
    notes.list(page);
    page.push_str("</details>\n");
}
