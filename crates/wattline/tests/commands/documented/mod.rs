//! The commands of the documentation, run as they stand there. Those that need a machine, a running
//! router or minutes are listed with what shows them instead.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Indented blocks of a page: what a reader types.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let (mut block, mut fenced) = (String::new(), false);
    for line in text.lines().chain([""]) {
        fenced ^= line.starts_with("```");
        match line.strip_prefix("    ") {
            Some(code) if !fenced => {
                block.push_str(code);
                block.push('\n');
            }
            // An empty line within a block belongs to it.
            _ if line.is_empty() && !block.is_empty() => block.push('\n'),
            _ if !block.trim().is_empty() => blocks.push(std::mem::take(&mut block)),
            _ => block.clear(),
        }
    }
    if !block.trim().is_empty() {
        blocks.push(block);
    }
    blocks.into_iter().map(|block| block.trim_end().to_owned() + "\n").collect()
}

/// A shell that finds the program under test as `wattline`.
fn bash(script: &str, folder: &Path) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_wattline"));
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("bash");
    command.args(["-c", script]).current_dir(folder);
    let tools = "/usr/sbin:/sbin";
    command.env("PATH", format!("{}:{path}:{tools}", program.parent().unwrap().display()));
    command
}

/// Lets `timeout` end a script that hangs.
fn run(script: &str, folder: &Path, patience: Duration) -> Result<String, String> {
    let script = format!("set -e -o pipefail\n{script}");
    let file = folder.join("script-of-the-page");
    std::fs::write(&file, script).unwrap();
    let outer = format!("timeout {} bash script-of-the-page 2>&1", patience.as_secs());
    let output = bash(&outer, folder).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(text) } else { Err(format!("{}:\n{text}", output.status)) }
}

/// Pages whose blocks are run whole, in order, in an empty folder: without rights, within a minute.
const WHOLE: [&str; 1] = ["docs/how-to/compare-runs.md"];

/// Lines of other pages that stand by themselves, run in a folder with the project's `examples` and
/// a configuration `router.toml`.
const ALONE: [&str; 12] = [
    "wattline fit rows.csv",
    "wattline servers mine.toml",
    "wattline optimise --server mine.toml",
    "wattline sim --policy powersave",
    "wattline probe",
    "wattline meter list",
    "wattline plan",
    "wattline govern --print-profile",
    "wattline policies",
    "wattline servers",
    "wattline nics",
    "wattline graph",
];

/// Beginnings of the other lines, and the tests that show the same: below `crates`, or in `scripts`.
const ELSEWHERE: [(&str, &str); 34] = [
    ("wattline envelope", "league/tests/bounds.rs"),
    ("wattline plan router.toml --root", "wattline/tests/commands/power.rs"),
    ("wattline bench nic", "bench/src/nic"),
    ("wattline explain", "wattline/tests/commands/governor.rs"),
    ("wattline active", "wattline/tests/system/steering.rs"),
    ("wattline stop", "wattline/tests/system/life.rs"),
    ("wattline run", "wattline/tests/system"),
    ("wattline govern", "wattline/tests/commands/govern"),
    ("wattline profile", "wattline/tests/commands/profile"),
    ("wattline reload", "wattline/tests/system/hot_ports.rs"),
    ("wattline config /etc/wattline/router.toml", "../scripts/test-package"),
    ("wattline show", "wattline/tests/system/looking.rs"),
    ("wattline capture", "wattline/tests/system/watching.rs"),
    ("wattline trace", "wattline/tests/system/watching.rs"),
    ("wattline stats", "wattline/tests/system/life.rs"),
    ("wattline top", "wattline/tests/commands/top.rs"),
    ("wattline demo", "wattline/tests/demo.rs"),
    ("wattline league", "wattline/tests/commands/league.rs"),
    ("wattline load packets", "bench/src/rfc2544"),
    ("wattline load", "wattline/tests/commands/load.rs"),
    ("wattline bench rfc2544", "bench/src/rfc2544"),
    ("wattline bench eer", "bench/src/eer"),
    ("wattline bench breakdown", "bench/src/breakdown"),
    ("wattline bench costs", "wattline/tests/commands/server_commands.rs"),
    ("wattline bench app", "wattline/tests/allocations.rs"),
    ("wattline sim --requests", "wattline/tests/commands/sim_commands.rs"),
    ("wattline reproduce", "reproduce/tests/reproduce.rs"),
    ("wattline meter", "wattline/tests/commands/power.rs"),
    ("wattline report", "wattline/tests/commands/report.rs"),
    ("wattline fit", "wattline/tests/commands/server_commands.rs"),
    ("wattline optimise", "wattline/tests/commands/server_commands.rs"),
    ("wattline servers mine.toml", "wattline/tests/commands/server_commands.rs"),
    ("wattline sim --server mine", "wattline/tests/commands/server_commands.rs"),
    ("wattline sim --policy $policy", "wattline/tests/commands/documented.rs"),
];

/// The tutorial, which has a test of its own.
const FIRST_ROUTER: &str = "docs/tutorial/first-router.md";

/// Lines of all pages that call the program, continued ones in one piece, by page; not those of
/// pages that are run whole.
fn lines() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut pages = vec!["README.md".to_owned()];
    for folder in ["how-to", "tutorial", "reference", "explanation"] {
        for entry in std::fs::read_dir(root().join("docs").join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            pages.push(format!("docs/{folder}/{name}"));
        }
    }
    // In the order of their page: some lines need what one above them made.
    pages.sort();
    // `commands.md` is made of examples that have a test of their own.
    pages.retain(|path| {
        !WHOLE.contains(&path.as_str()) && path != FIRST_ROUTER && !path.ends_with("commands.md")
    });
    for path in pages {
        for block in blocks(&page(&path)) {
            for line in block.replace("\\\n", " ").lines() {
                let line = line.trim().trim_start_matches("sudo ");
                let line = line.trim_start_matches("target/release/");
                if line.starts_with("wattline ") {
                    found.push((path.clone(), line.to_owned()));
                }
            }
        }
    }
    found
}

/// What a reader of a page has: the project's examples, a configuration, measured rows.
fn reader() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let examples = folder.path().join("examples");
    std::fs::create_dir(&examples).unwrap();
    for file in std::fs::read_dir(root().join("examples")).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), examples.join(file.file_name())).unwrap();
    }
    let port = |name: &str| format!("[[port]]\nname = \"{name}\"\ninterface = \"{name}\"\n\n");
    std::fs::write(folder.path().join("router.toml"), port("a") + &port("b")).unwrap();
    let mut rows = "frequency_hertz,cores,throughput_pps,power_watts,offered_pps\n".to_owned();
    for step in 0..=24 {
        let load = f64::from(step) / 20.0;
        let done = load.min(1.0);
        let _ = writeln!(rows, "2e9,1,{},{},{}", 1e6 * done, 60.0 + 20.0 * done, 1e6 * load);
    }
    std::fs::write(folder.path().join("rows.csv"), rows).unwrap();
    folder
}

#[test]
fn commands_of_the_documentation_run_or_are_shown_elsewhere() {
    let lines = lines();
    let (mut ran, mut wrong) = (0, Vec::new());
    let mut at = (String::new(), reader());
    for (page, line) in &lines {
        if at.0 != *page {
            at = (page.clone(), reader());
        }
        let begins = |beginning: &str| line.starts_with(beginning);
        if ALONE.iter().any(|beginning| begins(beginning)) {
            ran += 1;
            if let Err(told) = run(line, at.1.path(), Duration::from_secs(120)) {
                wrong.push(format!("{page}: {line}\n{told}"));
            }
        } else if !ELSEWHERE.iter().any(|(beginning, _)| begins(beginning)) {
            wrong.push(format!("{page}: {line}\nis neither run here nor shown elsewhere"));
        }
    }
    println!("{ran} of {} command lines were run", lines.len());
    assert!(ran > 15 && lines.len() > 50, "{ran} of {}", lines.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (beginning, test) in ELSEWHERE {
        assert!(root().join("crates").join(test).exists(), "{beginning}: {test}");
    }
}

/// What the help shows first to those without a network and rights.
#[test]
fn the_example_with_captures_runs_as_it_is_shipped() {
    let folder = reader();
    let told = run("wattline run examples/captures.toml", folder.path(), Duration::from_secs(60));
    let told = told.unwrap();
    assert!(told.contains("ttl-expired"), "{told}");
    let sent = std::fs::metadata(folder.path().join("examples/out.pcap")).unwrap().len();
    assert!(sent > 500, "{sent} bytes");
}

#[test]
fn pages_without_needs_are_run_whole() {
    for path in WHOLE {
        let folder = tempfile::tempdir().unwrap();
        let script = blocks(&page(path)).join("\n");
        assert!(script.contains("wattline "), "{path} has commands");
        if let Err(told) = run(&script, folder.path(), Duration::from_secs(300)) {
            panic!("{path}: {told}");
        }
    }
}

/// The script of the page that leads from a meter to a server file, on a recorded meter and with a
/// router that forwards 3000 packets a second.
#[test]
fn the_script_that_measures_a_row_appends_it() {
    if !bash("command -v jq", Path::new("/")).output().unwrap().status.success() {
        return wattline_needs::tool("jq");
    }
    let page = page("docs/how-to/model-your-server.md");
    let script = page.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let script = script.replace("30s", "1s").replace("/ 30", "/ 1");
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    put("row", &script);
    put("sudo", "#!/bin/sh\nexec \"$@\"\n");
    let root = root().join("crates/meters/tests/fixtures/acpi-power-meter");
    let program = format!(
        "#!/bin/sh\ncase $1 in\nstats) n=$(cat n 2>/dev/null || echo 0); echo $((n + 3000)) > n\n\
         echo \"{{\\\"forwarded\\\": $n}}\" ;;\n*) exec {} \"$@\" --root {} ;;\nesac\n",
        env!("CARGO_BIN_EXE_wattline"),
        root.display()
    );
    put("wattline", &program);
    run("export PATH=$PWD:$PATH\nsh row 1.6 2 5000", folder.path(), Duration::from_secs(60))
        .unwrap();
    let rows = std::fs::read_to_string(folder.path().join("rows.csv")).unwrap();
    let lines: Vec<&str> = rows.lines().collect();
    assert_eq!(lines[0], "frequency_hertz,cores,throughput_pps,power_watts,offered_pps");
    assert_eq!(lines[1], "1600000000,2,3000,118.200,5000");
}

/// The tutorial from its first to its last block, in a mount namespace of its own with its own
/// `/run`: names of network namespaces and sockets stay there.
#[test]
fn the_first_router_is_built_looked_at_and_killed_as_its_page_says() {
    for tool in ["ip", "ethtool", "ping", "tcpdump", "tshark"] {
        if bash(&format!("command -v {tool}"), Path::new("/"))
            .output()
            .map_or(true, |it| !it.status.success())
        {
            return wattline_needs::tool(tool);
        }
    }
    let own = "unshare --mount true && test $(id -u) = 0";
    if !bash(own, Path::new("/")).status().unwrap().success() {
        return wattline_needs::rights("namespaces");
    }
    let blocks = blocks(&page(FIRST_ROUTER));
    let killed = blocks.iter().position(|block| block.contains("kill -9")).expect("it is killed");
    let mut script = "set -e -m -x\nmount -t tmpfs none /run\nip link set lo up\n".to_owned();
    for (number, block) in blocks.iter().enumerate() {
        script.push_str(block);
        if number == killed {
            // "The ping continues": another one does.
            script.push_str("sleep 1\nip netns exec source ping -c 3 -W 2 198.19.0.2\n");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tutorial"), script).unwrap();
    let outer = "timeout 180 unshare --mount --net bash tutorial 2>&1";
    let output = bash(outer, folder.path()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}:\n{told}", output.status);
    // What the page promises to be seen.
    for part in [
        "3 packets transmitted, 3 received",
        "in by west: 198.18.0.2 > 198.19.0.2 icmp, 98 bytes",
        "ethernet-input > ip4-input > ip4-lookup > ip4-rewrite > output",
        "sent by east",
        "203.0.113.1",
    ] {
        assert!(told.contains(part), "{part} is missing in:\n{told}");
    }
    assert_eq!(told.matches("3 packets transmitted, 3 received").count(), 3, "{told}");
    assert!(folder.path().join("pings.pcapng").exists());
}
