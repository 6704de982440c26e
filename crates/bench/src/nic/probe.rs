//! The network cards of this machine according to sysfs, and the limits of their buses.

use serde::Serialize;
use wattline_linux::sysfs::Tree;

/// A network interface with hardware, or any interface if all are requested.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Card {
    /// Name of the interface.
    pub interface: String,
    /// Driver; `None` for an interface without hardware.
    pub driver: Option<String>,
    /// PCI vendor and device, such as `8086:1521`.
    pub pci_id: Option<String>,
    /// `up`, `down` or another state of the kernel.
    pub state: String,
    /// Rate of the link; `None` if it is down or the driver does not report it.
    pub link_rate_bps: Option<f64>,
    /// Receive queues.
    pub receive_queues: usize,
    /// Transmit queues.
    pub transmit_queues: usize,
    /// Largest IP packet in bytes.
    pub mtu_bytes: Option<u32>,
    /// NUMA node of the card.
    pub numa_node: Option<u32>,
    /// Present state of the bus.
    pub pcie: Option<Pcie>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// A PCI Express link.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pcie {
    /// Transfers per second and lane, in units of 10^9.
    pub gigatransfers: f64,
    /// Lanes in use.
    pub lanes: u32,
    /// Lanes that both card and slot support.
    pub lanes_max: Option<u32>,
    /// Bits per second each way after line encoding, before headers.
    pub rate_bps: f64,
}

impl Pcie {
    fn new(gigatransfers: f64, lanes: u32, lanes_max: Option<u32>) -> Self {
        // 8b/10b up to 5 GT/s, 128b/130b above (PCI Express Base Specification, section 4.2).
        let coding = if gigatransfers <= 5.0 { 0.8 } else { 128.0 / 130.0 };
        let rate_bps = gigatransfers * 1e9 * f64::from(lanes) * coding;
        Self { gigatransfers, lanes, lanes_max, rate_bps }
    }
}

/// Returns all interfaces with hardware; with `all`, all interfaces except the loopback.
pub fn probe(tree: &Tree, all: bool) -> Vec<Card> {
    let mut names = tree.entries("/sys/class/net");
    names.sort();
    let wanted = |name: &String| {
        name != "lo" && (all || tree.exists(format!("/sys/class/net/{name}/device")))
    };
    names.into_iter().filter(wanted).map(|name| card(tree, name)).collect()
}

fn card(tree: &Tree, interface: String) -> Card {
    let folder = format!("/sys/class/net/{interface}");
    let text =
        |file: &str| tree.text(format!("{folder}/{file}")).ok().map(|it| it.trim().to_owned());
    let link = std::fs::read_link(tree.path(format!("{folder}/device/driver"))).ok();
    let driver = link.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let id = |file: &str| text(file).map(|it| it.trim_start_matches("0x").to_owned());
    let pci_id = id("device/vendor").zip(id("device/device")).map(|(v, d)| format!("{v}:{d}"));
    // Minus one, or an error, while the link is down.
    let speed = text("speed").and_then(|it| it.parse::<f64>().ok()).filter(|it| *it > 0.0);
    let queues = |kind: &str| tree.numbered(format!("{folder}/queues"), kind).len();
    let pcie = pcie(
        text("device/current_link_speed").as_deref(),
        text("device/current_link_width").as_deref(),
        text("device/max_link_width").as_deref(),
    );
    let mut notes = Vec::new();
    if driver.is_none() {
        notes.push("no hardware of its own: what it carries is up to this machine".to_owned());
    }
    let rate = speed.map(|megabits| megabits * 1e6);
    if let (Some(rate), Some(pcie)) = (rate, &pcie)
        && pcie.rate_bps < rate
    {
        notes.push(format!(
            "the bus carries {:.1} Gbit/s each way, less than the link's {:.1}",
            pcie.rate_bps / 1e9,
            rate / 1e9
        ));
    }
    if let Some(Pcie { lanes, lanes_max: Some(most), .. }) = pcie
        && lanes < most
    {
        notes.push(format!("{lanes} of {most} lanes are in use: another slot may be wider"));
    }
    Card {
        driver,
        pci_id,
        state: text("operstate").unwrap_or_else(|| "unknown".into()),
        link_rate_bps: rate,
        receive_queues: queues("rx-"),
        transmit_queues: queues("tx-"),
        mtu_bytes: text("mtu").and_then(|it| it.parse().ok()),
        // Minus one where the machine has no nodes.
        numa_node: text("device/numa_node").and_then(|it| it.parse().ok()),
        pcie,
        notes,
        interface,
    }
}

/// `8.0 GT/s PCIe`, `4` and `8`.
fn pcie(speed: Option<&str>, lanes: Option<&str>, most: Option<&str>) -> Option<Pcie> {
    let speed: f64 = speed?.split_whitespace().next()?.parse().ok()?;
    let lanes: u32 = lanes?.parse().ok()?;
    (speed > 0.0 && lanes > 0)
        .then(|| Pcie::new(speed, lanes, most.and_then(|most| most.parse().ok())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    fn write(root: &Path, interface: &str, files: &[(&str, &str)]) {
        let folder = root.join("sys/class/net").join(interface);
        for (file, text) in files {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn card_is_described_with_its_limits() {
        let root = tempfile::tempdir().unwrap();
        write(
            root.path(),
            "eth0",
            &[
                ("device/vendor", "0x8086\n"),
                ("device/device", "0x10fb\n"),
                ("device/numa_node", "-1\n"),
                ("device/current_link_speed", "5.0 GT/s PCIe\n"),
                ("device/current_link_width", "2\n"),
                ("device/max_link_width", "8\n"),
                ("speed", "10000\n"),
                ("operstate", "up\n"),
                ("mtu", "1500\n"),
                ("queues/rx-0/rps_cpus", "0\n"),
                ("queues/rx-1/rps_cpus", "0\n"),
                ("queues/tx-0/tx_timeout", "0\n"),
            ],
        );
        symlink("../../drivers/ixgbe", root.path().join("sys/class/net/eth0/device/driver"))
            .unwrap();
        write(root.path(), "veth0", &[("operstate", "up\n"), ("speed", "10000\n")]);
        write(root.path(), "lo", &[("operstate", "unknown\n")]);

        let tree = Tree::at(root.path());
        let cards = probe(&tree, false);
        let [card] = cards.as_slice() else { panic!("{cards:?}") };
        assert_eq!(card.driver.as_deref(), Some("ixgbe"));
        assert_eq!(card.pci_id.as_deref(), Some("8086:10fb"));
        assert_eq!((card.receive_queues, card.transmit_queues), (2, 1));
        assert_eq!((card.link_rate_bps, card.numa_node), (Some(10e9), None));
        // Two lanes of 5 GT/s with 8b/10b.
        assert_eq!(card.pcie.as_ref().map(|pcie| pcie.rate_bps), Some(8e9));
        assert!(card.notes.iter().any(|note| note.contains("8.0 Gbit/s")), "{:?}", card.notes);
        assert!(card.notes.iter().any(|note| note.contains("2 of 8 lanes")), "{:?}", card.notes);

        let all = probe(&tree, true);
        assert_eq!(all.iter().map(|card| &*card.interface).collect::<Vec<_>>(), ["eth0", "veth0"]);
        assert!(all[1].notes[0].contains("no hardware"));
    }

    #[test]
    fn down_link_and_invalid_values_have_no_figures() {
        let root = tempfile::tempdir().unwrap();
        write(
            root.path(),
            "eth0",
            &[
                ("device/vendor", "?"),
                ("device/current_link_speed", "Unknown\n"),
                ("device/current_link_width", "0\n"),
                ("speed", "-1\n"),
                ("mtu", "many\n"),
            ],
        );
        let cards = probe(&Tree::at(root.path()), false);
        let card = &cards[0];
        assert_eq!((card.link_rate_bps, card.mtu_bytes, &card.pcie), (None, None, &None));
        assert_eq!((card.pci_id.as_deref(), &*card.state), (None, "unknown"));
        assert_eq!(probe(&Tree::at("/nowhere/at/all"), true), []);
    }
}
