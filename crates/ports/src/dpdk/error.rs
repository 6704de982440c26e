//! Errors of devices.

/// Reason why DPDK does not start, or a device cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DpdkError {
    /// The program was built without it.
    #[error(
        "this program was built without DPDK: install libdpdk 22.11 or later and pkg-config (Debian: \
         `apt install libdpdk-dev pkg-config`) and build it with `cargo build --release -p wattline \
         --features dpdk`"
    )]
    NotBuilt,
    /// It starts only once in a process.
    #[error("DPDK was started in this process already, and cannot be started twice")]
    Started,
    /// An argument holds a zero byte.
    #[error("the argument {0:?} for DPDK holds a zero byte")]
    Argument(String),
    /// The environment does not start.
    #[error(
        "DPDK does not start with `{arguments}`: {source}; its own lines on the standard error say \
         more. Without huge pages it needs `--no-huge`; without a driver for user space \
         (`dpdk-devbind.py --status`) it has no card"
    )]
    Start {
        /// Arguments of the environment.
        arguments: String,
        /// Its error number.
        source: std::io::Error,
    },
    /// There is no such device.
    #[error(
        "DPDK has no device {device}: a card must be bound to a driver for user space \
         (`dpdk-devbind.py --status`), and a virtual device needs its driver's library"
    )]
    Missing {
        /// Its name.
        device: String,
    },
    /// Another port has it.
    #[error("{device} is open already, perhaps by another of its names")]
    Taken {
        /// Its name.
        device: String,
    },
    /// A device has too few queues.
    #[error(
        "{device} ({driver}) has {receive} receive and {transmit} transmit queue(s), and each of \
         {wanted} workers needs one of both"
    )]
    TooFewQueues {
        /// Its name.
        device: String,
        /// Its driver.
        driver: String,
        /// Its receive queues.
        receive: u16,
        /// Its transmit queues.
        transmit: u16,
        /// Those that are needed.
        wanted: u16,
    },
    /// The driver refuses something.
    #[error("{device}: {what}: {source}")]
    Refused {
        /// The device's name.
        device: String,
        /// Requested feature.
        what: &'static str,
        /// The driver's error number.
        source: std::io::Error,
    },
}
