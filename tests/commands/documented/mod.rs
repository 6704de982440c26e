//! The commands of the documentation, run as they are written: every page by its scene, and pages
//! that promise more by a test of their own.

mod configurations;
mod pages;
mod scenes;

use pages::{blocks, page};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A shell that finds the program under test as `wattline`.
fn bash(script: &str, folder: &Path) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", script]).current_dir(folder).env("PATH", scenes::path());
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

/// The tutorial, which has a test of its own.
const FIRST_ROUTER: &str = "docs/tutorial/first-router.md";

/// Runs the first example of the help: it needs no network and no rights.
#[test]
fn the_example_with_captures_runs_as_it_is_shipped() {
    let folder = tempfile::tempdir().unwrap();
    scenes::copy_examples(&folder.path().join("examples"));
    let printed =
        run("wattline run examples/captures.toml", folder.path(), Duration::from_secs(60));
    let printed = printed.unwrap();
    assert!(printed.contains("ttl-expired"), "{printed}");
    let sent = std::fs::metadata(folder.path().join("examples/out.pcap")).unwrap().len();
    assert!(sent > 500, "{sent} bytes");
}

/// The whole tutorial, in a mount namespace with its own `/run`: names of network namespaces and
/// sockets stay there.
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
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}:\n{printed}", output.status);
    // Output that the page promises.
    for part in [
        "3 packets transmitted, 3 received",
        "in by west: 198.18.0.2 > 198.19.0.2 icmp, 98 bytes",
        "ethernet-input > ip4-input > ip4-lookup > ip4-rewrite > output",
        "sent by east",
        "203.0.113.1",
    ] {
        assert!(printed.contains(part), "{part} is missing in:\n{printed}");
    }
    assert_eq!(printed.matches("3 packets transmitted, 3 received").count(), 3, "{printed}");
    assert!(folder.path().join("pings.pcapng").exists());
}
