//! A single HTML page with all plots, checks and claims, without external resources.

use crate::figure::Figure;
use crate::reproduction::Reproduction;
use crate::summary::{Summary, bases};
use wattline_report::page::{
    self, basis, basis_filter, begin_table, checks, class, end_table, put, table_of, verdict,
    verdict_filter,
};
use wattline_report::plot::{Axis, Bars};
use wattline_report::{Basis, Notes, Verdict, escape};

/// Limits on the rows of data on the page: of a table alone, and next to plots or checks. Longer
/// tables are only in the data files.
const MOST_ROWS: [usize; 2] = [60, 12];

/// Returns the page of papers; `again` is the command that reproduces it.
pub(super) fn html(reproductions: &[Reproduction], again: &str) -> String {
    let mut page = page::begin("published against ours");
    let total: usize = reproductions.iter().map(|one| one.claims.len()).sum();
    put(
        &mut page,
        format_args!(
            "<h1>Published against ours</h1>\n<p class=\"headline\"><strong>{}</strong> Choose among \
             {total} claims:</p>\n",
            Summary::new(reproductions).headline(),
        ),
    );
    let counts = Verdict::ALL.map(|verdict| {
        (verdict, reproductions.iter().map(|one| one.count(verdict)).sum::<usize>())
    });
    let count = |of: Option<Basis>| {
        reproductions.iter().flat_map(|one| &one.claims).filter(|claim| claim.basis == of).count()
    };
    let by_basis = bases().map(|of| (of, count(of)));
    basis_filter(&mut page, by_basis.filter(|(_, count)| *count > 0));
    verdict_filter(&mut page, counts.into_iter().filter(|(_, count)| *count > 0));
    put(
        &mut page,
        format_args!(
            "<div class=\"plots unchosen\">{}</div>\n<p class=\"unchosen\">{} Powers are those of \
             models, not measurements. {}</p>\n",
            overview(&Summary::new(reproductions)),
            Summary::new(reproductions).others(),
            signs(reproductions)
        ),
    );
    meanings(&mut page);
    chosen(&mut page);
    // The sections of a page are papers, or the figures of a single paper.
    let heading = if reproductions.len() == 1 { SECTION } else { OF_PART };
    for reproduction in reproductions {
        paper(&mut page, reproduction, heading);
    }
    put(&mut page, format_args!("<p>Again: <code>{}</code></p>\n", escape(again)));
    page::end(&mut page);
    page
}

/// Returns the claims by basis and verdict as a plot.
fn overview(summary: &Summary<'_>) -> String {
    let has = |verdict: &Verdict| bases().any(|of| summary.count(of, *verdict) > 0);
    let groups = bases().map(basis);
    let bars = Bars::new("Claims by basis and verdict", "basis", Axis::new("claims"), groups);
    let add = |bars: Bars, verdict: Verdict| {
        bars.series(verdict.text(), bases().map(|of| summary.count(of, verdict) as f64))
    };
    Verdict::ALL.into_iter().filter(has).fold(bars, add).stacked([]).svg()
}

/// Appends the meaning of each basis and verdict.
fn meanings(page: &mut String) {
    page.push_str(
        "<details class=\"unchosen\"><summary>Meaning of each basis and verdict</summary><dl>\n",
    );
    let bases = Basis::ALL.map(|basis| (basis.text(), basis.meaning()));
    let verdicts = Verdict::ALL.map(|verdict| (verdict.text(), verdict.meaning()));
    for (name, meaning) in bases.into_iter().chain(verdicts) {
        put(page, format_args!("<dt>{name}</dt><dd>{meaning}</dd>\n"));
    }
    page.push_str("</dl>\n<p>A claim has the weakest basis and the worst verdict of its checks.</p></details>\n");
}

/// Columns of a table of claims.
const CLAIMS: [&str; 8] =
    ["id", "where", "quantity", "published", "basis", "verdict", "ours", "note"];

/// Appends the place for the claims of a chosen basis or verdict.
fn chosen(page: &mut String) {
    page.push_str("<div id=\"chosen\" hidden>");
    begin_table(page, CLAIMS);
    end_table(page);
    page.push_str("</div>\n");
}

/// Explains the marks in the plots of this page.
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

/// Heading of a section, which the page's list of sections includes.
const SECTION: &str = "h2";
/// Heading of a part of a section.
const OF_PART: &str = "h3";

/// Appends a paper; `heading` is the heading level of its figures.
fn paper(page: &mut String, reproduction: &Reproduction, heading: &str) {
    put(page, format_args!("<h2 id=\"{0}\">{0}</h2>\n", reproduction.paper.name()));
    put(page, format_args!("<p>{}</p>\n", escape(reproduction.title)));
    let summary = Summary::new(std::slice::from_ref(reproduction));
    page.push_str("<div class=\"unchosen\">");
    begin_table(page, ["basis"].into_iter().chain(Verdict::ALL.map(Verdict::text)));
    for of in bases() {
        put(page, format_args!("<tr><td>{}</td>", basis(of)));
        for verdict in Verdict::ALL {
            put(page, format_args!("<td class=\"n\">{}</td>", summary.count(of, verdict)));
        }
        page.push_str("</tr>\n");
    }
    end_table(page);
    page.push_str("</div>\n");
    if heading == OF_PART {
        let name = reproduction.paper.name();
        put(page, format_args!("<nav class=\"unchosen\" aria-label=\"figures of {name}\">"));
        for figure in &reproduction.figures {
            put(page, format_args!("<a href=\"#{name}-{0}\">{0}</a>", figure.id));
        }
        page.push_str("</nav>\n");
    }
    for one in &reproduction.figures {
        page.push_str("<section class=\"figure\">\n");
        figure(page, reproduction.paper.name(), one, heading);
        page.push_str("</section>\n");
    }
    claims(page, reproduction, heading);
}

/// Returns the page about published watts.
pub(super) fn watts(figures: &[Figure], name: &str) -> String {
    let mut page = page::begin("published watts");
    page.push_str(
        "<h1>Published watts</h1>\n<p class=\"headline\">Measured power of servers and routers of \
         others, compared with fits that did not see it.</p>\n",
    );
    for one in figures {
        page.push_str("<section class=\"figure\">\n");
        figure(&mut page, name, one, SECTION);
        page.push_str("</section>\n");
    }
    page::end(&mut page);
    page
}

fn figure(page: &mut String, name: &str, figure: &Figure, heading: &str) {
    put(
        page,
        format_args!(
            "<{heading} id=\"{name}-{}\">{}</{heading}>\n",
            figure.id,
            escape(&figure.title)
        ),
    );
    page.push_str("<div class=\"plots\">\n");
    for plot in &figure.plots {
        page.push_str(plot);
    }
    // The text is below the plots, so that the first plot of a page is in its first view.
    put(page, format_args!("</div>\n<p>{}</p>\n", escape(&figure.about)));
    checks(page, &figure.checks);
    let is_shown = !figure.plots.is_empty() || !figure.checks.is_empty();
    if figure.table.rows.len() > MOST_ROWS[usize::from(is_shown)] {
        put(
            page,
            format_args!(
                "<p>Data: {} rows in {name}/{}.csv next to this page.</p>\n",
                figure.table.rows.len(),
                figure.id
            ),
        );
        return;
    }
    let heads: Vec<&str> = figure.table.columns.iter().map(String::as_str).collect();
    table_of(page, &heads, figure.table.rows.iter());
}

fn claims(page: &mut String, reproduction: &Reproduction, heading: &str) {
    put(
        page,
        format_args!(
            "<div class=\"unchosen\"><{heading}>Every claim of the paper</{heading}>\n<details class=\"claims\"><summary>{} claims</summary>",
            reproduction.claims.len()
        ),
    );
    let notes = Notes::of(reproduction.claims.iter().map(|report| report.note.as_str()));
    begin_table(page, CLAIMS);
    for report in &reproduction.claims {
        let claim = &report.claim;
        put(
            page,
            format_args!(
                "<tr id=\"{2}\" data-verdict=\"{}\" data-basis=\"{}\"><td>{}</td><td>{}</td><td>{}</td><td>{} {}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"note\">{}</td></tr>\n",
                class(report.verdict),
                basis(report.basis),
                escape(&claim.id),
                escape(&claim.section_or_figure),
                escape(&claim.quantity),
                escape(&claim.value),
                escape(&claim.unit),
                basis(report.basis),
                verdict(report.verdict),
                escape(&report.ours),
                notes.cell(&report.note),
            ),
        );
    }
    end_table(page);
    notes.list(page);
    page.push_str("</details></div>\n");
}
