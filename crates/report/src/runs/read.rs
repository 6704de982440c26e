//! Reading the folder of a run.

use super::figures::{MOST, figures};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use wattline_units::Build;

/// Longest file, in bytes.
const LONGEST: u64 = 64 << 20;
/// Largest number of files of a folder.
const FILES: usize = 10_000;

/// Repetitions with one setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// The folder as given.
    pub name: String,
    /// Build of the program that made the results; absent if the files do not name one.
    pub build: Option<Build>,
    /// Figures of each file by path.
    #[serde(skip)]
    pub repetitions: Vec<BTreeMap<String, f64>>,
    /// Unusable files.
    pub left_out: Vec<LeftOut>,
}

/// An unused file with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Name of the file.
    pub file: String,
    /// Reason.
    pub why: String,
}

/// Reason why a folder is not a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The folder cannot be read.
    #[error("{path}: {source}")]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// The folder has too many files.
    #[error("{path}: more than {FILES} files: name a folder with the results of one run")]
    TooMany {
        /// The folder.
        path: PathBuf,
    },
    /// The files are from different builds of the program, which alone may cause differences.
    #[error(
        "{one} is of {}, {other} of {}: results of two builds are not compared; make both with the same \
         program",
        name(.builds.0.as_ref()), name(.builds.1.as_ref())
    )]
    Mixed {
        /// File or folder of the first build.
        one: String,
        /// File or folder of another build.
        other: String,
        /// Their builds.
        builds: Box<(Option<Build>, Option<Build>)>,
    },
    /// The folder has no usable file.
    #[error(
        "{path}: no result in it: a run is a folder of files *.json, one for each repetition, such \
         as `wattline sim ... --seed 1 --json > {path}/1.json`{left_out}"
    )]
    Nothing {
        /// The folder.
        path: PathBuf,
        /// Ignored files, with the reason.
        left_out: String,
    },
}

/// The only interpreted key of a result that is not a figure.
#[derive(Deserialize)]
struct Head {
    build: Option<Build>,
}

fn name(build: Option<&Build>) -> String {
    build.map_or("no named build".to_owned(), |build| format!("build {build}"))
}

impl Run {
    /// Reads the folders of all runs, which must be from one build of the program.
    ///
    /// # Errors
    /// Fails when a folder cannot be read or used, or when builds differ.
    pub fn read_all(paths: &[PathBuf]) -> Result<Vec<Self>, RunError> {
        let runs: Vec<Self> =
            paths.iter().map(|path| Self::read(path)).collect::<Result<_, _>>()?;
        for run in &runs {
            check(&runs[0].name, &runs[0].build, &run.name, &run.build)?;
        }
        Ok(runs)
    }

    /// Reads all files `*.json` of a folder. Incomplete files and files without results are listed
    /// in `left_out`.
    ///
    /// # Errors
    /// Fails when the folder cannot be read, has no usable file, or has files of different builds.
    pub fn read(path: &Path) -> Result<Self, RunError> {
        let unreadable = |source| RunError::Unreadable { path: path.to_owned(), source };
        let mut files = Vec::new();
        for entry in std::fs::read_dir(path).map_err(unreadable)? {
            let file = entry.map_err(unreadable)?.path();
            if file.extension().is_some_and(|end| end == "json") {
                files.push(file);
            }
            if files.len() > FILES {
                return Err(RunError::TooMany { path: path.to_owned() });
            }
        }
        files.sort();
        let mut run = Self {
            name: path.display().to_string(),
            build: None,
            repetitions: Vec::new(),
            left_out: Vec::new(),
        };
        let mut first: Option<PathBuf> = None;
        for file in files {
            match repetition(&file) {
                Ok((build, figures)) => {
                    let first = first.get_or_insert_with(|| {
                        run.build.clone_from(&build);
                        file.clone()
                    });
                    let names = [&*first, &file].map(|it| it.display().to_string());
                    check(&names[0], &run.build, &names[1], &build)?;
                    run.repetitions.push(figures);
                }
                Err(why) => {
                    let file = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    run.left_out.push(LeftOut { file, why });
                }
            }
        }
        if run.repetitions.is_empty() {
            let first = run.left_out.iter().take(3);
            let left_out = first.map(|it| format!("\n{}: {}", it.file, it.why)).collect();
            return Err(RunError::Nothing { path: path.to_owned(), left_out });
        }
        Ok(run)
    }
}

fn check(
    one: &str,
    build: &Option<Build>,
    other: &str,
    others: &Option<Build>,
) -> Result<(), RunError> {
    if build == others {
        return Ok(());
    }
    let builds = Box::new((build.clone(), others.clone()));
    Err(RunError::Mixed { one: one.to_owned(), other: other.to_owned(), builds })
}

fn repetition(file: &Path) -> Result<(Option<Build>, BTreeMap<String, f64>), String> {
    // Reading a pipe would block.
    let about = std::fs::metadata(file).map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("is not a file".to_owned());
    }
    let opened = std::fs::File::open(file).map_err(|error| error.to_string())?;
    let mut text = Vec::new();
    opened.take(LONGEST + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > LONGEST {
        return Err(format!("is longer than {} MiB", LONGEST >> 20));
    }
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    let document: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| format!("is not JSON: {error}"))?;
    let found = figures(&document)
        .ok_or_else(|| format!("holds more than {MOST} numbers: points, not results"))?;
    if found.is_empty() {
        return Err("holds no number".to_owned());
    }
    // Other programs may have a key of that name with another meaning.
    let build = Head::deserialize(&document).ok().and_then(|head| head.build);
    Ok((build, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_files_are_named_and_the_others_used() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("1.json"), "{\"watts\": 1.5}").unwrap();
        std::fs::write(at("2.json"), "{\"watts\": 1.").unwrap();
        std::fs::write(at("3.json"), "").unwrap();
        std::fs::write(at("4.json"), "\"text\"").unwrap();
        std::fs::write(at("notes.txt"), "{").unwrap();
        std::fs::create_dir(at("5.json")).unwrap();
        let run = Run::read(folder.path()).unwrap();
        assert_eq!(run.repetitions.len(), 1);
        let named: Vec<_> =
            run.left_out.iter().map(|it| (it.file.as_str(), it.why.as_str())).collect();
        assert!(named[0].0 == "2.json" && named[0].1.starts_with("is not JSON"), "{named:?}");
        assert_eq!(
            named[1..],
            [("3.json", "is empty"), ("4.json", "holds no number"), ("5.json", "is not a file")]
        );
    }

    #[test]
    fn results_of_different_builds_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
        let result = |commit: &str, modified: bool| {
            format!(
                "{{\"build\": {{\"version\": \"0.1.0\", \"commit\": {commit}, \"modified\": {modified}}}, \
                 \"watts\": 1.5}}"
            )
        };
        write("1.json", result("\"aaaaaaaaaaaa\"", false));
        write("2.json", result("\"aaaaaaaaaaaa\"", false));
        let run = Run::read(folder.path()).unwrap();
        assert_eq!(run.build.unwrap().to_string(), "0.1.0 (aaaaaaaaaa)");
        assert_eq!(run.repetitions.len(), 2);
        for (other, named) in [
            (result("\"bbbbbbbbbbbb\"", false), "build 0.1.0 (bbbbbbbbbb)"),
            (result("\"aaaaaaaaaaaa\"", true), "build 0.1.0 (aaaaaaaaaa, modified)"),
            (result("null", false), "build 0.1.0 (unknown commit)"),
            ("{\"watts\": 2}".to_owned(), "no named build"),
        ] {
            write("2.json", other);
            let error = Run::read(folder.path()).unwrap_err().to_string();
            assert!(error.contains("build 0.1.0 (aaaaaaaaaa), "), "{error}");
            assert!(error.contains(named) && error.contains("2.json"), "{error}");
        }
        let other = tempfile::tempdir().unwrap();
        std::fs::write(other.path().join("1.json"), result("\"bbbbbbbbbbbb\"", false)).unwrap();
        std::fs::remove_file(folder.path().join("2.json")).unwrap();
        let paths = [folder.path(), other.path()].map(Path::to_owned);
        let error = Run::read_all(&paths).unwrap_err().to_string();
        assert!(error.contains("(aaaaaaaaaa)") && error.contains("(bbbbbbbbbb)"), "{error}");
        assert_eq!(Run::read_all(&[paths[0].clone(), paths[0].clone()]).unwrap().len(), 2);
    }

    #[test]
    fn huge_and_hostile_files_are_named_and_the_others_used() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("1.json"), "{\"watts\": 1.5}").unwrap();
        // A sparse file: long, but takes no space.
        std::fs::File::create(at("2.json")).unwrap().set_len(LONGEST + 1).unwrap();
        let numbers: Vec<usize> = (0..=MOST).collect();
        std::fs::write(at("3.json"), format!("{numbers:?}")).unwrap();
        std::fs::write(at("4.json"), "[".repeat(100_000)).unwrap();
        std::fs::write(at("5.json"), [0xff, 0xfe, 0x00]).unwrap();
        std::fs::write(at("6.json"), "{\"watts\": 1e999}").unwrap();
        std::os::unix::fs::symlink("/nowhere", at("7.json")).unwrap();
        let run = Run::read(folder.path()).unwrap();
        assert_eq!(run.repetitions.len(), 1);
        let why = |name: &str| {
            let found = run.left_out.iter().find(|it| it.file == name);
            found.unwrap_or_else(|| panic!("{name}: {:?}", run.left_out)).why.clone()
        };
        assert_eq!(why("2.json"), "is longer than 64 MiB");
        assert!(why("3.json").contains("more than 20000 numbers"), "{}", why("3.json"));
        assert!(why("4.json").contains("recursion limit"), "{}", why("4.json"));
        assert!(why("5.json").starts_with("is not JSON"), "{}", why("5.json"));
        assert!(why("6.json").starts_with("is not JSON"), "{}", why("6.json"));
        assert!(why("7.json").contains("No such file"), "{}", why("7.json"));
    }

    #[test]
    fn folder_with_too_many_files_is_refused_before_reading() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..=FILES {
            std::fs::File::create(folder.path().join(format!("{number}.json"))).unwrap();
        }
        let error = Run::read(folder.path()).unwrap_err();
        assert!(matches!(error, RunError::TooMany { .. }), "{error}");
        assert!(error.to_string().contains("more than 10000 files"), "{error}");
    }

    #[test]
    fn error_about_a_folder_without_results_explains_the_format() {
        let folder = tempfile::tempdir().unwrap();
        let error = Run::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("--json >"), "{error}");
        std::fs::write(folder.path().join("x.json"), "{").unwrap();
        let error = Run::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("x.json: is not JSON"), "{error}");
        let missing = Run::read(&folder.path().join("none"));
        assert!(matches!(missing, Err(RunError::Unreadable { .. })));
    }
}
