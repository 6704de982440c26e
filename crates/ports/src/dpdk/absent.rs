//! The same names in a program that was built without DPDK: none of these values can exist.

use super::error::DpdkError;
use super::link::LinkState;
use super::name::DeviceText;
use super::options::DeviceOptions;
use std::convert::Infallible;
use wattline_dataplane::frame::{Frame, FramePool};
use wattline_dataplane::port::{PortCounters, PortId, PortQueue};

/// DPDK's environment, which this program lacks.
#[derive(Debug)]
pub struct Eal(Infallible);

impl Eal {
    /// Says how to build the program.
    ///
    /// # Errors
    /// Always [`DpdkError::NotBuilt`].
    pub fn start(_: &[String], _: &[DeviceText]) -> Result<Self, DpdkError> {
        Err(DpdkError::NotBuilt)
    }
}

/// A device.
#[derive(Debug)]
pub struct Device(Infallible);

impl Device {
    /// Never called: there is no [`Eal`].
    ///
    /// # Errors
    /// None.
    pub fn open(
        eal: &Eal,
        _: &DeviceText,
        _: PortId,
        _: DeviceOptions,
    ) -> Result<(Self, Vec<DpdkQueue>), DpdkError> {
        match eal.0 {}
    }

    /// Its Ethernet address.
    pub fn mac(&self) -> [u8; 6] {
        match self.0 {}
    }

    /// Largest IP packet in bytes.
    pub fn mtu(&self) -> u16 {
        match self.0 {}
    }

    /// Name of its driver.
    pub fn driver(&self) -> &str {
        match self.0 {}
    }

    /// Its link.
    pub fn link(&self) -> Option<LinkState> {
        match self.0 {}
    }
}

/// A queue of a device.
#[derive(Debug)]
pub struct DpdkQueue(Infallible);

impl PortQueue for DpdkQueue {
    fn receive(&mut self, _: &mut FramePool, _: &mut [Frame]) -> usize {
        match self.0 {}
    }

    fn transmit(&mut self, _: &mut FramePool, _: &[Frame]) -> usize {
        match self.0 {}
    }

    fn flush(&mut self, _: &mut FramePool) {
        match self.0 {}
    }

    fn recycle(&mut self, _: &mut FramePool) {
        match self.0 {}
    }

    fn pending(&mut self) -> usize {
        match self.0 {}
    }

    fn counters(&self) -> PortCounters {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_dpdk_it_is_said_how_to_build_with_it() {
        let error = Eal::start(&[], &[]).unwrap_err().to_string();
        assert!(error.contains("--features dpdk"), "{error}");
    }
}
