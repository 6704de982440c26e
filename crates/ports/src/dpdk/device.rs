//! A device, set up for the workers.

use super::eal::Eal;
use super::error::DpdkError;
use super::ffi;
use super::link::LinkState;
use super::name::DeviceText;
use super::options::DeviceOptions;
use super::queue::DpdkQueue;
use super::running::{Pool, Running};
use std::ffi::{CString, c_int};
use std::sync::Arc;
use wattline_dataplane::port::PortId;

/// Descriptors of each ring, as far as the device allows; l3fwd has as many.
const DESCRIPTORS: u16 = 1024;
/// Smallest MTU, required by IPv4.
const SMALLEST_MTU: u16 = 68;

/// A device that runs. It is stopped and closed with the last of its handle and its queues.
#[derive(Debug)]
pub struct Device {
    running: Arc<Running>,
    driver: String,
    mac: [u8; 6],
    mtu: u16,
}

impl Device {
    /// Sets up a device that the environment was started with, and starts it. The queues are for one
    /// worker each; `port` is what their frames say that they came in at.
    ///
    /// # Errors
    /// When there is no such device, it has too few queues, or its driver refuses something.
    pub fn open(
        _: &Eal,
        text: &DeviceText,
        port: PortId,
        options: DeviceOptions,
    ) -> Result<(Self, Vec<DpdkQueue>), DpdkError> {
        let device = || text.name().to_owned();
        let missing = || DpdkError::Missing { device: device() };
        let name = CString::new(text.name()).map_err(|_| missing())?;
        let mut number = 0;
        // SAFETY: the environment runs; a C string goes in and a number comes out.
        #[allow(unsafe_code)]
        let found = unsafe { ffi::wl_find(name.as_ptr(), &mut number) };
        if found < 0 {
            return Err(missing());
        }
        let refused = |what| move |source| DpdkError::Refused { device: device(), what, source };
        let before = describe(number).map_err(refused("asking what it is"))?;
        let driver = driver_of(&before);
        let (receive, transmit) = (before.most_receive_queues, before.most_transmit_queues);
        if receive.min(transmit) < options.queues {
            let wanted = options.queues;
            return Err(DpdkError::TooFewQueues {
                device: device(),
                driver,
                receive,
                transmit,
                wanted,
            });
        }
        let settings = ffi::Settings {
            queues: options.queues,
            descriptors: DESCRIPTORS,
            mtu: options.mtu.unwrap_or(before.mtu).max(SMALLEST_MTU),
            promiscuous: options.promiscuous.into(),
        };
        // Whatever is made goes with it.
        let taken = || DpdkError::Taken { device: device() };
        let mut running = Running::take(number).ok_or_else(taken)?;
        let none = ffi::QueueMemory { pool: std::ptr::null_mut() };
        let mut memory = vec![none; usize::from(options.queues)];
        // SAFETY: the device exists and is nobody's else; `memory` has a place for each queue.
        #[allow(unsafe_code)]
        let set_up = unsafe { ffi::wl_configure(number, &settings, memory.as_mut_ptr()) };
        running.pools =
            memory.iter().filter(|it| !it.pool.is_null()).map(|it| Pool(it.pool)).collect();
        let running = Arc::new(running);
        check(set_up).map_err(refused("setting it up"))?;
        let after = describe(number).map_err(refused("asking what became of it"))?;
        let queues = (0..options.queues).zip(&running.pools);
        let queues = queues
            .map(|(queue, pool)| DpdkQueue::new(port, queue, *pool, running.clone(), settings.mtu))
            .collect();
        Ok((Self { running, driver, mac: after.mac, mtu: settings.mtu }, queues))
    }

    /// Its Ethernet address.
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// Largest IP packet in bytes.
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Name of its driver.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// Its link; `None` where the device cannot tell.
    pub fn link(&self) -> Option<LinkState> {
        let mut link = ffi::Link::default();
        // SAFETY: the device runs as long as this handle; a structure of its own comes out.
        #[allow(unsafe_code)]
        let result = unsafe { ffi::wl_link(self.running.port, &mut link) };
        // All ones where it is not known.
        let known = link.megabits != 0 && link.megabits != u32::MAX;
        let megabits_per_second = known.then_some(link.megabits);
        (result >= 0).then_some(LinkState { up: link.up != 0, megabits_per_second })
    }
}

fn describe(port: u16) -> Result<ffi::Description, std::io::Error> {
    let mut description = ffi::Description::default();
    // SAFETY: the device was found; a structure of its own comes out.
    #[allow(unsafe_code)]
    let result = unsafe { ffi::wl_describe(port, &mut description) };
    check(result).map(|()| description)
}

fn driver_of(description: &ffi::Description) -> String {
    let name = description.driver.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

fn check(result: c_int) -> Result<(), std::io::Error> {
    if result < 0 { Err(std::io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}
