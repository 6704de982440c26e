//! The control thread's input channels, and its pending answers.

use super::inbox::{InboxSender, Message};
use std::sync::mpsc::Receiver;
use wattline_daemon::socket::{Pending, Server};
use wattline_ports::waiter::PollWaiter;

/// Channels and sockets of the control thread.
pub(super) struct Control {
    pub waiter: PollWaiter,
    pub inbox: Receiver<Message>,
    pub inbox_sender: InboxSender,
    pub signals: signal_hook::iterator::Handle,
    pub socket: Server,
    /// Answers that are not sent yet.
    pub pending: Pending,
}
