//! State of the polls of NAPI (module `napi`).

/// Polls of the queues of a core.
#[derive(Debug)]
pub(super) struct Napi {
    pub budget: u32,
    /// Packets of the present poll, which is of `Core::port`.
    pub taken: Option<u32>,
    /// By port, true if it is to be polled, so that it raises no interrupt.
    pub scheduled: Vec<bool>,
}

impl Napi {
    pub fn new(budget: u32, ports: usize) -> Self {
        Self { budget, taken: None, scheduled: vec![false; ports] }
    }

    /// Notes that an interrupt of this port has reached the core.
    pub fn schedule(&mut self, port: usize) {
        self.scheduled[port] = true;
    }
}
