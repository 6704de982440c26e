//! All applications at once between two routers, while workers come and go: flows are recorded,
//! redundancy is eliminated, and the result is encrypted.

use crate::harness::privileged;
use crate::ipsec::{KIND, keys, tunnel_end};
use crate::redundancy::{Chain, HOST4, noise};
use serde_json::{Value, json};
use std::path::Path;
use wattline_needs::until;
use wattline_testbed::forwarder::Wattline;

const NETS: [&str; 2] = ["198.18.0.0/24", "198.19.8.0/24"];

/// Flow records, and one end of the tunnel between two networks.
fn sections(folder: &Path, end: usize) -> String {
    "[flow_records]\ncollectors = [\"ipfix://127.0.0.1:4739\"]\n".to_owned()
        + &tunnel_end(folder, KIND, end, &[NETS])
}

fn application(router: &Wattline, name: &str) -> Value {
    router.stats().unwrap()["applications"][name].clone()
}

/// Packets and bytes of all flows that a router has recorded.
fn recorded(router: &Wattline) -> [u64; 2] {
    let tables = application(router, "flow_records")["tables"].clone();
    ["packets", "bytes"].map(|count| tables[count].as_u64().unwrap())
}

fn tunnel(router: &Wattline) -> Value {
    application(router, "ipsec")["tunnels"][0].clone()
}

#[test]
fn records_before_encoding_before_encryption_and_back() {
    privileged("records_before_encoding_before_encryption_and_back", || {
        let folder = tempfile::tempdir().unwrap();
        keys(folder.path(), KIND);
        let [near, far] = [0, 1].map(|end| sections(folder.path(), end));
        let chain = Chain::start_with(&near, &far);
        let file = noise(2 << 20);
        for workers in ["1", "2", "1", "2"] {
            chain.active(workers);
            chain.transfer(HOST4, &file);
            chain.wait_for_confirmations();
        }

        let saved = chain.encoder("saved_bytes").as_u64().unwrap();
        assert!(saved as usize > 2 * file.len(), "{saved} of {} bytes saved", 3 * file.len());
        assert_eq!(
            (chain.decoder("integrity_failures"), chain.decoder("malformed_packets")),
            (0, 0)
        );
        // Wait for packets under way: no count below has them.
        until("both ends agree on the tunnel", || {
            let [near, far] = [&chain.encoder, &chain.decoder].map(tunnel);
            near["outbound"]["packets"] == far["inbound"]["packets"]
                && near["inbound"]["packets"] == far["outbound"]["packets"]
        });
        for router in [&chain.encoder, &chain.decoder] {
            let tunnel = tunnel(router);
            for direction in ["outbound", "inbound"] {
                assert_eq!(tunnel[direction]["dropped"], json!({}), "{tunnel}");
            }
            // All packets with a route are recorded: packets that left in clear or encrypted, and
            // packets that were too long for the tunnel.
            let stats = router.stats().unwrap();
            let count = |value: &Value| value.as_u64().unwrap_or(0);
            let encrypted = count(&tunnel["outbound"]["packets"]);
            let too_long = count(&stats["dropped"]["too-big"]);
            let [packets, bytes] = recorded(router);
            assert_eq!(packets, count(&stats["forwarded"]) + encrypted + too_long, "{stats}");
            println!("{packets} packets, {bytes} bytes recorded; {encrypted} packets encrypted");
        }
        let [_, bytes] = recorded(&chain.encoder);
        assert!(bytes as usize > 4 * file.len(), "{bytes}");
        println!("{saved} bytes saved; {} packets missed", chain.decoder("missed_packets"));
        chain.finish();
    });
}
