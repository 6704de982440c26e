//! Messages of other threads to the control thread.

use super::neighbour_requests::{self, Batch, fair_share};
use std::io;
use std::os::unix::net::UnixListener;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use wattline_daemon::socket::{Pending, Reply, Request, serve_all};
use wattline_dataplane::nodes::NeighbourRequest;
use wattline_ports::waiter::Waker;

/// Longest wait for the answer to a request over the socket.
const PATIENCE: Duration = Duration::from_secs(10);

/// Something for the control thread to do.
pub(super) enum Message {
    /// Workers need neighbours. The sender is dropped once the kernel has been asked for them.
    Neighbours(Batch, Sender<()>),
    /// A signal came.
    Signal(i32),
    /// A client sent a request over the socket.
    Request(Request, Sender<Reply>),
    /// A worker has ended by itself.
    WorkerEnded,
}

/// Brings messages to the control thread and wakes it.
#[derive(Clone)]
pub(super) struct InboxSender {
    sender: Sender<Message>,
    waker: Waker,
}

impl InboxSender {
    /// Creates a sender and the receiver of its messages.
    pub fn new(waker: Waker) -> (Self, Receiver<Message>) {
        let (sender, receiver) = channel();
        (Self { sender, waker }, receiver)
    }

    /// Sends a message. Returns false once the receiver is gone.
    pub fn send(&self, message: Message) -> bool {
        let sent = self.sender.send(message).is_ok();
        self.waker.wake();
        sent
    }

    /// Wakes the control thread.
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// Passes the workers' requests on, in a thread that ends with the workers. At most one batch
    /// waits for the control thread.
    pub fn pass_on(&self, requests: Receiver<NeighbourRequest>) {
        let inbox_sender = self.clone();
        std::thread::spawn(move || {
            while let Ok(first) = requests.recv() {
                let batch = fair_share(std::iter::once(first).chain(requests.try_iter()).collect());
                let (sender, handled) = channel();
                if !inbox_sender.send(Message::Neighbours(batch, sender)) {
                    break;
                }
                // Nothing is ever sent: this waits until the sender is dropped.
                let _ = handled.recv();
                std::thread::sleep(neighbour_requests::INTERVAL);
            }
        });
    }

    /// Sends a request to the control thread and waits for its answer; `None` once it has ended.
    pub fn ask(&self, request: Request) -> Option<Reply> {
        let (sender, receiver) = channel();
        self.send(Message::Request(request, sender));
        receiver.recv_timeout(PATIENCE).ok()
    }

    /// Answers the control socket, in threads that end with the process. Before that,
    /// [`Pending::wait`] waits for unsent answers.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn answer(&self, listener: UnixListener) -> io::Result<Pending> {
        let inbox_sender = self.clone();
        serve_all(listener, move |request| inbox_sender.ask(request))
    }
}
