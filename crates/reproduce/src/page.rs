//! A single HTML page with all plots, checks and claims, without external resources.

use crate::figure::Figure;
use crate::reproduction::Reproduction;
use wattline_report::page::{
    self, begin_table, checks, class, end_table, put, verdict, verdict_filter,
};
use wattline_report::{Notes, Verdict, escape};

pub(super) fn html(reproductions: &[Reproduction]) -> String {
    let mut page = page::begin("published against ours");
    put(
        &mut page,
        format_args!(
            "<h1>Published against ours</h1>\n\
             <p>Powers are those of models, not measurements. {}</p>\n",
            signs(reproductions)
        ),
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
    // The sections of a page are papers, or the figures of a single one.
    let heading = if reproductions.len() == 1 { SECTION } else { OF_PART };
    for reproduction in reproductions {
        paper(&mut page, reproduction, heading);
    }
    page::end(&mut page);
    page
}

/// What the signs mean that the plots of this page have.
fn signs(reproductions: &[Reproduction]) -> &'static str {
    let plots = reproductions.iter().flat_map(|one| &one.figures).flat_map(|figure| &figure.plots);
    let has = |class: &str| plots.clone().any(|plot| plot.contains(class));
    match [has("class=\"cross\""), has("class=\"band\"")] {
        [true, true] => "Black crosses and grey bands are what the papers print; colours are ours.",
        [true, false] => "Black crosses are what the papers print; colours are ours.",
        [false, true] => "Grey bands are what the papers print; colours are ours.",
        [false, false] => "All plots are ours: the papers print no values for them.",
    }
}

/// A section, which the list of a page's sections names.
const SECTION: &str = "h2";
/// A part of one.
const OF_PART: &str = "h3";

/// One paper; `heading` is that of its figures.
fn paper(page: &mut String, reproduction: &Reproduction, heading: &str) {
    put(page, format_args!("<h2 id=\"{0}\">{0}</h2>\n", reproduction.paper.name()));
    put(page, format_args!("<p>{}</p>\n", escape(reproduction.title)));
    begin_table(page, Verdict::ALL.map(Verdict::text).into_iter().chain(["claims"]));
    page.push_str("<tr>");
    for verdict in Verdict::ALL {
        put(page, format_args!("<td class=\"n\">{}</td>", reproduction.count(verdict)));
    }
    put(page, format_args!("<td class=\"n\">{}</td></tr>", reproduction.claims.len()));
    end_table(page);
    if heading == OF_PART {
        let name = reproduction.paper.name();
        put(page, format_args!("<nav aria-label=\"figures of {name}\">"));
        for figure in &reproduction.figures {
            put(page, format_args!("<a href=\"#{name}-{0}\">{0}</a>", figure.id));
        }
        page.push_str("</nav>\n");
    }
    for one in &reproduction.figures {
        figure(page, reproduction, one, heading);
    }
    claims(page, reproduction, heading);
}

fn figure(page: &mut String, reproduction: &Reproduction, figure: &Figure, heading: &str) {
    let name = reproduction.paper.name();
    put(
        page,
        format_args!(
            "<{heading} id=\"{name}-{}\">{}</{heading}>\n",
            figure.id,
            escape(&figure.title)
        ),
    );
    put(page, format_args!("<p>{}</p>\n<div class=\"plots\">\n", escape(&figure.about)));
    for plot in &figure.plots {
        page.push_str(plot);
    }
    page.push_str("</div>\n");
    checks(page, &figure.checks);
    // A section with nothing else to show begins with its table.
    let open = if figure.plots.is_empty() && figure.checks.is_empty() { " open" } else { "" };
    put(
        page,
        format_args!("<details{open}><summary>Data ({} rows)</summary>", figure.table.rows.len()),
    );
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

fn claims(page: &mut String, reproduction: &Reproduction, heading: &str) {
    put(
        page,
        format_args!(
            "<{heading}>Every claim of the paper</{heading}>\n<details class=\"claims\"><summary>{} claims</summary>",
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
