//! ethtool over generic netlink (Documentation/networking/ethtool-netlink.rst), for kernels built
//! with CONFIG_ETHTOOL_NETLINK.

use super::model::{Channels, Coalesce, CoalesceValues, Rings};
use crate::netlink::frame::{Request, error, number};
use crate::netlink::generic::Family;
use std::io;

const FAMILY: &str = "ethtool";
const ETHTOOL_MSG_RINGS_GET: u8 = 15;
const ETHTOOL_MSG_CHANNELS_GET: u8 = 17;
const ETHTOOL_MSG_CHANNELS_SET: u8 = 18;
const ETHTOOL_MSG_COALESCE_GET: u8 = 19;
const ETHTOOL_MSG_COALESCE_SET: u8 = 20;
/// The first attribute of each message, which names the interface.
const HEADER: u16 = 1;
const ETHTOOL_A_HEADER_DEV_NAME: u16 = 2;
const ETHTOOL_A_RINGS_RX_MAX: u16 = 2;
const ETHTOOL_A_RINGS_TX_MAX: u16 = 5;
const ETHTOOL_A_RINGS_RX: u16 = 6;
const ETHTOOL_A_RINGS_TX: u16 = 9;
const ETHTOOL_A_CHANNELS_RX_MAX: u16 = 2;
const ETHTOOL_A_CHANNELS_TX_MAX: u16 = 3;
const ETHTOOL_A_CHANNELS_COMBINED_MAX: u16 = 5;
const ETHTOOL_A_CHANNELS_RX_COUNT: u16 = 6;
const ETHTOOL_A_CHANNELS_TX_COUNT: u16 = 7;
const ETHTOOL_A_CHANNELS_COMBINED_COUNT: u16 = 9;
/// `IFNAMSIZ`, including the terminating zero.
const NAME_BYTES: usize = 16;

/// Returns the attribute of a parameter, `ETHTOOL_A_COALESCE_*`.
fn attribute(parameter: Coalesce) -> u16 {
    match parameter {
        Coalesce::RxUsecs => 2,
        Coalesce::RxFrames => 3,
        Coalesce::TxUsecs => 6,
        Coalesce::TxFrames => 7,
        Coalesce::AdaptiveRx => 11,
        Coalesce::AdaptiveTx => 12,
    }
}

/// ethtool of this kernel, in this thread's network namespace.
pub(super) struct Ethtool(Family);

impl Ethtool {
    /// EOPNOTSUPP if this kernel's ethtool has no netlink interface.
    pub fn open() -> io::Result<Self> {
        Family::open(FAMILY).map(Self)
    }

    pub fn coalesce(&mut self, interface: &str) -> io::Result<CoalesceValues> {
        let answer = self.ask(ETHTOOL_MSG_COALESCE_GET, interface, |_| {})?;
        // The kernel omits parameters that the driver does not have.
        let value = |parameter| value(&answer, attribute(parameter)).unwrap_or(0);
        Ok(CoalesceValues(Coalesce::ALL.map(value)))
    }

    pub fn set_coalesce(
        &mut self,
        interface: &str,
        parameter: Coalesce,
        value: u32,
    ) -> io::Result<()> {
        self.set(ETHTOOL_MSG_COALESCE_SET, interface, |request| match parameter {
            Coalesce::AdaptiveRx | Coalesce::AdaptiveTx => {
                request.attribute(attribute(parameter), &[u8::from(value != 0)]);
            }
            _ => request.attribute(attribute(parameter), &value.to_ne_bytes()),
        })
    }

    pub fn channels(&mut self, interface: &str) -> io::Result<Channels> {
        let answer = self.ask(ETHTOOL_MSG_CHANNELS_GET, interface, |_| {})?;
        // The kernel omits kinds that the card does not support.
        let count = |attribute| value(&answer, attribute).unwrap_or(0);
        Ok(Channels {
            combined: count(ETHTOOL_A_CHANNELS_COMBINED_COUNT),
            most_combined: count(ETHTOOL_A_CHANNELS_COMBINED_MAX),
            receive: count(ETHTOOL_A_CHANNELS_RX_COUNT),
            most_receive: count(ETHTOOL_A_CHANNELS_RX_MAX),
            transmit: count(ETHTOOL_A_CHANNELS_TX_COUNT),
            most_transmit: count(ETHTOOL_A_CHANNELS_TX_MAX),
        })
    }

    pub fn set_combined_channels(&mut self, interface: &str, combined: u32) -> io::Result<()> {
        self.set(ETHTOOL_MSG_CHANNELS_SET, interface, |request| {
            request.attribute(ETHTOOL_A_CHANNELS_COMBINED_COUNT, &combined.to_ne_bytes());
        })
    }

    pub fn rings(&mut self, interface: &str) -> io::Result<Rings> {
        let answer = self.ask(ETHTOOL_MSG_RINGS_GET, interface, |_| {})?;
        let size = |attribute| value(&answer, attribute).unwrap_or(0);
        Ok(Rings {
            receive: size(ETHTOOL_A_RINGS_RX),
            most_receive: size(ETHTOOL_A_RINGS_RX_MAX),
            transmit: size(ETHTOOL_A_RINGS_TX),
            most_transmit: size(ETHTOOL_A_RINGS_TX_MAX),
        })
    }

    fn set(
        &mut self,
        command: u8,
        interface: &str,
        fill: impl FnOnce(&mut Request),
    ) -> io::Result<()> {
        self.ask(command, interface, fill).map(drop)
    }

    fn ask(
        &mut self,
        command: u8,
        interface: &str,
        fill: impl FnOnce(&mut Request),
    ) -> io::Result<Vec<u8>> {
        // Longer ones would be parsed as alternative names, which nothing else here supports.
        if interface.is_empty() || interface.len() >= NAME_BYTES {
            return Err(error(libc::ENODEV));
        }
        self.0.ask(command, |request| {
            let name = [interface.as_bytes(), &[0]].concat();
            request.nest(HEADER, |header| header.attribute(ETHTOOL_A_HEADER_DEV_NAME, &name));
            fill(request);
        })
    }
}

fn value(answer: &[u8], attribute: u16) -> Option<u32> {
    number(answer, attribute).and_then(|value| u32::try_from(value).ok())
}
