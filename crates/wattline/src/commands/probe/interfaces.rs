//! The network interfaces of a machine that have knobs.

use wattline_linux::sysfs::Tree;

/// Returns the network interfaces with hardware behind them.
pub fn interfaces(tree: &Tree) -> Vec<String> {
    let net = "/sys/class/net";
    let mut names = tree.entries(net);
    names.retain(|name| tree.exists(format!("{net}/{name}/device")));
    // Hand-made trees have the settings of a card without the card.
    names.extend(tree.entries("/ethtool").into_iter().filter(|_| !tree.is_live()));
    names.dedup();
    names
}
