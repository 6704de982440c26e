//! Whole reproductions: every claim is reported, every difference has a reason, and the files are
//! written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Instant;
use wattline_needs::browser::{Browser, View, url_of};
use wattline_report::{Basis, Check, Verdict};
use wattline_reproduce::{
    ClaimReport, OwnTraffic, Paper, Progress, Reproduction, SetVerdict, Summary, Target,
    published_watts, recorded, reproduce, reproduce_changed, reproduce_own, steps, write,
    write_watts,
};

/// The other papers take minutes without optimisation; this one is fast.
#[test]
fn bolla_is_answered_claim_by_claim_and_written() {
    let mut begun = Vec::new();
    let results =
        reproduce(&[Paper::Bolla.into()], |event| begun.extend(beginning(event))).unwrap();
    assert_eq!(begun.len(), steps(&[Paper::Bolla.into()]));
    let [bolla] = results.as_slice() else { panic!("one paper") };

    assert_eq!(bolla.claims.len(), 85);
    // Its measurements are lost: only the form function is predicted, and it differs.
    let summary = Summary::new(&results);
    assert_eq!(summary.agreeing(Basis::Predicted), (0, 1));
    assert!(summary.agreeing(Basis::Rule).0 >= 10);
    // The polynomial and the text disagree at 700 kpps, and so does the verdict.
    let knee = bolla.claims.iter().find(|claim| claim.claim.id == "BO-054").unwrap();
    assert_eq!((knee.basis, knee.verdict), (Some(Basis::Arithmetic), Verdict::Differs));
    assert!(knee.note.contains("0.844"), "{}", knee.note);

    let out = tempfile::tempdir().unwrap();
    write(&results, out.path(), "wattline reproduce <paper>").unwrap();
    for figure in &bolla.figures {
        let path = out.path().join(format!("bolla/{}.csv", figure.id));
        let mut csv = csv::Reader::from_path(&path).unwrap();
        assert_eq!(csv.records().count(), figure.table.rows.len(), "{}", figure.id);
    }
    let page = std::fs::read_to_string(out.path().join("index.html")).unwrap();
    assert!(page.contains("BO-085") && page.contains("<svg"));
    assert!(page.contains("Again: <code>wattline reproduce &lt;paper&gt;</code>"));
    for outside in ["src=", "href=\"http", "@import", "<script "] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<script>").count(), 1, "the page's own, which its policy names");
    let json = std::fs::read_to_string(out.path().join("summary.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["paper"], "bolla");
    assert_eq!(json[0]["claims"].as_array().unwrap().len(), 85);
}

#[test]
fn one_figure_is_made_alone_with_the_claims_that_it_answers() {
    let target: Target = "bolla/fig7".parse().unwrap();
    let mut begun = Vec::new();
    let results = reproduce(&[target], |event| begun.extend(beginning(event))).unwrap();
    assert_eq!(begun, ["bolla: form function"]);
    let [bolla] = results.as_slice() else { panic!("one paper") };
    assert_eq!(bolla.figures.iter().map(|figure| figure.id).collect::<Vec<_>>(), ["fig7"]);
    assert!(!bolla.claims.is_empty() && bolla.claims.len() < 85, "{}", bolla.claims.len());
    let answers = |id: &str| bolla.figures[0].checks.iter().any(|check| check.claims.contains(&id));
    assert!(bolla.claims.iter().all(|report| answers(&report.claim.id)));
}

#[test]
fn unknown_name_is_refused_with_all_known_names() {
    for name in ["powersafe", "powersave/fig99", "powersave/"] {
        let error = name.parse::<Target>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("\"{name}\"")), "{error}");
        for known in ["powersave", "powersave/fig12", "powersave/table1", "bolla", "bolla/fig1-2"] {
            assert!(error.contains(known), "{known}: {error}");
        }
    }
}

#[test]
fn unwritable_directory_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error =
        write(&reproduce(&[Paper::Bolla.into()], |_| ()).unwrap(), file.path(), "").unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with(&file.path().display().to_string()), "{text}");
}

/// The published results are not part of the project; some of their rows may differ here.
#[test]
fn published_watts_are_shown_with_the_value_of_following_traffic() {
    let data = std::env::var_os("WATTLINE_DATA")
        .map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
            PathBuf::from,
        )
        .join("power");
    if !data.is_dir() {
        return wattline_needs::data(format_args!("published watts in {}", data.display()));
    }
    let figures = published_watts(&data).unwrap();
    let ids: Vec<&str> = figures.iter().map(|figure| figure.id).collect();
    assert_eq!(ids, ["servers", "worth", "shapes", "routers"]);
    let worth = &figures[1];
    println!("{}", worth.about);
    // Holds for all results and with any tenth of them removed.
    let says = |text: &str| assert!(worth.about.contains(text), "{text}: {}", worth.about);
    says("In every case it saves over polling more, as a share, than on servers before 2010.");
    says(
        "In every case it leaves to an ideal server less, as a share, than on servers before 2010.",
    );
    let years: BTreeSet<&str> = worth.table.rows.iter().map(|row| row[0].as_str()).collect();
    assert!(years.contains("2008") && years.contains("2024"), "{years:?}");
    let out = tempfile::tempdir().unwrap();
    write_watts(&figures, out.path()).unwrap();
    let page = std::fs::read_to_string(out.path().join("published-watts.html")).unwrap();
    println!("{} bytes of page", page.len());
    assert!(page.len() < 1_000_000 && page.contains("Worth of power that follows traffic"));
    assert!(out.path().join("published-watts/worth.csv").exists());
    begins_with(&out.path().join("published-watts.html"), "['.headline', 'svg.plot']");
}

/// Checks that these parts of a page are visible without scrolling, on a desktop and on a phone.
fn begins_with(page: &Path, parts: &str) {
    let Some(mut browser) = Browser::start("the first view of a page") else { return };
    for width in [1200, 400] {
        browser.set_view(View { width, height: 900, dark: false });
        browser.open(&url_of(page));
        let end = format!(
            "Math.max(...{parts}.map(name => document.querySelector(name).getBoundingClientRect().bottom))"
        );
        let end = browser.value(&end).as_f64().unwrap_or(f64::INFINITY);
        println!("{}: {parts} end at {end:.0} px of {width} px width", page.display());
        assert!(end <= 900.0, "{parts} end at {end} px of {width} px width");
    }
}

/// Returns the step that begins, if any.
fn beginning(event: Progress<'_>) -> Option<String> {
    match event {
        Progress::Begins(step) => Some(step.to_owned()),
        Progress::Ends(_) => None,
    }
}

/// Returns all papers, computed once for the tests that need them.
fn everything() -> &'static [Reproduction] {
    static MADE: LazyLock<Vec<Reproduction>> = LazyLock::new(|| {
        let started = Instant::now();
        let results = reproduce(&Paper::ALL.map(Target::from), |event| {
            println!("{:7.1} s  {event:?}", started.elapsed().as_secs_f64());
        });
        println!("{:7.1} s  all papers", started.elapsed().as_secs_f64());
        results.unwrap()
    });
    &MADE
}

/// Returns the checks by paper, figure and index. Their quantities may contain computed figures.
fn checks(results: &[Reproduction]) -> BTreeMap<(Paper, &'static str, usize), &Check> {
    let figures = results.iter().flat_map(|one| one.figures.iter().map(|f| (one.paper, f)));
    figures
        .flat_map(|(paper, figure)| {
            let checks = figure.checks.iter().enumerate();
            checks.map(move |(place, check)| ((paper, figure.id, place), check))
        })
        .collect()
}

/// Applies the change named by each predicted check, and compares the verdicts. Only figures with
/// such checks are computed again. A check that differs needs no flip: it has already failed, and
/// dropping it would remove failures from the count of predictions.
#[test]
#[ignore = "minutes, even with optimisation: `make test-long`"]
fn predicted_checks_change_under_their_flip() {
    let base = checks(everything());
    let judged = |check: &Check| matches!(check.verdict, Verdict::Meets | Verdict::Differs);
    let mut flips: BTreeMap<&'static str, BTreeSet<(Paper, &'static str)>> = BTreeMap::new();
    let mut unnamed = Vec::new();
    for ((paper, figure, _), check) in base.iter().filter(|(_, check)| judged(check)) {
        match (check.basis, check.flip) {
            (Some(Basis::Predicted), Some(flip)) => {
                flips.entry(flip).or_default().insert((*paper, figure));
            }
            (Some(Basis::Predicted), None) if check.verdict == Verdict::Meets => {
                unnamed.push(&check.quantity);
            }
            _ => {}
        }
    }
    assert!(unnamed.is_empty(), "predicted checks that agree without a flip: {unnamed:#?}");
    let (started, count) = (Instant::now(), flips.len());
    let mut same = Vec::new();
    for (index, (flip, figures)) in flips.into_iter().enumerate() {
        let target = |(paper, figure)| Target { paper, figure: Some(figure) };
        let targets: Vec<Target> = figures.into_iter().map(target).collect();
        let names: Vec<String> = targets.iter().map(Target::name).collect();
        let began = Instant::now();
        let results = reproduce_changed(&targets, flip, |_| ()).unwrap();
        let changed = checks(&results);
        println!(
            "flip {} of {count}: {flip}; {}; {:.1} s, {:.0} s in all",
            index + 1,
            names.join(" "),
            began.elapsed().as_secs_f64(),
            started.elapsed().as_secs_f64()
        );
        let own = |(_, check): &(_, &&Check)| {
            check.flip == Some(flip) && check.basis == Some(Basis::Predicted) && judged(check)
        };
        for (at, before) in base.iter().filter(own) {
            let after = changed.get(at).map_or((None, ""), |c| (Some(c.verdict), &c.ours));
            let flipped = after.0.is_some_and(|verdict| verdict != before.verdict);
            let text = format!(
                "{}: {}: {} ({}), flipped {} ({}), printed {}",
                before.claims.join(" "),
                before.quantity,
                before.verdict.text(),
                before.ours,
                after.0.map_or("missing", Verdict::text),
                after.1,
                before.published
            );
            println!("  {} {text}", if flipped { "flips" } else { "STAYS" });
            if !flipped {
                same.push(format!("{flip}: {text}"));
            }
        }
    }
    assert!(same.is_empty(), "checks that their flip leaves as they are: {same:#?}");
}

/// Compares verdicts with the reviewed ones in `crates/reproduce/published/verdicts.csv`, so that
/// none changes unnoticed. Each check that does not meet its claim has a reason.
fn are_on_record(results: &[Reproduction]) {
    let claims = || results.iter().flat_map(|paper| &paper.claims);
    let silent: Vec<_> = claims()
        .filter(|claim| claim.verdict != Verdict::Meets && claim.note.is_empty())
        .map(|claim| (&claim.claim.id, claim.verdict, &claim.ours))
        .collect();
    let record = std::fs::read_to_string(VERDICTS)
        .unwrap_or_else(|error| panic!("{VERDICTS}: {error}; UPDATE_GOLDEN=1 writes it"));
    let known: BTreeSet<&str> = record.lines().collect();
    let now: Vec<String> = claims().map(verdict_line).collect();
    let moved: Vec<_> = now.iter().filter(|line| !known.contains(line.as_str())).collect();
    assert!(moved.is_empty(), "verdicts that moved: {moved:#?}");
    assert!(silent.is_empty(), "nothing says why: {silent:#?}");
}

/// Formats a verdict as in the record.
fn verdict_line(claim: &ClaimReport) -> String {
    let verdict = serde_json::to_value(claim.verdict).unwrap();
    let basis = claim.basis.map_or("", Basis::text);
    format!("{},{basis},{}", claim.claim.id, verdict.as_str().unwrap())
}

#[test]
fn papers_without_long_simulations_give_the_verdicts_on_record() {
    let papers = [(Paper::Bolla, 85), (Paper::Liao, 98), (Paper::Sohan, 143)];
    let results = reproduce(&papers.map(|(paper, _)| paper.into()), |_| ()).unwrap();
    assert!(results.iter().map(|one| (one.paper, one.claims.len())).eq(papers));
    are_on_record(&results);
}

/// `UPDATE_GOLDEN=1` writes the record.
#[test]
#[ignore = "minutes, even with optimisation: `make test-long`"]
fn all_papers_give_the_verdicts_on_record() {
    let results = everything();
    let claims = || results.iter().flat_map(|paper| &paper.claims);
    assert_eq!(claims().count(), 550);
    let out = tempfile::tempdir().unwrap();
    write(results, out.path(), "wattline reproduce all").unwrap();
    let bytes = std::fs::metadata(out.path().join("index.html")).unwrap().len();
    println!("{bytes} bytes of page");
    assert!(bytes < 1_200_000, "{bytes} bytes of page");
    let first = "['.headline', 'button[data-verdict]', 'svg.plot']";
    begins_with(&out.path().join("index.html"), first);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let lines: String = claims().map(|claim| verdict_line(claim) + "\n").collect();
        std::fs::write(VERDICTS, format!("claim,basis,verdict\n{lines}")).unwrap();
    }
    are_on_record(results);
}

const CLAIMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/published/claims.csv");
const VERDICTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/published/verdicts.csv");
const STATUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/explanation/status.md");
const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
const BEGIN: &str =
    "<!-- verdicts: written by UPDATE_GOLDEN=1 cargo test -p wattline-reproduce -->\n";
const END: &str = "<!-- end of verdicts -->";

/// Returns the claims of the record, as id, paper, basis and verdict.
fn record() -> Vec<[String; 4]> {
    let papers: BTreeMap<String, String> = csv::Reader::from_path(CLAIMS)
        .unwrap()
        .records()
        .map(|row| row.map(|row| (row[0].to_owned(), row[1].to_owned())).unwrap())
        .collect();
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for row in csv::Reader::from_path(VERDICTS).unwrap().records() {
        let row = row.unwrap();
        assert!(seen.insert(row[0].to_owned()), "{} twice", &row[0]);
        let paper = papers.get(&row[0]).unwrap_or_else(|| panic!("{} is no claim", &row[0]));
        all.push([&row[0], paper, &row[1], &row[2]].map(str::to_owned));
    }
    let without: Vec<_> = papers.keys().filter(|id| !seen.contains(*id)).collect();
    assert!(without.is_empty(), "claims without a verdict: {without:?}");
    all
}

/// Returns the numbers of claims by paper, basis and verdict, from the record: as a table for the page
/// of what works, and as a sentence for the README.
fn counts() -> [String; 2] {
    let record = record();
    let verdict = |of: Verdict| serde_json::to_value(of).unwrap().as_str().unwrap().to_owned();
    let known = Verdict::ALL.map(verdict);
    assert!(record.iter().all(|[.., verdict]| known.contains(verdict)), "{record:?}");
    let count = |paper: Option<&str>, basis: Option<Basis>, of: Option<Verdict>| -> usize {
        record
            .iter()
            .filter(|[_, own, ..]| paper.is_none_or(|paper| own == paper))
            .filter(|[_, _, own, _]| basis.is_none_or(|basis| own == basis.text()))
            .filter(|[.., own]| of.is_none_or(|of| *own == verdict(of)))
            .count()
    };
    let agree = |paper: Option<&str>, basis: Basis| {
        let meets = count(paper, Some(basis), Some(Verdict::Meets));
        format!("{meets} of {}", meets + count(paper, Some(basis), Some(Verdict::Differs)))
    };
    let unanswered = [Verdict::PaperContradictsItself, Verdict::FigureLost, Verdict::NotTestable];
    let repeats = |paper: Option<&str>| {
        let own = record.iter().filter(|[_, own, ..]| paper.is_none_or(|paper| own == paper));
        let answered = [Verdict::Meets, Verdict::Differs].map(verdict);
        own.filter(|[_, _, basis, of]| basis.is_empty() && answered.contains(of)).count()
    };
    let mut text = format!(
        "| paper | claims | {} | {} | repeats |\n|---|{}\n",
        Basis::ALL.map(Basis::text).join(" | "),
        unanswered.map(Verdict::text).join(" | "),
        "--:|".repeat(2 + Basis::ALL.len() + unanswered.len())
    );
    let papers = Paper::ALL.map(|paper| (paper.name(), Some(paper.name())));
    for (name, paper) in papers.into_iter().chain([("**all**", None)]) {
        let agreed = Basis::ALL.map(|basis| agree(paper, basis)).join(" | ");
        let others = unanswered.map(|of| count(paper, None, Some(of)).to_string()).join(" | ");
        let (total, repeats) = (count(paper, None, None), repeats(paper));
        text.push_str(&format!("| {name} | {total} | {agreed} | {others} | {repeats} |\n"));
    }
    let (robust, over) = dependence(&record);
    let [fragile, robust] = [false, true].map(|own| robust.iter().filter(|it| **it == own).count());
    let [all, some, none, nothing] =
        SetVerdict::ALL.map(|own| over.iter().filter(|it| **it == own).count());
    text.push_str(&format!(
        "\n{robust} verdicts on predicted claims, whether they agree or differ, are robust: no unprinted input, moved by a \
         quarter, changes them; {fragile} are fragile. Over the judged sets of unprinted numbers that the printed figures \
         allow, claims hold for all ({all}), for some ({some}) or for none ({none}), or their range says nothing \
         ({nothing}).\n"
    ));
    let sentence = format!(
        "The papers make {} claims. Where our models predict a printed figure that they were not fitted to, {} agree; only \
         these claims test the models. The [other claims](docs/explanation/status.md#verdicts-on-the-papers-claims) are equations, \
         arithmetic, figures that were fitted or read back, and claims that cannot be tested.\n",
        record.len(),
        agree(None, Basis::Predicted)
    );
    [text, sentence]
}

/// Returns the robustness of all predicted claims, and the verdicts over accepted sets.
fn dependence(record: &[[String; 4]]) -> (Vec<bool>, Vec<SetVerdict>) {
    let predicted = record.iter().filter(|[_, _, basis, _]| basis == Basis::Predicted.text());
    let of = predicted.map(|[id, ..]| {
        let (over, robust) = recorded(id).unwrap();
        (robust.unwrap_or_else(|| panic!("no flips of {id} are on record")), over)
    });
    let (robust, over): (Vec<bool>, Vec<Option<SetVerdict>>) = of.unzip();
    (robust, over.into_iter().flatten().collect())
}

#[test]
fn record_has_every_claim_and_the_documentation_its_counts() {
    for (file, counts) in [STATUS, README].into_iter().zip(counts()) {
        let page = std::fs::read_to_string(file).unwrap();
        let (before, rest) = page.split_once(BEGIN).expect("the page has the mark of the counts");
        let (found, after) = rest.split_once(END).expect("the page has the end of the counts");
        if std::env::var_os("UPDATE_GOLDEN").is_some() && found != counts {
            std::fs::write(file, format!("{before}{BEGIN}{counts}{END}{after}")).unwrap();
            continue;
        }
        assert_eq!(found, counts, "UPDATE_GOLDEN=1 writes {file}");
    }
}

/// Writes a capture of `count` frames of 600 bytes, a microsecond apart.
fn capture(path: &std::path::Path, count: u32) {
    let mut bytes = Vec::new();
    let head = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1];
    bytes.extend(head.into_iter().flat_map(u32::to_le_bytes));
    for n in 0..count {
        bytes.extend([0, n, 34, 600].into_iter().flat_map(u32::to_le_bytes));
        let mut frame = [0_u8; 34];
        (frame[12], frame[14], frame[23]) = (8, 0x45, 17);
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 1, (n >> 3) as u8, n as u8]);
        bytes.extend(frame);
    }
    std::fs::write(path, bytes).unwrap();
}

/// Makes each figure with traffic from a trace of the reader's own.
#[test]
fn figures_with_traffic_accept_the_readers_own() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, rates) = (folder.path().join("own.pcap"), folder.path().join("own.csv"));
    capture(&trace, 3000);
    std::fs::write(&rates, "time_seconds,rate_pps\n0,0\n0.001,2e6\n0.002,1e6\n").unwrap();
    let both = [
        (OwnTraffic::capture(&trace).unwrap(), 0.003),
        (OwnTraffic::rates(&rates).unwrap(), 0.003),
    ];
    let (mut made, mut refusal) = (Vec::new(), String::new());
    for target in Target::all() {
        let name = target.name();
        if !target.takes_traffic() {
            let error = reproduce_own(&[target], &both[0].0, |_| ()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{name}: has no traffic")), "{error}");
            refusal = error;
            println!("{name}: no");
            continue;
        }
        for (own, seconds) in &both {
            let results = reproduce_own(&[target], own, |_| ()).unwrap();
            let [figure] = results[0].figures.as_slice() else { panic!("{name}: one figure") };
            assert!(!figure.table.rows.is_empty() && figure.checks.is_empty(), "{name}");
            assert!(results[0].claims.is_empty(), "{name}");
            assert!(figure.about.contains(&format!("{seconds:.6} s")), "{}", figure.about);
        }
        println!("{name}: yes, --capture FILE or --rates FILE.csv");
        made.push(name);
    }
    let expected = [
        "fig3",
        "fig12",
        "fig12-controller",
        "fig14",
        "fig15",
        "fig16",
        "fig15-measured",
        "fig15-lengths",
        "fig16-trains",
        "fig17",
    ];
    assert_eq!(made, expected.map(|id| format!("powersave/{id}")));
    let listed = refusal.split("figures with traffic: ").nth(1);
    assert_eq!(listed, Some(&*made.join(", ")), "{refusal}");
}

#[test]
fn own_traffic_has_its_own_length_and_rates() {
    let folder = tempfile::tempdir().unwrap();
    let rates = folder.path().join("own.csv");
    std::fs::write(&rates, "time_seconds,rate_pps\n0,1e4\n1,0\n2,2e4\n").unwrap();
    let own = OwnTraffic::rates(&rates).unwrap();
    let results = reproduce_own(&["powersave/fig3".parse().unwrap()], &own, |_| ()).unwrap();
    let rows = &results[0].figures[0].table.rows;
    let column = |at: usize| rows.iter().map(move |row| row[at].parse::<f64>().unwrap());
    assert_eq!(column(0).collect::<Vec<_>>(), [0.0, 1.0, 2.0]);
    let near = column(1).zip([0.01, 0.0, 0.02]).all(|(ours, rate)| (ours - rate).abs() < 0.001);
    assert!(near, "{rows:?}");
}
