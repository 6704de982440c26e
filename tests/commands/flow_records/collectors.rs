//! Collectors that store messages as they arrive.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Silence after which nothing more is expected.
const SILENCE: Duration = Duration::from_millis(300);

/// Stores the messages that arrive over UDP.
pub struct UdpCollector {
    pub address: SocketAddr,
    thread: JoinHandle<Vec<Vec<u8>>>,
    stop: std::sync::mpsc::Sender<()>,
}

impl UdpCollector {
    pub fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        socket.set_read_timeout(Some(SILENCE)).unwrap();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let mut messages = Vec::new();
            let mut buffer = vec![0; 65536];
            loop {
                match socket.recv(&mut buffer) {
                    Ok(length) => messages.push(buffer[..length].to_vec()),
                    Err(_) if stopped.try_recv().is_ok() => return messages,
                    Err(_) => {}
                }
            }
        });
        Self { address, thread, stop }
    }

    /// All messages, once nothing more comes.
    pub fn stop(self) -> Vec<Vec<u8>> {
        self.stop.send(()).unwrap();
        self.thread.join().unwrap()
    }
}

/// Stores the messages that arrive over TCP.
pub struct TcpCollector {
    pub address: SocketAddr,
    thread: JoinHandle<Vec<Vec<u8>>>,
}

impl TcpCollector {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let thread = std::thread::spawn(move || {
            let end = Instant::now() + Duration::from_secs(60);
            let mut stream = loop {
                match listener.accept() {
                    Ok((stream, _)) => break stream,
                    Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
                    Err(error) => panic!("nobody connects: {error}"),
                }
            };
            stream.set_nonblocking(false).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).unwrap();
            let (mut messages, mut rest) = (Vec::new(), &bytes[..]);
            while !rest.is_empty() {
                let length = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
                let (message, later) = rest.split_at(length);
                messages.push(message.to_vec());
                rest = later;
            }
            messages
        });
        Self { address, thread }
    }

    /// All messages, once the exporter has gone.
    pub fn stop(self) -> Vec<Vec<u8>> {
        self.thread.join().unwrap()
    }
}
