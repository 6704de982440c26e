//! Reproduction as a whole: everything reported, nothing differing without a reason, and
//! the files written.

use wattline_lab::reproduce::{Paper, Verdict, reproduce, steps, write};

/// The simulated paper takes minutes without optimisation; this one takes none.
#[test]
fn bolla_is_answered_claim_by_claim_and_written() {
    let mut begun = Vec::new();
    let results = reproduce(&[Paper::Bolla], |step| begun.push(step.to_owned())).unwrap();
    assert_eq!(begun.len(), steps(&[Paper::Bolla]));
    let [bolla] = results.as_slice() else { panic!("one paper") };

    assert_eq!(bolla.claims.len(), 85);
    assert!(bolla.claims.iter().all(|claim| claim.note != "nothing is known of it here"));
    assert_eq!(bolla.count(Verdict::Differs), 0);
    assert!(bolla.count(Verdict::Meets) >= 50);
    // The polynomial and the text do not agree at 700 kpps, and that is said.
    let knee = bolla.claims.iter().find(|claim| claim.claim.id == "BO-054").unwrap();
    assert_eq!(knee.verdict, Verdict::PaperContradictsItself);
    assert!(knee.note.contains("0.844"), "{}", knee.note);

    let out = tempfile::tempdir().unwrap();
    write(&results, out.path()).unwrap();
    for figure in &bolla.figures {
        let path = out.path().join(format!("bolla/{}.csv", figure.id));
        let mut csv = csv::Reader::from_path(&path).unwrap();
        assert_eq!(csv.records().count(), figure.table.rows.len(), "{}", figure.id);
    }
    let page = std::fs::read_to_string(out.path().join("index.html")).unwrap();
    assert!(page.contains("BO-085") && page.contains("<svg"));
    for outside in ["src=", "href=\"http", "@import", "<script"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let json = std::fs::read_to_string(out.path().join("summary.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["paper"], "bolla");
    assert_eq!(json[0]["claims"].as_array().unwrap().len(), 85);
}

#[test]
fn a_paper_that_is_not_known_is_refused_with_those_that_are() {
    let error = "powersafe".parse::<Paper>().unwrap_err().to_string();
    assert!(error.contains("\"powersafe\"") && error.contains("powersave, bolla"), "{error}");
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = write(&reproduce(&[Paper::Bolla], |_| ()).unwrap(), file.path()).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with(&file.path().display().to_string()), "{text}");
}
