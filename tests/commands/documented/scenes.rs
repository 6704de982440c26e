//! Pages of the documentation that are run whole: the entries of `scenes.toml`, and the shell that
//! plays them.

use super::pages::{blocks, is_configuration, page, pages, root};
use serde::Deserialize;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use wattline_testbed::command::program;
use wattline_testbed::leftovers::can_build_namespaces;

/// Seconds for a scene.
const PATIENCE: u32 = 120;
/// Seconds for a scene of `make test-long`.
const LONG_PATIENCE: u32 = 3600;
/// Scenes at a time: they sleep more than they work.
const BESIDE: usize = 3;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenes {
    scene: Vec<Scene>,
}

/// An entry of `scenes.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scene {
    page: String,
    #[serde(default)]
    before: String,
    #[serde(default)]
    changed: Vec<(String, String)>,
    #[serde(default)]
    elsewhere: Vec<(String, String)>,
    #[serde(default)]
    nowhere: Vec<(String, String)>,
    #[serde(default)]
    unread: Vec<String>,
    #[serde(default)]
    shows: Vec<String>,
    #[serde(default)]
    minutes: bool,
    #[serde(default)]
    sees_kernel_threads: bool,
}

/// A scene's script, and the lines of the page that begin with `wattline`, as they stand there.
struct Script {
    text: String,
    commands: Vec<String>,
    /// Number of them that it runs.
    run: usize,
    elsewhere: usize,
    nowhere: usize,
}

fn scenes() -> Vec<Scene> {
    toml::from_str::<Scenes>(include_str!("scenes.toml")).unwrap().scene
}

/// A line without the remark behind it.
fn bare(line: &str) -> &str {
    line.split("  #").next().unwrap_or_default().trim()
}

impl Scene {
    /// # Errors
    /// Entries that match no line of the page.
    fn script(&self) -> Result<Script, Vec<String>> {
        let mut script =
            Script { text: String::new(), commands: Vec::new(), run: 0, elsewhere: 0, nowhere: 0 };
        let mut met = std::collections::BTreeSet::new();
        for block in blocks(&page(&self.page)) {
            if let Some(first) = self.unread.iter().find(|first| block.starts_with(*first)) {
                met.insert(first);
                continue;
            }
            if is_configuration(&block) {
                continue;
            }
            for line in block.lines() {
                let bare = bare(line);
                let command = bare.trim_start_matches("sudo ");
                let is_ours = command.starts_with("wattline ");
                // A variable of the page's shell has no value here.
                if is_ours && !command.contains('$') {
                    script.commands.push(command.to_owned());
                }
                let begins = |(begins, _): &&(String, String)| bare.starts_with(begins.as_str());
                if let Some((begins, _)) = self.elsewhere.iter().find(begins) {
                    met.insert(begins);
                    script.elsewhere += 1;
                    continue;
                }
                if let Some((begins, _)) = self.nowhere.iter().find(begins) {
                    met.insert(begins);
                    script.nowhere += 1;
                    continue;
                }
                script.run += usize::from(is_ours);
                let changed = self.changed.iter().find(|(stands, _)| stands == bare);
                let line = changed.map_or(line, |(stands, run)| {
                    met.insert(stands);
                    run
                });
                let _ = writeln!(script.text, "{line}");
            }
        }
        let changed = self.changed.iter().map(|(stands, _)| stands);
        let not_here = self.elsewhere.iter().chain(&self.nowhere).map(|(begins, _)| begins);
        let all = self.unread.iter().chain(changed).chain(not_here);
        let stale: Vec<String> = all
            .filter(|entry| !met.contains(entry))
            .map(|entry| format!("{}: scenes.toml has {entry:?}, the page has not", self.page))
            .collect();
        if stale.is_empty() { Ok(script) } else { Err(stale) }
    }

    /// Plays it.
    ///
    /// # Errors
    /// If the scene fails: its output.
    fn play(&self) -> Result<(), String> {
        let script = self.script().map_err(|stale| stale.join("\n"))?;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("own")).unwrap();
        std::fs::create_dir(at("home")).unwrap();
        copy_examples(&at("home/examples"));
        let stage = concat!(env!("CARGO_MANIFEST_DIR"), "/documented/stage.sh");
        // Below a mount point of its own, to avoid an overlay on an overlay. Frequencies and idle
        // states belong to the machine, not to a namespace: they are hidden. `/var/lib` of daemons
        // belongs to the scene.
        let outer = "set -e; mount -t tmpfs none ../own
            for own in /etc /var/lib; do
                mkdir -p ../own/upper$own ../own/work$own
                mount -t overlay -o lowerdir=$own,upperdir=../own/upper$own,workdir=../own/work$own none $own
            done
            mount -t tmpfs none /run; mount -t sysfs none /sys; ip link set lo up
            for own in /sys/devices/system/cpu/cpufreq /sys/devices/system/cpu/intel_* \
                /sys/devices/system/cpu/cpu*/cpuidle; do
                [ ! -d $own ] || mount -t tmpfs none $own
            done
            exec timeout --kill-after=10 $PATIENCE bash ../play";
        let play = format!(
            "trap 'result=$?; for job in $(jobs -p); do kill $job 2> /dev/null || true; done; wait; exit $result' EXIT
            trap 'echo \"failed: $BASH_COMMAND\"' ERR
            set -E
            . {stage}
            {}
            {}",
            self.before, script.text
        );
        std::fs::write(at("play"), play).unwrap();
        let seconds = if self.minutes { LONG_PATIENCE } else { PATIENCE };
        // It ends with this test, whatever ends that: `unshare` itself hears no SIGTERM.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--net"]);
        if !self.sees_kernel_threads {
            command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        }
        command
            .args(["sh", "-c", &format!("{{ {outer}; }} 2>&1")])
            .current_dir(at("home"))
            .env("PATIENCE", seconds.to_string())
            .env("METER", root().join("crates/meters/tests/fixtures/acpi-power-meter"))
            .env("PATH", path());
        for (variable, name) in [("MEMCACHED_PROGRAM", "memcached"), ("NGINX_PROGRAM", "nginx")] {
            // One that is unpacked finds its libraries by its environment.
            let Some(program) = program(name) else { continue };
            command.env(variable, program.get_program());
            for (key, value) in program.get_envs() {
                command.env(key, value.unwrap_or_default());
            }
        }
        let output = command.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            return Err(format!("{}: {}:\n{printed}", self.page, output.status));
        }
        let absent: Vec<&String> =
            self.shows.iter().filter(|part| !printed.contains(part.as_str())).collect();
        if absent.is_empty() {
            return Ok(());
        }
        Err(format!("{}: {absent:?} are not in:\n{printed}", self.page))
    }
}

/// Returns a search path with the program under test as `wattline`, and root's programs.
pub fn path() -> String {
    let program = Path::new(wattline_needs::program());
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{}:{path}:/usr/sbin:/sbin", program.parent().unwrap().display())
}

pub fn copy_examples(to: &Path) {
    std::fs::create_dir(to).unwrap();
    for file in std::fs::read_dir(root().join("examples")).unwrap().map(Result::unwrap) {
        if file.path().is_file() {
            std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
}

/// Plays the scenes that last for minutes, or the others; `WATTLINE_PAGE` may select pages by a
/// part of their path.
fn play_all(minutes: bool) {
    let tools = [
        "ip", "ethtool", "ping", "jq", "nft", "nfcapd", "tcpdump", "tshark", "socat", "xxd", "curl",
    ];
    for tool in tools.into_iter().chain(["memcached", "nginx"]) {
        if program(tool).is_none() {
            return wattline_needs::tool(tool);
        }
    }
    if !can_build_namespaces("pages of the documentation") {
        return;
    }
    let only = std::env::var("WATTLINE_PAGE").unwrap_or_default();
    let mut scenes = scenes();
    scenes.retain(|scene| scene.minutes == minutes && scene.page.contains(&only));
    assert!(!scenes.is_empty(), "no page has {only:?} in its path");
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let play = || {
        while let Some(scene) = scenes.get(next.fetch_add(1, Ordering::Relaxed)) {
            let begun = std::time::Instant::now();
            if let Err(printed) = scene.play() {
                wrong.lock().unwrap().push(printed);
            }
            println!("{:5.1} s  {}", begun.elapsed().as_secs_f64(), scene.page);
        }
    };
    let beside = if minutes { 1 } else { BESIDE };
    std::thread::scope(|scope| {
        for _ in 0..beside {
            scope.spawn(play);
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn pages_of_the_documentation_are_run_line_by_line() {
    play_all(false);
}

#[test]
#[ignore = "takes half an hour; `make test-long` runs it"]
fn pages_with_long_measurements_are_run_line_by_line() {
    play_all(true);
}

/// Returns the error in the command and options of a line, also of lines that are not run: the
/// program reads them and shows its help.
fn misspelt(line: &str) -> Option<String> {
    // Operators of the shell have a space beside them; quoted text has none.
    let ends = [" | ", " > ", " &", "; "].into_iter().filter_map(|end| line.find(end));
    let command = &line[..ends.min().unwrap_or(line.len())];
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("{command} --help")]).env("PATH", path());
    let output = bash.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    (!output.status.success()).then(|| format!("{line}: {printed}"))
}

/// No page is forgotten, and every line that is left out names the test that runs it.
#[test]
fn every_block_of_every_page_has_its_scene() {
    let scenes = scenes();
    let mut wrong = Vec::new();
    let (mut run, mut elsewhere, mut nowhere) = (0, 0, 0);
    for path in pages() {
        let asked = blocks(&page(&path)).iter().any(|block| !is_configuration(block));
        let own = scenes.iter().filter(|scene| scene.page == path).count()
            + usize::from(path == super::FIRST_ROUTER);
        if asked && own != 1 {
            wrong.push(format!("{path} has commands and {own} scenes"));
        }
    }
    for scene in &scenes {
        match scene.script() {
            Ok(script) => {
                run += script.run;
                wrong.extend(script.commands.iter().filter_map(|command| misspelt(command)));
                elsewhere += script.elsewhere;
                nowhere += script.nowhere;
            }
            Err(stale) => wrong.extend(stale),
        }
        for (begins, test) in &scene.elsewhere {
            if !root().join("crates").join(test).exists() {
                wrong.push(format!("{}: {begins}: there is no {test}", scene.page));
            }
        }
    }
    println!(
        "{run} command lines of wattline are run here; {elsewhere} lines are run by other tests, {nowhere} by none"
    );
    assert!(run > 75 && elsewhere < run && nowhere < 6, "{run}, {elsewhere}, {nowhere}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
