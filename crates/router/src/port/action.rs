//! Actions of a port on the system. The guard and the machine order them.

/// Action of a port on the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Attaches the program to the interface. If `blocked`, it leaves the kernel no frame to
    /// forward.
    Attach { blocked: bool },
    /// Detaches the program.
    Detach,
    /// Leaves the kernel no frame of the port to forward.
    Guard,
    /// Extends the program to new queues.
    Cover,
    /// Allows other programs to send out of the port.
    OpenEgress,
    /// Keeps other programs from sending out of the port.
    CloseEgress,
    /// Opens the sockets of the queues.
    OpenSockets,
    /// Offers the queues to the workers.
    Offer,
    /// Lets the tables lead to the port.
    List,
    /// Gives the program its sockets.
    SetSockets,
    /// Takes the sockets from the program.
    ClearSockets,
    /// Lets the tables lead elsewhere, while workers still know the port.
    Retire,
    /// Asks the workers to empty the queues.
    Empty,
    /// Takes the port out of the tables.
    Unlist,
    /// Takes a removed port out of the configuration of the tables.
    Forget,
    /// Takes the queues from the workers, and closes the sockets.
    Close,
    /// Removes the program.
    Unload,
    /// Takes the place of the port from the workers, once its queues are empty or at once.
    TakeAway { drains: bool },
}
