//! `wattline new-keys`: keys of tunnels are used only once they were declared new.

use crate::program::{errors, wattline};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A router between captures, whose tunnel encrypts the packets of `lan.pcap`.
const CONFIG: &str = r#"
[[port]]
name = "lan"
capture = { read = "lan.pcap" }
addresses = ["10.1.0.1/16"]
[[port]]
name = "wan"
capture = { read = "none.pcap", write = "wan-out.pcap" }
addresses = ["192.0.2.1/24"]
[[neighbour]]
address = "192.0.2.2"
mac = "02:00:00:00:02:02"
[[route]]
prefix = "10.2.0.0/16"
via = "192.0.2.2"
[ipsec]
state = "state"
[[ipsec_tunnel]]
name = "branch"
local = "192.0.2.1"
remote = "192.0.2.2"
spi_in = 0x1001
spi_out = 0x1002
key_in_file = "in.key"
key_out_file = "out.key"
"#;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    // Little-endian, version 2.4, Ethernet, no packets.
    let mut empty = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
    empty.extend([0; 8]);
    empty.extend([0, 0, 4, 0, 1, 0, 0, 0]);
    for name in ["lan.pcap", "none.pcap"] {
        std::fs::write(file(name), &empty).unwrap();
    }
    for (name, byte) in [("in.key", "1f"), ("out.key", "2e")] {
        std::fs::write(file(name), byte.repeat(20)).unwrap();
        std::fs::set_permissions(file(name), Permissions::from_mode(0o600)).unwrap();
    }
    std::fs::write(file("router.toml"), CONFIG).unwrap();
    folder
}

#[test]
fn start_names_the_command_that_declares_keys_new() {
    let folder = folder();
    let config = folder.path().join("router.toml");
    let run = || wattline(&["run", config.to_str().unwrap(), "--json"]);
    for _ in 0..2 {
        let output = run();
        let message = errors(&output);
        assert_eq!(output.status.code(), Some(78), "{message}");
        let command = message.split('`').nth(1).unwrap_or_else(|| panic!("{message}"));
        assert_eq!(command, format!("wattline new-keys {} branch", config.display()));
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        let output = wattline(&words);
        assert!(output.status.success(), "{}", errors(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text, "branch: key_in: new\nbranch: key_out: new\n");
        for _ in 0..2 {
            let output = run();
            assert!(output.status.success(), "{}", errors(&output));
        }
        let output = wattline(&["new-keys", config.to_str().unwrap(), "branch", "--json"]);
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(result["keys"][1]["new"], false, "{result}");
        // A container without its volume, a purged package.
        std::fs::remove_dir_all(folder.path().join("state")).unwrap();
    }
}

#[test]
fn new_keys_without_a_tunnel_of_the_configuration_are_refused() {
    let folder = folder();
    let config = folder.path().join("router.toml");
    let config = config.to_str().unwrap();
    assert_eq!(wattline(&["new-keys", config]).status.code(), Some(2));
    let output = wattline(&["new-keys", config, "branches"]);
    assert_eq!(output.status.code(), Some(78));
    assert!(errors(&output).contains("allowed: branch"), "{}", errors(&output));
    assert!(!Path::new(config).with_file_name("state").exists());
    std::fs::write(config, CONFIG.split("[ipsec]").next().unwrap()).unwrap();
    let output = wattline(&["new-keys", config, "branch"]);
    assert!(errors(&output).contains("has no [[ipsec_tunnel]]"), "{}", errors(&output));
}
