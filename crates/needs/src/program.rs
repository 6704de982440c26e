//! The program under test.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

const LABORATORY: &str = "wattline-lab";
const BUILD: &str = "cargo build -p wattline -p wattline-lab";

/// Returns the path of the `wattline` program for tests of the whole program: `WATTLINE_BINARY` if
/// it is set (relative paths from the folder of the workspace), otherwise the one that Cargo built
/// next to the test program.
///
/// # Panics
/// If there is none, or no `wattline-lab` next to it, or a source of either is newer: a package of
/// tests cannot make Cargo build the program of another package, and a test of an old program
/// proves nothing.
#[must_use]
pub fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let named = std::env::var_os("WATTLINE_BINARY").map(|it| workspace().join(it));
        let program = named.unwrap_or_else(beside_this_test);
        // `wattline` hands commands over to `wattline-lab`.
        for program in [&program, &program.with_file_name(LABORATORY)] {
            if let Err(wrong) = is_current(program) {
                panic!("{wrong}; build it: `{BUILD}`");
            }
        }
        program.into_os_string().into_string().expect("the path of the program is UTF-8")
    })
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn beside_this_test() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    // target/PROFILE/deps/TEST
    let profile =
        test.ancestors().nth(2).expect("Cargo puts test programs into target/PROFILE/deps");
    profile.join("wattline")
}

/// Compares the program with the sources that Cargo lists next to it.
fn is_current(program: &Path) -> Result<(), String> {
    let changed = |path: &Path| fs::metadata(path).and_then(|it| it.modified());
    let built: SystemTime =
        changed(program).map_err(|error| format!("{}: {error}", program.display()))?;
    // Without a list, the program was not built here: the user who named it is responsible for it.
    let list = fs::read_to_string(program.with_extension("d")).unwrap_or_default();
    let sources = list.split_once(": ").map_or("", |(_, sources)| sources);
    for source in sources.split_whitespace().map(Path::new) {
        if changed(source).is_ok_and(|changed| changed > built) {
            return Err(format!("{} is older than {}", program.display(), source.display()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_current;
    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    #[test]
    fn program_older_than_a_source_is_refused() {
        let folder = std::env::temp_dir().join(format!("wattline-needs-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let (program, source) = (folder.join("program"), folder.join("source.rs"));
        assert!(is_current(&program).unwrap_err().contains("program"));
        for path in [&program, &source] {
            File::create(path).unwrap();
        }
        let list = format!("{}: {}\n", program.display(), source.display());
        fs::write(program.with_extension("d"), list).unwrap();
        let at = |path, seconds| {
            let time = SystemTime::now() - Duration::from_secs(seconds);
            File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        };
        at(&program, 10);
        at(&source, 20);
        is_current(&program).unwrap();
        at(&source, 5);
        assert!(is_current(&program).unwrap_err().contains("older than"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
