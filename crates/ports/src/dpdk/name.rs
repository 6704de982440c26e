//! Names of devices in a configuration.

use std::fmt;

/// A device as DPDK's command lines name it: the PCI address of a card, `0000:03:00.0`, or a virtual
/// device, `net_tap0`; both with parameters behind commas, `net_af_packet0,iface=veth1`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeviceText(String);

impl DeviceText {
    /// Reads one; `None` where it cannot be one.
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.split(',').next().unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
        let begins_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        let fits = begins_well && name.len() < 64 && name.chars().all(plain);
        // A colon is in PCI addresses alone.
        let fits = fits && (is_pci(name) || !name.contains(':'));
        (fits && !text.contains(|c: char| c.is_whitespace() || c.is_control()))
            .then(|| Self(text.to_owned()))
    }

    /// The whole text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The device's name, without parameters.
    pub fn name(&self) -> &str {
        self.0.split(',').next().unwrap_or_default()
    }

    /// Whether it is a card on the PCI bus.
    pub fn is_pci(&self) -> bool {
        is_pci(self.name())
    }
}

impl fmt::Display for DeviceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Domain, bus, device and function, as `lspci -D` prints them.
fn is_pci(name: &str) -> bool {
    let hex = |text: &str, digits: usize| {
        text.len() == digits && text.chars().all(|c| c.is_ascii_hexdigit())
    };
    let mut parts = name.split([':', '.']);
    let fits = [4, 2, 2, 1].iter().all(|digits| parts.next().is_some_and(|it| hex(it, *digits)));
    fits && parts.next().is_none() && name.as_bytes().get(10) == Some(&b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_and_virtual_devices_are_told_apart() {
        let card = DeviceText::parse("0000:03:00.1,txq_inline_min=0").unwrap();
        assert_eq!((card.name(), card.is_pci()), ("0000:03:00.1", true));
        let virtual_device = DeviceText::parse("net_af_packet0,iface=veth1").unwrap();
        assert_eq!((virtual_device.name(), virtual_device.is_pci()), ("net_af_packet0", false));
        assert_eq!(virtual_device.to_string(), "net_af_packet0,iface=veth1");
    }

    #[test]
    fn names_with_another_meaning_to_dpdk_are_refused() {
        for text in ["", ",iface=x", "--no-huge", "net_null0 -l 3", "03:00.0", "0000:03.00:0", "é0"]
        {
            assert_eq!(DeviceText::parse(text), None, "{text}");
        }
    }
}
