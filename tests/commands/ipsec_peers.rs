//! `wattline run` as one end of a tunnel between capture files, scapy as the other, and
//! tshark, which decrypts with the keys. Skipped where they are not installed.

use crate::program::{document, errors, wattline};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/ipsec_peer.py");

/// A Python with scapy: from `make tools` in the target directory, or the system's. Older versions
/// of scapy leave the high half of sequence numbers out.
fn python() -> Option<PathBuf> {
    const IMPORT: &str = "import scapy, cryptography\n\
        assert [int(part) for part in scapy.__version__.split('.')[:2]] >= [2, 6]";
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/python/bin/python");
    [own, PathBuf::from("python3")].into_iter().find(|python| {
        let import = Command::new(python).args(["-c", IMPORT]).output();
        import.is_ok_and(|output| output.status.success())
    })
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{command:?}: {text}");
    text
}

/// Bytes of cipher key with salt, and of the integrity key.
fn key_lengths(algorithm: &str) -> (usize, usize) {
    let cipher = if algorithm.starts_with("aes256") { 32 } else { 16 };
    match algorithm {
        gcm if gcm.ends_with("gcm") => (cipher + 4, 0),
        sha1 if sha1.ends_with("sha1") => (cipher, 20),
        _ => (cipher, 32),
    }
}

fn hex(first: u8, length: usize) -> String {
    (0..length).map(|index| format!("{:02x}", first.wrapping_add(index as u8))).collect()
}

/// A gateway between captures in `folder`; its account.
fn gateway(folder: &Path, algorithm: &str, outer: &str, esn: bool, udp: bool) -> serde_json::Value {
    let (cipher, integrity) = key_lengths(algorithm);
    for (name, first) in [("in.key", 1), ("out.key", 101)] {
        std::fs::write(folder.join(name), hex(first, cipher + integrity)).unwrap();
        std::fs::set_permissions(folder.join(name), Permissions::from_mode(0o600)).unwrap();
    }
    let (local, remote) = match outer {
        "4" => ("192.0.2.1", "192.0.2.2"),
        _ => ("2001:db8:9::1", "2001:db8:9::2"),
    };
    let config = format!(
        r#"
[[port]]
name = "lan"
capture = {{ read = "plain.pcap", write = "lan-out.pcap" }}
addresses = ["10.1.0.1/16", "2001:db8:1::1/64"]
[[port]]
name = "wan"
capture = {{ read = "sealed.pcap", write = "wan-out.pcap" }}
addresses = ["192.0.2.1/24", "2001:db8:9::1/64"]
[[neighbour]]
address = "10.1.0.2"
mac = "02:00:00:00:01:02"
[[neighbour]]
address = "2001:db8:1::2"
mac = "02:00:00:00:01:02"
[[neighbour]]
address = "192.0.2.2"
mac = "02:00:00:00:02:02"
[[neighbour]]
address = "2001:db8:9::2"
mac = "02:00:00:00:02:02"
[[route]]
prefix = "10.2.0.0/16"
via = "192.0.2.2"
[[route]]
prefix = "2001:db8:2::/64"
via = "2001:db8:9::2"
[ipsec]
state = "state"
[[ipsec_tunnel]]
name = "peer"
local = "{local}"
remote = "{remote}"
algorithm = "{algorithm}"
spi_in = 0x1002
spi_out = 0x1001
key_in_file = "in.key"
key_out_file = "out.key"
extended_sequence = {esn}
udp_encapsulation = {udp}
[[ipsec_policy]]
source = "10.1.0.0/16"
destination = "10.2.0.0/16"
tunnel = "peer"
[[ipsec_policy]]
source = "2001:db8:1::/64"
destination = "2001:db8:2::/64"
tunnel = "peer"
"#
    );
    let path = folder.join("gateway.toml");
    std::fs::write(&path, config).unwrap();
    run(Command::new(wattline_needs::program()).arg("new-keys").arg(&path).arg("peer"));
    let output = wattline(&["run", path.to_str().unwrap(), "--json"]);
    let (account, said) = (document(&output), errors(&output));
    // No output contains the keys.
    for key in [hex(1, 8), hex(101, 8)] {
        assert!(!said.contains(&key) && !account.to_string().contains(&key));
    }
    account
}

#[test]
fn scapy_opens_what_wattline_seals_and_the_other_way_round() {
    let Some(python) = python() else {
        return wattline_needs::tool("a Python with scapy 2.6 and cryptography");
    };
    for (algorithm, outer, esn, udp) in [
        ("aes128-gcm", "4", false, false),
        ("aes128-gcm", "6", true, true),
        ("aes256-gcm", "4", true, true),
        ("aes128-cbc-sha1", "4", false, false),
        ("aes256-cbc-sha1", "6", true, false),
        ("aes128-cbc-sha256", "6", false, false),
        ("aes256-cbc-sha256", "4", true, true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let peer = |action: &str| {
            let flag = |on| if on { "1" } else { "0" };
            let mut command = Command::new(&python);
            command.arg(PEER).arg(action).arg(folder.path());
            run(command.args([algorithm, outer, flag(esn), flag(udp)]))
        };
        peer("make");
        let account = gateway(folder.path(), algorithm, outer, esn, udp);
        let message = peer("check");
        assert!(message.contains("28 sealed, 28 opened"), "{algorithm}: {message}");
        let tunnel = &account["applications"]["ipsec"]["tunnels"][0];
        assert_eq!(tunnel["outbound"]["packets"], 28, "{tunnel}");
        assert_eq!(tunnel["inbound"]["packets"], 28, "{tunnel}");
        assert_eq!(tunnel["inbound"]["dropped"]["esp-replayed"], 1, "{tunnel}");
        assert_eq!(account["dropped"]["esp-replayed"], 1);
    }
}

#[test]
fn tshark_decrypts_what_wattline_seals() {
    let there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let (Some(python), true) = (python(), there("tshark")) else {
        return wattline_needs::tool("tshark and scapy");
    };
    for (algorithm, cipher_name, integrity_name) in [
        ("aes128-gcm", "AES-GCM with 16 octet ICV [RFC4106]", "NULL"),
        ("aes256-cbc-sha1", "AES-CBC [RFC3602]", "HMAC-SHA-1-96 [RFC2404]"),
        ("aes128-cbc-sha256", "AES-CBC [RFC3602]", "HMAC-SHA-256-128 [RFC4868]"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut make = Command::new(&python);
        make.arg(PEER).arg("make").arg(folder.path());
        run(make.args([algorithm, "4", "0", "0"]));
        gateway(folder.path(), algorithm, "4", false, false);
        let (cipher, integrity) = key_lengths(algorithm);
        let key = hex(101, cipher + integrity);
        let (cipher_key, integrity_key) = key.split_at(2 * cipher);
        let integrity_key =
            if integrity_key.is_empty() { String::new() } else { format!("0x{integrity_key}") };
        let table = format!(
            "uat:esp_sa:\"IPv4\",\"*\",\"*\",\"0x00001001\",\"{cipher_name}\",\"0x{cipher_key}\",\
             \"{integrity_name}\",\"{integrity_key}\",\"32-bit\""
        );
        let mut command = Command::new("tshark");
        command.args(["-n", "-r"]).arg(folder.path().join("wan-out.pcap"));
        command.args(["-o", "esp.enable_encryption_decode:TRUE", "-o", &table]);
        command.args(["-T", "fields", "-e", "udp.dstport", "-Y", "udp.dstport == 9"]);
        let text = run(&mut command);
        let found = text.lines().filter(|line| line.trim() == "9").count();
        assert_eq!(found, 26, "{algorithm}: {text}");
    }
}
