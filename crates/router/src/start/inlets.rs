//! Input channels of the control thread, before the router exists.

use super::super::control::Control;
use super::super::error::RouterError;
use super::super::inbox::{InboxSender, Message};
use super::super::kernel::KernelSide;
use super::judged::Judged;
use super::known::Known;
use super::settled::Settled;
use std::sync::mpsc::Receiver;
use wattline_daemon::socket::Server;
use wattline_linux::privileges;
use wattline_ports::waiter::PollWaiter;

/// Input channels of the control thread.
pub(super) struct Inlets {
    pub waiter: PollWaiter,
    pub inbox: Receiver<Message>,
    pub inbox_sender: InboxSender,
    pub signals: signal_hook::iterator::Handle,
}

impl Inlets {
    /// Opens them, and drops the capabilities that are no longer needed: before any thread is
    /// started, which would keep them.
    ///
    /// # Errors
    /// When the process has no more descriptors or threads.
    pub fn open(settled: &Settled, known: &Known, judged: &Judged) -> Result<Self, RouterError> {
        // A socket remains in error after an overrun until it is read.
        let watched = judged.monitor.iter().flat_map(|it| it.watch().descriptors());
        let descriptors = known.kernel.iter().map(KernelSide::descriptor).chain(watched);
        let waiter = PollWaiter::new(descriptors)
            .map_err(|errno| RouterError::system("making a wake-up", errno))?
            .keeping_broken();
        let (inbox_sender, inbox) = InboxSender::new(waiter.waker());
        if settled.has_interfaces {
            allow_locked_memory();
            if let Err(error) = privileges::drop_unneeded() {
                tracing::warn!("cannot drop capabilities that are no longer needed: {error}");
            }
        }
        let signals = watch_signals(&inbox_sender)?;
        Ok(Self { waiter, inbox, inbox_sender, signals })
    }

    /// Answers requests over the control socket, too.
    ///
    /// # Errors
    /// When the process has no more descriptors or threads.
    pub fn serve(self, socket: Server) -> Result<Control, RouterError> {
        let Self { waiter, inbox, inbox_sender, signals } = self;
        let pending = socket
            .listener()
            .and_then(|listener| inbox_sender.answer(listener))
            .map_err(|source| RouterError::system("serving the control socket", source))?;
        Ok(Control { waiter, inbox, inbox_sender, signals, socket, pending })
    }
}

/// Raises the limit of locked memory. When all sockets of a worker are closed, for instance while
/// all ports are left to the kernel, its packet memory is locked again with the next socket.
/// CAP_IPC_LOCK, which overrides the limit, is dropped by then.
fn allow_locked_memory() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let unlimited = Rlimit { current: None, maximum: None };
    if setrlimit(Resource::Memlock, unlimited).is_err() {
        // Without CAP_SYS_RESOURCE, up to the administrator's limit.
        let Rlimit { maximum, .. } = getrlimit(Resource::Memlock);
        let _ = setrlimit(Resource::Memlock, Rlimit { current: maximum, maximum });
    }
}

fn watch_signals(inbox_sender: &InboxSender) -> Result<signal_hook::iterator::Handle, RouterError> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM])
        .map_err(|source| RouterError::system("watching for signals", source))?;
    let handle = signals.handle();
    let inbox_sender = inbox_sender.clone();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            inbox_sender.send(Message::Signal(signal));
        }
    });
    Ok(handle)
}
